"""The index of a set: what it says of records, against the records as they were written."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index_data import LocalRanges, blocks, make_index

from loaderkit._codecs.scan import ShardScan
from loaderkit._storage.range_reader import ObjectVersion
from loaderkit.errors import FileChangedError
from loaderkit.formats._index.check import ShardCheck, sample_of
from loaderkit.formats._index.direct_spans import DirectSpans
from loaderkit.formats._index.merge import merge_parts
from loaderkit.formats._index.part_file import PartIdentity, ScanOptions, write_part
from loaderkit.formats._index.record_index import RecordIndex

SHARDS = [
    ["k0 a=x b=yy", "k1 a=zzz b=w", "long-key-number-two a=1 b=22"],
    [],
    ["k3 b=x a=yy"],
    ["k4 a=q b=r", "k0 a=again b=s"],
]
EVERYTHING = ScanOptions(keys=True, checksums=True)


@pytest.fixture
def shards(tmp_path):
    paths = [tmp_path / f"part-{i}.blocks" for i in range(len(SHARDS))]
    for path, records in zip(paths, SHARDS, strict=True):
        path.write_bytes(blocks(records))
    return paths


def test_records_lie_where_they_were_written(tmp_path, shards):
    """Spans, members, keys and checksums of each record, over shards of which one is empty."""
    index = make_index(tmp_path / "out", shards, options=EVERYTHING)
    records = [record for shard in SHARDS for record in shard]
    assert (len(index), index.shards, index.kind, index.unit) == (6, 4, "blocks", 16)
    assert index.fields == ("a", "b")
    spans = DirectSpans(index, LocalRanges(shards), ShardCheck(index)).read(np.arange(6))
    assert [bytes(span)[1:].decode().strip() for span in spans] == records
    members = index.members_of(np.array([3, 0]))
    assert members.first.tolist() == [0, 2, 4]
    assert [index.fields[f] for f in members.field] == ["b", "a", "a", "b"]
    assert members.begin.tolist() == [0, 16, 0, 16]
    assert members.size.tolist() == [1, 2, 1, 2]
    assert [index.key(i) for i in range(6)] == [record.split()[0] for record in records]
    assert index.find("k4") == 4 and index.find("k0") == 0
    with pytest.raises(KeyError):
        index.find("k9")
    assert index.checksums.tolist() == [sum(span) for span in spans]
    assert list(index.shard_names) == [str(path) for path in shards]
    ranges = LocalRanges(shards)
    assert list(index.shard_versions) == [ranges.version(s) for s in range(4)]
    assert [index.shard_samples[s].tobytes() for s in range(4)] == [
        sample_of(ranges, s, ranges.version(s).size) for s in range(4)
    ]
    index.check()


def test_what_was_not_asked_for_is_refused(tmp_path, shards):
    """An index of spans only says what it lacks."""
    index = make_index(tmp_path / "out", shards, options=ScanOptions(members=False))
    assert not index.has_members and not index.has_keys and index.checksums is None
    with pytest.raises(ValueError, match="members"):
        index.members_of(np.array([0]))
    with pytest.raises(ValueError, match="keys"):
        index.find("k0")


def test_the_digest_is_that_of_the_data(tmp_path, shards):
    """It is the same for a copy in another folder, with other times and options, and another for other bytes."""
    first = make_index(tmp_path / "out", shards)
    (tmp_path / "copy").mkdir()
    copies = [tmp_path / "copy" / path.name for path in shards]
    for path, copy in zip(shards, copies, strict=True):
        copy.write_bytes(path.read_bytes())
    assert make_index(tmp_path / "out2", copies, options=EVERYTHING).digest == first.digest
    copies[0].write_bytes(copies[0].read_bytes().replace(b"yy", b"zz"))
    assert make_index(tmp_path / "out3", copies).digest != first.digest
    assert make_index(tmp_path / "out4", shards[::-1]).digest != first.digest


def test_a_pickle_is_a_path(tmp_path, shards):
    """The copy maps the same file; another file of that name is refused."""
    index = make_index(tmp_path / "out", shards)
    packed = pickle.dumps(index)
    assert len(packed) < 500
    again = pickle.loads(packed)
    assert [each.tolist() for each in again.locate(np.arange(6))] == [
        each.tolist() for each in index.locate(np.arange(6))
    ]
    make_index(tmp_path / "out", shards[1:])
    with pytest.raises(FileChangedError, match="other data"):
        pickle.loads(packed)


@given(
    st.lists(st.lists(st.integers(0, 40), max_size=9), min_size=1, max_size=6), st.sampled_from([1, 16, 512])
)
def test_locate_agrees_with_a_plain_list(tmp_path_factory, lengths, unit):
    """For any shards, records and unit: shard, begin and end of each record."""
    folder = tmp_path_factory.mktemp("any")
    expected, parts = [], []
    for shard, units in enumerate(lengths):
        starts = np.cumsum([3, *units])
        expected += [(shard, b * unit, e * unit) for b, e in pairwise(starts)]
        identity = PartIdentity("any", unit, f"s{shard}", ObjectVersion(10**6, ""), ScanOptions())
        parts.append(str(folder / identity.file_name()))
        write_part(parts[-1], identity, bytes(16), ShardScan(starts.astype(np.uint64)))
    merge_parts(parts, str(folder / "any.lkx"))
    index = RecordIndex(str(folder / "any.lkx"))
    keys = np.random.default_rng(0).permutation(len(expected))
    found = list(zip(*(each.tolist() for each in index.locate(keys)), strict=True))
    assert found == [tuple(map(int, expected[key])) for key in keys]
    for shard in range(len(lengths)):
        first, end = index.records_of(shard)
        assert index.starts_of(shard)[:-1].tolist() == [begin for _, begin, _ in expected[first:end]]
