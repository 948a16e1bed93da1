"""An array in named shared memory, and what frees it."""

import atexit
import math
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from queue import SimpleQueue
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from loaderkit._system.descriptors import above_standard
from loaderkit._system.limits import with_limits


@dataclass(slots=True, frozen=True, weakref_slot=True)
class SharedMemoryArrayMetadata:
    """Where a SharedMemoryArray is, and what it looks like: what travels instead of it."""

    name: str
    shape: Iterable[int]
    dtype: npt.DTypeLike

    def close_and_unlink_shm(self) -> None:
        """Frees the memory."""
        with above_standard():
            memory = SharedMemory(self.name)
        memory.close()
        memory.unlink()


class Memory(SharedMemory):
    """Shared memory that the system takes back at the end of the process, where the module's own names are gone."""

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending():
            super().__del__()


class _Segment:
    """A piece of shared memory under an array; the name goes with it where somebody said so."""

    def __init__(self, memory: SharedMemory) -> None:
        self.memory = memory
        self.unlinks = False

    def leave(self) -> None:
        """The array is gone: a thread takes the rest where there are some that have room."""
        sweep = _Sweep.running
        if sweep is None or not sweep.takes(self):
            self.free()

    def free(self) -> None:
        self.memory.close()
        if self.unlinks:
            self.memory.unlink()


class _Sweep:
    """Threads that free segments, no more than `limit` at a time.

    Arrays may go in the midst of anything, also of taking another one. So there is no lock: a SimpleQueue and a deque
    bear that.
    """

    running: "_Sweep | None" = None

    def __init__(self, *, threads: int, limit: int) -> None:
        self._places = deque([None] * limit)
        self._segments: SimpleQueue[_Segment | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        self._pid = os.getpid()  # a child that was forked has none of the threads
        for started, thread in enumerate(self._threads):
            try:
                thread.start()
            except (RuntimeError, MemoryError) as error:
                del self._threads[started:]  # never started, they can't be waited for
                self.stop()
                raise RuntimeError(
                    f"enable_async_del: thread {started + 1} of {threads} can't be started: {with_limits(error)}"
                ) from error
        atexit.register(self.stop)

    def takes(self, segment: _Segment) -> bool:
        """Whether there was room for it."""
        try:
            if self._pid == os.getpid():
                self._places.pop()
                self._segments.put(segment)
                return True
        except IndexError:
            pass
        return False

    def stop(self) -> None:
        """Frees what was taken, and ends the threads."""
        atexit.unregister(self.stop)
        if self._pid == os.getpid():
            for _ in self._threads:
                self._segments.put(None)
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (segment := self._segments.get()) is not None:
            try:
                SharedMemoryArray.close_shm_async(segment.memory, segment.unlinks)
            finally:
                self._places.append(None)


class SharedMemoryArray(np.ndarray):
    """An array in named shared memory; the last process that uses it calls unlink_on_del().

    Its views and copies are arrays like any other: they have no metadata, and a view keeps the memory.

    Args:
        shape, dtype: of the array.

    >>> array = SharedMemoryArray((2, 3), np.int32)
    >>> array.unlink_on_del()
    >>> array.metadata.shape
    (2, 3)
    """

    _segment: _Segment | None

    def __new__(cls, shape: Iterable[int], dtype: npt.DTypeLike = float) -> Self:
        lengths = tuple(shape)
        with above_standard():
            memory = Memory(create=True, size=np.dtype(dtype).itemsize * math.prod(lengths))
        return cls.from_shared_memory(memory, lengths, dtype)

    @classmethod
    def from_shared_memory(cls, shm: SharedMemory, shape: Any, dtype: npt.DTypeLike) -> Self:
        """The array that lies in a piece of shared memory."""
        array = np.ndarray.__new__(cls, shape, dtype, buffer=shm.buf)
        array._segment = _Segment(shm)
        # At the end of the process others may still look at the array: the system takes the memory back then.
        weakref.finalize(array, array._segment.leave).atexit = False
        return array

    @classmethod
    def from_metadata(cls, metadata: SharedMemoryArrayMetadata) -> Self:
        """The array that another process described."""
        with above_standard():
            memory = Memory(metadata.name)
        return cls.from_shared_memory(memory, metadata.shape, metadata.dtype)

    def __array_finalize__(self, obj: Any) -> None:
        self._segment = None

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:  # written in place
            return self
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._segment is None:
            return np.asarray(self).__reduce_ex__(protocol)
        return type(self).from_shared_memory, (self._segment.memory, self.shape, self.dtype)

    @property
    def shm(self) -> SharedMemory | None:
        """The memory; None of a view or a copy."""
        return None if self._segment is None else self._segment.memory

    @property
    def metadata(self) -> SharedMemoryArrayMetadata:
        """Where it is, for another process; ValueError of a view or a copy."""
        return SharedMemoryArrayMetadata(self._own_segment().memory.name, self.shape, self.dtype)

    def unlink_on_del(self) -> None:
        """This object frees the memory when it goes; ValueError of a view or a copy."""
        self._own_segment().unlinks = True

    @property
    def _unlink_on_del(self) -> bool:
        return self._segment is not None and self._segment.unlinks

    def _own_segment(self) -> _Segment:
        if self._segment is None:
            raise ValueError(
                "a view or a copy of a SharedMemoryArray has no memory of its own; ask the array"
            )
        return self._segment

    @classmethod
    def enable_async_del(cls, num_threads: int = 1, max_outstanding_requests: int = 50) -> None:
        """From here on threads free the memory of arrays that go; those above the number are freed at once."""
        if _Sweep.running is None:
            _Sweep.running = _Sweep(threads=num_threads, limit=max_outstanding_requests)

    @classmethod
    def _disable_async_del(cls) -> None:
        sweep, _Sweep.running = _Sweep.running, None
        if sweep is not None:
            sweep.stop()

    @classmethod
    def close_shm_async(cls, shm: SharedMemory, unlink: bool) -> None:
        """What a thread does with the memory of an array that went."""
        segment = _Segment(shm)
        segment.unlinks = unlink
        segment.free()
