"""The reader of a stream: its plan, a position, and the open stream whose elements follow it.

`DataLoaderIterator`, `Lookahead` and the iterator of Grain's names hold one. Invariants, all under one lock:

    the position moves on when an element is handed out; else only `go_to` and `go_back` change it
    the plan changes in `go_to` and `continue_with` only: where a mixture has other weights from an index on
    the elements right after the position are ready; the open stream, if there is one, gives those after them
    an error belongs to a position: the next element raises it again until the position is set anew

With a lookahead (iterator.py) the position runs ahead of the user, whose place is then what was received.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, NamedTuple, Never, Protocol, TypeVar

from loaderkit._engine.scheduler import Scheduler, SchedulerContext
from loaderkit._engine.stats.counters import PoolCounters, TrainerCounters
from loaderkit._engine.stats.timeline import Timeline
from loaderkit._engine.task import End
from loaderkit._order.facts import Facts, Failure, Loss
from loaderkit._plan.stream_plan import P, StreamPlan
from loaderkit._runtime.cluster.end_of_stream import EndOfStreamAgreement
from loaderkit._runtime.executors.executor import Delivery, Executor, PoisonedError, Stream
from loaderkit.errors import BadRecordsError, IteratorClosedError

from .error_notes import explained
from .profiler_session import session_timeline
from .quarantine import Quarantine
from .trainer_meter import DeliveryCounters, TrainerMeter

PlanT = TypeVar("PlanT", bound=StreamPlan[Any])


class Element(NamedTuple, Generic[P]):
    """Something to hand to the user.

    value   it
    after   the position after it
    losses  the bad records that are lost with it
    facts   what else the scheduler knows of it
    """

    value: Any
    after: P
    losses: tuple[Loss, ...]
    facts: Facts


class Watch(Protocol):
    """What compares the elements of a stream; it may raise, and the next element raises that again."""

    def before_stream(self, plan: Any, position: Any) -> None:
        """The stream is about to begin at a position."""
        ...

    def after_step(self, plan: Any, before: Any, after: Any, value: Any) -> None:
        """An element was made, between two positions."""
        ...


class StreamReader(Generic[P, PlanT]):
    """Reads the stream of a plan, from any position to any other.

    Args:
        find_executor: gives the one that makes the elements; another one where the last can't go on. It holds the
            loader's workers, which end with the last reference to them.
        plan: the stream.
        open_scheduler: gives the scheduler of a plan's stream from a position on.
        quarantine: is told of bad records.
        agreement: makes what agrees with other processes on the last step of a plan; None where no other makes the same
            steps.
        watch: is told of the stream and its elements; what it raises, the next element raises again.
    """

    def __init__(
        self,
        find_executor: Callable[[], Executor],
        plan: PlanT,
        open_scheduler: Callable[[PlanT, P, SchedulerContext], Scheduler],
        quarantine: Quarantine,
        *,
        agreement: Callable[[PlanT], EndOfStreamAgreement] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._find_executor, self._open_scheduler = find_executor, open_scheduler
        self.plan, self._quarantine, self._watch = plan, quarantine, watch
        self._make_agreement = agreement
        self._agreement: EndOfStreamAgreement | None = None
        # Whether an element that is ready may be handed out without asking anything else.
        self._nothing_to_ask = agreement is None and plan.num_steps is None
        self.lock = threading.RLock()
        self.executor = find_executor()
        self._renew = False
        self.position: P = plan.first_position()
        self.moves = 0  # by the user, to another place
        # called once, when the next element is made
        self.after_next: dict[str, Callable[[Executor], None]] = {}
        self.meter = TrainerMeter()
        self._timeline: Timeline | None = None  # that `trace` was given
        self._delivered = DeliveryCounters(0, 0, 0, self.position)  # until the last move
        self._before = self.executor.statistics()  # what others had done there
        self._earlier = PoolCounters(())  # of executors that were replaced
        self._at_close: tuple[TrainerCounters, PoolCounters] | None = None
        self._received: P | None = None  # the user's place, while a lookahead takes elements ahead
        self._at_end: P | None = None  # once the end was met: with the bad records after the last element
        self._stream: Stream | None = None
        self._ready: deque[Element[P]] = deque()  # taken from the stream and not handed out
        self._error: Exception | None = None
        self._raised_at: TracebackType | None = None
        self._failed: tuple[P, P | None] | None = None  # where next() failed, and the position after that
        # An interrupt fell into the taking of elements, into handing one out, or into a move, if this is found True:
        # what the stream gives next is uncertain.
        self._in_transition = self._closed = False

    # --- elements -----------------------------------------------------------------------------------------------

    def take(self, *, ahead: bool = False) -> Element[P]:
        """The next element; the position moves on. Raises what next() does.

        Args:
            ahead: whether a lookahead takes it. The user then hears of its bad records when it is received.
        """
        with self.lock:
            if not ahead and self._received is not None:
                self._refuse_wrapped()
            # Keep this path short: after a long training step a call costs about 8 us, for its code has left the cache.
            if not (self._ready and self._nothing_to_ask) or self._in_transition or self.executor.closed:
                self._make_available()
            element = self._ready[0]
            if element.losses:
                self._check_losses(element.after, element.losses[-1])
                if not ahead:
                    # Before the move: an interrupt leaves the position, and the next call reports only what is missing.
                    self._tell(element.losses, self.position)
            self._in_transition = True
            self._ready.popleft()
            self.position = element.after
            self._in_transition = False
            return element

    def peek(self) -> Element[P]:
        """The element that `take` will give; the position stays. Raises what next() does."""
        with self.lock:
            if self._received is not None:
                self._refuse_wrapped()
            self._make_available()
            element = self._ready[0]
            if element.losses:
                self._check_losses(element.after, element.losses[-1])
            return element

    def _make_available(self) -> None:
        """Makes the next element ready, and sure that it may be handed out: StopIteration where the run ends."""
        num_steps = self.plan.num_steps
        if num_steps is not None and self.position.step >= num_steps and not self._closed:
            raise StopIteration
        self.check_open()
        if self._in_transition:
            self._restart_at(self.position)
        if self._ready:
            self.executor.check()
        elif self._error is not None:
            # Raised again as it came, or its traceback would grow with every call.
            raise BaseException.with_traceback(self._error, self._raised_at)
        while not self._ready:
            stream = self._open_stream()
            begun, blocked = time.perf_counter_ns(), stream.blocked.nanoseconds
            self.meter.before_asking(begun)
            self._in_transition = True
            try:
                result = stream.next()
            except BaseException as error:
                self.meter.asked(begun, stream.blocked.nanoseconds - blocked, given=0)
                self._restart_at(self.position)
                if not isinstance(error, PoisonedError):
                    raise
                continue  # by an interrupt in this or another iterator of the loader: on with a new executor
            given = len(result.values) if isinstance(result, Delivery) else 0
            self.meter.asked(begun, stream.blocked.nanoseconds - blocked, given=given)
            stream.blocked.lost = self.meter.exposed_share
            if not isinstance(result, Delivery):
                self._in_transition = False
                if isinstance(result, End):
                    self._end(result.losses)
                self._fail(result)
            self._ready.extend(self._elements(result))
            self._in_transition = False
            while self.after_next:
                self.after_next.popitem()[1](self.executor)
        if self._make_agreement is not None:
            self._agree(self._ready[0].facts, self._agreed_with(self._make_agreement))

    def _agree(self, facts: Facts, agreement: EndOfStreamAgreement) -> None:
        # Here and not when the position moves: what was agreed is agreed, also for an element that is only looked at.
        step = self.position.step + 1
        if not facts.masked:
            agreement.before(step, sure=step + facts.more)
            if facts.exhausted:
                agreement.exhausted(step + facts.more)
        elif not agreement.goes_past(step, total=step - 1):
            raise StopIteration

    def _agreed_with(self, make: Callable[[PlanT], EndOfStreamAgreement]) -> EndOfStreamAgreement:
        if self._agreement is None:
            self._agreement = make(self.plan)
        return self._agreement

    def _tell(self, losses: tuple[Loss, ...], at: P) -> None:
        self._quarantine.take_in(losses, self.executor.source_name, at.step)
        if (timeline := self.meter.timeline) is not None:
            indices = [loss.index for loss in losses]
            timeline.add("trainer", "bad records", time.perf_counter_ns(), step=at.step, indices=indices)

    def _check_losses(self, at: P, latest: Loss) -> None:
        try:
            self.plan.check_bad_records(at, latest)
        except BadRecordsError as error:
            self._restart_at(self.position)
            self._error, self._raised_at = error, error.__traceback__
            raise

    def _elements(self, delivery: Delivery) -> Iterator[Element[P]]:
        """What was delivered, each with the position after it."""
        plan, facts, after = self.plan, delivery.facts, self.position
        for k, value in enumerate(delivery.values):
            before, after = after, plan.after(after, facts, k)
            try:
                if self._watch is not None:
                    self._watch.after_step(plan, before, after, value)
            except Exception:
                if k == 0:
                    raise
                return self._close_stream()  # what was made before comes first; then this again
            yield Element(value, after, () if facts.losses is None else facts.losses.get(k, ()), facts)

    def _end(self, losses: tuple[Loss, ...]) -> Never:
        if losses:
            at_end = self.plan.after_losses(self.position, losses)
            self._check_losses(at_end, losses[-1])
            self._tell(losses, self.position)
            self._at_end = at_end
        raise StopIteration

    def _fail(self, failure: Failure) -> Never:
        if self._make_agreement is not None:
            self._agreed_with(self._make_agreement).stop()
        # Nothing comes after a failure. A stream that still held it would hold this reader too, by its traceback.
        self._restart_at(self.position)
        self._error = explained(
            failure, self.plan, self.position, self.executor.source_name, self.executor.record_name
        )
        self._raised_at = self._error.__traceback__
        self._failed = self.position, self.plan.after_failure(self.position, failure)
        raise self._error

    def _open_stream(self) -> Stream:
        self.find_executor()
        timeline = self._timeline or session_timeline()
        if timeline is not self.executor.timeline:
            self.executor.trace(timeline)
        self.meter.timeline = timeline
        if self._stream is None:
            open_scheduler, plan, position = self._open_scheduler, self.plan, self.position
            if self._watch is not None:
                self._watch.before_stream(plan, position)
            self._stream = self.executor.open(lambda context: open_scheduler(plan, position, context))
        return self._stream

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def statistics(self) -> tuple[TrainerCounters, PoolCounters]:
        """What the user of this stream and its workers did so far, after close() until then."""
        if self._at_close is not None:
            return self._at_close
        pool = self.executor.statistics()
        if pool.executor:  # else this is a fork of its process, where nothing is known of it
            pool = pool.after(self._earlier).since(self._before)
        trainer = self.meter.counters(self._delivered.until(self.at_end, self.plan))
        return trainer, replace(pool, ready=len(self._ready))

    def trace(self, timeline: Timeline | None) -> None:
        """Records from the next element on; without a timeline in that of a profiler's session, while one is on."""
        self._timeline = timeline

    def start_prefetch(self) -> None:
        """Begins to make elements now instead of at the first `take`."""
        with self.lock:
            self.check_open()
            self._open_stream()

    # --- where it stands ----------------------------------------------------------------------------------------

    @property
    def user_position(self) -> P:
        """Where the user stands."""
        return self.position if self._received is None else self._received

    @property
    def at_end(self) -> P:
        """Where the user stands, with the bad records after the last element once the end was met."""
        at_end = self._at_end if self.user_position is self.position else None  # else a lookahead has met it
        return self.user_position if at_end is None else at_end

    @property
    def after_failure(self) -> P | None:
        """The position after what next() failed on; None where that isn't known.

        Raises LookupError where the user doesn't stand at a failure.
        """
        if self._failed is None or self._failed[0] is not self.user_position:
            raise LookupError("next() hasn't failed here")
        return self._failed[1]

    def go_to(self, position: P, plan: PlanT | None = None) -> None:
        """Goes to a position, as the user says. IteratorClosedError after close().

        Args:
            position: one of the plan.
            plan: the stream from now on; the present one if not given.
        """
        with self.lock:
            self.check_open()
            # Whatever line an interrupt falls on, it stands where it stood or there, and so does a lookahead: all that
            # says where is set in one statement without a call.
            agreement = self._agreement
            plan = self.plan if plan is None else plan
            received = None if self._received is None else position
            delivered = self._delivered.until(self.at_end, self.plan)._replace(at=position)
            there = position, plan, received, self.moves + 1, None, delivered
            # Until it is there: what was made for the place before isn't handed out.
            self._in_transition = True
            self.position, self.plan, self._received, self.moves, self._agreement, self._delivered = there
            # What was made for the place before is dropped; where that is interrupted, `_in_transition` makes the next
            # call do it.
            self._restart_at(position)
            _leave(agreement)

    def continue_with(self, plan: PlanT, position: P) -> None:
        """Goes on with another plan, whose stream is the same up to the position. IteratorClosedError after close().

        What a lookahead took stays, and so does the user's place.

        Args:
            plan: the stream from now on.
            position: the present one, as the plan has it.
        """
        with self.lock:
            self.check_open()
            agreement = self._agreement
            there = plan, position, position if self._received is self.position else self._received, None
            self._in_transition = True  # as in `go_to`
            self.plan, self.position, self._received, self._agreement = there
            self._restart_at(position)
            _leave(agreement)

    def renew_executor(self) -> None:
        """Has the next stream run in an executor of the program as it is then."""
        self._renew = True

    def find_executor(self) -> Executor:
        """The executor of the stream that is open, or of the next one."""
        if self._stream is None and (self._renew or not self.executor.usable) and not self.executor.closed:
            self._renew = False
            executor, earlier = self._find_executor(), self.executor.statistics().after(self._earlier)
            self.executor, self._earlier = executor, earlier
        return self.executor

    def _restart_at(self, position: P) -> None:
        """Stands at a position, without an open stream and with nothing ready."""
        stream, self._stream = self._stream, None
        self.meter.moved()
        # All of it before the position: an interrupt must leave nothing that belongs elsewhere.
        self._ready.clear()
        self._error = self._raised_at = self._failed = self._at_end = None
        self.position, self._in_transition = position, False
        if stream is not None:
            stream.close()

    # --- a lookahead --------------------------------------------------------------------------------------------

    def wrap(self) -> None:
        """From now on a lookahead takes the elements. RuntimeError where one does already."""
        with self.lock:
            self.check_open()
            if self._received is not None:
                self._refuse_wrapped()
            self._received = self.position

    def receive(self, element: Element[P], before: P) -> None:
        """The user has an element that was taken ahead at a position."""
        if element.losses:
            self._tell(element.losses, before)
        self._received = element.after

    def go_back(self) -> None:
        """To where the user stands: what was taken ahead comes again."""
        self._restart_at(self.user_position)

    def _refuse_wrapped(self) -> Never:
        raise RuntimeError(
            "this iterator is wrapped, and its elements go to the wrapper: take them there. Its position, state, "
            "seek and close work here too"
        )

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the making of elements; the position can still be asked for. Closing twice does nothing."""
        # Before the lock: another thread may wait in next() with it.
        stream = self._stream
        if stream is not None:
            stream.close()
        if (agreement := self._agreement) is not None:
            agreement.closed = True
        with self.lock:
            self.meter.close()
            self._at_close = self.statistics()
            failed = self._failed
            self._restart_at(self.position)
            self._failed, self._closed = failed, True
            agreement, self._agreement = self._agreement, None
            _leave(agreement)

    def check_open(self) -> None:
        """Raises IteratorClosedError after close()."""
        if self._closed:
            raise IteratorClosedError("the iterator was closed; iter(loader) gives another")


def _leave(agreement: EndOfStreamAgreement | None) -> None:
    if agreement is not None:
        with contextlib.suppress(Exception):  # a courtesy: the store may be gone already
            agreement.stop()
