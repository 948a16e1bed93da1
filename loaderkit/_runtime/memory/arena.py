"""The shared memory of a loader: one anonymous file, mapped in a few segments, leased in slots.

A batch is handed to the user without a copy, so its slot may be reused only after the last view of it is deleted:
numpy arrays, memoryviews, dlpack, torch, JAX arrays on the CPU. Each of them keeps the object alive that owns the
buffer. So each delivery gets a *token*, an array of bytes over exactly its range: all leaves are made from the token's
buffer and refer to it, and a weak reference to the token reports the end of the last view. (A slice of one big array
doesn't work: numpy makes views of a slice refer to that array, not to the slice. It stops at an array over an mmap.)

The weak reference's callback may run in any thread, inside the garbage collector, and in children that the user forked,
where its effect is ignored. It only appends the reference to a deque, and is the deque's own method, without a Python
call: it often runs inside `next()`.
"""

import os
import weakref
from collections import deque
from typing import Any

import numpy as np

from loaderkit._base.system.huge_pages import HUGE_PAGE, make_huge
from loaderkit._base.system.limits import naming_limits
from loaderkit._base.system.resources import available_memory
from loaderkit._base.system.shared_memory import anonymous_file, mapped
from loaderkit._engine.task import Slot
from loaderkit.errors import ArenaMemoryError


class _Lease(weakref.ref[Any]):
    """A weak reference to a token, with the token's slot."""

    __slots__ = ("slot",)
    slot: Slot


class Arena:
    """The trainer's side of the arena: adds segments and leases slots."""

    def __init__(self) -> None:
        self.fd = anonymous_file("arena", 0)
        self.nbytes = 0
        self.leased = 0  # bytes
        self._segments: dict[int, memoryview] = {}  # by offset
        self._leases: dict[int, _Lease] = {}  # by id: a weak reference to a deleted token has no hash
        self._expired: deque[_Lease] = deque()

    def extend(self, nbytes: int) -> None:
        """Adds a segment of `nbytes` bytes.

        Raises ArenaMemoryError if less is available: the system would grant it and kill a process when it is written.
        """
        left = available_memory()
        if left is not None and nbytes > left:
            raise ArenaMemoryError(
                f"shared memory: expected {nbytes:,} bytes more for batches, got {left:,} available (what the kernel "
                f"and the cgroup leave); {self.nbytes:,} are in use. Lower prefetch_batches, worker_count or the batch "
                "size."
            )
        try:
            with naming_limits("shared memory"):
                os.ftruncate(self.fd, self.nbytes + nbytes)
            self._segments[self.nbytes] = mapped(self.fd, nbytes, self.nbytes)
        except OSError as error:
            raise ArenaMemoryError(
                f"shared memory: expected {nbytes:,} bytes more for batches, got {error}; {self.nbytes:,} are in use. "
                "Lower prefetch_batches, worker_count or the batch size."
            ) from error
        self.nbytes += nbytes

    def token(self, slot: Slot) -> Any:
        """An object over the slot's bytes; views of its buffer keep it alive."""
        return _token(self._segments[slot.segment], slot)

    def lease(self, slot: Slot) -> Any:
        """A token; once it is deleted, `expired` returns its slot."""
        token = self.token(slot)
        lease = _Lease(token, self._expired.append)
        lease.slot = slot
        self._leases[id(lease)] = lease
        self.leased += slot.nbytes
        return token

    def expired(self) -> list[Slot]:
        """The slots of which the last view was deleted since the last call."""
        slots = []
        while self._expired:
            lease = self._expired.popleft()
            del self._leases[id(lease)]
            self.leased -= lease.slot.nbytes
            slots.append(lease.slot)
        return slots

    def close(self) -> None:
        """Releases the memory; leased slots stay mapped until their last view is deleted."""
        self._leases.clear()  # without weak references there are no callbacks
        self._expired.clear()
        self._segments.clear()  # memory is unmapped when its last view is deleted
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class ArenaView:
    """A worker's side of the arena: maps a segment when it first gets a slot of it.

    Args:
        fd: the arena's descriptor, which the view owns from now on.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._segments: dict[int, memoryview] = {}
        self._huge: set[int] = set()  # huge pages of the arena that were asked for

    def token(self, slot: Slot) -> Any:
        """An object over the slot's bytes. Raises ArenaMemoryError where this process can't map them."""
        segment = self._segments.get(slot.segment)
        if segment is None:
            try:
                segment = mapped(self._fd, slot.segment_nbytes, slot.segment)
            except OSError as error:
                raise ArenaMemoryError(
                    f"shared memory: expected to map the batches' memory in a worker, got {error}"
                ) from error
            self._segments[slot.segment] = segment
        pages = range(slot.offset // HUGE_PAGE, (slot.offset + slot.nbytes) // HUGE_PAGE)
        if not self._huge.issuperset(pages):
            self._huge.update(pages)
            make_huge(segment, slot.offset - slot.segment, slot.nbytes)
        return _token(segment, slot)


def _token(segment: memoryview, slot: Slot) -> np.ndarray:
    return np.ndarray(slot.nbytes, np.uint8, segment, slot.offset - slot.segment)
