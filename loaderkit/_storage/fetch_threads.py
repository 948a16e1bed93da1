"""The threads of a process in which reads of servers wait: one set for all readers, while there are any."""

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from queue import SimpleQueue
from typing import TypeVar

from loaderkit._base.system.limits import above_standard
from loaderkit._base.system.urgency import urgency

# Reads in flight in a process. At 20 ms a round trip 32 give 1,600 reads/s.
IN_FLIGHT = 32

T = TypeVar("T")
R = TypeVar("R")
Task = Callable[[], None]
# Tasks that wait, by urgency and then in the order given.
_Waiting = list[tuple[int, int, Task]]


class FetchThreads:
    """Runs tasks in daemon threads, which start when there is work and end with the last user.

    >>> threads, done = FetchThreads(), threading.Event()
    >>> threads.enter()
    >>> threads.submit([done.set])
    >>> done.wait(10)
    True
    >>> threads.leave()
    """

    def __init__(self) -> None:
        # Reentrant: a reader that is collected in a thread that holds the lock leaves from there.
        self._lock = threading.RLock()
        self._users = 0
        self._unfinished = 0
        self._begin()

    def _begin(self) -> None:
        self._waiting: _Waiting = []
        self._calls: SimpleQueue[bool] = SimpleQueue()  # a true one for each task that waits
        self._order = itertools.count()
        self._threads = 0

    def enter(self) -> None:
        """One user more."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """One user less; after the last one each thread ends with its task."""
        with self._lock:
            self._users -= 1
            if self._users <= 0:
                for _ in range(self._threads):
                    self._calls.put(False)
                self._begin()

    def submit(self, tasks: Iterable[Task]) -> None:
        """Runs each task in a thread, in the order given but for this thread's urgency; it mustn't raise."""
        with self._lock:
            for task in tasks:
                self._unfinished += 1
                heappush(self._waiting, (urgency.number, next(self._order), task))
                self._calls.put(True)
            while self._threads < min(self._unfinished, IN_FLIGHT):
                with above_standard():  # a library opens its sockets in these threads
                    name = f"loaderkit-fetch-{self._threads}"
                    queues = self._waiting, self._calls
                    threading.Thread(target=self._work, args=queues, name=name, daemon=True).start()
                self._threads += 1

    def _work(self, waiting: _Waiting, calls: "SimpleQueue[bool]") -> None:
        while calls.get():
            with self._lock:
                task = heappop(waiting)[2]
            try:
                task()
            finally:
                with self._lock:
                    self._unfinished -= 1
            del task  # a thread that waits keeps nothing alive


THREADS = FetchThreads()


def at_once(work: Callable[[T], R], items: Sequence[T], *, most: int = IN_FLIGHT) -> list[R]:
    """What `work` gives for each item, in threads of its own, which may wait for those of `THREADS`.

    The first error ends it: of the items begun that of the first one is raised.

    Args:
        work: called by several threads.
        items: for each a call.
        most: calls at a time.

    >>> at_once(str, [3, 4])
    ['3', '4']
    """
    if len(items) < 2 or most < 2:
        return [*map(work, items)]
    found: dict[int, R] = {}
    errors: dict[int, BaseException] = {}
    left = enumerate(items)  # its next() is one step: no item goes to two threads
    number, ended = urgency.number, threading.Event()

    def run() -> None:
        urgency.number = number
        for place, item in left:
            if ended.is_set():
                return
            try:
                found[place] = work(item)
            except BaseException as error:  # noqa: BLE001 - raised again below
                errors[place] = error
                ended.set()

    try:
        with above_standard():  # a library opens its sockets in these threads
            names = [f"loaderkit-at-once-{number}" for number in range(min(len(items), most))]
            threads = [threading.Thread(target=run, name=name, daemon=True) for name in names]
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join()
    finally:
        ended.set()
    if errors:
        raise errors[min(errors)]
    return [found[place] for place in range(len(items))]


def _forget() -> None:
    # A forked child has none of the threads, and perhaps a lock that one of them held.
    THREADS.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_forget)
