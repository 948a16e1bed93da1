"""The heartbeat of a worker process: a memory page, shared with the trainer, with its present task and record.

The rest of the page has the counters of its meter (meter.py).

Writing to shared memory costs the worker a tenth of a microsecond a task, less than a message; the trainer can read it
at any time, and also after the worker died. After the page, the same file takes the stacks of the worker's threads,
which its interpreter writes when it gets a signal, also during a C call that holds the interpreter's lock.
"""

import contextlib
import faulthandler
import mmap
import os
import signal
import struct
import time
from array import array

from loaderkit._base.system.shared_memory import anonymous_file, mapped
from loaderkit._engine.progress import Progress

from .meter import CELLS, stopped

# Whether the worker has started, beats, task or -1, index or -1; index and record key read instead, or -1.
_WORDS = struct.Struct("=6q")
_BEATS = struct.Struct("=q")  # one word; beats are the second
_NOTHING = -1
_PAGE = mmap.PAGESIZE
# The meter's cells are behind the words. A page has 512 integers.
_CELLS_AT = 64
PAGE_NBYTES = _CELLS_AT + _BEATS.size * CELLS  # of what another machine is told
# The signal for stacks: a real-time one, where the system has them, since libraries may use SIGUSR1 and SIGUSR2.
_ASK: int = signal.SIGRTMAX - 3 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2
# How long `stacks` waits: a worker answers at once, or can't at all. Not measured.
_ANSWER_SECONDS = 1.0
_MOST = 1 << 16  # bytes of stacks


class Heartbeat:
    """The worker's side, which writes.

    Args:
        fd: of the shared page, which the heartbeat owns from now on.

    cells: int64, the memory of the worker's meter.
    """

    def __init__(self, fd: int) -> None:
        self._page = mapped(fd, _PAGE)
        self.cells = _cells(self._page)
        self._beats = 0
        self._task = _NOTHING
        os.lseek(fd, _PAGE, os.SEEK_SET)
        faulthandler.register(_ASK, file=fd, all_threads=True, chain=False)
        signal.siginterrupt(_ASK, False)  # a system call that the signal interrupts is resumed
        self._set(_NOTHING, _NOTHING)

    def begin(self, task: int) -> None:
        """The worker begins a task."""
        self._set(task, _NOTHING)

    def at(self, index: int, instead: tuple[int, int] | None = None) -> None:
        """The worker begins the record of `index` in its task. instead: index and record key read in its place."""
        self._set(self._task, index, instead)

    def go_on(self) -> None:
        """The worker made progress within its task; may be called by any of its threads."""
        self._beats += 1
        _BEATS.pack_into(self._page, _BEATS.size, self._beats)

    def rest(self) -> None:
        """The worker has no task."""
        self._set(_NOTHING, _NOTHING)

    @property
    def resting(self) -> bool:
        """Whether the worker has no task."""
        return self._task == _NOTHING

    def _set(self, task: int, index: int, instead: tuple[int, int] | None = None) -> None:
        self._task = task
        self._beats += 1
        _WORDS.pack_into(self._page, 0, 1, self._beats, task, index, *(instead or (_NOTHING, _NOTHING)))


class HeartbeatReader:
    """The trainer's side, which reads.

    cells: int64, the memory of the worker's meter. It outlives `close`: a thread may be reading it.

    >>> reader = HeartbeatReader()
    >>> reader.progress()
    Progress(task=None, index=None, beats=0, instead=None)
    >>> reader.close()
    """

    def __init__(self) -> None:
        self.fd = anonymous_file("mark", _PAGE)
        try:
            self.cells = _cells(mapped(self.fd, _PAGE))
        except OSError:
            os.close(self.fd)
            raise

    def progress(self) -> Progress:
        """The worker's present work, or its last if it has ended."""
        return progress_of(os.pread(self.fd, _WORDS.size, 0))

    def page(self) -> bytes:
        """All that `progress_of` and `cells_of` need in a process on another machine."""
        words = os.pread(self.fd, _WORDS.size, 0).ljust(_CELLS_AT, b"\0")
        return words + array("q", stopped(self.cells[:CELLS])).tobytes()

    def stacks(self, pid: int) -> str:
        """The stacks of the worker's threads; "" where it doesn't answer."""
        if not self._words()[0]:
            return ""  # without its handler the signal would kill the worker
        os.ftruncate(self.fd, _PAGE)
        os.lseek(self.fd, _PAGE, os.SEEK_SET)  # the worker's descriptor has the same offset
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, _ASK)
        deadline, seen = time.monotonic() + _ANSWER_SECONDS, 0
        while time.monotonic() < deadline:
            time.sleep(0.01)
            size = os.fstat(self.fd).st_size - _PAGE
            if size and size == seen:
                break  # complete: nothing was added since the last look
            seen = size
        return os.pread(self.fd, _MOST, _PAGE).decode(errors="replace").strip()

    def _words(self) -> tuple[int, ...]:
        return _WORDS.unpack(os.pread(self.fd, _WORDS.size, 0))

    def close(self) -> None:
        """Closes the page."""
        os.close(self.fd)


def progress_of(page: bytes) -> Progress:
    """The work that a page says."""
    answers, beats, task, index, *instead = _WORDS.unpack_from(page)
    if not answers:
        return Progress()
    read = None if instead[0] < 0 else (instead[0], instead[1])
    return Progress(None if task < 0 else task, None if index < 0 else index, beats, read)


def cells_of(page: bytes) -> memoryview:
    """The cells of the meter, int64, in what `HeartbeatReader.page` gave."""
    return memoryview(page)[_CELLS_AT:].cast("q")


def _cells(page: memoryview) -> memoryview:
    return page[_CELLS_AT:].cast("q")
