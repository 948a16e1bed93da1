"""A pipeline with callables of the user's: records pass them one by one, in order, in this process.

What such a callable holds back when a position is taken is lost when one goes on from there, as in Grain. This is also
the plainest way to say what a pipeline gives, so the tests compare the engine with it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from loaderkit.plan.cursor import Cursor

from . import operations as legacy
from . import transforms
from ._batching import make_batch
from ._compile import Step, step_of
from ._course import Position
from .record import Record, RecordMetadata

ReadsAt = Callable[
    [int, int], int | None
]  # (layout worker, records used) -> global index, None behind the last
# (number of a record) -> number, generator and data of that one and those behind it
Records = Callable[[int], Iterator[tuple[int, np.random.Generator | None, Any]]]


class InOrderRun:
    """An iterator over a pipeline run in order.

    Args:
        source: where records come from; a record_key is taken modulo its length.
        sampler: says the metadata of each index, as it reaches the operations. Each record has a generator of its own,
            for a callable may hold any number of them back.
        operations: transforms, and callables that take and give iterators of records.
        layout: how many layout workers, 0 for Grain's own process.
        index_at: the global index of each layout worker's records.
    """

    def __init__(
        self,
        *,
        source: Any,
        sampler: Any,
        operations: Sequence[Any],
        layout: int,
        index_at: ReadsAt,
    ) -> None:
        self._source, self._sampler = source, sampler
        self._operations = operations
        self._layout = layout
        self._index_at = index_at
        self._step = self._turn = 0
        self._used: list[int] = []  # of each layout worker: records that its stream has read
        self._delivered: list[int] = []  # and those of them that went into what was handed out
        self._over: set[int] = set()
        self._streams: list[Iterator[Record[Any]]] = []
        self.go_to(Position(0, 0, ((0,),) * max(layout, 1)))

    def __iter__(self) -> "InOrderRun":
        return self

    def __next__(self) -> Any:
        parts = len(self._streams)
        for ahead in range(parts):
            part = (self._turn + ahead) % parts
            if part in self._over:
                continue
            try:
                element = next(self._streams[part])
            except StopIteration:
                self._over.add(part)
                continue
            self._step += 1
            self._turn = (part + 1) % parts
            self._delivered[part] = self._used[part]
            return element.data
        raise StopIteration

    def position(self) -> Position:
        """Where it stands."""
        return Position(self._step, self._turn, tuple((used,) for used in self._delivered))

    def go_to(self, position: Position) -> None:
        """Goes to a position; what the callables held back is gone."""
        self._step, self._turn = position.step, position.turn
        self._used = [cursor[0] for cursor in position.cursors]
        self._delivered = [*self._used]
        self._over = set()
        self._streams = [self._stream(part) for part in range(len(self._used))]

    def start_prefetch(self) -> None:
        """Nothing is made ahead here."""

    def close(self) -> None:
        """Forgets what the callables held back."""
        self._streams = [iter(()) for _ in self._streams]

    def _stream(self, part: int) -> Iterator[Record[Any]]:
        stream = self._records(part)
        for place, op in enumerate(self._operations):
            last = place == len(self._operations) - 1
            stream = _applied(op, stream, first_dtype=last and self._layout > 0)
        return stream

    def _records(self, part: int) -> Iterator[Record[Any]]:
        while (index := self._index_at(part, self._used[part])) is not None:
            metadata = self._sampler[index]
            self._used[part] += 1
            yield Record(metadata, self._source[metadata.record_key % len(self._source)])


def _applied(op: Any, stream: Iterator[Record[Any]], *, first_dtype: bool) -> Iterator[Record[Any]]:
    step = None if type(op) in _LEGACY else step_of(op)
    if step is None:
        given: Iterator[Record[Any]] = op(stream)
        return given
    if step.batch is not None:
        return _batched(step.batch, stream, first_dtype=first_dtype)
    assert step.call is not None
    return _STAGES[step.kind](step.call, stream)


def _mapped(call: Callable[..., Any], stream: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
    for record in stream:
        yield Record(record.metadata, call(record.data))


def _random_mapped(call: Callable[..., Any], stream: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
    for record in stream:
        yield Record(record.metadata, call(record.data, record.metadata.rng))


def _filtered(call: Callable[..., Any], stream: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
    for record in stream:
        if call(record.data):
            yield record


def _flat_mapped(call: Callable[..., Any], stream: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
    fan_out = getattr(getattr(call, "__self__", None), "max_fan_out", 1)
    for record in stream:
        for child, data in enumerate(call(record.data)):
            yield Record(RecordMetadata(record.metadata.index * fan_out + child), data)


def _batched(
    batch: transforms.Batch, stream: Iterator[Record[Any]], *, first_dtype: bool
) -> Iterator[Record[Any]]:
    rows: list[Any] = []
    metadata = RecordMetadata(0)

    def made() -> Record[Any]:
        data = make_batch(rows, first_dtype=first_dtype) if batch.batch_fn is None else batch.batch_fn(rows)
        return Record(metadata.remove_record_key(), data)

    for record in stream:
        rows.append(record.data)
        metadata = record.metadata
        if len(rows) == batch.batch_size:
            yield made()
            rows = []
    if rows and not batch.drop_remainder:
        yield made()


_LEGACY = (legacy.MapOperation, legacy.RandomMapOperation, legacy.FilterOperation)
_STAGES = {"map": _mapped, "random": _random_mapped, "filter": _filtered, "flat_map": _flat_mapped}


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
