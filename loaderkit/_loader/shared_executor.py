"""The workers that a loader, its epochs and their iterators share: made when needed, ended with the last of them."""

import contextlib
import threading
import weakref
from typing import Protocol

from loaderkit._base.closing import uninterrupted
from loaderkit._runtime.executors.executor import Executor
from loaderkit._runtime.executors.worker_pool import WorkerPool
from loaderkit._runtime.worker.program import Program
from loaderkit.errors import IteratorClosedError

_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def end_workers() -> None:
    """Ends all workers of this process, before the interpreter takes its modules apart.

    The package registers it as an exit handler: a pump or a thread must not run into that.
    """
    for pool in list(_pools):
        with contextlib.suppress(KeyboardInterrupt):  # a wish to end, which is what happens
            uninterrupted(pool.shut_down)


class ExecutorFactory(Protocol):
    """The loader that elements are made for."""

    def _program(self) -> Program: ...

    def _make_executor(self) -> Executor: ...


class SharedExecutor:
    """The executor that a loader and its epochs share: made when first needed, ended when the last of them goes."""

    def __init__(self) -> None:
        self._executor: Executor | None = None
        self._closed = False
        self._lock = threading.Lock()

    def executor(self, loader: ExecutorFactory) -> Executor:
        """The executor to use now: a new one where the last can't be used, or runs operations that changed since."""
        with self._lock:
            return self._current(loader)

    def _current(self, loader: ExecutorFactory) -> Executor:
        if self._closed:
            raise IteratorClosedError("the loader was closed")
        if self._executor is None or not self._executor.usable or not self._executor.runs(loader._program()):
            self._executor = loader._make_executor()
            if isinstance(self._executor, WorkerPool):
                _pools.add(self._executor)
                weakref.finalize(self, self._executor.stop).atexit = False
        return self._executor

    def close(self) -> None:
        self._closed = True
        if self._executor is not None:
            uninterrupted(self._executor.shut_down)
