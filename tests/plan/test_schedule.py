"""What a shard reads in each step equals what cutting the whole stream by hand gives it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.in_flight_step import StepRecords
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.sharding import ShardBlocks, ShardOptions
from loaderkit._plan.batching import Batching, InnerBatch
from loaderkit._plan.schedule import BLOCK_INDICES, Schedule, StepsAhead
from loaderkit.samplers import IndexSampler, Sampler, SequentialSampler

LEVELS = st.lists(st.builds(InnerBatch, st.integers(1, 4), st.sampled_from(["keep", "drop"])), max_size=2)


class OneByOne:
    """A user's sampler with nothing but `sampler[i]`."""

    def __getitem__(self, index: int) -> RecordMetadata:
        return RecordMetadata(index=index, record_key=index * 7 % 1000)


@dataclass
class Counting:
    """A user's sampler that notes how many keys each call asked for, and has none from `end` on."""

    end: int = 2**62
    calls: list[int] = field(default_factory=list)

    def __getitem__(self, index: int) -> RecordMetadata:
        return RecordMetadata(index=index, record_key=int(self.record_keys(np.array([index]))[0]))

    def record_keys(self, indices: np.ndarray) -> np.ndarray:
        self.calls.append(len(indices))
        if indices.max() >= self.end:
            raise RuntimeError(f"no key for index {self.end}")
        return indices * 3


@st.composite
def plans(draw: st.DrawFn) -> tuple[Batching, int, bool, int, int]:
    """A batching, a shard count that divides its rows, the shards' drop_remainder, and a range of indices."""
    count = draw(st.integers(1, 4))
    batched = draw(st.booleans())
    remainder = draw(st.sampled_from(["keep", "drop", "pad", "wrap"])) if batched else "keep"
    levels = draw(LEVELS) if batched else []
    if remainder == "wrap":  # rows can't follow on a short one
        levels = [InnerBatch(level.size, "drop") for level in levels]
    batching = Batching(
        inner=tuple(levels),
        rows=count * (draw(st.integers(1, 4)) if batched else 1),
        remainder=remainder,
        batched=batched,
    )
    start = draw(st.integers(0, 50))
    return batching, count, draw(st.booleans()), start, start + draw(st.integers(0, 150))


def rows_by_hand(batching: Batching, start: int, stop: int) -> list[list[int]]:
    rows = [[index] for index in range(start, stop)]
    for level in batching.inner:
        groups = [rows[low : low + level.size] for low in range(0, len(rows), level.size)]
        whole = [group for group in groups if len(group) == level.size or level.remainder == "keep"]
        rows = [[index for row in group for index in row] for group in whole]
    return rows


def steps_by_hand(
    batching: Batching, count: int, dropping: bool, start: int, stop: int
) -> list[list[list[list[int]]]]:
    """steps[t][h][r] = the indices of row r of shard h in step t, made by grouping every index; none in padded rows."""
    rows = rows_by_hand(batching, start, stop)
    steps = []
    for low in range(0, len(rows), batching.rows):
        step = rows[low : low + batching.rows]
        if len(step) < batching.rows and batching.remainder == "drop":
            continue
        lacks = batching.rows - len(step)
        if batching.remainder == "pad":
            step += [[]] * lacks
        elif batching.remainder == "wrap":
            step += islice(cycle(rows), lacks)
        each, left = divmod(len(step), count)
        sizes = [each + (shard < left and not dropping) for shard in range(count)]
        ends = np.cumsum(sizes).tolist()
        steps.append([step[end - size : end] for end, size in zip(ends, sizes, strict=True)])
    return steps


def schedules_of(
    plan: tuple[Batching, int, bool, int, int], sampler: Sampler | None = None
) -> list[Schedule]:
    batching, count, dropping, start, stop = plan
    sampler = sampler or IndexSampler(stop + 1, shuffle=True, seed=3)
    return [
        Schedule(sampler, batching, ShardOptions(shard, count, drop_remainder=dropping), start, stop)
        for shard in range(count)
    ]


