"""Reads in flight: threads that read records before they are asked for, a bounded number of them ahead.

The threads are daemons and hold nothing but their queue: who forgets to close them loses them with the last reference,
and an interpreter that shuts down doesn't wait for reads that nobody wants any more.
"""

import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from typing import Any

from loaderkit._system.limits import with_limits
from loaderkit.errors import WorkerError

_CLOSE_SECONDS = 1.0  # a read that hangs longer is left to end by itself

_Job = tuple["Future[Any]", Callable[[int], Any], int]
_Jobs = queue.SimpleQueue[_Job | None]


class ReadAhead:
    """Reads for one worker, which asks from one thread, for one task after the other.

    Args:
        read: takes a record key; called from several threads.
        threads: how many.
        records: that may be read and not yet asked for.

    WorkerError names the limit where the system starts no more threads.

    >>> ahead = ReadAhead("abc".__getitem__, threads=2, records=2)
    >>> [future.result() for future in ahead.take(0, [2, 0, 1])]
    ['c', 'a', 'b']
    >>> ahead.close()
    """

    def __init__(self, read: Callable[[int], Any], *, threads: int, records: int) -> None:
        self._read = read
        self._records = records
        self._jobs: _Jobs = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=_work, args=(self._jobs,), name=f"loaderkit-read-{k}", daemon=True)
            for k in range(threads)
        ]
        self._end = weakref.finalize(self, _end, self._jobs, threads)
        self._end.atexit = False
        self._waiting: deque[tuple[int, int]] = deque()  # task, key: not in flight yet
        self._flying: dict[int, deque[Future[Any]]] = {}
        self._ahead = 0  # records in flight, or read and not asked for
        for started, thread in enumerate(self._threads):
            try:
                thread.start()
            except (RuntimeError, MemoryError) as error:
                del self._threads[started:]  # never started, they can't be waited for
                self.close()
                raise WorkerError(
                    f"reading thread {started + 1} of {threads} (num_threads of read_options) can't be started: "
                    f"{with_limits(error)}"
                ) from error

    def begin(self, task: int, keys: Sequence[int]) -> None:
        """Lines up the reads of a task; the first of them start at once if there is room."""
        if task not in self._flying:
            self._flying[task] = deque()
            self._waiting.extend((task, key) for key in keys)
            self._top_up()

    def take(self, task: int, keys: Sequence[int]) -> Generator["Future[Any]", None, None]:
        """The reads of a task in order; what isn't taken of them is forgotten."""
        self.begin(task, keys)
        flying = self._flying[task]
        try:
            for _ in keys:
                while not flying:
                    self._launch()  # whatever the bound says: this one is wanted now
                future = flying.popleft()
                self._ahead -= 1
                self._top_up()
                yield future
        finally:
            if self._waiting and self._waiting[0][0] == task:
                self.forget(task)
            else:  # all its reads were begun
                self._cancel(self._flying.pop(task))

    def forget(self, task: int) -> None:
        """Nobody will take the reads of a task."""
        if task in self._flying:
            self._waiting = deque(entry for entry in self._waiting if entry[0] != task)
            self._cancel(self._flying.pop(task))

    def _cancel(self, flying: "deque[Future[Any]]") -> None:
        for future in flying:
            future.cancel()
        self._ahead -= len(flying)
        self._top_up()

    def _top_up(self) -> None:
        while self._waiting and self._ahead < self._records:
            self._launch()

    def _launch(self) -> None:
        task, key = self._waiting.popleft()
        future: Future[Any] = Future()
        self._flying[task].append(future)
        self._ahead += 1
        self._jobs.put((future, self._read, key))

    def close(self) -> None:
        """Ends the threads; a read that is in flight may end later."""
        self._waiting.clear()
        self._end()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))


def _end(jobs: _Jobs, threads: int) -> None:
    while not jobs.empty():
        try:
            jobs.get_nowait()
        except queue.Empty:
            break
    for _ in range(threads):
        jobs.put(None)


def _work(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        future, read, key = job
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(read(key))
            except BaseException as error:  # noqa: BLE001 - whoever asks for it gets it
                future.set_exception(error)
        del job, future, read
