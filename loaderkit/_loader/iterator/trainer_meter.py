"""What the trainer's thread does, from one asking of the stream to the next.

The clock is read where the iterator asks its stream for elements, which come in bulk where they are small. next() on
an element that is ready reads no clock and counts nothing.
"""

import threading
import time
from collections import deque
from typing import Any, Generic, NamedTuple, Self

from loaderkit._engine.stats.counters import Exposed, TrainerCounters
from loaderkit._engine.stats.stats import new_number
from loaderkit._engine.stats.timeline import Timeline
from loaderkit._plan.stream_plan import P, StreamPlan

from .device_watch import DeviceWatch, check_loss

# A gap between two calls is a pause (compilation, evaluation, a checkpoint) where it is longer than a second and than
# so many gaps as usual.
_PAUSE_NS, _PAUSE_GAPS = 10**9, 10
_REMEMBERED_GAPS = 63


class DeliveryCounters(NamedTuple, Generic[P]):
    """What was handed out until a position.

    elements, records, bad_records: how many; records are this process's. at: the position, or where a move from it led.
    """

    elements: int
    records: int
    bad_records: int
    at: P

    def until(self, position: P, plan: StreamPlan[Any]) -> Self:
        """With what came up to a later position of a plan."""
        records, bad_records = plan.counts_between(self.at, position)
        elements = self.elements + position.step - self.at.step
        return type(self)(elements, self.records + records, self.bad_records + bad_records, position)


class TrainerMeter:
    """Counters of one iterator, which only grow; one thread at a time changes them, under the reader's lock."""

    def __init__(self) -> None:
        self.number = new_number()  # of what it counts, for snapshots
        self._first_ns: int | None = None  # when the first element was there
        self._last_ns = 0  # when the stream was asked last, or answered
        self._asked_ns: int | None = None  # when the stream was asked that hasn't answered yet
        self._closed_ns: int | None = None  # when the iterator was closed: its time ends there
        self._thread = 0  # that asked
        self._opening = self._opening_since_first = self._waiting = self._handing = self._paused = 0
        self._paused_told = self._waiting_told = 0  # with a pause and a call that had not ended
        self._openings = self._blocked_calls = self._placing = 0
        self._opened = True  # the next answer is the first after an opening, a seek or a restore
        self._watch: DeviceWatch | None = None
        self.timeline: Timeline | None = None  # that is recorded now
        self.exposed_share = 1.0  # of the blocked time; all of it where losses don't tell
        self._gaps: deque[int] = deque(maxlen=_REMEMBERED_GAPS)  # for each element
        self._given = 1

    def moved(self) -> None:
        """The stream was ended: the next answer is the first of another."""
        self._opened = True

    def before_asking(self, now: int) -> None:
        """The stream is asked now, by perf_counter_ns."""
        self._thread = threading.get_ident()
        if self._first_ns is not None:
            gap = now - self._last_ns
            if gap > _PAUSE_NS:
                self._paused += self._pause_of(gap)
            self._gaps.append(gap // self._given)
        self._last_ns = self._asked_ns = now
        if self._watch is not None:
            self._watch.before_asking(now)

    def asked(self, begun: int, blocked: int, *, given: int) -> None:
        """The stream was asked and has answered, or was interrupted.

        Args:
            begun: when it was asked, by perf_counter_ns.
            blocked: nanoseconds for which it waited for workers, or worked itself.
            given: elements that it gave; the next gap has so many steps.
        """
        now = time.perf_counter_ns()
        self._asked_ns = self._closed_ns = None  # before the sums: `counters` reads them first
        self._given, self._last_ns = max(given, 1), now
        if self.timeline is not None:
            self.timeline.add("trainer", "next()", begun, now, elements=given, blocked_us=blocked / 1000)
        if self._opened:
            self._count_opening(now - begun, now, given=given > 0)
            return
        self._handing += now - begun - blocked
        if blocked:
            self._waiting += blocked
            self._blocked_calls += given > 0
            if self._watch is not None:
                self._watch.judge(begun, now)
                exposed = self._watch.result().share
                self.exposed_share = 1.0 if exposed is None else exposed

    def _count_opening(self, taken: int, now: int, *, given: bool) -> None:
        self._opening += taken
        if self._first_ns is not None:
            self._opening_since_first += taken
        elif given:
            self._first_ns = now
        self._openings += given
        self._opened = not given

    def _pause_of(self, gap: int) -> int:
        """The part of a gap that is a pause; 0 where it is as long as usual.

        A long first gap is one: most often the step was compiled in it.
        """
        each = gap // self._given
        usual = 0 if each > _PAUSE_NS else each
        if self._gaps:
            usual = sorted(self._gaps)[(len(self._gaps) - 1) // 2]
        usual *= self._given
        return gap - usual if gap > max(_PAUSE_NS, _PAUSE_GAPS * usual) else 0

    def see_loss(self, loss: Any) -> None:
        """What `DataLoaderIterator.watch` does."""
        check_loss(loss)
        if self._watch is None:
            self._watch = DeviceWatch()
        self._watch.see(loss)

    @property
    def exposed(self) -> Exposed | None:
        """What the losses told; None without any."""
        return None if self._watch is None else self._watch.result()

    def close(self) -> None:
        """Ends the time, and the thread that waits for losses, if there is one."""
        if self._closed_ns is None:
            self._closed_ns = time.perf_counter_ns()
        if self._watch is not None:
            self._watch.close()

    def placed(self, nanoseconds: int) -> None:
        """A batch was sent to devices; that is a part of the trainer's own time."""
        self._placing += nanoseconds
        if self.timeline is not None:
            now = time.perf_counter_ns()
            self.timeline.add("transfers", "to devices", now - nanoseconds, now)

    def counters(self, handed_out: DeliveryCounters[Any]) -> TrainerCounters:
        """What was counted so far."""
        now = time.perf_counter_ns() if self._closed_ns is None else self._closed_ns
        opening, since_first, waiting = self._opening, self._opening_since_first, self._waiting
        first, asked = self._first_ns, self._asked_ns
        # The thread that asks for this isn't in next(): it may have left its loop long ago.
        if threading.get_ident() == self._thread:
            if first is not None:
                self._paused_told = max(self._paused_told, self._paused + self._pause_of(now - self._last_ns))
        elif asked is not None:  # another thread is in next(), which may be blocked for long
            open_ns = max(0, now - asked)
            if not self._opened:
                waiting += open_ns
            elif first is None:
                opening += open_ns
            else:
                opening, since_first = opening + open_ns, since_first + open_ns
        self._waiting_told = max(self._waiting_told, waiting)
        return TrainerCounters(
            elapsed=0 if first is None else now - first,
            opening=opening,
            opening_since_first=since_first,
            waiting=self._waiting_told,
            handing=self._handing,
            placing=self._placing,
            paused=max(self._paused, self._paused_told),
            elements=handed_out.elements,
            after_first=max(0, handed_out.elements - 1),
            openings=min(self._openings, handed_out.elements),
            blocked_calls=self._blocked_calls,
            records=handed_out.records,
            bad_records=handed_out.bad_records,
        )
