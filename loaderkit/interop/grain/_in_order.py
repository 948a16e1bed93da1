"""A pipeline with callables of the user's: records pass them one by one, in order, in this process.

Each stream has copies of these callables, and what one holds back when a position is taken is lost when a loader goes
on from there, as in Grain. This is also the plainest way to say what a pipeline gives, so the tests compare the engine
with it.

A cursor of Grain's counts the records read, and for each FlatMap the children given of its present element, where the
records read are those before that element. So it may stand after the last child. A cursor of the engine's names a
record and its next child.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any

from loaderkit._base.notes import annotate, keyed
from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._loader.iterator.reader import Element
from loaderkit._order.facts import PLANNED
from loaderkit._order.metadata import RecordMetadata
from loaderkit._runtime.worker.read_ahead import ReadAhead, ReadRecords
from loaderkit._runtime.worker.reading import read_ahead_limits
from loaderkit._source.naming import Namer, namer_of
from loaderkit.errors import IteratorClosedError

from ._batching import make_batch
from ._layout_plan import LayoutPosition, Place
from ._steps import Step, check_callable, copies_of_steps, is_legacy
from ._tree import as_sent
from .operations import Record, batched, is_record
from .options import READER_NAME, reads_of
from .transforms import Batch

# (layout worker, records used) -> the global indices of the others
IndicesFrom = Callable[[int, int], Iterator[int]]


class InOrderRun:
    """Reads a pipeline that is run in order, as a `StreamReader` reads the engine's.

    An error is raised again until the position is set anew.

    Args:
        source: where records come from; a record_key is taken modulo its length.
        sampler: says the metadata of each index, as it reaches the operations. Each record has a generator of its own,
            for a callable may hold any number of them back.
        steps: transforms, and callables that take and give iterators of records. TypeError for what is neither.
        layout: how many layout workers, 0 for Grain's own process.
        indices_from: the global indices of each layout worker's records.
        read_options: the script's; None reads as the engine does then.
    """

    position: LayoutPosition  # where it stands
    _streams: list["_Stream"]  # one for each layout worker
    _ended: set[int]  # the layout workers of the streams that have ended
    _error: Exception | None
    _raised_at: TracebackType | None
    _moving: bool  # a step is being made

    def __init__(
        self,
        *,
        source: Any,
        sampler: Any,
        steps: Sequence[Step],
        layout: int,
        indices_from: IndicesFrom,
        read_options: Any = None,
    ) -> None:
        for step in steps:
            if step.kind == "records":
                check_callable(step)
        self._source, self._sampler, self._steps = source, sampler, copies_of_steps(steps, layout)
        self._last = steps[-1].label if steps else f"source {type(source).__qualname__}"
        self._layout, self._indices_from = layout, indices_from
        self._ahead = read_ahead_limits(source, reads_of(read_options))
        name = namer_of(source)
        self._blame = _Blame(lambda record_key: name(record_key % len(source)))
        self._closed = False
        self.go_to(LayoutPosition(0, 0, ((0,),) * max(layout, 1)))

    def take(self) -> Element[LayoutPosition]:
        """The next element; the position moves on."""
        self._check_open()
        if self._error is not None:
            # Raised again as it was, or its traceback would grow with every call.
            raise BaseException.with_traceback(self._error, self._raised_at)
        if self._moving:
            # An interrupt fell into the callables, and ended them.
            self.go_to(self.position)
        before, parts = self.position, len(self._streams)
        for part in (*range(before.turn, parts), *range(before.turn)):
            if part in self._ended:
                continue
            stream = self._streams[part]
            self._moving = True
            try:
                value = next(stream.records).data
            except StopIteration:
                self._ended.add(part)
                self._moving = False
                continue
            except Exception as error:
                self._blame.annotate(error, before.step)
                self._error, self._raised_at = error, error.__traceback__
                raise
            cursors = (*before.cursors[:part], stream.place(), *before.cursors[part + 1 :])
            self.position = LayoutPosition(before.step + 1, (part + 1) % parts, cursors)
            self._moving = False
            return Element(value, self.position, (), PLANNED)
        raise StopIteration

    def go_to(self, position: LayoutPosition) -> None:
        """Goes to a position; what the callables held back is gone."""
        self._check_open()
        self.position = position
        self._ended = set()
        self._error = self._raised_at = None
        self._moving = False
        self._streams = [self._stream(part, cursor) for part, cursor in enumerate(position.cursors)]

    def resolved(self, part: int, cursor: Place) -> Place:
        """The engine's cursor of the element that a layout worker's cursor of Grain's means.

        Grain counts from the element before: between that and the one meant, elements may have been dropped by a Filter
        or have no more children. So the steps before the last FlatMap are run up to its next element.
        """
        steps = self._steps()
        last = max(place for place, step in enumerate(steps) if step.kind == "flat_map")
        stream = self._made(part, cursor, steps[:last])
        return (*stream.origin(), cursor[-1]) if next(stream.records, None) is not None else cursor

    def start_prefetch(self) -> None:
        """Does nothing: this iterator has no prefetch."""
        self._check_open()

    def close(self) -> None:
        """Forgets what the callables held back; the position can still be asked for."""
        self._closed = True
        self._streams = []

    def _check_open(self) -> None:
        if self._closed:
            raise IteratorClosedError("the iterator was closed; iter(loader) gives another")

    def _stream(self, part: int, cursor: Place) -> "_Stream":
        """What a layout worker gives from a cursor of Grain's on."""
        stream = self._made(part, cursor, self._steps())
        if self._layout:
            sent = (Record(record.metadata, as_sent(record.data)) for record in stream.records)
            stream.records = self._blame.of(self._last, sent)
        return stream

    def _made(self, part: int, cursor: Place, steps: Sequence[Step]) -> "_Stream":
        indices = self._indices_from(part, cursor[0])
        stream = self._read(indices, cursor[0])
        ordinals = [*cursor[:0:-1]]
        for step in steps:
            if step.kind == "flat_map":
                stream = _children(step, stream, ordinals.pop() if ordinals else 0)
            elif step.batch is not None:
                # In a worker process of Grain the last step stacks into memory of the first row's dtype.
                first_dtype = self._layout > 0 and step.label == self._last
                function = step.batch.batch_fn or partial(make_batch, first_dtype=first_dtype)
                stream = _batches(step.batch, function, stream)
            else:
                stream.records = _applied(step, stream.records)
            stream.records = self._blame.of(step.label, stream.records)
        return stream

    def _read(self, indices: Iterator[int], used: int) -> "_Stream":
        """The records of the indices, of which `used` were read before; a StopIteration of the source ends them."""
        source, sampler, blame = self._source, self._sampler, self._blame

        def read(one: list[int]) -> ReadRecords:
            metadata = sampler[one[0]]
            try:
                return ReadRecords([(metadata, source[metadata.record_key % len(source)], None)])
            except Exception as error:  # noqa: BLE001 - raised in its turn
                return ReadRecords([(metadata, None, error)])

        def records() -> Iterator[Record[Any]]:
            nonlocal used
            # In Grain's threads where there are limits, else one by one.
            threads, most, _ = self._ahead or (0, 1, 1)
            ahead = ReadAhead(read, threads=threads, records=most, name=READER_NAME) if threads else None
            begun = deque[int]()
            try:
                while True:
                    for index in islice(indices, most - len(begun)):
                        begun.append(index)
                        if ahead is not None:
                            ahead.begin(index, [index])
                    if not begun:
                        return
                    index = begun.popleft()
                    blame.record = None, index
                    (found,), _ = read([index]) if ahead is None else ahead.take(index, [index])
                    metadata, data, error = found
                    blame.record = metadata.record_key, index
                    if isinstance(error, StopIteration):
                        return
                    if error is not None:
                        raise error
                    used += 1
                    yield Record(metadata, data)
            finally:
                if ahead is not None:
                    ahead.close()

        label = f"source {type(source).__qualname__}"
        return _Stream(blame.of(label, records()), lambda: (used,), lambda: (used - 1,))


