"""Reads records ahead in threads, up to a bounded number.

A *call* reads one record, or several together where the source reads many at once. The threads are daemons and refer to
their queue only: they end with the last reference to the reader, also without close(). An interpreter that shuts down
waits a moment for reads in flight: a thread that it ends within a library of C++ aborts the process.
"""

import atexit
import itertools
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.limits import with_limits
from loaderkit._base.system.packed_tokens import packed
from loaderkit._base.system.urgency import urgency
from loaderkit.errors import WorkerError

# How long `close()` and the end of the process wait for reads in flight; then their threads are left. Not measured.
_CLOSE_SECONDS = 1.0
READER_NAME = "loaderkit-read-"


class ReadRecords(NamedTuple):
    """The records of some keys, or those before the first that can't be read, and its error."""

    values: list[Any]
    error: Exception | None = None


Read = Callable[[list[int]], ReadRecords]
# Where the result goes, what reads, the record keys, and how many calls came before.
_Job = tuple["Future[ReadRecords]", Read, list[int], int]
_Jobs = queue.SimpleQueue[_Job | None]


@dataclass(slots=True, eq=False)
class _Call:
    task: int
    keys: list[int]
    result: "Future[ReadRecords] | None" = None  # None: not in flight yet


class ReadAhead:
    """Reads ahead for one worker, which takes the records in one thread, one task after the other.

    Args:
        read: takes record keys; called from several threads.
        threads: number of reading threads.
        records: greatest number of records that are in flight, or read and not taken yet.
        call_records: greatest number of records of a call; a task of more is read in several calls of about one size.
        name: of the threads, before their number.

    waited: seconds for which `take` waited for reads, in all.
    counted: of each thread there was, the nanoseconds in its calls, their number, and what it has packed of tokens and
    places.

    Raises WorkerError, naming the limit, where the system starts no more threads.

    >>> ahead = ReadAhead(lambda keys: ReadRecords(["abc"[key] for key in keys]), threads=2, records=2)
    >>> ahead.take(0, [2, 0, 1])
    ReadRecords(values=['c', 'a', 'b'], error=None)
    >>> ahead.close()
    """

    def __init__(
        self,
        read: Read,
        *,
        threads: int,
        records: int,
        call_records: int = 1,
        name: str = READER_NAME,
    ) -> None:
        self.waited = 0.0
        self.counted: list[list[int]] = []
        self._read = read
        self._bound = records
        self._call_records = call_records
        self._name = name
        self._start(threads)
        _OPEN.add(self)

    def _start(self, threads: int) -> None:
        self._process = os.getpid()
        self._jobs: _Jobs = queue.SimpleQueue()
        self._launched = itertools.count()
        # One for each thread: += isn't atomic.
        counted: list[list[int]] = [[0, 0, 0, 0] for _ in range(threads)]
        self.counted += counted
        self._threads = [
            threading.Thread(target=_work, args=(self._jobs, mine), name=f"{self._name}{k}", daemon=True)
            for k, mine in enumerate(counted)
        ]
        self._end = weakref.finalize(self, _end_threads, self._jobs, threads)
        self._end.atexit = False
        self._begun: dict[int, deque[_Call]] = {}  # by task: not taken yet, in order
        self._waiting: deque[_Call] = deque()  # those of them that aren't in flight yet
        self._ahead = 0  # records of the others
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

    def begin(self, task: int, keys: list[int]) -> None:
        """Queues the reads of a task, unless they are; as many as the bound allows start at once."""
        # Forked by the user: it has none of the threads, and no read will end.
        if os.getpid() != self._process:
            self._start(len(self._threads))
        if task in self._begun or not keys:
            return
        calls = -(-len(keys) // self._call_records)
        ends = [len(keys) * number // calls for number in range(calls + 1)]
        begun = deque([_Call(task, keys[lo:hi]) for lo, hi in itertools.pairwise(ends)])
        self._begun[task] = begun
        self._waiting.extend(begun)
        self._top_up()

    def take(self, task: int, keys: list[int]) -> ReadRecords:
        """The next records of a task, or those before a failure; then the rest of the task is cancelled.

        Args:
            task: its id.
            keys: those of `begin` in order, in one call or several. Others, as of records that are read again, are
                read now, and what was begun of the task is cancelled.
        """
        records: list[Any] = []
        while len(records) < len(keys):
            wanted = keys[len(records) :]
            self.begin(task, wanted)
            call = self._begun[task][0]
            wanted = wanted[: len(call.keys)]
            if call.keys[: len(wanted)] != wanted:
                self.forget(task)
                continue
            while call.result is None:
                self._launch()  # in order, beyond the bound if necessary: the caller waits
            made, error = self._result(call.result)
            self._taken(call, len(wanted), made, error)
            records += made[: len(wanted)]
            if error is not None and len(made) < len(wanted):
                self.forget(task)
                return ReadRecords(records, error)
        return ReadRecords(records)

    def _result(self, result: "Future[ReadRecords]") -> ReadRecords:
        if result.done():
            return result.result()
        begun = time.perf_counter()
        try:
            return result.result()
        finally:
            self.waited += time.perf_counter() - begun

    def _taken(self, call: _Call, count: int, made: list[Any], error: Exception | None) -> None:
        """The first `count` records of a call, the first of its task, are handed out."""
        self._ahead -= count
        if count < len(call.keys):
            call.keys = call.keys[count:]
            call.result = Future()
            call.result.set_result(ReadRecords(made[count:], error))
        else:
            calls = self._begun[call.task]
            calls.popleft()
            if not calls:
                del self._begun[call.task]
        self._top_up()

    def forget(self, task: int) -> None:
        """Cancels the reads of a task that weren't taken."""
        calls = self._begun.pop(task, None)
        if calls is None:
            return
        if calls[-1].result is None:
            self._waiting = deque(call for call in self._waiting if call.task != task)
        for call in calls:
            if call.result is not None:
                call.result.cancel()
                self._ahead -= len(call.keys)
        self._top_up()

    def _top_up(self) -> None:
        while self._waiting and self._ahead + len(self._waiting[0].keys) <= self._bound:
            self._launch()

    def _launch(self) -> None:
        call = self._waiting.popleft()
        call.result = Future()
        self._ahead += len(call.keys)
        self._jobs.put((call.result, self._read, call.keys, next(self._launched)))

    def close(self) -> None:
        """Ends the threads; a read in flight may end later."""
        _close([self])


_OPEN: "weakref.WeakSet[ReadAhead]" = weakref.WeakSet()


def _close(readers: Sequence[ReadAhead]) -> None:
    for reader in readers:
        reader._waiting.clear()
        reader._end()
    deadline = time.monotonic() + _CLOSE_SECONDS
    for reader in readers:
        for thread in reader._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))


@atexit.register
def _close_all() -> None:
    _close([reader for reader in _OPEN if reader._process == os.getpid()])


def _end_threads(jobs: _Jobs, threads: int) -> None:
    while not jobs.empty():
        try:
            jobs.get_nowait()
        except queue.Empty:
            break
    for _ in range(threads):
        jobs.put(None)


def _work(jobs: _Jobs, counted: list[int]) -> None:
    while (job := jobs.get()) is not None:
        result, read, keys, urgency.number = job
        if result.set_running_or_notify_cancel():
            begun = time.perf_counter_ns()
            try:
                made = read(keys)
            except BaseException as error:  # noqa: BLE001 - raised where the read is taken
                _count(counted, begun)
                result.set_exception(error)
            else:
                _count(counted, begun)  # first: it is in what the task that takes the records tells
                result.set_result(made)
                del made
        del job, result, read, keys


def _count(counted: list[int], begun: int) -> None:
    counted[0] += time.perf_counter_ns() - begun
    counted[1] += 1
    counted[2:] = packed.tokens, packed.places
