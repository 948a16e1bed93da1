"""The reader of a stream: a position, and the stream of elements in the making that starts there.

Invariants, all under one lock:

    the position moves when an element is handed out, and at no other time
    the elements at the position and right behind it are upcoming; the stream, if there is one, gives those behind them
    an error belongs to a position: the next element raises it again until the position is set anew

With a lookahead (lookahead.py) the position runs ahead of the user, whose place is then what was received.
"""

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from loaderkit._base.closing import Closing
from loaderkit._engine.scheduler import Scheduler, SchedulerContext
from loaderkit._engine.stream_scheduler import StreamScheduler
from loaderkit._engine.task import End
from loaderkit._order.cursor import Cursor
from loaderkit._order.loss import Loss
from loaderkit._plan.bad_record_limit import check_losses, with_losses
from loaderkit._plan.bad_records import BadRecords
from loaderkit._plan.position import Position
from loaderkit._plan.stream_plan import StreamPlan
from loaderkit._runtime.cluster.end_of_stream import EndOfStreamAgreement
from loaderkit._runtime.executors.executor import Delivery, Executor, PoisonedError
from loaderkit._state.identity import name_of
from loaderkit.errors import BadRecordsError, IteratorClosedError, WorkerError
from loaderkit.transforms.run import Failure

from .error_notes import explained
from .open_scheduler import open_scheduler
from .quarantine import Quarantine

OpenScheduler = Callable[[StreamPlan, Position, int, int, SchedulerContext], Scheduler]


class Element(NamedTuple):
    """Something to hand to the user.

    value     it
    behind    the position behind it
    begins    of a batch: the cursor where each of its rows begins, (n, depth + 1) int64; None: the plan knows
    losses    the bad records that are lost with it
    masked    no row of it is real: the streams are exhausted, and other processes may have rows for this step
    more      elements with real rows that will surely come behind it, as far as is known
    exhausted whether no others with real rows will come
    """

    value: Any
    behind: Position
    begins: np.ndarray | None
    losses: tuple[Loss, ...]
    masked: bool
    more: int
    exhausted: bool


class _Failed(NamedTuple):
    """What next() failed on: where that was, the indices it names, and the cursors behind it if it was a batch."""

    position: Position
    indices: tuple[int, ...]
    behind: Mapping[int, Cursor] | None


def _passed_with(failure: Failure) -> tuple[int, ...]:
    # Workers are lost at a task, and nothing of that was handed out: behind it is behind its last record.
    return failure.indices[-1:] if isinstance(failure.error, WorkerError) else failure.indices


class _StreamHandle:
    """An executor's stream that ends with the last reference to it."""

    def __init__(self, executor: Executor, number: int, scheduler: Scheduler) -> None:
        self.executor, self.number, self.scheduler = executor, number, scheduler
        self._end = weakref.finalize(self, executor.abandon, number)
        self._end.atexit = False

    def next(self) -> Any:
        return self.executor.next(self.number)

    def close(self) -> None:
        if self._end.detach() is not None:
            self.executor.close(self.number)