@dataclass(slots=True)
class _Stream:
    """Iterates once over records.

    place: Grain's cursor after the last record returned; origin: the engine's cursor of it.
    """

    records: Iterator[Record[Any]]
    place: Callable[[], Place]
    origin: Callable[[], Place]


class _Blame:
    """Says in an error which operation raised it, and which record had been read by then.

    Args:
        name: what the source calls a record.
    """

    def __init__(self, name: Namer) -> None:
        self._name = name
        self.record: tuple[int | None, int] | None = None  # record_key and index of the last that was read
        self._label: str | None = None  # of what raised the error that is on its way
        self._error: Exception | None = None

    def of(self, label: str, records: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
        """The same records; an error that didn't come from before them is put down to the label."""
        try:
            yield from records
        except Exception as error:
            if error is not self._error:
                self._label, self._error = label, error
            raise

    def annotate(self, error: Exception, step: int) -> None:
        """Adds the note to an error that leaves the pipeline."""
        where = ""
        if self.record is not None:
            key, index = self.record
            which = "" if key is None else f" (record_key {keyed(key, self._name(key))})"
            where = f"for index {index}{which}, the last that was read, "
        annotate(error, f"raised by {self._label} {where}at step {step}")
        self._label = self._error = None


def _children(step: Step, before: _Stream, given: int) -> _Stream:
    """What a FlatMap makes of a stream; given: how many children of its first element were given already."""
    call, fan_out = step.call, getattr(step.operation, "max_fan_out", 1)
    assert call is not None
    place = before.place()  # where the stream stood before the present element

    def records() -> Iterator[Record[Any]]:
        nonlocal given, place
        first = given
        for record in before.records:
            children = [*call(record.data)]
            given = first
            while given < len(children):
                child = given
                given += 1
                yield Record(RecordMetadata(record.metadata.index * fan_out + child), children[child])
            first, place = 0, before.place()

    return _Stream(records(), lambda: (*place, given), lambda: (*before.origin(), given - 1))


def _batches(batch: Batch, function: Callable[..., Any], before: _Stream) -> _Stream:
    """Batches of a stream, each with the origin of its first row."""
    size = at_least("batch_size", batch.batch_size, 1)
    origin: Place = ()

    def rows() -> Iterator[Record[Any]]:
        nonlocal origin
        for number, record in enumerate(before.records):
            if number % size == 0:
                origin = before.origin()
            yield record

    return _Stream(batched(rows(), size, batch.drop_remainder, function), before.place, lambda: origin)


def _applied(step: Step, records: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
    if step.kind == "records" or is_legacy(step.operation):
        return _called(step, records)
    call = step.call
    assert call is not None
    match step.kind:
        case "map":
            return (Record(record.metadata, call(record.data)) for record in records)
        case "random":
            return (Record(record.metadata, call(record.data, record.metadata.rng)) for record in records)
    return (record for record in records if call(record.data))


def _called(step: Step, records: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
    made = step.operation(records)
    if not hasattr(made, "__next__"):
        raise TypeError(f"{step.label}: expected an iterator of records from it, got {type(made).__name__}")
    while (record := next(made, _END)) is not _END:
        if not is_record(record):
            raise TypeError(f"{step.label}: expected Records from it, got {type(record).__name__}")
        yield record


_END: Any = object()
