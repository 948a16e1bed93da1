"""Huge pages under shared memory: with pages of 4 KB, copies of large arrays wait for the processor's page tables.

Linux gives memory without a file none by default (`shmem_enabled` is "never"), but makes some when it is asked, from
6.1 on. It puts them where address and offset of a mapping are equal modulo their size, which mmap doesn't care for: so
more addresses are taken first, and the mapping goes inside of them. Where the system refuses, pages stay small.
"""

import ctypes
import mmap
import os
from typing import Any

HUGE_PAGE = 2 << 20  # bytes; where the system's are larger, there are none
_MAP_FIXED, _MADV_COLLAPSE = 0x10, 25  # Linux's; Python has no names for them

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_ssize_t
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def mapped_for_huge(fd: int, nbytes: int, offset: int) -> memoryview:
    """A shared mapping that can have huge pages; only for Linux. Raises OSError where the system refuses it."""
    room = mmap.mmap(-1, nbytes + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    begin = (offset - _address(room)) % HUGE_PAGE
    how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED
    if _libc.mmap(_address(room) + begin, nbytes, *how, fd, offset) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return memoryview(room)[begin : begin + nbytes]


def make_huge(mapping: memoryview, begin: int, nbytes: int) -> None:
    """Asks for huge pages under bytes of a mapping, whose content stays; not under the last ones, which fill none.

    >>> mapping = memoryview(bytearray(b"ab"))
    >>> make_huge(mapping, 0, 2)
    >>> bytes(mapping)
    b'ab'
    """
    start = _address(mapping)
    first = max((start + begin) // HUGE_PAGE, -(-start // HUGE_PAGE))
    last = (start + begin + nbytes) // HUGE_PAGE
    for page in range(first, last):
        mapping[page * HUGE_PAGE - start]  # one that has no byte in memory yet is refused
    if first < last:
        _libc.madvise(first * HUGE_PAGE, (last - first) * HUGE_PAGE, _MADV_COLLAPSE)


def _address(buffer: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
