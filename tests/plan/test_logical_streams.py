"""Streams found by arithmetic equal streams filtered index by index, and the schedule if nothing is lost."""

import re
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._order.sharding import ShardOptions
from loaderkit._plan.batching import Batching, InnerBatch
from loaderkit._plan.feeds import ShardIndices
from loaderkit._plan.logical_streams import LogicalStreams, check_streams, stream_block
from loaderkit._plan.schedule import Schedule
from loaderkit._plan.segments import Segments
from loaderkit.samplers import SequentialSampler

PLANS = st.builds(
    lambda count, q, start, length: LogicalStreams(
        count, q, start, None if length is None else start + length
    ),
    st.integers(1, 6),
    st.integers(1, 7),
    st.integers(0, 60),
    st.none() | st.integers(0, 120),
)


def belonging(plan: LogicalStreams, stream: int, first_index: int, n: int) -> list[int]:
    """The naive twin: every index is asked for its stream."""
    stop = plan.stop if plan.stop is not None else first_index + plan.start + (n + 2) * plan.q * plan.count
    indices = range(max(plan.start, first_index), stop)
    return list(islice((i for i in indices if i // plan.q % plan.count == stream), n))


@given(PLANS, st.integers(0, 200), st.integers(0, 40))
def test_a_streams_indices_are_those_that_belong_to_it(
    plan: LogicalStreams, first_index: int, n: int
) -> None:
    """The next n of each stream equal the naive twin's, as int64, from any index on."""
    for stream in range(plan.count):
        indices = plan.indices(stream, first_index, n)
        assert indices.dtype == np.int64
        assert indices.tolist() == belonging(plan, stream, first_index, n)
        assert {plan.stream_of(index) for index in indices.tolist()} <= {stream}


@given(PLANS, st.lists(st.integers(1, 9), max_size=8))
def test_reading_on_from_the_last_index_leaves_nothing_out(plan: LogicalStreams, sizes: list[int]) -> None:
    """Asking piece by piece, each from one past the last index, gives the stream without gap or repeat."""
    for stream in range(plan.count):
        found: list[int] = []
        for size in sizes:
            found += plan.indices(stream, found[-1] + 1 if found else 0, size).tolist()
        assert found == belonging(plan, stream, 0, sum(sizes))


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 6))
def test_streams_that_lose_nothing_are_the_batches_of_the_schedule(
    shards: int, streams_a_shard: int, rows_a_stream: int, group: int, step: int
) -> None:
    """Where no row is dropped or added, each shard's streams give exactly its part of each batch."""
    count = shards * streams_a_shard
    rows = count * rows_a_stream
    batching = Batching(inner=(InnerBatch(group, "keep"),), rows=rows, remainder="keep", batched=True)
    plan = LogicalStreams(count, stream_block(count, batching), start=0, stop=None)
    each = rows_a_stream * group
    for index in range(shards):
        shard = ShardOptions(index, shards)
        part = Schedule(SequentialSampler(10**6), batching, shard, 0, None).rows_at(step * batching.stride)
        assert part is not None
        owned = [plan.indices(s, 0, (step + 1) * each)[-each:] for s in plan.owned(rows, shard)]
        assert np.concatenate(owned).tolist() == part.indices.tolist()


@given(PLANS, st.lists(st.integers(1, 5), max_size=10))
def test_what_was_consumed_is_a_prefix_after_any_resizes(plan: LogicalStreams, sizes: list[int]) -> None:
    """A change of the batch size moves no index to another stream: what was read stays a prefix of it."""
    cursors = [plan.start] * plan.count
    consumed: list[list[int]] = [[] for _ in range(plan.count)]
    for rows_a_stream in sizes:
        for stream in range(plan.count):
            indices = plan.indices(stream, cursors[stream], rows_a_stream).tolist()
            consumed[stream] += indices
            cursors[stream] = indices[-1] + 1 if indices else cursors[stream]
    for stream in range(plan.count):
        assert consumed[stream] == belonging(plan, stream, 0, sum(sizes))


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 6))
def test_every_stream_has_one_owner_and_an_error_proposes_a_number_that_works(
    count: int, each: int, shards: int
) -> None:
    """Owned streams share all of them without overlap; where that can't be, the proposed line can."""
    rows = each * shards
    plan = LogicalStreams(count, q=1, start=0, stop=None)
    try:
        owned = [plan.owned(rows, ShardOptions(shard, shards)) for shard in range(shards)]
    except ValueError as error:
        assert rows % count or count % shards
        proposed = re.search(r"^logical_streams=(\d+)$", str(error), re.MULTILINE)
        assert proposed is not None
        check_streams(int(proposed[1]), rows=rows, shard_count=shards)
        return
    assert [stream for streams in owned for stream in streams] == list(range(count))
    for shard, streams in enumerate(owned):
        assert streams[0] * rows // count == shard * rows // shards
        assert (streams[-1] + 1) * rows // count == (shard + 1) * rows // shards


