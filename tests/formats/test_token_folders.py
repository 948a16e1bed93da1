"""Token files as one corpus: the same documents, places and fingerprint however it is cut into files."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_token_source import write_megatron

import loaderkit as lk
from loaderkit.formats.tokens.writer import TokenDocument, TokenShardWriter
from tests.formats.round_trip import same

CUTS = st.lists(st.lists(st.integers(0, 6), max_size=8), min_size=1, max_size=5)


def document(key, length):
    """With a column of each kind."""
    return {
        "tokens": np.arange(10 * key, 10 * key + length, dtype=np.uint16),
        "loss_mask": np.arange(length) % (key % 3 + 1) == 0,
        "weight": np.float64(key / 2),
        "id": f"ö{key}" * (key % 3),
        "age": np.uint8(key),
    }


def write(path, documents, first=None):
    """A token file, also of no document."""
    encoder = TokenDocument.of(first or document(3, 2))
    writer = TokenShardWriter(str(path), encoder)
    for each in documents:
        writer.add(encoder.encode(each, 0))
    writer.close()
    return str(path)


def in_files(folder, cuts):
    """The documents, the names of their files, and a file of all."""
    documents = [document(key, length) for key, length in enumerate(n for cut in cuts for n in cut)]
    left = iter(documents)
    names = [write(folder / f"{n:03}.tokens", [next(left) for _ in cut]) for n, cut in enumerate(cuts)]
    (folder / "whole").mkdir(exist_ok=True)
    return documents, names, write(folder / "whole" / "all.tokens", documents)


def without_checksums(source):
    return {name: value for name, value in source.fingerprint().items() if name != "checksums"}


@given(CUTS, st.booleans(), st.data())
@settings(max_examples=max(12, settings.default.max_examples // 3))
def test_a_corpus_is_the_same_however_it_is_cut(tmp_path_factory, cuts, mmap, data):
    """Every method of many files gives what one file gives, and what a list of the documents gives."""
    documents, names, whole = in_files(tmp_path_factory.mktemp("corpus"), cuts)
    joined, one = lk.TokenDataSource(names, mmap=mmap), lk.TokenDataSource(whole)
    assert len(joined) == len(documents) and joined.dtype == one.dtype and joined.columns == one.columns
    keys = data.draw(st.lists(st.integers(0, len(documents) - 1), max_size=20)) if documents else []
    for source in (joined, one, pickle.loads(pickle.dumps(joined))):
        assert all(map(same, source.__getitems__(keys), [documents[key] for key in keys]))
        for name in ("id", "weight", "age"):
            column = source.document_column(name, keys)
            assert column.tolist() == [documents[key][name] for key in keys] and len(column) == len(keys)
    assert np.array_equal(joined.lengths, one.lengths) and joined.lengths.dtype == one.lengths.dtype
    assert (joined.chunk_records, joined.chunk_bytes) == (one.chunk_records, one.chunk_bytes)
    assert all(map(np.array_equal, joined.bounds(keys), one.bounds(keys)))
    total = sum(map(sum, cuts))
    runs = data.draw(st.lists(st.tuples(*[st.integers(0, total)] * 2), max_size=9))
    begins, ends = np.sort(np.array(runs, np.int64).reshape(-1, 2), axis=1).T
    for column in (None, "loss_mask"):
        assert all(map(np.array_equal, joined.slices(begins, ends, column), one.slices(begins, ends, column)))
    for key in keys[:3]:
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(documents[key]["tokens"]))] * 2)))
        part = joined.read_range(key, start, stop)
        assert same(part, one.read_range(key, start, stop))
        assert np.array_equal(part["loss_mask"], documents[key]["loss_mask"][start:stop])
    assert without_checksums(joined) == without_checksums(one)
    places = [(n, k) for n, cut in enumerate(cuts) for k in range(len(cut))]
    assert [joined.name(key) for key in range(len(documents))] == [f"{names[n]}[{k}]" for n, k in places]


def test_a_folder_a_pattern_shards_and_a_list(tmp_path):
    """Sorted by name but for a list; `lk.open` gives the same."""
    rows = [{"tokens": np.arange(k, 2 * k, dtype=np.uint16)} for k in range(20)]
    files = lk.write(rows, tmp_path / "web", format="tokens", shards=3)
    expected = [row["tokens"].tolist() for row in rows]
    folder = tmp_path / "web"
    shards = str(folder / Path(files[0]).name).replace("00000-of-00003", "?????-of-00003")
    for what in (folder, str(folder / "*.tokens"), shards, files, [files[0], *files[1:]]):
        for source in (lk.TokenDataSource(what), lk.open(what)):
            assert type(source) is lk.TokenDataSource
            assert [row["tokens"].tolist() for row in source] == expected
    turned = lk.TokenDataSource(files[::-1])
    assert turned[0]["tokens"].tolist() == lk.TokenDataSource(files[2])[0]["tokens"].tolist()
    assert (
        lk.TokenDataSource(files[0], columns=[]).fingerprint() == lk.TokenDataSource(files[0]).fingerprint()
    )


def test_npy_files_with_their_offsets_and_megatrons_pairs(tmp_path):
    """As many files of offsets as of tokens, in one order; of Megatron's a pattern, a folder, a list."""
    parts = [[[1, 2], [3]], [], [[4], [], [5, 6, 7]]]
    for n, documents in enumerate(parts):
        np.save(tmp_path / f"tokens-{n}.npy", np.array([t for each in documents for t in each], np.uint16))
        np.save(tmp_path / f"offsets-{n}.npy", np.cumsum([0, *map(len, documents)]))
        write_megatron(tmp_path / f"meg{n}_document", [[each] for each in documents])
    expected = [each for documents in parts for each in documents]
    npy = lk.TokenDataSource(str(tmp_path / "tokens-*.npy"), str(tmp_path / "offsets-*.npy"))
    pairs = [str(tmp_path / f"meg{n}_document") for n in range(3)]
    megatron = [lk.TokenDataSource.from_megatron(what) for what in (tmp_path, str(tmp_path / "meg*"), pairs)]
    for source in (npy, *megatron):
        assert [row["tokens"].tolist() for row in source] == expected
    assert npy.fingerprint() == megatron[0].fingerprint()
    assert megatron[0].name(3).endswith("meg2_document.bin[1]")
    with pytest.raises(ValueError, match="offsets: expected those of 3 files of tokens, got 1"):
        lk.TokenDataSource(str(tmp_path / "tokens-*.npy"), str(tmp_path / "offsets-0.npy"))
    write_megatron(tmp_path / "other_document", [[[1]]], 4, np.int32)
    with pytest.raises(
        lk.errors.DataFormatError, match=r"other_document.idx: expected tokens of uint16, as .*meg0"
    ):
        lk.TokenDataSource.from_megatron(tmp_path)


