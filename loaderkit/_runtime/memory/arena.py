"""The shared memory of a loader: one file without a name, mapped in a few segments, leased out in slots.

A batch is handed to the user without a copy, so its slot may be used again only when the last view of it has gone,
wherever that view went: numpy, a memoryview, dlpack, torch, a JAX array on the CPU. All of them keep the object alive
whose buffer they look into. So each delivery gets a *token*, a ctypes array over exactly its range: every leaf is
made from the token's buffer and holds it, and a weak reference to the token tells the end of the last view. (A slice
of one big array wouldn't do: numpy ties views of a slice to that array and lets go of the slice.)

The weak reference's callback runs in any thread, inside the garbage collector, and in children that the user forked,
where nobody looks at what it does: it appends the reference to a deque. It is the deque's own method: a batch ends in
the `next()` that gives another, where each call into Python counts.
"""

import ctypes
import mmap
import os
import weakref
from collections import deque
from typing import Any

from loaderkit._engine.task import Slot
from loaderkit._system.limits import naming_limits
from loaderkit._system.resources import available_memory
from loaderkit._system.shared_memory import anonymous_file, mapped
from loaderkit.errors import ArenaMemoryError


class _Lease(weakref.ref[Any]):
    """A weak reference to a token, that knows the slot."""

    __slots__ = ("slot",)
    slot: Slot


class Arena:
    """The trainer's side: grows the memory, leases ranges of it."""

    def __init__(self) -> None:
        self.fd = anonymous_file("arena", 0)
        self.nbytes = 0
        self.leased = 0  # bytes
        self._segments: dict[int, mmap.mmap] = {}  # by offset
        self._leases: dict[int, _Lease] = {}  # by their own id: those of the dead have no hash
        self._expired: deque[_Lease] = deque()

    def extend(self, nbytes: int) -> None:
        """Adds a segment. ArenaMemoryError if the system has too little left: it wouldn't say so itself in time."""
        left = available_memory()
        if left is not None and nbytes > left:
            raise ArenaMemoryError(
                f"batches need {nbytes:,} bytes more of shared memory, {left:,} are available (what the kernel and the "
                f"cgroup leave), {self.nbytes:,} are in use. Lower prefetch_batches, worker_count or the batch size."
            )
        try:
            with naming_limits("shared memory"):
                os.ftruncate(self.fd, self.nbytes + nbytes)
            self._segments[self.nbytes] = mapped(self.fd, nbytes, self.nbytes)
        except OSError as error:
            raise ArenaMemoryError(
                f"batches need {nbytes:,} bytes more of shared memory, and the system refuses them: {error}; "
                f"{self.nbytes:,} are in use. Lower prefetch_batches, worker_count or the batch size."
            ) from error
        self.nbytes += nbytes

    def token(self, slot: Slot) -> Any:
        """An object over the slot's bytes; what is made from its buffer keeps it alive."""
        return (ctypes.c_char * slot.nbytes).from_buffer(
            self._segments[slot.segment], slot.offset - slot.segment
        )

    def lease(self, slot: Slot) -> Any:
        """A token whose end gives the slot back, by `expired`."""
        token = self.token(slot)
        lease = _Lease(token, self._expired.append)
        lease.slot = slot
        self._leases[id(lease)] = lease
        self.leased += slot.nbytes
        return token

    def expired(self) -> list[Slot]:
        """The slots whose last view has gone since the last call."""
        slots = []
        while self._expired:
            lease = self._expired.popleft()
            del self._leases[id(lease)]
            self.leased -= lease.slot.nbytes
            slots.append(lease.slot)
        return slots

    def close(self) -> None:
        """Lets go of the memory; what is leased lives on until its last view has gone."""
        self._leases.clear()  # no callback comes any more
        self._expired.clear()
        self._segments.clear()  # an mmap unmaps itself when its last export has gone
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