def same(left: StepRecords | None, right: StepRecords | None) -> bool:
    if left is None or right is None:
        return left is right
    return (
        left.rows == right.rows
        and left.fill == right.fill
        and left.indices.tolist() == right.indices.tolist()
        and left.keys.tolist() == right.keys.tolist()
        and left.indices.dtype == right.indices.dtype == np.int64
        and left.keys.dtype == right.keys.dtype == np.int64
    )


@given(plans())
def test_every_step_of_every_shard_is_what_grouping_by_hand_gives(
    plan: tuple[Batching, int, bool, int, int],
) -> None:
    """Indices, keys and rows of each step equal the naive twin's, and after its last step comes none."""
    expected = steps_by_hand(*plan)
    for shard, schedule in enumerate(schedules_of(plan)):
        index = schedule.start
        nothing: list[list[list[int]]] = [[]] * plan[1]
        for step in [*expected, nothing]:
            part = schedule.rows_at(index)
            rows = step[shard]
            if rows:
                real = [row for row in rows if row]
                # Where a shard has padded rows only, it gets the stream's first row to know what one looks like.
                shown = real or rows_by_hand(plan[0], plan[3], plan[4])[:1]
                indices = [index for row in shown for index in row]
                assert part is not None
                assert part.rows == len(shown)
                assert part.fill == (() if real == rows else ((len(real), len(rows) - len(real)),))
                assert part.indices.tolist() == indices
                assert part.keys.tolist() == [schedule.sampler[i].record_key for i in indices]
            else:
                assert part is None
            index += schedule.batching.stride