def test_a_state_and_a_plan_of_one_file_serve_its_shards_and_the_other_way_round(tmp_path):
    """Without `allow`, though their checksums are of other blocks, and with columns."""
    rows = [{"tokens": np.arange(k % 9, dtype=np.uint16), "id": f"{k}", "weight": k / 2} for k in range(300)]
    lk.write(rows, tmp_path / "one.tokens")
    lk.write(rows, tmp_path / "cut", format="tokens", shards=7)
    sources = [lk.TokenDataSource(tmp_path / name) for name in ("one.tokens", "cut")]
    lk.offline.measure(sources[0], lambda row: len(row["tokens"]), tmp_path / "lengths.npy")

    def batches(source, state=None):
        packed = lk.PackedDataSource(source, lk.plan_packing(tmp_path / "lengths.npy", 16))
        with lk.load(packed, batch_size=4, shuffle=True, seed=1, num_epochs=1) as loader, iter(loader) as it:
            if state is not None:
                it.set_state(state)
                return [batch["tokens"].tolist() for batch in it]
            first = [next(it)["tokens"].tolist() for _ in range(3)]
            return it.get_state(), [*first, *(batch["tokens"].tolist() for batch in it)]

    (state, expected), (other, again) = map(batches, sources)
    assert again == expected
    assert batches(sources[1], state) == batches(sources[0], other) == expected[3:]


