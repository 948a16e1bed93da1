"""Whether the device has something to do while next() is blocked: what `it.watch(loss)` finds out.

JAX dispatches ahead: where next() waits, the device may still be at work on earlier steps. So a thread waits for the
loss of the last step before a call that may block, and notes when it was there. If the call was blocked for longer than
that, the device had nothing to do for the difference. About one call a second is judged so. Other libraries' arrays
with `block_until_ready` work too.
"""

import queue
import threading
import time
import weakref
from typing import Any

from loaderkit._engine.stats.counters import Exposed

_EVERY_NS = 10**9  # from one call that is judged to the next
# A loss is waited for before it is known whether the call blocks: of those that don't, this part of `_EVERY_NS` goes by
# in between, or a loader that is never waited for would wake the thread at each step.
_TRIES = 20
_MOST_WAITING = 32  # losses, where a device hangs


class _Stamp:
    """When one loss was there; None until then."""

    __slots__ = ("failed", "ready_ns")

    def __init__(self) -> None:
        self.ready_ns: int | None = None
        self.failed = False


class DeviceWatch:
    """Looks at losses now and then, in a daemon thread that ends with this object."""

    def __init__(self) -> None:
        self._losses: queue.SimpleQueue[tuple[Any, _Stamp] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=_wait_for, args=(self._losses,), name="loaderkit-watch", daemon=True
        )
        self._end = weakref.finalize(self, self._losses.put, None)
        self._end.atexit = False
        self._loss: Any = None  # of the latest step, until the stream is asked
        self._tried_ns = self._judged_ns = 0
        self._stamp: _Stamp | None = None
        self._exposed = self._judged = self._calls = 0
        self._thread.start()

    def see(self, loss: Any) -> None:
        """The loss of the step that was just dispatched; most are let go without a look."""
        self._loss = loss

    def before_asking(self, now: int) -> None:
        """The stream is asked now, by perf_counter_ns, which may block."""
        loss, self._loss, self._stamp = self._loss, None, None
        if loss is None or now - self._judged_ns < _EVERY_NS or now - self._tried_ns < _EVERY_NS // _TRIES:
            return
        if self._losses.qsize() < _MOST_WAITING:
            self._tried_ns, self._stamp = now, _Stamp()
            self._losses.put((loss, self._stamp))

    def judge(self, begun: int, ended: int) -> None:
        """A call of next() was blocked: from and to when, by perf_counter_ns."""
        stamp, self._stamp = self._stamp, None
        if stamp is None or stamp.failed:
            return
        self._judged_ns = ended
        self._calls += 1
        self._judged += ended - begun
        if stamp.ready_ns is not None:
            self._exposed += max(0, ended - max(begun, stamp.ready_ns))

    def result(self) -> Exposed:
        """What was found so far."""
        return Exposed(self._exposed, self._judged, self._calls)

    def close(self) -> None:
        """Ends the thread; a loss that it waits for is waited for."""
        self._end()


def check_loss(loss: Any) -> None:
    """Raises TypeError or ValueError where a loss can't be watched."""
    if not callable(getattr(loss, "block_until_ready", None)):
        raise TypeError(
            f"loss: expected a jax.Array that the step returns, got {type(loss).__name__}; give the array, not "
            "float(loss)"
        )
    deleted = getattr(loss, "is_deleted", None)
    if callable(deleted) and deleted():
        raise ValueError(
            "loss: expected an array that is there, got one that was donated; give an output of the step"
        )


def _wait_for(losses: "queue.SimpleQueue[tuple[Any, _Stamp] | None]") -> None:
    while (item := losses.get()) is not None:
        loss, stamp = item
        try:
            loss.block_until_ready()
        except Exception:  # noqa: BLE001 - a failed or donated step: the trainer hears of it elsewhere
            stamp.failed = True
        else:
            stamp.ready_ns = time.perf_counter_ns()
        del item, loss, stamp
