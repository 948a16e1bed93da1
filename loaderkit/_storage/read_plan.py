"""Which reads give many ranges: ranges of one shard that lie near each other are read together. Pure."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass

# What lies between two ranges is read and thrown away: it has to take less time than another read. On a local disk
# that is a system call, on a server a round trip. Not tuned: at 20 ms and 100 MB/s a round trip is 2 MB, but 32 run at
# once, and bytes are paid for.
LOCAL_GAP, REMOTE_GAP = 16 << 10, 256 << 10
# A local range of this size is a read of its own, so that its bytes needn't be copied out of a longer read: a read of
# 100 KB and a copy of it take 24 us or, where both lie in fresh memory, 115 us of CPU time, two reads 22 us.
LOCAL_ALONE = 32 << 10
# Where each range of a server is used as it comes, one of this size is a read of its own: joined, eight chunks of 1 MiB
# would come together, and late.
REMOTE_ALONE = 256 << 10
# A larger read gives no more bandwidth, and loses more where it has to be tried again.
MAX_READ_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Reads, sorted by shard and place, and which part of which read each range is.

    shards, begins, ends: (reads,) int64; read r is the bytes begins[r] to ends[r] of shard shards[r]. read: (ranges,)
    int64, the read that holds range i. offset: (ranges,) int64, where range i begins in that read.
    """

    shards: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    read: NDArray[np.int64]
    offset: NDArray[np.int64]


def plan_reads(
    shards: NDArray[np.int64],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    max_gap: int,
    max_bytes: int = MAX_READ_BYTES,
    alone: int | None = None,
) -> ReadPlan:
    """The reads that give the bytes begins[i] to ends[i] of shard shards[i], for each i.

    Args:
        shards, begins, ends: (ranges,) int64 each, in any order; begins[i] <= ends[i]. Ranges may overlap.
        max_gap: bytes between two ranges of a shard, up to which one read gives both.
        max_bytes: up to which ranges are joined. A single range with more bytes is a read of its own, so that each
            range lies in one read.
        alone: bytes of a range from which on it is joined with no other; None joins ranges of any size.

    >>> plan = plan_reads(np.array([0, 0, 1]), np.array([100, 0, 0]), np.array([120, 90, 5]), max_gap=10)
    >>> plan.begins.tolist(), plan.ends.tolist(), plan.read.tolist(), plan.offset.tolist()
    ([0, 0], [120, 5], [0, 0, 1], [100, 0, 0])
    """
    count = len(begins)
    if count == 0:
        none = np.zeros(0, np.int64)
        return ReadPlan(none, none, none, none, none)
    order = np.lexsort((begins, shards))
    shard, begin, end = shards[order], begins[order], ends[order]
    other_shard = shard[1:] != shard[:-1]
    reach = _furthest(end, other_shard)
    first = np.ones(count, np.bool_)
    np.logical_or(other_shard, begin[1:] - reach[:-1] > max_gap, out=first[1:])
    if alone is not None and (large := end - begin >= alone).any():
        first |= large
        first[1:] |= large[:-1]
        # A range behind a large one may end within it.
        reach = _furthest(end, first[1:])
    read = np.empty(count, np.int64)
    if bool(first.all()):  # the usual case of a shuffle
        read[order] = np.arange(count)
        return ReadPlan(shard, begin, end, read, np.zeros(count, np.int64))
    heads, tails = _runs(first)
    for run in np.flatnonzero(reach[tails] - begin[heads] > max_bytes).tolist():
        head, past = int(heads[run]), int(tails[run]) + 1
        while True:
            # A large range may have others inside it. The next range ends beyond all of them.
            limit = max(begin[head] + max_bytes, end[head])
            head += int(np.searchsorted(reach[head:past], limit, side="right"))
            if head == past:
                break
            first[head] = True
    heads, tails = _runs(first)
    placed = np.cumsum(first) - 1
    read[order] = placed
    offset = np.empty(count, np.int64)
    offset[order] = begin - begin[heads][placed]
    return ReadPlan(shard[heads], begin[heads], reach[tails], read, offset)


def slices_of(
    plan: ReadPlan, found: Sequence[bytes | memoryview], lengths: NDArray[np.int64]
) -> list[bytes | memoryview]:
    """The bytes of each range, in the order of the ranges.

    Args:
        plan: what was read.
        found: the bytes of each read.
        lengths: (ranges,) int64, of the ranges. One that is a whole read is the read's own object.
    """
    read = plan.read.tolist()
    if len(found) == len(read):
        return [found[each] for each in read]
    whole = (plan.ends - plan.begins)[plan.read] == lengths
    views = [memoryview(each) for each in found]
    places = zip(read, whole.tolist(), plan.offset.tolist(), (plan.offset + lengths).tolist(), strict=True)
    return [found[each] if entire else views[each][begin:end] for each, entire, begin, end in places]


def _furthest(end: NDArray[np.int64], other_shard: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where the ranges up to each one end at the latest, in its shard: (ranges,)."""
    if bool(((end[1:] >= end[:-1]) | other_shard).all()):
        return end
    parts = np.split(end, np.flatnonzero(other_shard) + 1)
    return np.concatenate([np.maximum.accumulate(part) for part in parts])


def _runs(first: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first and the last range of each read."""
    heads = np.flatnonzero(first)
    return heads, np.concatenate((heads[1:], [len(first)])) - 1