def test_files_that_differ_are_an_error_before_the_first_batch(tmp_path):
    """Another dtype, feature, columns; no file; a file that was cut short in any place."""
    first = write(tmp_path / "a.tokens", [document(1, 3)])
    others = {
        "tokens of uint16, as .*a.tokens has, got tokens of int8": document(1, 3) | {"tokens": np.zeros(3, "i1")},
        "the columns .*'weight', 'number', '<f8'.* got": {**document(1, 3), "weight": 3},
        r"the columns .*, got the columns \[\]": {"tokens": np.arange(3, dtype=np.uint16)},
        "the feature 'ids', as .*c.tokens has, got the feature 'text'": {"text": np.arange(2)},
    }  # fmt: skip
    for text, row in others.items():
        other = write(tmp_path / "b.tokens", [row], first=row)
        whole = first
        if "text" in row:
            whole = write(tmp_path / "c.tokens", [{"ids": np.arange(2)}], first={"ids": np.arange(2)})
        with pytest.raises(lk.errors.DataFormatError, match=rf"b\.tokens: expected {text}"):
            lk.TokenDataSource([whole, other])
    assert len(lk.TokenDataSource([whole, other], feature="x")) == 2
    with pytest.raises(ValueError, match=r"columns: expected some of \['loss_mask', .*, got 'source'"):
        lk.TokenDataSource(first, columns=["source"])
    assert [*lk.TokenDataSource(first, columns=["id"])[0]] == ["tokens", "id"]
    with pytest.raises(
        ValueError, match=r"name: expected a column of documents, one of .*'id', 'age'.*got 'loss_mask'"
    ):
        lk.TokenDataSource(first).document_column("loss_mask", [0])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no file matches"):
        lk.TokenDataSource(tmp_path / "empty")
    data = Path(first).read_bytes()
    for place in [0, *range(7, len(data), 61), len(data) - 1]:
        (tmp_path / "b.tokens").write_bytes(data[:place])
        with pytest.raises(
            lk.errors.DataFormatError, match=r"b\.tokens: .*without its end; it was truncated"
        ):
            lk.TokenDataSource([first, tmp_path / "b.tokens"])


def test_each_damaged_bit_of_a_file_with_columns(tmp_path):
    """Is an error that names the file, or changes nothing that is read."""
    rows = [document(key, 5) for key in range(4)]
    path = write(tmp_path / "a.tokens", rows)
    good, data = write(tmp_path / "b.tokens", rows), Path(path).read_bytes()
    texts: list[str] = []
    for place in range(3, len(data), 131):
        Path(path).write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        try:
            found = list(lk.TokenDataSource([good, path]))
        except (
            lk.errors.DataFormatError,
            lk.errors.ChecksumError,
            lk.errors.FileChangedError,
            TypeError,
        ) as error:
            texts.append("a.tokens" if isinstance(error, TypeError) else str(error))
        else:
            assert all(map(same, found, rows + rows))
    assert texts and all("a.tokens" in text for text in texts)


def test_a_file_keeps_one_descriptor(tmp_path):
    """For its tokens, offsets and columns together, so that there may be many files."""
    _, names, _ = in_files(tmp_path, [[1, 2]] * 40)
    before = len(os.listdir("/proc/self/fd"))
    source = lk.TokenDataSource(names)
    assert source[70]["age"] == 70 and len(os.listdir("/proc/self/fd")) - before <= 40 + 16


def test_many_objects_of_a_server_are_read_by_one_call(tmp_path, range_server):
    """With and without a cache; files are named, and their blocks compared."""
    documents, names, _ = in_files(tmp_path, [[3, 5], [], [0, 4, 6], [2]])
    server = range_server(tmp_path)
    urls = [server.url(Path(name).name) for name in names]
    keys = [5, 0, 3, 2]
    for cache in (None, lk.Cache(tmp_path / "cache", limit="1GB")):
        source = lk.TokenDataSource(urls, cache=cache)
        assert all(map(same, source.__getitems__(keys), [documents[key] for key in keys]))
        assert source.fingerprint() == without_checksums(lk.TokenDataSource(names))
    plain = lk.TokenDataSource(urls, columns=[])
    server.requests.clear()
    plain.__getitems__(keys)
    assert {one.name for one in server.requests} == {"000.tokens", "002.tokens", "003.tokens"}
    data = bytearray(Path(names[2]).read_bytes())
    data[129] ^= 1
    Path(names[2]).write_bytes(data)
    with pytest.raises(lk.errors.ChecksumError, match=r"002\.tokens: bytes 128 to 148 don't have"):
        lk.TokenDataSource(urls).__getitems__(range(6))