class StreamReader(Closing):
    """Reads the stream of a plan, from any position to any other.

    Args:
        executor: gives the one that makes the elements; another one where the last is worn out.
        plan: the stream.
        prefetch: elements to make ahead.
        quarantine: is told of bad records.
        open_scheduler: gives the scheduler of the plan from a position on.
        alone: whether nobody else has to make the same steps.
    """

    def __init__(
        self,
        executor: Callable[[], Executor],
        plan: StreamPlan,
        prefetch: int,
        quarantine: Quarantine,
        *,
        open_scheduler: OpenScheduler = open_scheduler,
        alone: bool = False,
    ) -> None:
        self._open_scheduler = open_scheduler
        self._find_executor = executor  # holds the loader's workers, which end when nobody does
        self._plan = plan
        self._executor = executor()
        self._prefetch = prefetch
        self._quarantine = quarantine
        self._lock = threading.RLock()
        self._position = plan.first_position()
        self._received: Position | None = None  # the user's place, while somebody takes elements ahead
        self._moves = 0  # by the user, to another place
        self._q = max(1, plan.batching.stride // plan.logical_streams)
        self._stream: _StreamHandle | None = None
        self._upcoming: deque[Element] = deque()  # taken from the executor and not handed out
        self._error: Exception | None = None
        self._raised_at: TracebackType | None = None
        self._failed: _Failed | None = None
        self._moving = False
        self._closed = False
        self._alone = alone or not plan.asks_others  # nobody else has to make the same steps
        # Whether an element that is there may be handed out without asking anything else.
        self._unhindered = self._alone and plan.num_steps is None
        self._end_agreement: EndOfStreamAgreement | None = None
        self._behind_last = 0  # lost behind the last element, once the end was met

    def _take(self, *, tell: bool) -> Element:
        # Few calls where the element is there: after a long step each of them is in nobody's cache any more.
        if not (self._upcoming and self._unhindered) or self._moving or self._executor.shut:
            self._reach()
        element = self._upcoming[0]
        if element.losses:
            self._check_losses(element)
            if tell:  # before it moves: that may be interrupted, and tells each once
                self._tell(element.losses, self._position.step)
        self._moving = True
        self._upcoming.popleft()
        self._position = element.behind
        self._moving = False
        return element

    def _reach(self) -> None:
        """Sees to it that an element is there to hand out, and may be: StopIteration where the run ends."""
        num_steps = self._plan.num_steps
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
            if element.exhausted:
                others.exhausted(step + element.more)
        elif not others.goes_past(step, total=step - 1):
            raise StopIteration

    def _others(self) -> EndOfStreamAgreement:
        if self._end_agreement is None:
            store = self._plan.shard.store
            assert store is not None
            self._end_agreement = EndOfStreamAgreement(store, name_of(self._plan))
        return self._end_agreement

    def _tell(self, losses: tuple[Loss, ...], step: int) -> None:
        self._quarantine.take_in(losses, self._executor.source_name, step)

    def _elements(self, step: Delivery) -> Iterator[Element]:
        """Those that the executor gave, which come behind the position one after the other."""
        behind = self._position
        for place, value in enumerate(step.values):
            behind = self._plan.after(behind, None if step.ends is None else step.ends[place])
            losses = () if step.losses is None else step.losses.get(place, ())
            if losses:
                behind = behind._replace(losses=with_losses(self._plan, behind.losses, losses, self._q))
            yield Element(value, behind, step.begins, losses, step.masked, step.more, step.exhausted)

    def _check_losses(self, element: Element) -> None:
        self._refuse_losses(element.behind, element.behind.losses, element.losses[-1])

    def _refuse_losses(self, behind: Position, losses: BadRecords, latest: Loss) -> None:
        try:
            check_losses(self._plan, behind, losses, latest)
        except BadRecordsError as error:
            self._move_to(self._position)
            self._error, self._raised_at = error, error.__traceback__
            raise

    def _fill(self) -> None:
        """Sees to it that an element is there."""
        if self._closed:
            raise IteratorClosedError("the iterator was closed; iter(loader) gives another")
        if self._upcoming and not self._moving:
            self._executor.check()
            return None
        if self._moving:
            # An interrupt fell between taking an element and moving on, or into a move to another place: what the
            # stream gives next is uncertain.
            self._move_to(self._position)
        if self._error is not None:
            # Raised again as it came, or its traceback would grow with every call.
            raise BaseException.with_traceback(self._error, self._raised_at)
        stream = self._running()
        self._moving = True
        try:
            step = stream.next()
        except PoisonedError:
            # By an interrupt in this or another iterator of the loader: on with a new executor.
            self._move_to(self._position)
            return self._fill()
        except BaseException:
            self._move_to(self._position)
            raise
        if isinstance(step, Delivery):
            self._upcoming.extend(self._elements(step))
            self._moving = False
            return None
        self._moving = False
        if isinstance(step, End):
            if step.losses:
                known = with_losses(self._plan, self._position.losses, step.losses, self._q)
                self._refuse_losses(self._position, known, step.losses[-1])
                self._tell(step.losses, self._position.step)
                self._behind_last = known.count - self._position.losses.count
            raise StopIteration
        if not self._alone:
            self._others().stop()
        # Nothing comes behind a failure. A stream that still held it would hold us too, through its traceback.
        scheduler = stream.scheduler
        behind = scheduler.behind_failure if isinstance(scheduler, StreamScheduler) else None
        self._move_to(self._position)
        self._failed = _Failed(self._position, _passed_with(step), behind)
        self._error = explained(
            step, self._plan, self._position, self._executor.source_name, self._executor.record_name
        )
        self._raised_at = self._error.__traceback__
        raise self._error

    def _running(self) -> _StreamHandle:
        if self._stream is None:
            if self._executor.worn_out:
                self._executor = self._find_executor()
            plan, position, q, prefetch = self._plan, self._position, self._q, self._prefetch
            made: list[Scheduler] = []

            def make(context: SchedulerContext) -> Scheduler:
                made.append(self._open_scheduler(plan, position, q, prefetch, context))
                return made[0]

            number = self._executor.open(make, plan.search(position))
            self._stream = _StreamHandle(self._executor, number, made[0])
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
        if (others := self._end_agreement) is not None:
            others.closed = True
        with self._lock:
            failed = self._failed
            self._move_to(self._position)
            self._failed, self._closed = failed, True
            others, self._end_agreement = self._end_agreement, None
            _leave(others)

    @property
    def _standing(self) -> Position:
        return self._position if self._received is None else self._received

    def _go_to(self, position: Position, q: int) -> None:
        # The user's move, with q of the streams from there on. Whatever line an interrupt falls on, it stands where it
        # stood or there, and so does a wrapper: all that says where is set in one statement without a call.
        others = self._end_agreement
        there = position, None if self._received is None else position, self._moves + 1, q, None
        self._moving = True  # until it is there: what was made for the place before isn't handed out
        self._position, self._received, self._moves, self._q, self._end_agreement = there
        self._move_to(position)
        _leave(others)

    def _move_to(self, position: Position) -> None:
        stream, self._stream = self._stream, None
        # All of it before the position: an interrupt must leave nothing that belongs elsewhere.
        self._upcoming.clear()
        self._error = self._raised_at = self._failed = None
        self._behind_last = 0
        self._position, self._moving = position, False
        if stream is not None:
            stream.close()

    def _check_open(self) -> None:
        if self._closed:
            raise IteratorClosedError("the iterator was closed; iter(loader) gives another")


def _leave(others: EndOfStreamAgreement | None) -> None:
    if others is not None:
        with contextlib.suppress(Exception):  # a courtesy: the store may be gone already
            others.stop()
