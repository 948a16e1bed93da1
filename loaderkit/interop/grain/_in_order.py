"""A pipeline with callables of the user's: records pass them one by one, in order, in this process.

What such a callable holds back when a position is taken is lost when one goes on from there, as in Grain. This is also
the plainest way to say what a pipeline gives, so the tests compare the engine with it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import operations as legacy
from . import transforms
from ._batching import make_batch
from ._course import Position
from ._sent import as_sent
from ._steps import Step, check_callable
from .record import Record, RecordMetadata, is_record

ReadsAt = Callable[
    [int, int], int | None
]  # (layout worker, records used) -> global index, None behind the last


class InOrderRun:
    """An iterator over a pipeline run in order.

    Args:
        source: where records come from; a record_key is taken modulo its length.
        sampler: says the metadata of each index, as it reaches the operations. Each record has a generator of its own,
            for a callable may hold any number of them back.
        steps: transforms, and callables that take and give iterators of records. TypeError for what is neither.
        layout: how many layout workers, 0 for Grain's own process.
        index_at: the global index of each layout worker's records.
    """

    def __init__(
        self,
        *,
        source: Any,
        sampler: Any,
        steps: Sequence[Step],
        layout: int,
        index_at: ReadsAt,
    ) -> None:
        self._source, self._sampler = source, sampler
        for step in steps:
            if step.kind == "records":
                check_callable(step)
        self._steps = steps
        self._blame = _Blame()
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
            except Exception as error:
                self._blame.said(error, self._step)
                raise
            self._step += 1
            self._turn = (part + 1) % parts
            self._delivered[part] = self._used[part]
            return as_sent(element.data) if self._layout else element.data
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
        source = f"source {type(self._source).__qualname__}"
        stream = self._blame.of(source, self._records(part))
        for place, step in enumerate(self._steps):
            last = place == len(self._steps) - 1
            made = _applied(step, stream, first_dtype=last and self._layout > 0)
            stream = self._blame.of(step.label, made)
        return stream

    def _records(self, part: int) -> Iterator[Record[Any]]:
        while (index := self._index_at(part, self._used[part])) is not None:
            self._blame.record = None, index
            metadata = self._sampler[index]
            self._blame.record = metadata.record_key, index
            self._used[part] += 1
            yield Record(metadata, self._source[metadata.record_key % len(self._source)])


class _Blame:
    """Says in an error who raised it, and which record had been read by then."""

    def __init__(self) -> None:
        self.record: tuple[int | None, int] | None = None  # record_key and index of the last that was read
        self._label: str | None = None  # of who raised the error that is on its way
        self._error: Exception | None = None

    def of(self, label: str, stream: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
        """What a stream gives; what it raises that didn't come from before it is its own."""
        try:
            yield from stream
        except Exception as error:
            if error is not self._error:
                self._label, self._error = label, error
            raise

    def said(self, error: Exception, step: int) -> None:
        """Writes it down in the error, which leaves the pipeline now."""
        where = ""
        if self.record is not None:
            key, index = self.record
            where = (
                f"for index {index}{'' if key is None else f' (record_key {key})'}, the last that was read, "
            )
        error.add_note(f"raised by {self._label} {where}at step {step}")
        self._label = self._error = None


def _applied(step: Step, stream: Iterator[Record[Any]], *, first_dtype: bool) -> Iterator[Record[Any]]:
    if step.kind == "records" or type(step.operation) in _LEGACY:
        return _called(step, stream)
    if step.batch is not None:
        return _batched(step.batch, stream, first_dtype=first_dtype)
    assert step.call is not None
    return _STAGES[step.kind](step.call, stream)


def _called(step: Step, stream: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
    given = step.operation(stream)
    if not hasattr(given, "__next__"):
        raise TypeError(f"{step.label}: expected an iterator of records from it, got {type(given).__name__}")
    while (record := next(given, _END)) is not _END:
        if not is_record(record):
            raise TypeError(f"{step.label}: expected Records from it, got {type(record).__name__}")
        yield record


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


_END: Any = object()
_LEGACY = (legacy.MapOperation, legacy.RandomMapOperation, legacy.FilterOperation)
_STAGES = {"map": _mapped, "random": _random_mapped, "filter": _filtered, "flat_map": _flat_mapped}
