"""The chunks that a process has open, and what it knows of those that it closed."""

import resource
import threading
from collections import OrderedDict
from collections.abc import Sequence

from .chunk_file import ChunkFile, State

# Open chunks of a process: a window's, but a part only of the descriptors that it may have.
_MOST_OPEN, _LEAST_OPEN, _PART_OF_DESCRIPTORS = 1024, 3, 8
_MOST_STATES = 1 << 16  # of closed chunks, 250 bytes each; the blocks of others are compared again


class OpenChunks:
    """Open chunks by number; the least recently used is closed where there are too many. Safe for threads.

    together: how many one call may use at once, as several threads read, and each has locks open, too.
    """

    def __init__(self) -> None:
        self._chunks: OrderedDict[int, ChunkFile] = OrderedDict()
        self._states: dict[int, State] = {}  # of closed chunks
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if descriptors == resource.RLIM_INFINITY:
            descriptors = _MOST_OPEN * _PART_OF_DESCRIPTORS
        self._most = max(_LEAST_OPEN, min(_MOST_OPEN, descriptors // _PART_OF_DESCRIPTORS))
        self.together = max(1, self._most // 2)
        self.renew_lock()

    def renew_lock(self) -> None:
        """In a forked child: a thread of the parent may have held it."""
        self._lock = threading.Lock()

    def found(self, numbers: Sequence[int]) -> list[ChunkFile | None]:
        """The chunks of these numbers, None for each that isn't open."""
        known = self._chunks
        with self._lock:
            chunks = list(map(known.get, numbers))
            if len(known) > self._most // 2:  # else none is closed soon, and their order is of no matter
                for number, chunk in zip(numbers, chunks, strict=True):
                    if chunk is not None:
                        known.move_to_end(number)
        return chunks

    def recall(self, number: int, chunk: ChunkFile) -> None:
        """Tells a chunk that was opened again what is known of its file."""
        with self._lock:
            known = self._chunks.get(number)
            state = self._states.get(number) if known is None else known.state
        if state is not None:
            chunk.recall(state)

    def keep(self, number: int, chunk: ChunkFile, *, instead: bool) -> ChunkFile:
        """Keeps a chunk open, and gives it; without `instead` another one with its number, if there is one."""
        with self._lock:
            if not instead and (known := self._chunks.get(number)) is not None:
                return known  # another thread's, which may have compared blocks meanwhile
            self._states.pop(number, None)
            self._chunks[number] = chunk
            self._chunks.move_to_end(number)
            while len(self._chunks) > self._most:
                closed, old = self._chunks.popitem(last=False)
                self._states[closed] = old.state
                if len(self._states) > _MOST_STATES:
                    del self._states[next(iter(self._states))]
        return chunk

    def clear(self) -> None:
        """Closes all, and forgets what is known of them."""
        with self._lock:
            self._chunks.clear()
            self._states.clear()
