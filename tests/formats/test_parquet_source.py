"""Rows of Parquet files, beside pyarrow."""

import os
import pickle
import signal
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import loaderkit as lk


@pytest.fixture
def train(tmp_path):
    """1,000 rows in row groups of 100."""
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "row": np.arange(1000),
            "text": [f"text {row}" * (row % 5) for row in range(1000)],
            "tokens": [rng.integers(0, 99, row % 7).tolist() for row in range(1000)],
            "a.b": np.arange(1000.0),
            "a": [{"b": row} for row in range(1000)],
        }
    )
    pq.write_table(table, tmp_path / "train.parquet", row_group_size=100)
    return table, str(tmp_path / "train.parquet")


def test_rows_are_those_of_pyarrow(train):
    """In any order, with the row groups in memory and without."""
    table, path = train
    expected = table.to_pylist()
    for memory in (1, "1GB"):
        source = lk.ParquetDataSource(path, cache_bytes=memory)
        keys = np.random.default_rng(1).integers(0, 1000, 50).tolist()
        for key, row in zip(keys, source.__getitems__(keys)):
            assert {**row, "tokens": row["tokens"].tolist()} == expected[key]


def test_columns_in_the_order_given(train):
    """A name with a dot is a column, not a part of one."""
    source = lk.ParquetDataSource(train[1], columns=["a.b", "row"])
    assert [*source[3]] == ["a.b", "row"]
    assert source.take([999, 0])["a.b"].tolist() == [999, 0]


def test_row_groups_are_the_chunks(train):
    """ChunkSampler takes them from the source, and each is decoded once in an epoch."""
    source = lk.ParquetDataSource(train[1], cache_bytes=100_000)
    assert source.chunk_records == 100
    sampler = lk.ChunkSampler.over(source, cache_bytes=2 * 2 * source.chunk_bytes, seed=0, num_epochs=1)
    decoded = []
    decode = source._decoded
    source._decoded = lambda file, group, names: (decoded.append(group), decode(file, group, names))[1]
    rows = [int(record["row"]) for record in lk.DataLoader(data_source=source, sampler=sampler)]
    assert sorted(rows) == list(range(1000)) and rows != list(range(1000))
    assert len(decoded) <= 12


def test_a_shuffle_that_decodes_a_row_group_for_each_row_is_refused(train):
    """It says how many bytes; ways around it are in the text, and the order without shuffle passes."""
    source = lk.ParquetDataSource(train[1], cache_bytes=1)
    assert 99 < source.shuffled_read_ratio < 100
    for each in (source, lk.MapDataSource(source, str), lk.SubsetDataSource(source, range(500))):
        with pytest.raises(
            ValueError, match=r"decodes 100 bytes for each byte used; write sampler=lk\.ChunkSampler"
        ):
            lk.load(each, shuffle=True, seed=0)
    assert len(lk.load(source, num_epochs=1).__iter__().__next__()) == 5
    lk.load(lk.ParquetDataSource(train[1], cache_bytes=1, random_reads=True), shuffle=True, seed=0)
    whole = lk.ParquetDataSource(train[1])
    assert whole.shuffled_read_ratio == 1
    lk.load(whole, shuffle=True, seed=0)


def test_from_a_server(train, tmp_path):
    """The same rows as from the local file, by fsspec."""
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://bucket/train.parquet", "wb") as file:
        file.write(Path(train[1]).read_bytes())
    remote, local = lk.ParquetDataSource("memory://bucket/train.parquet"), lk.ParquetDataSource(train[1])
    keys = [999, 0, 500]
    assert [row["text"] for row in remote.__getitems__(keys)] == [
        row["text"] for row in local.__getitems__(keys)
    ]
    assert remote.read_ahead == 4 and local.read_ahead == 0
    assert remote.fingerprint() == local.fingerprint()


