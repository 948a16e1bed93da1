"""An index of counts: the records of each shard from other libraries' files; a shard is scanned when it is read."""

import json
import os
import pickle
import threading
from pathlib import Path

import pytest
from index_data import Blocks, BlocksDataSource, LocalRanges, blocks

from loaderkit._storage.versions import versions_of
from loaderkit.errors import DataFormatError, FileChangedError
from loaderkit.formats._index.build import build_counts
from loaderkit.formats._index.counted_index import write_counts
from loaderkit.formats._index.foreign import counts_of, record_counts
from loaderkit.formats._index.shard_set import ShardSet

SHARDS = [["a", "b b=1", "c"], ["d"], ["e", "f f=1 a-long-record-of=two-blocks"]]
RECORDS = [record for shard in SHARDS for record in shard]


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number, records in enumerate(SHARDS):
        (folder / f"{number}.blocks").write_bytes(blocks(records))
    return ShardSet(sorted(map(str, folder.iterdir())))


@pytest.fixture
def wids(tmp_path):
    shardlist = [{"url": f"s3://u:p@b/{i}.blocks", "nsamples": len(s)} for i, s in enumerate(SHARDS)]
    path = tmp_path / "wids.json"
    path.write_text(json.dumps({"wids_version": 1, "shardlist": shardlist}))
    return str(path)


def test_counts_of_other_libraries(tmp_path, shards, wids):
    """wids' index, Energon's and img2dataset's files say the same."""
    assert record_counts(shards, wids) == [3, 1, 2]
    energon = tmp_path / ".info.json"
    energon.write_text(
        json.dumps({"shard_counts": {f"parts/{i}.blocks": len(s) for i, s in enumerate(SHARDS)}})
    )
    assert record_counts(shards, str(energon)) == [3, 1, 2]
    for path, records in zip(shards.paths, SHARDS, strict=True):
        stats = Path(path.removesuffix(".blocks") + "_stats.json")
        stats.write_text(json.dumps({"count": 9, "successes": len(records)}))
    assert record_counts(shards) == [3, 1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "expected JSON"),
        (b"[]", "expected a JSON object, got a list"),
        (b'{"a": 1}', "expected wids' shardlist or Energon's shard_counts, got a"),
        (b'{"shardlist": [{"url": "a.tar"}]}', "expected a name and a number of records"),
        (b'{"shard_counts": {"a.tar": -1}}', "expected a name and a number of records"),
        (b'{"shard_counts": {"x/a.tar": 1, "y/a.tar": 2}}', "expected one number for a.tar, got two"),
        (b"[" * 100_000, "expected JSON"),
    ],
)
def test_files_that_are_none_of_these(content, message):
    """An error with the file's name."""
    with pytest.raises(DataFormatError, match=rf"f\.json: {message}"):
        counts_of("f.json", content)


def test_a_shard_that_is_not_counted(tmp_path, shards, wids):
    """It is named."""
    (tmp_path / "data" / "9.blocks").write_bytes(blocks(["x"]))
    with pytest.raises(
        ValueError, match=r"expected .*wids\.json to have each of the 4 files, got nothing of 9"
    ):
        record_counts(ShardSet([*shards.paths, f"{tmp_path}/data/9.blocks"]), wids)


def test_shards_are_scanned_when_they_are_read(tmp_path, shards, wids, monkeypatch):
    """Each once, for all processes and later runs; records are those of a whole index."""
    scanned = []
    real = Blocks.scan

    def scan(self, read, size, **options):
        scanned.append(size)
        return real(self, read, size, **options)

    monkeypatch.setattr(Blocks, "scan", scan)
    index = build_counts(shards, Blocks(), f"{tmp_path}/counts.lkx", source=wids)
    assert (index.counts, len(index), index.chunk_records, scanned) == (True, 6, 2, [])
    source = BlocksDataSource(shards.paths, index=f"{tmp_path}/counts.lkx")
    assert (len(source), scanned) == (6, [])
    assert source.__getitems__([5, 3]) == [RECORDS[5], RECORDS[3]]
    assert len(scanned) == 2
    assert source.__getitems__(range(6)) == RECORDS
    assert pickle.loads(pickle.dumps(source)).__getitems__(range(6)) == RECORDS
    assert len(scanned) == 3
    whole = BlocksDataSource(shards.paths)
    assert whole.fingerprint()["data"] != source.fingerprint()["data"]


def test_versions_are_asked_for_many_at_a_time(shards):
    """Where each waits for a server, in the order of the shards."""
    ranges = LocalRanges(shards.paths)
    expected = [ranges.version(shard) for shard in range(3)]
    assert versions_of(ranges) == expected
    ranges.waits, together = True, threading.Barrier(3, timeout=20)
    version = ranges.version
    ranges.version = lambda shard: (together.wait(), version(shard))[1]
    assert versions_of(ranges) == expected


def test_more_records_than_32_bits_count(tmp_path, shards):
    counts = {Path(path).name: 2**31 for path in shards.paths}
    (tmp_path / "info.json").write_text(json.dumps({"shard_counts": counts}))
    index = build_counts(shards, Blocks(), f"{tmp_path}/counts.lkx", source=f"{tmp_path}/info.json")
    assert len(index) == 3 * 2**31 and index.records_of(2) == (2**32, 3 * 2**31)


def test_a_count_that_is_wrong(tmp_path, shards, wids):
    """Found when the shard is scanned, before a record of it is given."""
    Path(wids).write_text(Path(wids).read_text().replace('"nsamples": 3', '"nsamples": 2'))
    build_counts(shards, Blocks(), f"{tmp_path}/counts.lkx", source=wids)
    source = BlocksDataSource(shards.paths, index=f"{tmp_path}/counts.lkx")
    assert source[2] == "d"
    with pytest.raises(DataFormatError, match=r"0\.blocks: expected 2 records, as its count says, got 3"):
        source[0]


def test_a_shard_that_changes_after_it_was_counted(tmp_path, shards, wids, monkeypatch):
    """It is another file, by its samples; an index of an older version has none, and takes what it finds first."""
    changed = Path(shards.paths[0])
    for old in (False, True):
        build_counts(shards, Blocks(), f"{tmp_path}/counts.lkx", source=wids)
        if old:
            versions = versions_of(shards.open())
            write_counts(shards, Blocks(), [3, 1, 2], versions, [bytes(16)] * 3, f"{tmp_path}/counts.lkx")
        changed.write_bytes(blocks(["x" * (1 + old), "y y=1", "z"]))
        os.utime(changed, ns=(5, 5))
        if not old:
            with pytest.raises(FileChangedError, match=r"0\.blocks: it has the same size and other bytes"):
                BlocksDataSource(shards.paths, index=f"{tmp_path}/counts.lkx")
    source = BlocksDataSource(shards.paths, index=f"{tmp_path}/counts.lkx")
    assert source.__getitems__([0, 1, 2]) == ["xx", "y y=1", "z"]
    changed.write_bytes(blocks(["u", "v v=1", "w"]))
    os.utime(changed, ns=(6, 6))
    source.close()
    with pytest.raises(FileChangedError, match=r"0\.blocks"):
        source[0]
