"""The executor that a loader, its epochs and their iterators share: made when needed, ended with the last of them."""

import contextlib
import threading
import weakref
from collections.abc import Sequence
from typing import Protocol

from loaderkit._base.closing import uninterrupted
from loaderkit._engine.stats.counters import PoolCounters
from loaderkit._engine.stats.stats import new_number
from loaderkit._runtime.executors.executor import Executor
from loaderkit._runtime.executors.worker_pool import WorkerPool, living_pools
from loaderkit._runtime.worker.program import Program
from loaderkit.errors import IteratorClosedError


class ExecutorFactory(Protocol):
    """What a SharedExecutor makes its executors with."""

    def program(self) -> Program:
        """What an executor is to run, with the operations as they are now."""
        ...

    def make(self, program: Program) -> Executor:
        """A new executor for that program."""
        ...


class SharedExecutor:
    """Holds the executor of a loader; iterators hold this, and find the executor here each time they need it.

    The executor is made when it is first needed, and replaced where it can't be used any more, or runs operations that
    have changed since. Its workers end with `close`, or when the last reference to this object goes.

    >>> from loaderkit.samplers import SequentialSampler
    >>> from .executor_factory import LoaderExecutorFactory
    >>> from .settings import LoaderSettings
    >>> settings = LoaderSettings(source=[5, 6], sampler=SequentialSampler(2), operations=())
    >>> factory, shared = LoaderExecutorFactory(settings), SharedExecutor()
    >>> shared.executor(factory) is shared.executor(factory)
    True
    >>> shared.close()
    """

    def __init__(self) -> None:
        self.number = new_number()  # of the snapshots of what its workers did
        self._executor: Executor | None = None
        self._pools: list[WorkerPool] = []  # replaced ones too: iterators that began there may still use them
        self._closed = False
        self._lock = threading.Lock()
        weakref.finalize(self, _stop, self._pools).atexit = False

    def executor(self, factory: ExecutorFactory) -> Executor:
        """The executor to use now.

        Args:
            factory: says what is to be run, and makes a new executor where one is needed. Given with each call: Grain's
                loader has one factory for each layout.

        Raises IteratorClosedError after `close`, and what the factory raises.
        """
        with self._lock:
            if self._closed:
                raise IteratorClosedError("the loader was closed")
            # Each time, as the operations may have changed. That is cheap: the files are found once; but `runs` of
            # process workers pickles the operations.
            program = factory.program()
            if self._executor is None or not self._executor.usable or not self._executor.runs(program):
                executor = factory.make(program)
                if isinstance(executor, WorkerPool):
                    self._pools.append(executor)
                self._executor = executor
            return self._executor

    @property
    def made(self) -> bool:
        """Whether there is an executor. Raises IteratorClosedError after `close`."""
        with self._lock:
            if self._closed:
                raise IteratorClosedError("the loader was closed")
            return self._executor is not None

    @property
    def in_use(self) -> bool:
        """Whether a stream is open."""
        with self._lock:
            return self._executor is not None and self._executor.in_use

    def statistics(self) -> PoolCounters:
        """What the workers of all executors there were did so far; of the present ones what they do now."""
        with self._lock:
            executor, earlier = self._executor, [pool for pool in self._pools if pool is not self._executor]
        present = PoolCounters(()) if executor is None else executor.statistics()
        for pool in earlier:
            present = present.after(pool.statistics())
        return present

    def close(self) -> None:
        """Ends the workers and returns when they have ended; `executor` raises from now on."""
        self._closed = True
        uninterrupted(self._shut_down)

    def _shut_down(self) -> None:
        if self._executor is not None:
            self._executor.shut_down()
        for pool in self._pools:
            pool.shut_down()


def _stop(pools: Sequence[WorkerPool]) -> None:
    # Runs wherever the garbage collector does: stop() only asks.
    for pool in pools:
        pool.stop()


def end_workers() -> None:
    """Ends all workers of this process, before the interpreter takes its modules apart.

    The package registers it as an exit handler: a pump or a thread must not run into that.
    """
    for pool in living_pools():
        with contextlib.suppress(KeyboardInterrupt):  # the process ends, which is what was asked for
            uninterrupted(pool.shut_down)
