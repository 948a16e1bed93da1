"""Reads records ahead in threads, up to a bounded number.

The threads are daemons and refer to their queue only: they end with the last reference to the reader, also without
close(), and an interpreter that shuts down doesn't wait for reads in flight.
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

# How long `close()` waits for reads in flight; then their daemon threads are left. Not measured.
_CLOSE_SECONDS = 1.0

# Where the result goes, what reads, and the record key.
_Job = tuple["Future[Any]", Callable[[int], Any], int]
_Jobs = queue.SimpleQueue[_Job | None]


class ReadAhead:
    """Reads ahead for one worker, which takes the records in one thread, one task after the other.

    Args:
        read: takes a record key; called from several threads.
        threads: number of reading threads.
        records: greatest number of records that are in flight, or read and not taken yet.

    Raises WorkerError, naming the limit, where the system starts no more threads.

    >>> ahead = ReadAhead("abc".__getitem__, threads=2, records=2)
    >>> [future.result() for future in ahead.take(0, [2, 0, 1])]
    ['c', 'a', 'b']
    >>> ahead.close()
    """

    def __init__(self, read: Callable[[int], Any], *, threads: int, records: int) -> None:
        self._read = read
        self._bound = records
        self._jobs: _Jobs = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=_work, args=(self._jobs,), name=f"loaderkit-read-{k}", daemon=True)
            for k in range(threads)
        ]
        self._end = weakref.finalize(self, _end_threads, self._jobs, threads)
        self._end.atexit = False
        self._waiting: deque[tuple[int, int]] = deque()  # task, key: not in flight yet
        self._begun: dict[int, deque[Future[Any]]] = {}  # by task: in flight, or read and not taken
        self._ahead = 0  # number of futures in `_begun`
        for started, thread in enumerate(self._threads):
            try:
                thread.start()
            except (RuntimeError, MemoryError) as error:
                del self._threads[started:]  # a thread that wasn't started can't be joined
                self.close()
                raise WorkerError(
                    f"reading thread {started + 1} of {threads} (num_threads of read_options) can't be started: "
                    f"{with_limits(error)}"
                ) from error

    def begin(self, task: int, keys: Sequence[int]) -> None:
        """Queues the reads of a task; as many as the bound allows start at once."""
        if task not in self._begun:
            self._begun[task] = deque()
            self._waiting.extend((task, key) for key in keys)
            self._top_up()

    def take(self, task: int, keys: Sequence[int]) -> Generator["Future[Any]", None, None]:
        """Yields the reads of a task in order; those that aren't taken are cancelled."""
        self.begin(task, keys)
        begun = self._begun[task]
        try:
            for _ in keys:
                while not begun:
                    self._launch()  # in order, beyond the bound if necessary: the caller waits
                future = begun.popleft()
                self._ahead -= 1
                self._top_up()
                yield future
        finally:
            if self._waiting and self._waiting[0][0] == task:
                self.forget(task)
            else:  # none of its reads is in `_waiting`
                self._cancel(self._begun.pop(task))

    def forget(self, task: int) -> None:
        """Cancels the reads of a task, which won't be taken."""
        if task in self._begun:
            self._waiting = deque(entry for entry in self._waiting if entry[0] != task)
            self._cancel(self._begun.pop(task))

    def _cancel(self, begun: "deque[Future[Any]]") -> None:
        for future in begun:
            future.cancel()
        self._ahead -= len(begun)
        self._top_up()

    def _top_up(self) -> None:
        while self._waiting and self._ahead < self._bound:
            self._launch()

    def _launch(self) -> None:
        task, key = self._waiting.popleft()
        future: Future[Any] = Future()
        self._begun[task].append(future)
        self._ahead += 1
        self._jobs.put((future, self._read, key))

    def close(self) -> None:
        """Ends the threads; a read in flight may end later."""
        self._waiting.clear()
        self._end()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))


def _end_threads(jobs: _Jobs, threads: int) -> None:
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
            except BaseException as error:  # noqa: BLE001 - raised where the read is taken
                future.set_exception(error)
        del job, future, read
