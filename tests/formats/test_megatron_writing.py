"""Megatron's files, written: byte by byte as Megatron's own writer makes them, and read again."""

import struct

import numpy as np
import pytest

import loaderkit as lk

DOCUMENTS = [np.arange(7 * k, 7 * k + k % 4) for k in range(9)]
CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def records(dtype):
    return [{"tokens": tokens.astype(dtype)} for tokens in DOCUMENTS]


@pytest.mark.parametrize("dtype", CODES)
def test_both_files_are_those_of_megatron(tmp_path, dtype):
    """A sequence a document, the documents' places at the end; empty documents, too; nothing else is left."""
    made = lk.write(records(dtype), tmp_path / "corpus.idx")
    assert made == [str(tmp_path / "corpus.idx")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.bin", "corpus.idx"]
    lengths = np.array(list(map(len, DOCUMENTS)), np.int32)
    begins = (np.cumsum(lengths) - lengths).astype(np.int64) * np.dtype(dtype).itemsize
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, CODES[dtype], len(lengths), len(lengths) + 1)
    tables = lengths.tobytes() + begins.tobytes() + np.arange(len(lengths) + 1, dtype=np.int64).tobytes()
    assert (tmp_path / "corpus.idx").read_bytes() == head + tables
    assert (tmp_path / "corpus.bin").read_bytes() == np.concatenate(DOCUMENTS).astype(dtype).tobytes()
    for source in (lk.open(tmp_path / "corpus.idx"), lk.TokenDataSource.from_megatron(tmp_path / "corpus")):
        for key, tokens in enumerate(DOCUMENTS):
            assert source[key]["tokens"].dtype == dtype and source[key]["tokens"].tolist() == tokens.tolist()


def test_workers_write_the_same_and_neither_file_is_replaced_unasked(tmp_path):
    """`overwrite` replaces both; without it a file of either name is an error, and stays."""
    lk.write(records("uint16"), tmp_path / "a.idx")
    lk.write(records("uint16"), tmp_path / "b.idx", worker_count=2)
    for ending in ("idx", "bin"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    with pytest.raises(FileExistsError, match=r"a\.idx"):
        lk.write(records("int32"), tmp_path / "a.idx")
    (tmp_path / "c.bin").write_bytes(b"mine")
    with pytest.raises(FileExistsError, match=r"c\.bin"):
        lk.write(records("int32"), tmp_path / "c.idx")
    assert (tmp_path / "c.bin").read_bytes() == b"mine" and not (tmp_path / "c.idx").exists()
    lk.write(records("int32"), tmp_path / "a.idx", overwrite=True)
    assert lk.open(tmp_path / "a.idx")[3]["tokens"].dtype == np.int32


def test_what_megatron_has_no_place_for_is_refused(tmp_path):
    """Other dtypes, columns beside the tokens, and a folder: its files are a pair."""
    with pytest.raises(TypeError, match=r"expected tokens of uint8, .* got uint32"):
        lk.write(records("uint32"), tmp_path / "a.idx")
    with pytest.raises(TypeError, match="expected tokens alone"):
        lk.write([{"tokens": np.arange(3), "id": "x"}], tmp_path / "a.idx")
    with pytest.raises(ValueError, match=r"expected a file's name for the format megatron.*all\.idx"):
        lk.write(records("int32"), tmp_path / "a", format="megatron")
    assert not (tmp_path / "a.idx").exists()
