"""Batches equal np.stack leaf by leaf, however the rows are cut in parts and whichever way they take."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from np_stack_twin import (
    assert_same_array,
    assert_same_batch,
    describe,
    room_for,
    rows_of,
    shuffled_keys,
    twin,
)

from loaderkit._base.tree import flatten, unflatten
from loaderkit.errors import BatchError
from loaderkit.transforms.stack import collect, stack, write


@st.composite
def parts_of(draw: st.DrawFn, rows: list[Any]) -> list[Any]:
    """The rows cut anywhere, each part as it is or by column."""
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    parts: list[Any] = []
    for lo, hi in itertools.pairwise([0, *cuts, len(rows)]):
        part = rows[lo:hi]
        parts.append((collect(part) or part) if draw(st.booleans()) else part)
    return parts


@given(st.data())
def test_a_batch_is_np_stack_of_all_rows_wherever_the_parts_are_cut(data: st.DataObject) -> None:
    """stack gives the twin's values, shapes, dtypes and key order for any cut; BatchError if numpy can't."""
    rows = data.draw(rows_of())
    if data.draw(st.booleans()):
        rows = [shuffled_keys(row, data) for row in rows]
    parts = data.draw(parts_of(rows))
    try:
        wanted = twin(rows)
    except (TypeError, ValueError):
        with pytest.raises(BatchError, match="can't be stacked"):
            stack(parts, describe)
    else:
        assert_same_batch(stack(parts, describe), wanted)


@given(rows_of())
def test_a_block_holds_what_the_rows_hold(rows: list[Any]) -> None:
    """A row of an array is np.asarray(leaf), in dtype and bytes; a list has the leaves themselves."""
    block = collect(rows)
    assert block is not None
    assert block.size == len(rows)
    for row, element in enumerate(rows):
        for column, leaf in zip(block.columns, flatten(element)[0], strict=True):
            if isinstance(column, list):
                assert column[row] is leaf
            else:
                assert type(leaf) in (np.ndarray, bool, int, float) or isinstance(leaf, np.generic)
                assert_same_array(np.array(column[row]), np.array(np.asarray(leaf), order="C"))


@given(rows_of(), st.data())
def test_a_part_of_a_block_is_the_block_of_the_part(rows: list[Any], data: st.DataObject) -> None:
    """slice and rows give the rows in between: both batch to what these rows batch to."""
    block = collect(rows)
    assert block is not None
    lo = data.draw(st.integers(0, len(rows) - 1))
    hi = data.draw(st.integers(lo + 1, len(rows)))
    part = block.slice(lo, hi)
    assert part.size == hi - lo
    try:
        wanted = twin(rows[lo:hi])
    except (TypeError, ValueError):
        return
    assert_same_batch(stack([part], describe), wanted)
    assert_same_batch(stack([block.rows(lo, hi)], describe), wanted)


@given(rows_of(), st.data())
def test_rows_are_written_only_if_that_is_what_stack_gives(rows: list[Any], data: st.DataObject) -> None:
    """With any spec: if write says True, the arrays hold the batch; rows that have the spec are written."""
    others = data.draw(st.one_of(rows_of(), st.just([shuffled_keys(rows[0], data)]), st.just(rows)))
    guess = collect(others)
    spec = None if guess is None else guess.spec()
    if spec is None:
        return
    out = room_for(spec, len(rows))
    written = write(rows, spec, out)
    if written:
        assert_same_batch(unflatten(spec.structure, out), twin(rows))
    block = collect(rows)
    assert block is not None
    fits = block.spec() == spec and block.structure.same_order(spec.structure)
    assert written == fits
