"""Token files: documents are written, and TokenDataSource gives the same ones back."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from tests.formats.round_trip import same


def documents(count=50, dtype=np.uint16):
    rng = np.random.default_rng(0)
    return [{"ids": rng.integers(0, 100, row % 7, dtype)} for row in range(count)]


def read(paths):
    return [record for path in paths for record in lk.TokenDataSource(path)]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64])
def test_documents_come_back(tmp_path, dtype):
    """Name, dtype and empty documents; one file; numpy reads the tokens."""
    rows = documents(dtype=dtype)
    (path,) = lk.write(rows, tmp_path / "corpus.tokens")
    source = lk.TokenDataSource(path)
    assert len(source) == 50 and source.dtype == dtype and source.feature == "ids"
    assert all(map(same, source, rows))
    tokens = np.load(path)
    assert np.array_equal(tokens, np.concatenate([row["ids"] for row in rows]))
    assert source.lengths.tolist() == [row % 7 for row in range(50)]
    assert lk.TokenDataSource(path, feature="x")[3].keys() == {"x"}
    two = lk.TokenDataSource(tokens, np.cumsum([0, *source.lengths]), feature="ids")
    told = source.fingerprint()
    assert told.pop("checksums") and told == two.fingerprint()


@pytest.mark.parametrize("options", [{"shards": 3}, {"shards": 3, "worker_count": 2}, {"shard_bytes": 600}])
def test_shards(tmp_path, options):
    """In order, of a source and of a generator; the same bytes for any workers."""
    rows = documents()
    files = lk.write(rows, tmp_path / "a", format="tokens", **options)
    assert len(files) > 1 and all(map(same, read(files), rows))
    again = lk.write((row for row in rows), tmp_path / "b", format="tokens", **options | {"worker_count": 0})
    assert [Path(file).read_bytes() for file in files] == [Path(file).read_bytes() for file in again]
    joined = lk.ConcatDataSource([lk.TokenDataSource(file) for file in files])
    assert same(joined[49], rows[49])


def test_only_empty_documents(tmp_path):
    """No token at all."""
    (path,) = lk.write([{"ids": np.empty(0, np.uint16)}] * 3, tmp_path / "a.tokens")
    assert [row["ids"].size for row in lk.TokenDataSource(path)] == [0, 0, 0]
    assert lk.TokenDataSource(path)[1]["ids"].dtype == np.uint16


def test_workers_and_packing(tmp_path):
    """A plan of rows, read by workers."""
    rows = documents(500)
    (path,) = lk.write(rows, tmp_path / "a.tokens")
    source = lk.TokenDataSource(path)
    packed = lk.PackedDataSource(source, lk.plan_packing(source.lengths, 64))
    batches = [batch["ids"] for batch in lk.load(packed, batch_size=4, num_epochs=1, worker_count=1)]
    assert sum(np.count_nonzero(batch) for batch in batches) == sum(
        np.count_nonzero(row["ids"]) for row in rows
    )


def test_from_a_server(tmp_path):
    """Tokens by ranges, offsets once."""
    fsspec = pytest.importorskip("fsspec")
    rows = documents()
    (path,) = lk.write(rows, tmp_path / "a.tokens")
    with fsspec.open("memory://tokens/a.tokens", "wb") as file:
        file.write(Path(path).read_bytes())
    source = lk.TokenDataSource("memory://tokens/a.tokens")
    assert all(map(same, source.__getitems__([49, 0, 3]), [rows[49], rows[0], rows[3]]))
    assert source.fingerprint() == lk.TokenDataSource(path).fingerprint()


@pytest.mark.parametrize(
    ("records", "error", "text"),
    [
        ([b"abc"], TypeError, r"expected a dict of one array of integers.*got a bytes"),
        ([{"a": np.zeros(1, int), "b": 1}], TypeError, r"got one of \['a', 'b'\]"),
        ([{"a": [1, 2]}], TypeError, r"record\['a'\]: .*got a list; convert it"),
        ([{"a": np.zeros(2)}], TypeError, r"got float64 of shape \(2,\)"),
        ([{"a": np.zeros((2, 2), int)}], TypeError, r"got int64 of shape \(2, 2\)"),
        ([{"a": np.zeros(2, ">i4")}], TypeError, "byte order"),
        ([{"a": np.zeros(1, np.uint16)}, {"a": np.array([70_000])}], ValueError, r"expected an array of uint16 in one"),
        ([{"a": np.zeros(1, np.uint16)}, {"a": np.zeros(1, np.int16)}], ValueError, "got int16 of shape"),
        ([{"a": np.zeros(1, int)}, {"b": np.zeros(1, int)}], ValueError, r"expected a dict of 'a'.*got one of \['b'\]"),
        ([{"a": np.zeros(1, int)}, {"a": 3}], ValueError, "got a int"),
        ([{"tokens": np.zeros(1, int), "w": np.float16(1)}, {"tokens": np.zeros(1, int), "w": 1e6}], ValueError,
         r"record\['w'\]: expected a number that float16 holds"),
        ([{"tokens": np.zeros(1, int), "w": 0.5}, {"tokens": np.zeros(1, int), "w": 2**53 + 1}], ValueError,
         r"record\['w'\]: expected a number that float64 holds.*got 9007199254740993"),
    ],
)  # fmt: skip
def test_records_that_are_no_documents(tmp_path, records, error, text):
    """Nothing is under the final name."""
    with pytest.raises(error, match=text):
        lk.write(records, tmp_path / "a.tokens")
    assert not (tmp_path / "a.tokens").exists()


def test_files_that_are_no_token_files(tmp_path):
    """Truncated, tokens alone, other bytes in place of the offsets, an array without offsets, missing."""
    (path,) = lk.write(documents(), tmp_path / "a.tokens")
    data = Path(path).read_bytes()
    np.save(tmp_path / "alone.npy", np.arange(3))
    bad = tmp_path / "bad.tokens"
    bad.write_bytes(data[:-1])
    for given, text in [(bad, "without its end"), (tmp_path / "alone.npy", "alone.npy: .* give offsets=")]:
        with pytest.raises(lk.errors.DataFormatError, match=text):
            lk.TokenDataSource(given)
    begin = data.rindex(b"\x93NUMPY")
    bad.write_bytes(data[:begin] + b"?" + data[begin + 1 :])
    with pytest.raises(
        lk.errors.DataFormatError, match=rf"bad\.tokens: expected offsets of documents at byte {begin}"
    ):
        lk.TokenDataSource(bad)
    with pytest.raises(ValueError, match="offsets: expected integers"):
        lk.TokenDataSource(np.arange(3))
    with pytest.raises(FileNotFoundError):
        lk.TokenDataSource(tmp_path / "missing.tokens")


KILLED = """
import os, signal, sys
import numpy as np
import loaderkit as lk
def rows():
    for row in range(100_000):
        if row == 50_000:
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"ids": np.arange(row % 9)}
lk.write(rows(), sys.argv[1])
"""


def test_killed_and_a_full_disk(tmp_path):
    """Nothing under the final name; the next run writes it."""
    path = tmp_path / "a.tokens"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL and not path.exists()
    rows = [{"ids": np.arange(row % 9)} for row in range(100)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(OSError, match="large"):
            lk.write(rows, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not path.exists()
    lk.write(rows, path)
    assert all(map(same, lk.TokenDataSource(path), rows)) and os.listdir(tmp_path) == ["a.tokens"]
