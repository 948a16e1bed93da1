"""Where a document of a pipeline with FlatMaps goes on: its ordinals as the engine counts them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from loaderkit._order.cursor import Cursor

from ._batching import make_batch
from ._steps import Step

# (number of a record) -> number, generator and data of that one and those behind it
Records = Callable[[int], Iterator[tuple[int, np.random.Generator | None, Any]]]


def resolved(cursor: Cursor, levels: Sequence[Sequence[Step]], records: Records) -> Cursor:
    """A cursor whose ordinals count from the record that they mean.

    Grain counts from behind the element before: elements that a Filter dropped, or that had no more children, may come
    between.

    Args:
        cursor: (records used, ordinal, ...) as a document says.
        levels: the steps before each FlatMap; each but the first begins with the FlatMap before.
        records: gives number, generator and data of the records from a number on.
    """
    entered = _entering(cursor[:-1], levels, records)
    place = next((place for place, *_ in entered), None)
    return cursor if place is None else (*place, cursor[-1])


def _entering(
    cursor: Cursor, levels: Sequence[Sequence[Step]], records: Records
) -> Iterator[tuple[Cursor, Any, np.random.Generator | None]]:
    """What comes to the FlatMap behind the last level, from a cursor on: cursor, data and generator of each."""
    *before, steps = levels
    if not before:
        yield from _through(steps, (((n,), data, rng) for n, rng, data in records(cursor[0])))
        return
    flat_map, *steps = steps

    def children() -> Iterator[tuple[Cursor, Any, None]]:
        first = cursor[-1]
        for place, data, _ in _entering(cursor[:-1], before, records):
            assert flat_map.call is not None
            for child, value in enumerate(flat_map.call(data)):
                if child >= first:
                    yield (*place, child), value, None
            first = 0

    yield from _through(steps, children())


def _through(
    steps: Sequence[Step], elements: Iterator[tuple[Cursor, Any, np.random.Generator | None]]
) -> Iterator[tuple[Cursor, Any, np.random.Generator | None]]:
    for step in steps:
        elements = _one(step, elements)
    return elements


def _one(
    step: Step, elements: Iterator[tuple[Cursor, Any, np.random.Generator | None]]
) -> Iterator[tuple[Cursor, Any, np.random.Generator | None]]:
    rows: list[tuple[Cursor, Any, np.random.Generator | None]] = []
    for place, data, rng in elements:
        if step.batch is not None:
            rows.append((place, data, rng))
            if len(rows) == step.batch.batch_size:
                yield rows[0][0], (step.batch.batch_fn or make_batch)([row[1] for row in rows]), rng
                rows = []
            continue
        assert step.call is not None
        if step.kind == "filter":
            if step.call(data):
                yield place, data, rng
        else:
            yield place, step.call(data, rng) if step.kind == "random" else step.call(data), rng
    if rows and step.batch is not None and not step.batch.drop_remainder:
        yield rows[0][0], (step.batch.batch_fn or make_batch)([row[1] for row in rows]), rows[-1][2]
