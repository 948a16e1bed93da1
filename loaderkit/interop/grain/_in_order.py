"""A pipeline with callables of the user's: records pass them one by one, in order, in this process.

What such a callable holds back when a position is taken is lost when one goes on from there, as in Grain. This is also
the plainest way to say what a pipeline gives, so the tests compare the engine with it.

A cursor here is what Grain writes: the records read, and for each FlatMap the children given of its present element,
where the records read are those before that element. So it may stand behind the last child.
"""

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from loaderkit._base.notes import annotate, keyed
from loaderkit._iterator.reader import Element
from loaderkit._order.cursor import Cursor
from loaderkit._order.facts import PLANNED
from loaderkit.errors import IteratorClosedError
from loaderkit.sources.naming import Namer, namer_of

from . import transforms
from ._batching import make_batch
from ._layout_plan import LayoutPosition
from ._sent import as_sent
from ._steps import Step, check_callable, is_legacy
from .record import Record, RecordMetadata, is_record

ReadsAt = Callable[
    [int, int], int | None
]  # (layout worker, records used) -> global index, None behind the last
_Place = Callable[[], Cursor]  # where a stream stands


class InOrderRun:
    """Reads a pipeline that is run in order, as a `StreamReader` reads the engine's.

    An error is raised again until the position is set anew.

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
        name = namer_of(source)
        self._blame = _Blame(lambda record_key: name(record_key % len(source)))
        self._layout = layout
        self._index_at = index_at
        self.position = LayoutPosition(0, 0, ((0,),) * max(layout, 1))
        self._over: set[int] = set()  # layout workers whose streams have ended
        self._error: Exception | None = None
        self._raised_at: TracebackType | None = None
        self._moving = self._closed = False
        self._streams: list[tuple[Iterator[Record[Any]], _Place]] = []
        self.go_to(self.position)

    def take(self) -> Element[LayoutPosition]:
        """The next element; the position moves on."""
        self._check_open()
        if self._error is not None:
            # Raised again as it came, or its traceback would grow with every call.
            raise BaseException.with_traceback(self._error, self._raised_at)
        if self._moving:
            # An interrupt fell into the callables, and ended them.
            self.go_to(self.position)
        parts = len(self._streams)
        for ahead in range(parts):
            part = (self.position.turn + ahead) % parts
            if part in self._over:
                continue
            stream, place = self._streams[part]
            self._moving = True
            try:
                value = next(stream).data
            except StopIteration:
                self._over.add(part)
                self._moving = False
                continue
            except Exception as error:
                self._blame.said(error, self.position.step)
                self._error, self._raised_at = error, error.__traceback__
                raise
            before = self.position
            cursors = (*before.cursors[:part], place(), *before.cursors[part + 1 :])
            self.position = LayoutPosition(before.step + 1, (part + 1) % parts, cursors)
            self._moving = False
            return Element(value, self.position, (), PLANNED)
        raise StopIteration

    def go_to(self, position: LayoutPosition) -> None:
        """Goes to a position; what the callables held back is gone."""
        self._check_open()
        self.position = position
        self._over = set()
        self._error = None
        self._raised_at = None
        self._moving = False
        self._streams = [self._stream(part, cursor) for part, cursor in enumerate(position.cursors)]

    def start_prefetch(self) -> None:
        """Nothing is made ahead here."""
        self._check_open()

    def close(self) -> None:
        """Forgets what the callables held back; the position can still be asked for."""
        self._closed = True
        self._streams = []

    def _check_open(self) -> None:
        if self._closed:
            raise IteratorClosedError("the iterator was closed; iter(loader) gives another")

    def _stream(self, part: int, cursor: Cursor) -> tuple[Iterator[Record[Any]], _Place]:
        """What a layout worker gives from a cursor on, and where that stands."""
        label = f"source {type(self._source).__qualname__}"
        used = [cursor[0]]
        stream = self._blame.of(label, self._records(part, used))

        def read() -> Cursor:
            return (used[0],)

        place: _Place = read
        ordinals = [*cursor[:0:-1]]
        for number, step in enumerate(self._steps):
            label = step.label
            if step.kind == "flat_map":
                children = _Children(step, stream, place, ordinals.pop() if ordinals else 0)
                made, place = children.records(), children.place
            else:
                last = number == len(self._steps) - 1
                made = _applied(step, stream, first_dtype=last and self._layout > 0)
            stream = self._blame.of(label, made)
        if self._layout:
            stream = self._blame.of(label, _mapped(as_sent, stream))
        return stream, place

    def _records(self, part: int, used: list[int]) -> Iterator[Record[Any]]:
        while (index := self._index_at(part, used[0])) is not None:
            self._blame.record = None, index
            metadata = self._sampler[index]
            self._blame.record = metadata.record_key, index
            used[0] += 1
            yield Record(metadata, self._source[metadata.record_key % len(self._source)])


class _Children:
    """What a FlatMap makes of the elements of a stream.

    Args:
        step: the FlatMap.
        stream: gives the elements.
        place: where that stands.
        given: how many children of its first element were given already.
    """

    def __init__(self, step: Step, stream: Iterator[Record[Any]], place: _Place, given: int) -> None:
        assert step.call is not None
        self._call = step.call
        self._fan_out = getattr(step.operation, "max_fan_out", 1)
        self._stream, self._place_before = stream, place
        self._before, self._given = place(), given

    def place(self) -> Cursor:
        """Where the stream stood before it gave the present element, and how many children of that were given."""
        return (*self._before, self._given)

    def records(self) -> Iterator[Record[Any]]:
        given = self._given
        for record in self._stream:
            children = [*self._call(record.data)]
            self._given = given
            while self._given < len(children):
                child = self._given
                self._given += 1
                yield Record(RecordMetadata(record.metadata.index * self._fan_out + child), children[child])
            given, self._before = 0, self._place_before()


class _Blame:
    """Says in an error who raised it, and which record had been read by then; name: what its source calls a record."""

    def __init__(self, name: Namer) -> None:
        self._name = name
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
            which = "" if key is None else f" (record_key {keyed(key, self._name(key))})"
            where = f"for index {index}{which}, the last that was read, "
        annotate(error, f"raised by {self._label} {where}at step {step}")
        self._label = self._error = None


def _applied(step: Step, stream: Iterator[Record[Any]], *, first_dtype: bool) -> Iterator[Record[Any]]:
    if step.kind == "records" or is_legacy(step.operation):
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
_STAGES = {"map": _mapped, "random": _random_mapped, "filter": _filtered}
