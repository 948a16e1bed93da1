"""Documents of tokens in one array: in memory, in mapped files, and in Megatron's pair of files."""

import itertools
import os
import pickle
import struct

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._base.system import file_identity
from loaderkit.formats.tokens.source import TokenDataSource
from loaderkit.testing import check_source

TOKENS = np.arange(1000, 1040, dtype=np.uint16)
OFFSETS = np.array([0, 7, 7, 20, 21, 40])


def documents(source):
    return [source[key]["tokens"].tolist() for key in range(len(source))]


EXPECTED = [TOKENS[begin:end].tolist() for begin, end in itertools.pairwise(OFFSETS)]


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "tokens.npy", TOKENS)
    np.save(tmp_path / "offsets.npy", OFFSETS)
    TOKENS.tofile(tmp_path / "tokens.bin")
    return tmp_path


@pytest.mark.parametrize("kind", ["memory", "lists", "names", "bare file", "signs"])
def test_the_documents(files, kind):
    source = {
        "memory": lambda: TokenDataSource(TOKENS, OFFSETS),
        "lists": lambda: TokenDataSource(TOKENS.tolist(), OFFSETS.tolist()),
        "names": lambda: TokenDataSource(files / "tokens.npy", str(files / "offsets.npy")),
        "bare file": lambda: TokenDataSource(np.memmap(files / "tokens.bin", np.uint16, "r"), OFFSETS),
        "signs": lambda: TokenDataSource(TOKENS, OFFSETS.astype(np.uint64)),
    }[kind]()
    assert documents(source) == EXPECTED
    assert [record["tokens"].tolist() for record in source.__getitems__([4, 1, 4])] == [
        EXPECTED[k] for k in (4, 1, 4)
    ]
    assert source.lengths.tolist() == [7, 0, 13, 1, 19]
    assert [bound.tolist() for bound in source.bounds([4, 0])] == [[21, 0], [40, 7]]
    assert source.read_range(2, 3, 5)["tokens"].tolist() == EXPECTED[2][3:5]
    report = check_source(source, skip=["another process"])
    assert "__getitems__" in str(report)


def test_lengths_of_long_documents():
    """More tokens than 16 bits count."""
    assert TokenDataSource(np.zeros(70_001, np.uint8), [0, 70_000, 70_001]).lengths.tolist() == [70_000, 1]


@pytest.mark.parametrize("mapped", [True, False])
def test_workers_read_the_same(files, in_child, mapped):
    source = TokenDataSource(files / "tokens.npy" if mapped else TOKENS, OFFSETS)
    assert in_child(source, lambda source: [source[key]["tokens"].tolist() for key in range(5)]) == EXPECTED


def test_a_mapped_file_travels_by_name(files):
    big = np.arange(1_000_000, dtype=np.int32)
    np.save(files / "big.npy", big)
    source = TokenDataSource(files / "big.npy", [0, len(big)])
    assert len(pickle.dumps(source)) < 4000
    assert pickle.loads(pickle.dumps(source))[0]["tokens"].tolist() == big.tolist()


def test_a_replaced_file_is_an_error_in_a_worker(files):
    np.save(files / "other.npy", TOKENS + 1)
    source = TokenDataSource(files / "tokens.npy", OFFSETS)
    loader = lk.load(source, num_epochs=1, worker_count=1)
    os.replace(files / "other.npy", files / "tokens.npy")
    with pytest.raises(lk.errors.FileChangedError, match=r"tokens.npy: the file was replaced"), loader:
        list(loader)


def test_a_file_that_is_written_to_is_an_error(tmp_path, monkeypatch):
    """Its new bytes were given without a word; one that was deleted or replaced is mapped still."""
    monkeypatch.setattr(file_identity, "CHECK_S", 0.0)
    path = tmp_path / "tokens.bin"
    np.arange(100, dtype=np.uint16).tofile(path)
    source = lk.TokenDataSource(path, [0, 50, 100], dtype=np.uint16)
    path.rename(tmp_path / "moved")
    assert source[1]["tokens"][0] == 50
    path.write_bytes(bytes(10))
    assert source[1]["tokens"][0] == 50
    (tmp_path / "moved").rename(path)
    with path.open("r+b") as file:
        file.write(bytes([255] * 20))
    os.utime(path, ns=(0, 0))
    monkeypatch.setattr(file_identity, "CHECK_S", 60.0)  # the error stays
    for read in (lambda: source[0], lambda: source.__getitems__([0])):
        with pytest.raises(
            lk.errors.FileChangedError, match=r"tokens\.bin: the file was replaced or written to"
        ):
            read()


def test_its_fingerprint_says_what_differs(files):
    source = TokenDataSource(TOKENS, OFFSETS)
    assert source.fingerprint() == TokenDataSource(files / "tokens.npy", files / "offsets.npy").fingerprint()
    for other in (
        TokenDataSource(TOKENS, OFFSETS, feature="inputs"),
        TokenDataSource(TOKENS, [0, 7, 7, 20, 22, 40]),
        TokenDataSource(TOKENS + np.uint16(1), OFFSETS),
        TokenDataSource(TOKENS.astype(np.int32), OFFSETS),
    ):
        assert source.fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    ("tokens", "offsets", "error", "text"),
    [
        (TOKENS.astype(float), OFFSETS, TypeError, "tokens: expected integers in one dimension, got float64"),
        (
            TOKENS.reshape(4, 10),
            OFFSETS,
            TypeError,
            r"shape \(4, 10\); give the documents one behind the other",
        ),
        (
            TOKENS.astype(">u2"),
            OFFSETS,
            TypeError,
            "tokens: expected the byte order of this machine, got >u2",
        ),
        (
            "tokens.bin",
            OFFSETS,
            ValueError,
            r"tokens: expected the name of a .npy file, .*from_megatron\(path\)",
        ),
        (TOKENS, [], ValueError, "offsets: expected one more than there are documents, got none"),
        (
            TOKENS,
            [0, 7, 5, 9],
            ValueError,
            r"offsets: expected ascending numbers, got 5 behind 7 at place 2; for len",
        ),
        (
            TOKENS,
            [0, 41],
            ValueError,
            "offsets: expected numbers from 0 to 40, the number of tokens, got 0 to 41",
        ),
        (TOKENS, [-1, 4], ValueError, "offsets: expected numbers from 0 to 40, .*got -1 to 4"),
        (TOKENS, [0.0, 4.0], TypeError, "offsets: expected integers in one dimension, got float64"),
    ],
)
def test_wrong_arguments(tokens, offsets, error, text):
    with pytest.raises(error, match=text):
        TokenDataSource(tokens, offsets)


