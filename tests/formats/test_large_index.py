"""A billion records in 100,000 shards: what an opening and a lookup take doesn't grow with them."""

import numpy as np
import pytest

from benchmarks.large_index import make_large_index, measure_large_index
from loaderkit.errors import DataFormatError
from loaderkit.formats._index.record_index import RecordIndex


def test_a_billion_records(tmp_path):
    """Every lookup is right; it takes some megabytes of memory, of which the pages that were looked at are most."""
    large = make_large_index(f"{tmp_path}/large.lkx")
    index = RecordIndex(large.path)
    assert (len(index), index.shards) == (10**9, 10**5)
    keys = large.keys(1000)
    shards, begins, ends = index.locate(keys)
    assert (shards == keys // large.records_each).all()
    assert (begins == keys % large.records_each * large.record_bytes).all()
    assert (ends == begins + large.record_bytes).all()
    ends_of_all = index.locate(np.array([0, 10**9 - 1]))[0]
    assert ends_of_all.tolist() == [0, 10**5 - 1]
    assert index.shard_names[99_999] == "train-099999.tar"
    assert sum(1 for _ in index.shard_names) == sum(1 for _ in index.shard_versions) == 10**5
    assert measure_large_index(large, calls=200)["memory_mib"] < 64


def test_a_damaged_place_is_noticed(tmp_path):
    """In a section that opening doesn't compare: an error at the record, none at others, all of them by `check`."""
    large = make_large_index(f"{tmp_path}/large.lkx", shards=100, records_each=10**4, filled=100)
    index = RecordIndex(large.path)
    starts = next(offset for shape, offset, _ in index._file._sections if shape.name == "starts")
    with open(large.path, "r+b") as file:
        file.seek(starts + 4 * 500)
        file.write(b"\xff\xff\xff\xff")
    assert index.locate(np.array([0, 501, 9999]))[1].tolist() == [0, 501_000, 9_999_000]
    with pytest.raises(DataFormatError, match=r"large\.lkx: .*ends before it begins.*make the index again"):
        index.locate(np.array([0, 500]))
    with pytest.raises(DataFormatError, match="section starts"):
        index.check()
