"""Large shared mappings lie so that they can have huge pages, and asking for them changes no byte."""

import contextlib
import os
import resource
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loaderkit._base.system import huge_pages
from loaderkit._base.system.huge_pages import HUGE_PAGE, make_huge
from loaderkit._base.system.shared_memory import anonymous_file, mapped
from loaderkit._engine.task import Slot
from loaderkit._runtime.memory import arena

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems make none")


@contextlib.contextmanager
def file_of(nbytes: int) -> Iterator[int]:
    fd = anonymous_file("example", nbytes)
    try:
        yield fd
    finally:
        os.close(fd)


def address_of(mapping: memoryview) -> int:
    address: int = np.frombuffer(mapping, np.uint8).ctypes.data
    return address


@pytest.mark.parametrize("offset", [0, 4096, HUGE_PAGE, 5 * HUGE_PAGE + 12 * 4096])
@pytest.mark.parametrize("nbytes", [HUGE_PAGE, 3 * HUGE_PAGE + 4096, 3 * HUGE_PAGE + 5])
def test_address_and_offset_are_equal_modulo_a_page(offset, nbytes):
    """Else the kernel can't map one; the mapping needs the file's descriptor no longer, and numpy keeps it."""
    with file_of(offset + nbytes) as fd:
        os.pwrite(fd, b"there", offset + nbytes - 5)
        mapping = mapped(fd, nbytes, offset)
    assert len(mapping) == nbytes
    assert (address_of(mapping) - offset) % HUGE_PAGE == 0
    array = np.ndarray(5, np.uint8, mapping, nbytes - 5)
    del mapping
    assert array.tobytes() == b"there"


def test_no_byte_changes():
    """Two mappings of a file, as a trainer's and a worker's, while both have pages of it in memory."""
    nbytes = 3 * HUGE_PAGE
    with file_of(nbytes) as fd:
        ours, theirs = mapped(fd, nbytes), mapped(fd, nbytes)
    content = np.random.default_rng(0).bytes(nbytes)
    ours[:HUGE_PAGE], theirs[HUGE_PAGE : nbytes - 4096] = content[:HUGE_PAGE], content[HUGE_PAGE:-4096]
    make_huge(theirs, 100, nbytes - 100)
    ours[-4096:] = content[-4096:]
    assert ours == content
    assert theirs == content


def test_whole_pages_inside_of_the_mapping_are_asked_for(monkeypatch):
    """From the one in which the bytes begin to the last that they fill; each has a byte in memory by then."""
    asked: list[tuple[int, ...]] = []
    kernel = SimpleNamespace(madvise=lambda *call: asked.append(call), mmap=huge_pages._libc.mmap)
    monkeypatch.setattr(huge_pages, "_libc", kernel)
    with file_of(4 * HUGE_PAGE) as fd:
        mapping = mapped(fd, 4 * HUGE_PAGE - 4096, 4096)
        first = address_of(mapping) - 4096
        make_huge(mapping, 2 * HUGE_PAGE, HUGE_PAGE)
        assert os.fstat(fd).st_blocks > 0
    make_huge(mapping, 0, 2 * HUGE_PAGE)  # the first isn't whole
    make_huge(mapping, HUGE_PAGE, 4096)
    assert asked == [
        (first + 2 * HUGE_PAGE, HUGE_PAGE, huge_pages._MADV_COLLAPSE),
        (first + HUGE_PAGE, HUGE_PAGE, huge_pages._MADV_COLLAPSE),
    ]


def test_a_refusal_is_an_error_of_the_system():
    """With what the memory is for, as of any other mapping."""
    with pytest.raises(OSError, match="a mapping of 2,097,152 bytes of shared memory"):
        mapped(1 << 20, HUGE_PAGE)  # no descriptor of this process


def test_a_limit_of_private_memory_leaves_small_pages():
    """The room that is taken for a mapping counts there, the mapping itself doesn't."""
    with file_of(HUGE_PAGE) as fd:
        limits = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (1, limits[1]))
        try:
            found = mapped(fd, HUGE_PAGE)
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, limits)
    assert len(found) == HUGE_PAGE


def test_a_worker_asks_once_for_each_page_of_the_arena(monkeypatch):
    """Batches come in the same slots again and again."""
    asked: list[Any] = []
    monkeypatch.setattr(arena, "make_huge", lambda _, *where: asked.append(where))
    view = arena.ArenaView(anonymous_file("example", 4 * HUGE_PAGE))
    for _ in range(2):
        for offset in (0, 100 * 4096, HUGE_PAGE):
            view.token(Slot(offset, HUGE_PAGE, 0, 4 * HUGE_PAGE))
        view.token(Slot(3 * HUGE_PAGE, 4096, 0, 4 * HUGE_PAGE))
    assert asked == [(0, HUGE_PAGE), (HUGE_PAGE, HUGE_PAGE)]
    os.close(view._fd)
