"""What the trainer's thread does, from one asking of the stream to the next.

The clock is read where the iterator asks its stream for elements, which come in bulk where they are small. next() on
an element that is ready reads no clock and counts nothing.
"""

import time
from collections import deque
from typing import Any

from loaderkit._stats.exposed import Exposed
from loaderkit._stats.trainer import TrainerCounters

from .device_watch import DeviceWatch, check_loss

# A gap between two calls is a pause (compilation, evaluation, a checkpoint) where it is longer than a second and than
# so many gaps as usual.
_PAUSE_NS, _PAUSE_GAPS = 10**9, 10
_REMEMBERED_GAPS = 63


class TrainerMeter:
    """Counters of one iterator, which only grow; one thread at a time changes them, under the reader's lock."""

    def __init__(self) -> None:
        self._first_ns: int | None = None  # when the first element was there
        self._last_ns = 0  # when the stream was asked last, and answered
        self._opening = self._opening_since_first = self._waiting = self._handing = self._paused = 0
        self._blocked_calls = self._elements = self._placing = self._placed = 0
        self._opened = True  # the next answer is the first after an opening, a seek or a restore
        self._watch: DeviceWatch | None = None
        self._gaps: deque[int] = deque(maxlen=_REMEMBERED_GAPS)

    def moved(self) -> None:
        """The stream was ended: the next answer is the first of another."""
        self._opened = True

    def asked(self, begun: int, blocked: int, elements: int) -> None:
        """The stream was asked and has answered.

        Args:
            begun: when it was asked, by perf_counter_ns.
            blocked: nanoseconds for which it waited for workers, or worked itself.
            elements: that it gave.
        """
        now = time.perf_counter_ns()
        if self._first_ns is not None:
            self._count_gap(begun - self._last_ns)
        handing = max(0, now - begun - blocked)
        if self._opened:
            self._opening += now - begun
            if self._first_ns is not None:
                self._opening_since_first += now - begun
        else:
            self._waiting += blocked
            self._handing += handing
            self._blocked_calls += blocked > 0
            if blocked and self._watch is not None:
                self._watch.judge(begun, now)
        self._elements += elements
        self._last_ns = now
        if elements:
            self._opened = False
            if self._first_ns is None:
                self._first_ns = now

    def _count_gap(self, gap: int) -> None:
        if gap > _PAUSE_NS:
            usual = sorted(self._gaps)[len(self._gaps) // 2] if self._gaps else 0
            if gap > _PAUSE_GAPS * usual:
                self._paused += gap - usual
                return
        self._gaps.append(gap)

    def dropped(self, elements: int) -> None:
        """Elements that the stream gave won't be handed out."""
        self._elements -= elements

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
        """Ends the thread that waits for losses, if there is one."""
        if self._watch is not None:
            self._watch.close()

    def placed(self, nanoseconds: int) -> None:
        """A batch was sent to devices; that is a part of the trainer's own time."""
        self._placing += nanoseconds
        self._placed += 1

    def counters(self, *, ready: int) -> TrainerCounters:
        """What was counted so far. ready: elements that were taken from the stream and not handed out."""
        now = time.perf_counter_ns()
        return TrainerCounters(
            elapsed=0 if self._first_ns is None else now - self._first_ns,
            opening=self._opening,
            opening_since_first=self._opening_since_first,
            waiting=self._waiting,
            handing=self._handing,
            placing=self._placing,
            paused=self._paused,
            elements=self._elements - ready,
            blocked_calls=self._blocked_calls,
        )
