"""The chunks that a process decoded last, up to a number of bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from loaderkit._base.system.process_locks import ProcessLocks

_LOCKS = (
    64  # more let more threads decode different chunks; two chunks with one lock only wait for each other
)


class ChunkMemory:
    """Chunks by number, those used last; the newest is kept whatever its size.

    Args:
        limit: bytes of all chunks together.

    >>> memory = ChunkMemory(10)
    >>> memory.get(0, lambda: ("zero", 6)), memory.get(1, lambda: ("one", 6)), memory.numbers
    ('zero', 'one', [1])
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._chunks: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._locks = ProcessLocks(threading.Lock)
        self._decoding = ProcessLocks(lambda: [threading.Lock() for _ in range(_LOCKS)])

    @property
    def numbers(self) -> list[int]:
        """The chunks held, the one used last at the end."""
        return list(self._chunks)

    def get(self, number: int, make: Callable[[], tuple[Any, int]]) -> Any:
        """A chunk; two threads that ask for the same one make it once.

        Args:
            number: of the chunk.
            make: gives the chunk and its bytes.
        """
        found = self._found(number)
        if found is None:
            with self._decoding.own()[number % _LOCKS]:
                found = self._found(number) or self._keep(number, make())
        return found[0]

    def clear(self) -> None:
        """Forgets all."""
        with self._locks.own():
            self._chunks.clear()
            self._held = 0

    def _found(self, number: int) -> tuple[Any, int] | None:
        with self._locks.own():
            found = self._chunks.get(number)
            if found is not None:
                self._chunks.move_to_end(number)
            return found

    def _keep(self, number: int, made: tuple[Any, int]) -> tuple[Any, int]:
        with self._locks.own():
            self._chunks[number] = made
            self._held += made[1]
            while self._held > self._limit and len(self._chunks) > 1:
                _, (_, nbytes) = self._chunks.popitem(last=False)
                self._held -= nbytes
        return made