@pytest.mark.parametrize("records", [3, 4, 5, 10, 11])
@pytest.mark.parametrize("count", [1, 2])
def test_a_step_that_begins_the_stream_again_leaves_out_what_an_inner_batch_dropped(
    records: int, count: int
) -> None:
    """Where a step lacks more rows than there are, these come again and again, without what was dropped behind them."""
    batching = Batching(inner=(InnerBatch(3, "drop"),), rows=8, remainder="wrap", batched=True)
    plan = (batching, count, False, 5, 5 + records)
    kept = range(5, 5 + records - records % 3)
    (step,) = steps_by_hand(*plan)
    assert sorted({index for shard in step for row in shard for index in row}) == list(kept)
    for shard, schedule in enumerate(schedules_of(plan)):
        part = schedule.rows_at(5)
        assert part is not None
        assert part.indices.tolist() == [index for row in step[shard] for index in row]
        rows = np.arange(shard * 8 // count, (shard + 1) * 8 // count)
        assert schedule.firsts_at(5, rows).tolist() == [row[0] for row in step[shard]]


@given(plans())
def test_the_steps_left_are_counted_without_making_them(plan: tuple[Batching, int, bool, int, int]) -> None:
    """steps_from says how many steps the shard still makes, from each step on and past the end."""
    expected = steps_by_hand(*plan)
    for shard, schedule in enumerate(schedules_of(plan)):
        made = [bool(step[shard]) for step in expected]
        for place in range(len(expected) + 2):
            index = schedule.start + place * schedule.batching.stride
            assert schedule.steps_from(index) == sum(made[place:])


@given(plans())
def test_all_rows_are_the_shards_rows_one_after_the_other(plan: tuple[Batching, int, bool, int, int]) -> None:
    """What records(step) shows is exactly what the shards together deliver, in order."""
    schedules = schedules_of(plan)
    for place in range(len(steps_by_hand(*plan)) + 1):
        index = schedules[0].start + place * schedules[0].batching.stride
        parts = [part for schedule in schedules if (part := schedule.rows_at(index)) is not None]
        parts = [part for part in parts if not part.fill or part.fill[0][0]]  # padded rows read nothing
        for schedule in schedules:
            whole = schedule.all_rows(index)
            if not parts:
                assert whole is None
                continue
            assert whole is not None
            assert whole.rows == sum(part.rows for part in parts)
            assert whole.indices.tolist() == np.concatenate([part.indices for part in parts]).tolist()
            assert whole.keys.tolist() == np.concatenate([part.keys for part in parts]).tolist()


@given(plans())
def test_the_shards_that_miss_a_step_are_counted(plan: tuple[Batching, int, bool, int, int]) -> None:
    """shards_without is the number of shards without rows while another has some; a loader warns of them."""
    schedules = schedules_of(plan)
    for place, step in enumerate(steps_by_hand(*plan)):
        index = schedules[0].start + place * schedules[0].batching.stride
        missing = sum(not rows for rows in step)
        expected = 0 if missing == len(step) else missing
        assert schedules[-1].shards_without(index) == expected


MAKERS: list[Callable[[int], Sampler]] = [
    lambda n: IndexSampler(n, shuffle=True, seed=1, num_epochs=None),
    SequentialSampler,
    lambda n: OneByOne(),
    lambda n: Counting(),
]


@pytest.mark.parametrize("maker", MAKERS, ids=["shuffled", "sequential", "one by one", "vectorised"])
@given(plan=plans(), jumps=st.lists(st.integers(0, 120), min_size=1, max_size=12))
def test_a_planner_gives_what_the_schedule_gives(
    maker: Callable[[int], Sampler], plan: tuple[Batching, int, bool, int, int], jumps: list[int]
) -> None:
    """Keys planned in blocks equal keys planned step by step, for any order of calls and any index."""
    for schedule in schedules_of(plan, maker(plan[4] + 1)):
        steps_ahead = StepsAhead(schedule)
        for index in [*range(plan[3], plan[4] + 1, schedule.batching.stride), *(plan[3] + j for j in jumps)]:
            assert same(steps_ahead.records(index), schedule.rows_at(index))


@pytest.mark.parametrize("stop", [None, 1_000_003])
def test_a_planner_agrees_across_its_blocks(stop: int | None) -> None:
    """Over several blocks of keys, the borders between them included, nothing differs from the schedule."""
    batching = Batching(inner=(), rows=192, remainder="keep", batched=True)
    sampler = IndexSampler(1000, shuffle=True, seed=0, num_epochs=None)
    schedule = Schedule(sampler, batching, ShardOptions(1, 3), start=0, stop=stop)
    steps_ahead = StepsAhead(schedule)
    steps_a_block = BLOCK_INDICES // 64
    for step in [*range(4), *range(steps_a_block - 2, 2 * steps_a_block + 2), 5207, 5208, 5209]:
        assert same(steps_ahead.records(step * 192), schedule.rows_at(step * 192))


def test_a_planner_asks_for_many_keys_at_once() -> None:
    """64 rows a step: consecutive steps share one call of at least 8,192 keys."""
    sampler = Counting()
    batching = Batching(inner=(), rows=64, remainder="keep", batched=True)
    steps_ahead = StepsAhead(Schedule(sampler, batching, ShardOptions(0, 1), start=0, stop=None))
    for step in range(128):
        assert steps_ahead.records(step * 64) is not None
    assert len(sampler.calls) == 1
    assert sampler.calls[0] >= 8192


def test_a_samplers_error_comes_with_the_step_it_belongs_to() -> None:
    """A sampler that fails far ahead doesn't fail the steps before, though planned with them."""
    batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
    steps_ahead = StepsAhead(Schedule(Counting(end=10), batching, ShardOptions(0, 1), start=0, stop=None))
    first, second = steps_ahead.records(0), steps_ahead.records(4)
    assert first is not None
    assert second is not None
    assert [*first.keys.tolist(), *second.keys.tolist()] == [index * 3 for index in range(8)]
    with pytest.raises(RuntimeError, match="no key for index 10"):
        steps_ahead.records(8)


def test_parts_are_read_only_and_leave_a_samplers_own_array_alone() -> None:
    """The parts of a plan are read-only; the array that a user's sampler gave stays writable."""
    table = np.arange(100, dtype=np.int64)

    class Table(OneByOne):
        def record_keys(self, indices: np.ndarray) -> np.ndarray:
            return table[indices[0] : indices[-1] + 1]

    batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
    schedule = Schedule(Table(), batching, ShardOptions(0, 1), start=0, stop=100)
    for part in (schedule.rows_at(4), StepsAhead(schedule).records(8), schedule.all_rows(0)):
        assert part is not None
        with pytest.raises(ValueError, match="read-only"):
            part.keys[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            part.indices[0] = 1
    table[0] = 5


def test_step_a_thousand_million_costs_no_more_than_the_first() -> None:
    """Any step of an endless stream is reached by arithmetic, and its keys are the sampler's."""
    sampler = IndexSampler(1000, shuffle=True, seed=0, num_epochs=None)
    batching = Batching(inner=(), rows=256, remainder="keep", batched=True)
    schedule = Schedule(sampler, batching, ShardOptions(1, 2), start=0, stop=None)
    part = schedule.rows_at(10**9 * 256)
    assert part is not None
    assert part.indices[0] == 10**9 * 256 + 128
    assert part.keys.tolist() == sampler.record_keys(part.indices).tolist()
    assert schedule.steps_from(10**9 * 256) is None
    assert same(part, StepsAhead(schedule).records(10**9 * 256))


@pytest.mark.parametrize("index", [9, -1, 2**63 - 1, 2**63, 10**30])
def test_an_index_outside_the_stream_is_an_index_error(index: int) -> None:
    """Before the start or past the last index there is no step, and every method raises IndexError."""
    batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
    schedule = Schedule(OneByOne(), batching, ShardOptions(0, 1), start=10, stop=None)
    for ask in (schedule.rows_at, schedule.all_rows, schedule.steps_from, StepsAhead(schedule).records):
        with pytest.raises(IndexError, match="index: "):
            ask(index)


@pytest.mark.parametrize(
    ("start", "stop", "rows", "text"),
    [(-1, 5, 4, "start: "), (6, 5, 4, "stop: expected 6"), (0, 5, 5, "global_batch_size=6")],
)
def test_a_malformed_schedule_is_refused(start: int, stop: int, rows: int, text: str) -> None:
    """A range that isn't one, or rows that the shards can't share, is an error at construction."""
    batching = Batching(inner=(), rows=rows, remainder="keep", batched=True)
    with pytest.raises(ValueError, match=text):
        Schedule(OneByOne(), batching, ShardOptions(0, 2), start, stop)


@given(plans(), st.data())
def test_a_shard_of_several_blocks_reads_what_shards_of_one_block_read(
    plan: tuple[Batching, int, bool, int, int], data: st.DataObject
) -> None:
    """Some of H blocks together are the rows of those shards of H in order, in every step, planned ahead or not."""
    batching, count, _, start, stop = plan
    blocks = tuple(sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1))))
    singles = schedules_of((batching, count, False, start, stop))
    several = Schedule(singles[0].sampler, batching, ShardBlocks(blocks, count, (0,) * count), start, stop)
    steps_ahead = StepsAhead(several)
    for step in range((stop - start) // batching.stride + 2):
        index = start + step * batching.stride
        parts = [part for block in blocks if (part := singles[block].rows_at(index)) is not None]
        for joined in (several.rows_at(index), steps_ahead.records(index)):
            if joined is None:
                assert not parts
                continue
            rows = sum(count for part in parts for count in (sum(map(sum, part.fill)) or part.rows,))
            read = [part for part in parts if not part.fill or part.fill[0][0]] or parts[:1]
            assert sum(map(sum, joined.fill)) in (0, rows)
            assert joined.indices.tolist() == [i for part in read for i in part.indices.tolist()]
            assert joined.keys.tolist() == [key for part in read for key in part.keys.tolist()]
            assert joined.rows == sum(part.rows for part in read)
    assert several.steps_from(start) == max(singles[block].steps_from(start) for block in blocks)
