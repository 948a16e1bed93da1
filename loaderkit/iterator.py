"""The iterator of a DataLoader: a position, and a stream of elements in the making that starts there.

Invariants, all under one lock:

    the position moves when an element is handed to the user, and at no other time
    the elements at the position and right behind it are upcoming; the stream, if there is one, gives those behind them
    an error belongs to a position: next() raises it again until the position is set anew
"""

import contextlib
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from types import TracebackType
from typing import Any, NamedTuple, Never, Self

import numpy as np

from loaderkit._arguments import at_least
from loaderkit._closing import Closing
from loaderkit._engine.assembly import Assembly, Supplies
from loaderkit._engine.chain import Chain
from loaderkit._engine.task import End, Loss
from loaderkit._runtime.companions import Companions
from loaderkit._runtime.hub import Elements, Hub, TornError
from loaderkit.course.bad_records import check_losses, with_losses
from loaderkit.course.course import Course
from loaderkit.course.identity import name_of
from loaderkit.course.position import Position
from loaderkit.course.states import check_cursor, position_of, state_of
from loaderkit.errors import BadRecordsError, IteratorClosedError, StateError
from loaderkit.foreign import refuse_foreign_method
from loaderkit.plan.comparison import compare
from loaderkit.plan.cursor import Cursor
from loaderkit.plan.losses import Losses, honouring
from loaderkit.plan.metadata import RecordMetadata
from loaderkit.plan.rng import generator
from loaderkit.plan.samplers import num_records_of, record_keys_of, seed_of
from loaderkit.plan.state import State, merge
from loaderkit.plan.state_document import dumps, loads
from loaderkit.quarantine import Quarantine
from loaderkit.transforms.run import Failure

_MENTIONED = 8  # records that an error names


class Element(NamedTuple):
    """Something to hand to the user.

    value     it
    ends      where each logical stream goes on behind it; None: the plan knows
    begins    of a batch: the cursor where each of its rows begins, (n, depth + 1) int64; None: the plan knows
    losses    the bad records that are lost with it
    masked    no row of it is real: the streams are dry, and other processes may have rows for this step
    more      elements with real rows that will surely come behind it, as far as is known
    dry       whether no others with real rows will come
    """

    value: Any
    ends: Mapping[int, Cursor] | None
    begins: np.ndarray | None
    losses: tuple[Loss, ...]
    masked: bool
    more: int
    dry: bool


class _Failed(NamedTuple):
    """What next() failed on: where that was, the indices it names, and the cursors behind it if it was a batch."""

    position: Position
    indices: tuple[int, ...]
    behind: Mapping[int, Cursor] | None


class _Stream:
    """A hub's stream that ends with the last reference to it."""

    def __init__(self, hub: Hub, number: int, assembly: Assembly) -> None:
        self.hub, self.number, self.assembly = hub, number, assembly
        self._end = weakref.finalize(self, hub.abandon, number)
        self._end.atexit = False

    def next(self) -> Any:
        return self.hub.next(self.number)

    def close(self) -> None:
        if self._end.detach() is not None:
            self.hub.close(self.number)