def test_a_loader_with_workers(train):
    """The pickled source holds no data; each process opens the file."""
    source = lk.ParquetDataSource(train[1], columns=["row", "a.b"])
    rows = [
        int(row)
        for batch in lk.load(source, batch_size=100, num_epochs=1, worker_count=2)
        for row in batch["row"]
    ]
    assert rows == list(range(1000))


def test_what_is_refused(train, tmp_path):
    """File, what is wrong, what to do."""
    path = train[1]
    with pytest.raises(FileNotFoundError, match="missing"):
        lk.ParquetDataSource(tmp_path / "missing.parquet")
    (tmp_path / "text.parquet").write_text("no table" * 99)
    with pytest.raises(lk.errors.DataFormatError, match=r"text\.parquet: expected a Parquet file"):
        lk.ParquetDataSource(tmp_path / "text.parquet")
    data = Path(path).read_bytes()
    (tmp_path / "short.parquet").write_bytes(data[:-100])
    with pytest.raises(lk.errors.DataFormatError, match=r"short\.parquet.*truncated"):
        lk.ParquetDataSource(tmp_path / "short.parquet")
    pq.write_table(pa.table({"row": ["text"]}), tmp_path / "other.parquet")
    with pytest.raises(
        lk.errors.DataFormatError, match=r"other\.parquet: expected the column 'row' of type int64"
    ):
        lk.ParquetDataSource([path, tmp_path / "other.parquet"], columns=["row"])
    with pytest.raises(TypeError, match="random_reads"):
        lk.ParquetDataSource(path, random_reads=1)
    with pytest.raises(ValueError, match="cache_bytes"):
        lk.ParquetDataSource(path, cache_bytes="much")


def test_a_damaged_row_group_names_file_and_group(train):
    """The other row groups can be read."""
    source = lk.ParquetDataSource(train[1])
    data = bytearray(Path(train[1]).read_bytes())
    begin = pq.ParquetFile(train[1]).metadata.row_group(5).column(0).dictionary_page_offset
    data[begin : begin + 40] = b"\xff" * 40
    Path(train[1]).write_bytes(data)
    source = lk.ParquetDataSource(train[1])
    assert source[99]["row"] == 99
    with pytest.raises(
        lk.errors.DataFormatError, match=r"train\.parquet: expected row group 5 of a Parquet file"
    ):
        source[555]


def test_a_file_that_was_written_again(train, tmp_path):
    """Another file under the name is never read, nor rows in memory."""
    source = lk.ParquetDataSource(train[1])
    assert source[0]["row"] == 0
    pq.write_table(pa.table({"row": [1]}), tmp_path / "new")
    os.replace(tmp_path / "new", train[1])
    with pytest.raises(lk.errors.FileChangedError, match=r"train\.parquet"):
        source[0]


def test_every_sampler_with_a_random_order_is_refused(train):
    """Weighted draws, chosen keys, buckets and components of a mixture; not orders that go on from row to row."""
    source, other = lk.ParquetDataSource(train[1], cache_bytes=1), lk.RangeDataSource(0, 1000, 1)
    shuffled, plain = lk.IndexSampler(1000, shuffle=True, seed=0), lk.IndexSampler(1000)
    chunks = lk.ChunkSampler.over(source, cache_bytes=10**6, seed=0)
    weights = np.ones(1000)
    both = lk.ConcatDataSource([other, source])
    refused = [
        (source, lk.samplers.WeightedSampler(weights, seed=0)),
        (source, lk.samplers.KeysSampler(range(0, 1000, 2), shuffle=True, seed=0)),
        (source, lk.samplers.LengthBucketSampler(weights.astype(int), [1], 8, shuffle=True, seed=0)),
        (both, lk.samplers.MixedSampler({"other": plain, "rows": shuffled})),
        (both, lk.samplers.WeightedSampler(np.ones(2000), seed=0)),
        (
            both,
            lk.samplers.MixedSampler(
                {"deep": lk.samplers.MixedSampler({"other": plain, "rows": shuffled})}, offsets={"deep": 0}
            ),
        ),
        (lk.ZipDataSource([other, lk.MapDataSource(source, str)]), shuffled),
    ]
    for given, sampler in refused:
        with pytest.raises(
            ValueError, match=r"data_source: expected an order by row groups, got a random order of"
        ):
            lk.DataLoader(data_source=given, sampler=sampler)
    for given, sampler in [
        (source, chunks),
        (source, lk.samplers.KeysSampler(range(0, 1000, 2))),
        (both, lk.samplers.MixedSampler({"other": shuffled, "rows": chunks})),
        (both, lk.samplers.MixedSampler({"other": shuffled, "rows": plain})),
        (both, lk.samplers.WeightedSampler(weights, seed=0)),
    ]:
        lk.DataLoader(data_source=given, sampler=sampler)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX may be loaded by another test
