"""The workers that a loader, its epochs and their iterators share: made when needed, ended with the last of them."""

import contextlib
import threading
import weakref
from typing import Protocol

from loaderkit._base.closing import uninterrupted
from loaderkit._runtime.executors.executor import Hub
from loaderkit._runtime.executors.worker_pool import Pool
from loaderkit._runtime.worker.program import Program
from loaderkit.errors import IteratorClosedError

_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def end_workers() -> None:
    """Ends all workers of this process, before the interpreter takes its modules apart.

    The package registers it as an exit handler: a pump or a thread must not run into that.
    """
    for pool in list(_pools):
        with contextlib.suppress(KeyboardInterrupt):  # a wish to end, which is what happens
            uninterrupted(pool.shut_down)


class Employer(Protocol):
    """The loader that elements are made for."""

    def _program(self) -> Program: ...

    def _make_hub(self) -> Hub: ...


class Crew:
    """The hub that a loader and its epochs share, made when it is first needed and ended when the last of them goes."""

    def __init__(self) -> None:
        self._hub: Hub | None = None
        self._closed = False
        self._lock = threading.Lock()

    def hub(self, loader: Employer) -> Hub:
        """The hub to use now; another one where the last can't be used, or runs what the operations were before."""
        with self._lock:
            return self._current(loader)

    def _current(self, loader: Employer) -> Hub:
        if self._closed:
            raise IteratorClosedError("the loader was closed")
        if self._hub is None or not self._hub.usable or not self._hub.runs(loader._program()):
            self._hub = loader._make_hub()
            if isinstance(self._hub, Pool):
                _pools.add(self._hub)
                weakref.finalize(self, self._hub.stop).atexit = False
        return self._hub

    def close(self) -> None:
        self._closed = True
        if self._hub is not None:
            uninterrupted(self._hub.shut_down)