def test_wrong_reads():
    source = TokenDataSource(TOKENS, OFFSETS)
    with pytest.raises(IndexError, match="record_key: expected an int from 0 to 4, got 5"):
        source.bounds([5])
    with pytest.raises(
        ValueError, match="start, stop: expected tokens from 0 to 13 of document 2, got 0 to 14"
    ):
        source.read_range(2, 0, 14)
    with pytest.raises(TypeError, match="feature: expected a name, got 3"):
        TokenDataSource(TOKENS, OFFSETS, feature=3)


def write_megatron(prefix, documents, code=8, dtype=np.uint16, *, modes=False):
    """documents: lists of sequences, each a list of tokens."""
    sequences = [sequence for document in documents for sequence in document]
    sizes = np.array([len(sequence) for sequence in sequences], "<i4")
    nbytes = sizes.astype("<i8") * np.dtype(dtype).itemsize
    firsts = np.cumsum([0, *map(len, documents)], dtype="<i8")
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(sequences), len(firsts)))
        file.write(sizes.tobytes() + (np.cumsum(nbytes, dtype="<i8") - nbytes).tobytes() + firsts.tobytes())
        file.write(b"\0" * len(sequences) if modes else b"")
    np.array([token for sequence in sequences for token in sequence], dtype).tofile(f"{prefix}.bin")


DOCUMENTS = [[[1, 2, 3]], [[4], [5, 6]], [], [[7, 8]], [[]]]


@pytest.mark.parametrize("ending", ["", ".bin", ".idx"])
@pytest.mark.parametrize(("code", "dtype"), [(8, np.uint16), (4, np.int32), (1, np.uint8), (5, np.int64)])
def test_megatrons_files(tmp_path, ending, code, dtype):
    prefix = str(tmp_path / "my.data")
    write_megatron(prefix, DOCUMENTS, code, dtype, modes=ending == ".idx")
    source = TokenDataSource.from_megatron(prefix + ending, feature="text")
    assert [source[key]["text"].tolist() for key in range(5)] == [[1, 2, 3], [4, 5, 6], [], [7, 8], []]
    assert source.dtype == dtype
    assert source.feature == "text"


def test_a_megatron_set_without_documents(tmp_path):
    write_megatron(tmp_path / "none", [])
    assert len(TokenDataSource.from_megatron(tmp_path / "none")) == 0


def poked(prefix, place, content, file="idx"):
    with open(f"{prefix}.{file}", "r+b") as handle:
        handle.seek(place, os.SEEK_SET if place >= 0 else os.SEEK_END)
        handle.write(content)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (
            lambda prefix: poked(prefix, 0, b"x"),
            r"d.idx: expected an index of Megatron, got a file without its head",
        ),
        (lambda prefix: os.truncate(f"{prefix}.idx", 5), r"d.idx: expected an index of Megatron"),
        (lambda prefix: poked(prefix, 9, b"\x02"), r"d.idx: expected version 1, got 2"),
        (lambda prefix: poked(prefix, 17, b"\x07"), r"d.idx: expected a dtype of integers .*, got code 7"),
        (
            lambda prefix: os.truncate(f"{prefix}.idx", 80),
            r"d.idx: expected 142 bytes for 5 sequences and 6 entries",
        ),
        (
            lambda prefix: os.truncate(f"{prefix}.bin", 14),
            r"d.bin: expected 16 bytes, as .*d.idx says, got 14",
        ),
        (
            lambda prefix: poked(prefix, 34, b"\x02"),
            r"d.idx: expected sequence 1 at byte 4, behind the one before, got",
        ),
        (
            lambda prefix: poked(prefix, 94, b"\x01"),
            r"d.idx: expected documents from sequence 0 to 5, got 1 to 5",
        ),
        (
            lambda prefix: poked(prefix, 102, b"\x09"),
            r"d.idx: expected documents of sequences 0 to 5, got others",
        ),
    ],
)
def test_damaged_megatron_files(tmp_path, spoil, text):
    prefix = str(tmp_path / "d")
    write_megatron(prefix, DOCUMENTS)
    spoil(prefix)
    with pytest.raises(lk.errors.DataFormatError, match=text):
        TokenDataSource.from_megatron(prefix)


def test_megatrons_tables_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("loaderkit.formats.tokens.megatron._CHECKED_AT_ONCE", 2)
    monkeypatch.setattr("loaderkit.formats.tokens.joined._CHECKED_AT_ONCE", 2)
    test_megatrons_files(tmp_path, "", 8, np.uint16)
    with pytest.raises(ValueError, match="got 5 behind 7 at place 3"):
        TokenDataSource(TOKENS, [0, 7, 7, 5, 9])