def test_a_child_forked_while_a_thread_decodes(train):
    """It has no lock that the thread held."""
    source = lk.ParquetDataSource(train[1], cache_bytes=1)
    ends = threading.Event()

    def read():
        while not ends.is_set():
            source.__getitems__([*range(0, 1000, 100)])

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for key in range(0, 1000, 50):
            child = os.fork()
            if not child:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(10)  # ends a child that waits for ever
                os._exit(int(source[key]["row"]) != key)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ends.set()
        thread.join()


def test_files_of_a_server_are_read_at_once(range_server, tmp_path, monkeypatch):
    """One after the other, ten files took 30 round trips to open, and 21 for a row of each."""
    for file in range(6):
        rows = {"row": [10 * file + row for row in range(4)]}
        pq.write_table(pa.table(rows), tmp_path / f"{file}.parquet", row_group_size=2)
    names, calls = range_server(tmp_path).url("{0..5}.parquet"), []
    together = threading.Barrier(6, timeout=20)

    def with_others(name):
        method = getattr(lk.ParquetDataSource, name)

        def call(source, *arguments):
            known = arguments[0] in source._metadata_of if name == "_metadata" else False
            if not known:
                calls.append((name, *arguments[:2]))
                together.wait()
            return method(source, *arguments)

        monkeypatch.setattr(lk.ParquetDataSource, name, call)

    with_others("_metadata")
    source = lk.ParquetDataSource(names)
    assert sorted(calls) == [("_metadata", file) for file in range(6)]
    worker = pickle.loads(pickle.dumps(source))
    calls.clear()
    with_others("_decoded")
    keys = [20, 0, 14, 9, 5, 16]
    assert [int(row["row"]) for row in worker.__getitems__(keys)] == [50, 0, 32, 21, 11, 40]
    footers = [("_metadata", file) for file in range(6)]  # each once, also where several row groups are read
    assert sorted(calls) == [*sorted(("_decoded", key // 4, key % 4 // 2) for key in keys), *footers]
    calls.clear()
    assert [int(row["row"]) for row in worker.__getitems__(keys)] == [50, 0, 32, 21, 11, 40]
    assert calls == []
    source.close()
    worker.close()


def test_row_groups_read_at_once_are_as_many_as_a_process_keeps(range_server, tmp_path, monkeypatch):
    pq.write_table(pa.table({"row": np.arange(4000)}), tmp_path / "x.parquet", row_group_size=100)
    source = lk.ParquetDataSource(
        range_server(tmp_path).url("x.parquet"), cache_bytes=5_000, random_reads=True
    )
    most = []
    monkeypatch.setattr(
        "loaderkit.formats.tables.parquet.at_once",
        lambda work, items, **how: (most.append(how.get("most")), [*map(work, items)])[1],
    )
    assert [int(row["row"]) for row in source.__getitems__([3000, 5, 1700])] == [3000, 5, 1700]
    assert most[-1] == 5_000 // source.chunk_bytes > 1
    source.close()
