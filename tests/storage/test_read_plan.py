"""Which reads give many ranges, compared with a loop that joins one range after the other."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from loaderkit._storage.read_plan import plan_reads

RANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 12)), max_size=25)


def joined_one_by_one(ranges, max_gap, max_bytes):
    """The reads of a naive planner: (shard, begin, end) in order."""
    reads: list[list[int]] = []
    for shard, begin, end in sorted(ranges, key=lambda each: each[:2]):
        if reads and reads[-1][0] == shard and begin - reads[-1][2] <= max_gap:
            together = max(end, reads[-1][2])
            inside = end <= reads[-1][2]
            if inside or together - reads[-1][1] <= max_bytes:
                reads[-1][2] = together
                continue
        reads.append([shard, begin, end])
    return reads


@given(RANGES, st.integers(0, 8), st.integers(1, 40))
@example([(0, 0, 50), (0, 10, 2), (0, 12, 60), (1, 0, 3)], 3, 20)
def test_ranges_are_joined_as_a_loop_joins_them(given, max_gap, max_bytes):
    """The same reads, and each range lies in its read at its offset."""
    ranges = [(shard, begin, begin + length) for shard, begin, length in given]
    arrays = np.array(ranges, np.int64).reshape(-1, 3).T
    plan = plan_reads(*arrays, max_gap=max_gap, max_bytes=max_bytes)
    reads = np.stack((plan.shards, plan.begins, plan.ends), axis=1).tolist()
    assert reads == joined_one_by_one(ranges, max_gap, max_bytes)
    for (shard, begin, end), read, offset in zip(
        ranges, plan.read.tolist(), plan.offset.tolist(), strict=True
    ):
        assert reads[read][0] == shard
        assert reads[read][1] + offset == begin
        assert end <= reads[read][2]
    assert all(
        array.dtype == np.int64 for array in (plan.shards, plan.begins, plan.ends, plan.read, plan.offset)
    )


@given(RANGES, st.integers(0, 8), st.integers(1, 40), st.integers(1, 12))
def test_large_ranges_are_read_alone(given, max_gap, max_bytes, alone):
    """And every range lies in its read."""
    ranges = [(shard, begin, begin + length) for shard, begin, length in given]
    arrays = np.array(ranges, np.int64).reshape(-1, 3).T
    plan = plan_reads(*arrays, max_gap=max_gap, max_bytes=max_bytes, alone=alone)
    reads = np.stack((plan.shards, plan.begins, plan.ends), axis=1).tolist()
    users = [0] * len(reads)
    for (shard, begin, end), read, offset in zip(
        ranges, plan.read.tolist(), plan.offset.tolist(), strict=True
    ):
        users[read] += 1
        assert reads[read][0] == shard and reads[read][1] + offset == begin and end <= reads[read][2]
    for (shard, begin, end), read in zip(ranges, plan.read.tolist(), strict=True):
        assert end - begin < alone or (users[read] == 1 and reads[read] == [shard, begin, end])


@given(RANGES.filter(bool))
def test_no_limit_on_bytes_gives_the_fewest_reads(given):
    """A read for each stretch of a shard that has no hole above the gap."""
    ranges = np.array([(shard, begin, begin + length) for shard, begin, length in given], np.int64).T
    plan = plan_reads(*ranges, max_gap=0, max_bytes=1 << 40)
    for shard in set(plan.shards.tolist()):
        mine = plan.shards == shard
        assert (plan.begins[mine][1:] > plan.ends[mine][:-1]).all()


def test_ranges_within_a_large_one():
    """They are read by themselves, to their own end."""
    begins, ends = np.array([0, 10, 15]), np.array([100, 20, 18])
    plan = plan_reads(np.zeros(3, np.int64), begins, ends, max_gap=0, alone=50)
    assert (plan.begins.tolist(), plan.ends.tolist(), plan.read.tolist()) == ([0, 10], [100, 20], [0, 1, 1])
