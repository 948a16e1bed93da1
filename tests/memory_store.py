"""A store for processes that agree, where all of them are threads of one process or are taken in turn."""

import threading
from collections import Counter
from collections.abc import Mapping


class _Board:
    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.posts = 0
        self.changed = threading.Condition()


class MemoryStore:
    """A process's store where all "processes" are threads of this one, or are taken in turn.

    Args:
        process, processes: which one this is.
        timeout: seconds.
        board: what they share.

    >>> first, second = MemoryStore.of(2, timeout=1)
    >>> first.post("a/0", "7")
    >>> second.read("a/"), second.count("a"), second.count("a")
    ({'a/0': '7'}, 0, 1)
    """

    def __init__(self, process: int, processes: int, timeout: float, board: _Board) -> None:
        self.process, self.processes, self.timeout = process, processes, timeout
        self._board = board
        self._counts: Counter[str] = Counter()
        self._seen = 0  # posts that there were when this process read last

    @classmethod
    def of(cls, processes: int, *, timeout: float) -> "list[MemoryStore]":
        """The stores of all processes."""
        board = _Board()
        return [cls(process, processes, timeout, board) for process in range(processes)]

    def count(self, name: str) -> int:
        """How often this method was called with the name before."""
        self._counts[name] += 1
        return self._counts[name] - 1

    def post(self, key: str, value: str) -> None:
        """Sets a key."""
        with self._board.changed:
            self._board.values[key] = value
            self._board.posts += 1
            self._board.changed.notify_all()

    def read(self, prefix: str) -> Mapping[str, str]:
        """The keys that begin with `prefix`."""
        with self._board.changed:
            self._seen = self._board.posts
            return {key: value for key, value in self._board.values.items() if key.startswith(prefix)}

    def wait(self, prefix: str, seconds: float) -> None:
        """Returns when something was posted since the last read, at the latest after so many seconds."""
        with self._board.changed:
            self._board.changed.wait_for(lambda: self._board.posts != self._seen, seconds)
