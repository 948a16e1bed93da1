"""Rows and steps counted by arithmetic equal rows and steps made one by one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._order.sharding import ShardOptions
from loaderkit._plan.batching import Batching, InnerBatch, Remainder, shard_rows

LEVELS = st.lists(st.builds(InnerBatch, st.integers(1, 5), st.sampled_from(["keep", "drop"])), max_size=3)


def make_rows(levels: list[InnerBatch], records: int) -> list[list[int]]:
    """The rows, as lists of records, that the earlier Batches make when each element is really grouped."""
    rows = [[record] for record in range(records)]
    for level in levels:
        groups = [rows[low : low + level.size] for low in range(0, len(rows), level.size)]
        if level.remainder == "drop":
            groups = [group for group in groups if len(group) == level.size]
        rows = [[record for row in group for record in row] for group in groups]
    return rows


@given(LEVELS, st.integers(0, 200))
def test_rows_are_counted_as_they_would_be_made(levels: list[InnerBatch], records: int) -> None:
    """count_rows and count_used equal what grouping the records one by one gives, for any nesting."""
    batching = Batching(inner=tuple(levels), rows=3, remainder="keep", batched=True)
    rows = make_rows(levels, records)
    assert batching.count_rows(records) == len(rows)
    assert batching.count_used(records) == sum(map(len, rows))


@given(LEVELS, st.integers(0, 200))
def test_each_row_is_a_run_of_group_records(levels: list[InnerBatch], records: int) -> None:
    """Row r holds the records from r*group on, and only the last may be short."""
    batching = Batching(inner=tuple(levels), rows=3, remainder="keep", batched=True)
    used = batching.count_used(records)
    for row, members in enumerate(make_rows(levels, records)):
        low = row * batching.group
        assert members == list(range(low, min(low + batching.group, used)))


@given(LEVELS, st.integers(1, 8))
def test_a_stride_of_records_makes_exactly_the_rows_of_a_step(levels: list[InnerBatch], rows: int) -> None:
    """G records enter the last Batch as N rows whatever the earlier Batches do with a rest."""
    batching = Batching(inner=tuple(levels), rows=rows, remainder="drop", batched=True)
    assert batching.stride == rows * math.prod(level.size for level in levels)
    assert batching.count_rows(batching.stride) == rows
    assert batching.count_used(batching.stride) == batching.stride


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_shards_share_the_rows_in_order(count: int, each: int, data: st.DataObject) -> None:
    """With keep the shards' ranges follow one another without gap or overlap; the first have one row more."""
    rows = count * each
    present = data.draw(st.integers(0, rows))
    spans = [shard_rows(present, rows, shard=ShardOptions(h, count), remainder="keep") for h in range(count)]
    assert [row for low, high in spans for row in range(low, high)] == list(range(present))
    sizes = [high - low for low, high in spans]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_dropping_shards_share_a_partial_step_equally(count: int, each: int, data: st.DataObject) -> None:
    """With the shards' own drop_remainder each gets m // H rows, in order, and the rest goes to none."""
    rows = count * each
    present = data.draw(st.integers(0, rows))
    spans = [
        shard_rows(present, rows, shard=ShardOptions(h, count, drop_remainder=True), remainder="keep")
        for h in range(count)
    ]
    assert [row for low, high in spans for row in range(low, high)] == list(range(present // count * count))
    assert {high - low for low, high in spans} == {present // count}


@given(st.integers(1, 6), st.integers(1, 6), st.booleans(), st.sampled_from(["keep", "drop", "pad", "wrap"]))
def test_a_whole_step_is_cut_in_equal_blocks(
    count: int, each: int, dropping: bool, remainder: Remainder
) -> None:
    """Shard h of H gets rows [h*N/H, (h+1)*N/H) of a whole step, whatever is said about a partial one."""
    rows = count * each
    for index in range(count):
        shard = ShardOptions(index, count, drop_remainder=dropping)
        assert shard_rows(rows, rows, shard=shard, remainder=remainder) == (index * each, (index + 1) * each)


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_a_dropped_partial_step_gives_nobody_a_row(count: int, each: int, data: st.DataObject) -> None:
    """With drop no shard gets a step of fewer than N rows."""
    rows = count * each
    present = data.draw(st.integers(0, rows - 1))
    for index in range(count):
        low, high = shard_rows(present, rows, shard=ShardOptions(index, count), remainder="drop")
        assert low == high


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(["pad", "wrap"]), st.data())
def test_a_filled_step_is_cut_like_a_whole_one(
    count: int, each: int, remainder: Remainder, data: st.DataObject
) -> None:
    """With pad and wrap each shard has its block of any step that has a row at all."""
    rows = count * each
    present = data.draw(st.integers(0, rows))
    for index in range(count):
        expected = (index * each, (index + 1) * each) if present else (0, 0)
        assert shard_rows(present, rows, shard=ShardOptions(index, count), remainder=remainder) == expected


def test_rows_that_shards_cannot_share_are_refused_with_a_size_that_works() -> None:
    """N that H doesn't divide is an error, and the size it proposes is accepted."""
    with pytest.raises(ValueError, match=r"expected a multiple of 4, .*, got 10; .*global_batch_size=12"):
        shard_rows(10, 10, shard=ShardOptions(0, 4), remainder="keep")
    assert shard_rows(12, 12, shard=ShardOptions(0, 4), remainder="keep") == (0, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"rows": 0}, ValueError, "rows: expected 1 or more, got 0"),
        ({"rows": 2.0}, TypeError, "rows: expected an int, got 2.0"),
        ({"rows": True}, TypeError, "rows: expected an int, got True"),
        ({"remainder": "fill"}, ValueError, "remainder: expected 'keep' or 'drop' or .*, got 'fill'"),
        ({"batched": False, "inner": (InnerBatch(2, "keep"),)}, ValueError, "inner: .*batched=False"),
    ],
)
def test_a_malformed_batching_is_refused(
    arguments: dict[str, object], error: type[Exception], text: str
) -> None:
    """Each bad argument is named with what was expected and what came."""
    good = {"inner": (), "rows": 4, "remainder": "keep", "batched": True}
    with pytest.raises(error, match=text):
        Batching(**{**good, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "remainder"), [(0, "keep"), (-1, "keep"), (2, "wrap")])
def test_a_malformed_level_is_refused(size: int, remainder: str) -> None:
    """A level has at least one element, and knows keep and drop only."""
    with pytest.raises(ValueError, match="expected"):
        InnerBatch(size, remainder)  # type: ignore[arg-type]


@pytest.mark.parametrize("present", [-1, 9])
def test_a_step_has_from_none_to_all_of_its_rows(present: int) -> None:
    """A number of rows outside 0..N is an error, never a silent clip."""
    with pytest.raises(ValueError, match="rows_present: expected 0 to 8"):
        shard_rows(present, 8, shard=ShardOptions(0, 2), remainder="keep")
