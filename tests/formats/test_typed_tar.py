"""TarDataSource of archives that say what their fields are, where they aren't local or their index knows less."""

import json
import pickle

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.formats._index.build import build_counts
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats.tar.scanner import TarFormat
from loaderkit.formats.tar.writer import TarWriting

RECORDS = [{"x": k, "y": np.full(2, k)} for k in range(20)]


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder with two archives of ten records each, and one of bytes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "served"
    folder.mkdir()
    writing = TarWriting()
    for name, records in {
        "0.tar": RECORDS[:10],
        "1.tar": RECORDS[10:],
        "2.tar": [{"__key__": "a", "x": b"1"}],
    }.items():
        encoder = writing.encoder(records[0])
        writer = writing.open(str(folder / name), encoder)
        for number, record in enumerate(records):
            writer.add(encoder.encode(record, number))
        writer.close()
    return folder


def values(records):
    return [(record["x"], record["y"].tolist()) for record in records]


def test_typed_records_of_a_server(range_server, served, tmp_path):
    """The description of a shard is asked for once, and only that of shards that are read."""
    with lk.TarDataSource(served / "{0,1,2}.tar") as local:
        fingerprint = local.fingerprint()
    server = range_server(served)
    names = server.url("{0..2}.tar")
    with lk.TarDataSource(names) as source:
        assert values(source.__getitems__([15, 12])) == values([RECORDS[15], RECORDS[12]])
        assert source[20] == {"__key__": "a", "x": b"1"}
        assert source.fingerprint() == fingerprint
        copy = pickle.loads(pickle.dumps(source))
        assert values([copy[3]]) == values([RECORDS[3]])
        copy.close()
    heads = [request.name for request in server.requests if request.begin == 0]
    assert heads.count("/1.tar") + heads.count("1.tar") == 1
    with lk.TarDataSource(names, fields="x", cache=lk.Cache(tmp_path / "cache", limit="1GB")) as source:
        assert source.__getitems__([3, 20, 18]) == [{"x": 3}, {"__key__": "a", "x": b"1"}, {"x": 18}]


def test_archives_with_different_descriptions(served):
    """Each is decoded by its own; a field in several forms isn't chosen."""
    writing = TarWriting()
    encoder = writing.encoder({"x": "text"})
    writer = writing.open(str(served / "3.tar"), encoder)
    writer.add(encoder.encode({"x": "text"}, 0))
    writer.close()
    with lk.TarDataSource(served / "{0,3}.tar") as source:
        assert source[10] == {"x": "text"}
    with lk.TarDataSource(served / "{0,3}.tar", fields="x") as source:
        assert source[9] == {"x": 9}
        with pytest.raises(
            ValueError, match=r"3\.tar\[0\]: expected fields in the form that the first archive says"
        ):
            source[10]


def test_an_index_of_counts(served, tmp_path):
    """Where a shard's first record lies is known when it is read."""
    shards = ShardSet([str(served / "0.tar"), str(served / "2.tar")])
    counts = {
        "wids_version": 1,
        "shardlist": [{"url": "0.tar", "nsamples": 10}, {"url": "2.tar", "nsamples": 1}],
    }
    (tmp_path / "counts.json").write_text(json.dumps(counts))
    index = str(tmp_path / "counts.lkx")
    build_counts(shards, TarFormat(), index, source=str(tmp_path / "counts.json"))
    with lk.TarDataSource([str(served / "0.tar"), str(served / "2.tar")], index=index) as source:
        assert values([source[7]]) == values([RECORDS[7]])
        assert source[10] == {"__key__": "a", "x": b"1"}
    with lk.TarDataSource(shards.paths, index=index, fields="x") as source:
        assert source.__getitems__([9, 10]) == [{"x": 9}, {"__key__": "a", "x": b"1"}]
    with (
        lk.TarDataSource(shards.paths, index=index, fields="z") as source,
        pytest.raises(ValueError, match="'z'"),
    ):
        source[0]


@pytest.mark.parametrize("value", [0, "yes", None])
def test_decode_is_true_or_false(served, value):
    """A list of fields, as other libraries take it, is an error."""
    with pytest.raises(TypeError, match="decode: expected True or False"):
        lk.TarDataSource(served / "0.tar", decode=value)


def test_arrays_can_be_changed(tmp_path):
    """They are the reader's own, as those of every other source."""
    (path,) = lk.write([{"x": np.arange(3)}], tmp_path / "a.tar")
    record = lk.TarDataSource(path)[0]
    record["x"] += 1
    assert record["x"].tolist() == [1, 2, 3]
