"""LMDB databases as sources."""

import os
import pickle

import lmdb
import numpy as np
import pytest

import loaderkit as lk
from loaderkit._codecs.record_codec import encode_record

pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX may be loaded by another test


def written(path, values, **options):
    with (
        lmdb.open(str(path), map_size=1 << 22, **options) as environment,
        environment.begin(write=True) as put,
    ):
        for key, value in values.items():
            put.put(key, value)
    return path


@pytest.mark.parametrize("subdir", [True, False])
def test_lmdb(tmp_path, subdir):
    """All keys in their order, or the given ones; folder or file; workers and a fork open it themselves."""
    values = {b"%03d" % key: bytes([key]) * key for key in range(50)}
    path = written(tmp_path / "a", values, subdir=subdir)
    with lk.formats.LmdbDataSource(path) as source:
        assert [*source] == [*values.values()] and source.name(7) == "007"
        assert source.__getitems__([40, 2, 2]) == [values[b"040"], values[b"002"], values[b"002"]]
        copy = pickle.loads(pickle.dumps(source))
        assert copy[3] == source[3] and copy.fingerprint() == source.fingerprint()
        copy.close()
        with lk.load(source, num_epochs=1, worker_count=2) as loader:
            assert [*loader] == [*values.values()]
        child = os.fork()
        if not child:
            try:
                source.close()  # its own copy; the trainer's stays open
                os._exit(source[9] != values[b"009"])
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0 and source[9] == values[b"009"]
    with lk.formats.LmdbDataSource(path, keys=["003", b"001"]) as chosen:
        assert [*chosen] == [values[b"003"], values[b"001"]]


def test_encoded_values_come_back(tmp_path):
    """As the records that they were, others as bytes; decode=False gives bytes."""
    record = {"x": np.arange(3, dtype=np.int16), "text": "a"}
    path = written(tmp_path / "a", {b"a": encode_record(record), b"b": b"plain"})
    with lk.formats.LmdbDataSource(path) as source, lk.formats.LmdbDataSource(path, decode=False) as plain:
        found = source[0]
        assert found["text"] == "a" and found["x"].dtype == np.int16 and found["x"].tolist() == [0, 1, 2]
        assert source[1] == plain[1] == b"plain" and plain[0] == encode_record(record)


def test_databases_that_are_wrong(tmp_path):
    """Missing, no database, empty, keys that it lacks, written to."""
    (tmp_path / "file").write_bytes(b"no database" * 1000)
    path = written(tmp_path / "a", {b"a": b"1", b"b": encode_record({"s": [1, "x"]})[:-1]})
    for (given, options), error, text in [
        ((tmp_path / "no", {}), FileNotFoundError, "expected an LMDB database, got none"),
        ((tmp_path / "file", {}), lk.errors.DataFormatError, "file: expected an LMDB database"),
        ((written(tmp_path / "empty", {}), {}), ValueError, "one record or more"),
        ((path, {"keys": ["c"]}), ValueError, r"keys: expected keys of .*, got b'c', which it lacks"),
        ((path, {"keys": [3]}), TypeError, r"keys\[0\]: expected bytes or a text, got 3"),
    ]:
        with pytest.raises(error, match=text):
            lk.formats.LmdbDataSource(given, **options)
    with lk.formats.LmdbDataSource(path) as source:
        with pytest.raises(lk.errors.DataFormatError, match=r"in the value of b'b': .*decode=False"):
            source.__getitems__([0, 1])
        source.close()
        written(path, {b"a": b"2"})
        with pytest.raises(lk.errors.FileChangedError, match=r"data\.mdb"):
            source[0]
    with lmdb.open(str(path)), pytest.raises(OSError, match="close that one first"):
        lk.formats.LmdbDataSource(path)