@pytest.mark.parametrize(
    ("count", "rows", "shards", "error", "text"),
    [
        (
            1,
            8,
            2,
            ValueError,
            "expected a multiple of 2, .* divides 8, .*got 1; .*leaves room for more shards.*\nlogical_streams=2$",
        ),
        (3, 8, 1, ValueError, "expected .* divides 8, the rows .*, got 3; .*\nlogical_streams=1$"),
        (3, 12, 2, ValueError, "expected a multiple of 2, .*, got 3; .*\nlogical_streams=6$"),
        (0, 8, 1, ValueError, "logical_streams: expected 1 or more, got 0"),
        (2.0, 8, 1, TypeError, "logical_streams: expected an int, got 2.0"),
        (True, 8, 1, TypeError, "logical_streams: expected an int, got True"),
        (2, 9, 2, ValueError, "expected a multiple of 2, .*, got 9; .*global_batch_size=10"),
    ],
)
def test_streams_that_cannot_share_a_batch_are_refused(
    count: int, rows: int, shards: int, error: type[Exception], text: str
) -> None:
    """S has to divide N and to be a multiple of H; the error ends in the line to paste."""
    with pytest.raises(error, match=text):
        check_streams(count, rows=rows, shard_count=shards)


@given(st.integers(1, 5), st.booleans(), st.integers(0, 40), st.integers(0, 60), st.integers(1, 9))
def test_without_a_batch_a_shards_indices_are_those_of_the_schedule(
    count: int, dropping: bool, start: int, length: int, n: int
) -> None:
    """All strided indices of a shard, asked piece by piece, are its rows of all steps one after the other."""
    batching = Batching(inner=(), rows=count, remainder="keep", batched=False)
    for index in range(count):
        shard = ShardOptions(index, count, drop_remainder=dropping)
        schedule = Schedule(SequentialSampler(start + length + 1), batching, shard, start, start + length)
        parts = [schedule.rows_at(first) for first in range(start, start + length, count)]
        expected = [part.indices.tolist() for part in parts if part is not None]
        strided = ShardIndices(Segments([(0, start, count)]), step=0, stop=start + length, shard=shard)
        found: list[int] = []
        while len(more := strided.next(n)):
            assert more.dtype == np.int64
            found += more.tolist()
        assert found == [index for indices in expected for index in indices]
        assert strided.next(n).tolist() == []


def test_far_from_the_start_costs_nothing_more() -> None:
    """Indices past 10^12 are reached by arithmetic, in streams and in strides."""
    assert LogicalStreams(4, 64, 0, None).indices(3, 10**12, 2).tolist() == [10**12 + 192, 10**12 + 193]
    far = ShardIndices(Segments([(0, 0, 4)]), step=10**12 // 4, stop=None, shard=ShardOptions(1, 4))
    assert far.next(2).tolist() == [10**12 + 1, 10**12 + 5]


def test_an_index_past_the_last_is_an_index_error() -> None:
    """An index that int64 can't hold is an error and doesn't wrap round."""
    with pytest.raises(IndexError, match=r"past 2\*\*63"):
        LogicalStreams(2, 3, 0, None).indices(0, 2**63 - 10, 20)
    with pytest.raises(IndexError, match=r"past 2\*\*63"):
        ShardIndices(Segments([(0, 2**63 - 10, 2)]), step=0, stop=None, shard=ShardOptions(0, 2)).next(20)
    with pytest.raises(IndexError, match="stream: expected 0 to 1, got 2"):
        LogicalStreams(2, 3, 0, None).indices(2, 0, 1)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0, 1, 0, None), "count: "),
        ((1, 0, 0, None), "q: "),
        ((1, 1, -1, None), "start: "),
        ((1, 1, 5, 4), "stop: expected 5"),
    ],
)
def test_a_malformed_plan_is_refused(numbers: tuple[int, int, int, int | None], text: str) -> None:
    """Each argument is checked by name."""
    with pytest.raises(ValueError, match=text):
        LogicalStreams(*numbers)