class DataLoaderIterator(Closing):
    """Goes through a loader's elements; its state is a small JSON document that says where it stands.

    Made by `iter(loader)`. A context manager: leaving it closes it. It is always true, and stands at the same place
    for every thread that uses it.

    >>> import loaderkit as lk
    >>> loader = lk.DataLoader(
    ...     data_source=lk.RangeDataSource(0, 6, 1), sampler=lk.SequentialSampler(6), operations=[lk.Batch(2)]
    ... )
    >>> it = iter(loader)
    >>> next(it), it.step
    (array([0, 1]), 1)
    >>> saved = it.get_state()
    >>> again = iter(loader)
    >>> again.set_state(saved)
    >>> next(again)
    array([2, 3])
    """

    def __init__(
        self,
        hub: Callable[[], Hub],
        course: Course,
        prefetch: int,
        quarantine: Quarantine,
        *,
        alone: bool = False,
    ) -> None:
        self.allow: Collection[str] = ()
        self._find_hub = hub  # holds the loader's workers, which end when nobody does
        self._course = course
        self._hub = hub()
        self._prefetch = prefetch
        self._quarantine = quarantine
        self._lock = threading.RLock()
        self._position = course.first_position()
        self._received: Position | None = None  # the user's place, while somebody takes elements ahead
        self._moves = 0  # by the user, to another place
        self._q = max(1, course.batching.stride // course.logical_streams)
        self._stream: _Stream | None = None
        self._upcoming: deque[Element] = deque()  # taken from the hub and not handed out
        self._error: Exception | None = None
        self._raised_at: TracebackType | None = None
        self._failed: _Failed | None = None
        self._moving = False
        self._closed = False
        self._alone = alone or not course.asks_others  # nobody else has to make the same steps
        self._companions: Companions | None = None
        self._behind_last = 0  # lost behind the last element, once the end was met

    # --- elements -----------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __bool__(self) -> bool:
        return True

    def __next__(self) -> Any:
        with self._lock:
            self._check_not_wrapped()
            return self._take(tell=True).value

    def peek(self) -> Any:
        """The element that next() will give; the position stays. Raises what next() would.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6]))
        >>> it.peek(), it.step, next(it)
        (5, 0, 5)
        """
        with self._lock:
            self._check_not_wrapped()
            self._reach()
            if self._upcoming[0].losses:
                self._check_losses(self._upcoming[0])
            return self._upcoming[0].value

    def _take(self, *, tell: bool) -> Element:
        self._reach()
        if self._upcoming[0].losses:
            self._check_losses(self._upcoming[0])
            if tell:  # before it moves: that may be interrupted, and tells each once
                self._tell(self._upcoming[0].losses, self.step)
        self._moving = True
        element = self._upcoming.popleft()
        self._position = self._behind(element)
        self._moving = False
        return element

    def _reach(self) -> None:
        """Sees to it that an element is there to hand out, and may be: StopIteration where the run ends."""
        num_steps = self._course.num_steps
        if num_steps is not None and self._position.step >= num_steps and not self._closed:
            raise StopIteration
        self._fill()
        if not self._alone:
            self._agree(self._upcoming[0])

    def _agree(self, element: Element) -> None:
        # Here and not when the position moves: what was agreed is agreed, also for an element that is only looked at.
        step, others = self._position.step + 1, self._others()
        if not element.masked:
            others.before(step, sure=step + element.more)
            if element.dry:
                others.dry(step + element.more)
        elif not others.goes_past(step, total=step - 1):
            raise StopIteration

    def _others(self) -> Companions:
        if self._companions is None:
            store = self._course.shard.store
            assert store is not None
            self._companions = Companions(store, name_of(self._course))
        return self._companions

    def _tell(self, losses: tuple[Loss, ...], step: int) -> None:
        self._quarantine.take_in(losses, self._hub.source_name, step)

    def _behind(self, element: Element) -> Position:
        behind = self._course.after(self._position, element.ends)
        if not element.losses:
            return behind
        return behind._replace(losses=with_losses(self._course, behind.losses, element.losses, self._q))

    def _check_losses(self, element: Element) -> None:
        behind = self._behind(element)
        self._refuse_losses(behind, behind.losses, element.losses[-1])

    def _refuse_losses(self, behind: Position, losses: Losses, latest: Loss) -> None:
        try:
            check_losses(self._course, behind, losses, latest)
        except BadRecordsError as error:
            self._move_to(self._position)
            self._error, self._raised_at = error, error.__traceback__
            raise

    def _fill(self) -> None:
        """Sees to it that an element is there."""
        if self._closed:
            raise IteratorClosedError("the iterator was closed; iter(loader) gives another")
        if self._upcoming and not self._moving:
            self._hub.check()
            return None
        if self._error is not None:
            # Raised again as it came, or its traceback would grow with every call.
            raise self._error.with_traceback(self._raised_at)
        if self._moving:
            # An interrupt fell between taking an element and moving on: what the stream gives next is uncertain.
            self._move_to(self._position)
        stream = self._running()
        self._moving = True
        try:
            step = stream.next()
        except TornError:  # by an interrupt in this or another iterator of the loader: on with a new hub
            self._move_to(self._position)
            return self._fill()
        except BaseException:
            self._move_to(self._position)
            raise
        if isinstance(step, Elements):
            ends = repeat(None) if step.ends is None else step.ends
            losses = repeat(()) if step.losses is None else map(step.losses.get, count(), repeat(()))
            said = map(repeat, (step.masked, step.more, step.dry))
            self._upcoming.extend(map(Element, step.values, ends, repeat(step.begins), losses, *said))
            self._moving = False
            return None
        self._moving = False
        if isinstance(step, End):
            if step.losses:
                known = with_losses(self._course, self._position.losses, step.losses, self._q)
                self._refuse_losses(self._position, known, step.losses[-1])
                self._tell(step.losses, self._position.step)
                self._behind_last = known.count - self._position.losses.count
            raise StopIteration
        if not self._alone:
            self._others().stop()
        # Nothing comes behind a failure. A stream that still held it would hold us too, through its traceback.
        assembly = stream.assembly
        behind = assembly.behind_failure if isinstance(assembly, Chain) else None
        self._move_to(self._position)
        self._failed = _Failed(self._position, step.indices, behind)
        self._error = self._explained(step)
        self._raised_at = self._error.__traceback__
        raise self._error

    def _running(self) -> _Stream:
        if self._stream is None:
            if self._hub.worn_out:
                self._hub = self._find_hub()
            course, position, q, prefetch = self._course, self._position, self._q, self._prefetch
            made: list[Assembly] = []

            def make(supplies: Supplies) -> Assembly:
                made.append(course.assembly(position, q, prefetch, supplies))
                return made[0]

            number = self._hub.open(make, course.search(position))
            self._stream = _Stream(self._hub, number, made[0])
        return self._stream

    def start_prefetch(self) -> None:
        """Begins to make elements now instead of at the first next().

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6]))
        >>> it.start_prefetch()
        >>> next(it)
        5
        """
        with self._lock:
            if self._closed:
                raise IteratorClosedError("the iterator was closed; iter(loader) gives another")
            self._running()

    def close(self) -> None:
        """Ends the making of elements; the position can still be asked for. Closing twice does nothing.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6]))
        >>> it.close()
        >>> it.step
        0
        """
        # Before the lock: another thread may wait in next() with it.
        stream = self._stream
        if stream is not None:
            stream.close()
        if (others := self._companions) is not None:
            others.closed = True
        with self._lock:
            self._closed = True
            failed = self._failed
            self._move_to(self._position)
            self._failed = failed
            self._leave_others()

    # --- where it stands ----------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Elements handed out so far by this run, resumed ones included."""
        return self._standing.step

    @property
    def index(self) -> int:
        """The index of the next record: its place in the endless stream of all epochs."""
        return self._course.index_of(self._standing)

    @property
    def epoch(self) -> int | None:
        """The epoch of the next record; None where the sampler doesn't say how long an epoch is."""
        records = num_records_of(self._course.sampler)
        return None if records is None else self.index // records

    @property
    def bad_records(self) -> int:
        """Records that were lost up to here, of the rows that this process was handed; 0 unless `on_record_error` says.

        >>> import loaderkit as lk
        >>> it = iter(
        ...     lk.load([1, 0, 2], num_epochs=1, transformations=[lambda x: 6 // x], on_record_error="skip")
        ... )
        >>> list(it), it.bad_records
        ([6, 3], 1)
        """
        at_end = self._standing is self._position  # not where a wrapper has met it ahead of its user
        return self._standing.losses.count + (self._behind_last if at_end else 0)

    def get_state(self) -> bytes:
        """The position as indented JSON; possible at any time, also after an error or close().

        >>> import loaderkit as lk
        >>> b'"step": 0' in iter(lk.load([5, 6])).get_state()
        True
        """
        with self._lock:
            return dumps(state_of(self._course, self._standing, self._q))

    def state_past_error(self) -> bytes:
        """The state behind the record or batch that next() failed on, for `set_state`; possible after close().

        Where rows keep their number, it leaves the failed step out, as `skip(1)` does; on several shards all of them
        have to. Where operations change it, one logical stream goes on behind the failed record, or those with rows in
        the failed batch behind that; rows before the record that no batch gave yet are left out with it.

        Raises ValueError where next() raised nothing here, or an error that names no record.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([3, 0, 2], num_epochs=1, transformations=[lambda x: 6 // x]))
        >>> next(it)
        2
        >>> try:
        ...     next(it)
        ... except ZeroDivisionError:
        ...     it.set_state(it.state_past_error())
        >>> list(it)
        [3]
        """
        with self._lock:
            failed = self._failed
            if failed is None or failed.position is not self._standing:
                raise ValueError("state_past_error(): next() hasn't failed here on a record or a batch")
            position = self._course.after_failure(failed.position, failed.indices, failed.behind, self._q)
            if position is None:
                raise ValueError(
                    "state_past_error(): the error names no single record, so what is behind it isn't known; "
                    "set_state(get_state()) tries again"
                )
            return dumps(state_of(self._course, position, self._q))

    def set_state(self, state: bytes | Sequence[bytes], allow: Collection[str] = ()) -> None:
        """Goes to the position that `get_state` gave, of this iterator or of another of the same stream.

        Args:
            state: a document, or those of all processes at the same step where operations change the number of rows.
            allow: fields that may differ: "sampler", "source", "operations", "global_batch_size".

        Raises TypeError where it isn't bytes, StateError where it is no sound state, and CheckpointMismatchError
        where it is one of another stream; the position stays as it was.
        """
        documents: list[Any] = [*state] if isinstance(state, list | tuple) else [state]
        saved = merge([_loaded(document, place, len(documents)) for place, document in enumerate(documents)])
        with self._lock:
            self._check_open()
            notices = compare(saved, state_of(self._course, self._position, self._q), allow)
            if saved.digest_missing:
                notices.append("the state has no digest: it was edited by hand and is taken as it is")
            if not {"sampler", "source"} & set(allow):  # of another length, whose end is elsewhere
                check_cursor(self._course, saved)
            position = position_of(self._course, saved)
            if saved.streams is not None:
                self._q = saved.streams.q
            self._go_to(position)
        for notice in notices:
            warnings.warn(notice, stacklevel=2)

    def writers_needed(self, writers: Sequence[int]) -> Collection[int]:
        """Which processes' documents of a saved state `set_state` needs here.

        Args:
            writers: for each logical stream, the process whose document holds its place; of other streams than this
                loader's none is needed, for no document would fit.

        >>> import loaderkit as lk
        >>> iter(lk.load([5, 6])).writers_needed([])
        set()
        """
        owned = self._course.owned_streams(self._q)
        return (
            {writers[stream] for stream in owned} if len(writers) == self._course.logical_streams else set()
        )

    def seek(self, step: int) -> None:
        """Goes to a step, back or ahead, at once whatever the distance.

        Raises ValueError where operations change the number of rows, IndexError for a step that isn't there.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6, 7]))
        >>> it.seek(2)
        >>> next(it)
        7
        """
        with self._lock:
            self._check_open()
            self._check_known("seek(step)")
            step = at_least("step", step, 0)
            num_steps = self._course.num_steps
            if num_steps is not None and step > num_steps:
                raise IndexError(f"step: {step} doesn't exist, the run ends after num_steps={num_steps}")
            segments = self._standing.segments
            index = segments.seek(step, self._course.batching.stride)
            self._check_exists(index, f"step: {step} doesn't exist")
            self._go_to(Position(step, segments, None, self._standing.losses))

    def skip(self, n: int) -> None:
        """Leaves the next n steps out: the step stays, the data moves on.

        Raises ValueError where operations change the number of rows, IndexError where the stream ends before.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6, 7]))
        >>> it.skip(2)
        >>> it.step, next(it)
        (0, 7)
        """
        with self._lock:
            self._check_open()
            self._check_known("skip(n)")
            n = at_least("n", n, 0)
            position = self._standing
            segments = position.segments.skip(position.step, self._course.index_of(position), n)
            self._check_exists(segments.index_of(position.step), f"n: there are no {n} steps left")
            self._go_to(Position(position.step, segments, None, position.losses))

    def records(self, step: int) -> list[RecordMetadata]:
        """Metadata of every record of a step over all shards, in order, as planned; reads no data.

        What was read instead of a bad record isn't in it. Raises ValueError where operations change the number of rows,
        IndexError for a step that isn't there.

        >>> import loaderkit as lk
        >>> [metadata.record_key for metadata in iter(lk.load([5, 6, 7], batch_size=2)).records(0)]
        [0, 1]
        """
        self._check_known("records(step)")
        indices = self._course.global_rows(self._standing, at_least("step", step, 0))
        return metadata_of(self._course, indices)

    @property
    def _standing(self) -> Position:
        return self._position if self._received is None else self._received

    def _leave_others(self) -> None:
        others, self._companions = self._companions, None
        if others is not None:
            with contextlib.suppress(Exception):  # a courtesy: the store may be gone already
                others.stop()

    def _go_to(self, position: Position) -> None:
        self._move_to(position)
        self._leave_others()
        self._moves += 1
        if self._received is not None:
            self._received = position

    def _move_to(self, position: Position) -> None:
        stream, self._stream = self._stream, None
        self._position, self._moving = position, False
        self._upcoming.clear()
        self._error = self._raised_at = self._failed = None
        self._behind_last = 0
        if stream is not None:
            stream.close()

    def _check_open(self) -> None:
        if self._closed:
            raise IteratorClosedError("the iterator was closed; iter(loader) gives another")

    def _check_not_wrapped(self) -> None:
        if self._received is not None:
            raise RuntimeError(
                "this iterator is wrapped, and its elements go to the wrapper: take them there. Its position, state, "
                "seek and close work here too"
            )

    def _check_known(self, what: str) -> None:
        if self._course.row_changing:
            raise ValueError(self._course.why_unknown(what))

    def _check_exists(self, index: int, complaint: str) -> None:
        # The place right behind the last step is fine: next() then ends.
        if not self._course.reaches(index):
            raise IndexError(f"{complaint}, the stream ends at index {self._course.stop}")

    # --- somebody who takes elements ahead of the user ----------------------------------------------------------

    def wrap(self) -> "Ahead":
        """Hands the elements to a wrapper that takes them ahead; from now on the position is what its user received.

        Raises RuntimeError where there is one already.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([5, 6]))
        >>> ahead = it.wrap()
        >>> taken = ahead.take()
        >>> taken.element.value, it.step
        (5, 0)
        >>> ahead.received(taken)
        >>> it.step
        1
        """
        with self._lock:
            self._check_open()
            self._check_not_wrapped()
            self._received = self._position
            return Ahead(self)

    # --- errors -------------------------------------------------------------------------------------------------

    def _explained(self, failure: Failure) -> Exception:
        error = failure.error
        if isinstance(error, StopIteration):
            # As it is, it would end the user's loop without a word.
            ended, error = error, RuntimeError("StopIteration was raised where an element is made")
            error.__cause__ = ended
            error.__notes__ = list(getattr(ended, "__notes__", []))
        if failure.label:
            error.add_note(
                f"raised by {failure.label} {self._place_of(failure.indices)}at step {self._position.step}"
            )
        if isinstance(error, ValueError) and "read-only" in str(error):
            error.add_note("arrays of a data source belong to it: copy first, x = x.copy()")
        return error

    def _place_of(self, indices: Sequence[int]) -> str:
        if not indices:
            return ""
        shown = np.array(indices[:_MENTIONED], np.int64)
        ledger = self._position.losses.ledger
        try:
            keys = record_keys_of(honouring(self._course.sampler, ledger), shown)
        except Exception:  # noqa: BLE001 - a user's sampler may raise anything; the user's error must be heard
            return f"for index {shown[0]}, "
        named = ", ".join(
            f"index {i} (record_key {k}{', read instead of its own' if ledger.get(i, i) != i else ''})"
            for i, k in zip(shown.tolist(), keys.tolist(), strict=True)
        )
        return f"for {named}{', …' if len(indices) > _MENTIONED else ''} of {self._hub.source_name}, "

    # --- Orbax's newer interface --------------------------------------------------------------------------------

    async def save(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Orbax's StatefulCheckpointable: takes the position now, writes it in what is returned."""
        from loaderkit._checkpoint_files import save_async

        return await save_async(self, directory)

    async def load(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Orbax's StatefulCheckpointable: goes to the position saved there (with `self.allow`), starts prefetching."""
        from loaderkit._checkpoint_files import load_async

        return await load_async(self, directory)

    def __getattr__(self, name: str) -> Never:
        refuse_foreign_method(self, name)

    def __repr__(self) -> str:
        return f"<DataLoaderIterator at step {self.step}, index {self.index}>"


@dataclass(frozen=True, slots=True)
class Taken:
    """An element taken ahead, and the positions before and behind it."""

    element: Element
    before: Position
    after: Position


class Ahead:
    """What `DataLoaderIterator.wrap` gives: the iterator's elements, before its user has them.

    lock: held by whoever moves the iterator. course: the stream.
    """

    def __init__(self, iterator: DataLoaderIterator) -> None:
        self._iterator = iterator
        self.lock = iterator._lock
        self.course = iterator._course

    @property
    def moves(self) -> int:
        """A number that changes when the iterator is moved: what was taken before is then void."""
        return self._iterator._moves

    def take(self) -> Taken:
        """The next element. Raises what next() would."""
        iterator = self._iterator
        with self.lock:
            before = iterator._position
            element = iterator._take(tell=False)
            return Taken(element, before, iterator._position)

    def received(self, taken: Taken) -> None:
        """The user has this element now."""
        if taken.element.losses:
            self._iterator._tell(taken.element.losses, taken.before.step)
        self._iterator._received = taken.after


def _loaded(document: bytes, place: int, count: int) -> State:
    try:
        return loads(document)
    except StateError as error:
        if count > 1:
            error.add_note(f"in document {place} of {count}, counted from 0")
        raise


def metadata_of(course: Course, indices: np.ndarray) -> list[RecordMetadata]:
    """The metadata of records by index, with the generator that `sampler[i]` has."""
    keys = record_keys_of(course.sampler, indices).tolist()
    seed = seed_of(course.sampler)
    return [
        RecordMetadata(index, key, None if seed is None else generator(seed, 0, index, 0))
        for index, key in zip(indices.tolist(), keys, strict=True)
    ]
