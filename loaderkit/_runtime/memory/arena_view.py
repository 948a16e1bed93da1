"""A worker's side of the arena."""

import ctypes
import mmap
from typing import Any

from loaderkit._base.system.shared_memory import mapped
from loaderkit._engine.task import Slot
from loaderkit.errors import ArenaMemoryError


class ArenaView:
    """A worker's side of the arena: maps a segment when it first gets a slot of it.

    Args:
        fd: the arena's descriptor, which the view owns from now on.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._segments: dict[int, mmap.mmap] = {}

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
        return (ctypes.c_char * slot.nbytes).from_buffer(segment, slot.offset - slot.segment)
