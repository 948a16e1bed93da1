"""Where a worker process is, in a page that it shares with the trainer.

A store in shared memory is no message: it costs a worker a tenth of a microsecond a task, it is there at once however
the worker ends, and the trainer may look when it likes. Behind the page the worker's interpreter writes the stacks of
its threads when it is sent a signal, also while it is inside a C call that holds the interpreter.
"""

import contextlib
import faulthandler
import mmap
import os
import signal
import struct
import time
from dataclasses import dataclass

from loaderkit._system.shared_memory import anonymous_file, mapped

# Whether it answers, things begun, task or -1, index or -1; index and record key of what is read instead, or -1.
_WORDS = struct.Struct("=6q")
_BEATS = struct.Struct("=q")  # the second of them
_NOTHING = -1
_PAGE = mmap.PAGESIZE
# One that no library uses, where the system has more than the two for everybody.
_ASK: int = signal.SIGRTMAX - 3 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2
_ANSWER_SECONDS = 1.0
_MOST = 1 << 16  # bytes of an answer


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a worker is: in which task (None: in none), at which record of it (None: it wasn't told to say so).

    `beats` counts what it began: it is another number whenever it made progress. `instead`: index and record key of
    what it reads in the row of a record that is bad.
    """

    task: int | None = None
    index: int | None = None
    beats: int = 0
    instead: tuple[int, int] | None = None


class Heartbeat:
    """The worker's side.

    Args:
        fd: of the shared page, ours from here on.
    """

    def __init__(self, fd: int) -> None:
        self._page = mapped(fd, _PAGE)
        self._beats = 0
        self._task = _NOTHING
        os.lseek(fd, _PAGE, os.SEEK_SET)
        faulthandler.register(_ASK, file=fd, all_threads=True, chain=False)
        signal.siginterrupt(_ASK, False)  # a C call that is asked goes on as if it hadn't been
        self._set(_NOTHING, _NOTHING)

    def begin(self, task: int) -> None:
        """It works on that task now."""
        self._set(task, _NOTHING)

    def at(self, index: int, instead: tuple[int, int] | None = None) -> None:
        """It is at that record of its task now, or at what it reads instead: an index and its record key."""
        self._set(self._task, index, instead)

    def go_on(self) -> None:
        """It got on, where it is; any thread of it may say so."""
        self._beats += 1
        _BEATS.pack_into(self._page, _BEATS.size, self._beats)

    def rest(self) -> None:
        """It works on nothing."""
        self._set(_NOTHING, _NOTHING)

    @property
    def resting(self) -> bool:
        """Whether it works on nothing."""
        return self._task == _NOTHING

    def _set(self, task: int, index: int, instead: tuple[int, int] | None = None) -> None:
        self._task = task
        self._beats += 1
        _WORDS.pack_into(self._page, 0, 1, self._beats, task, index, *(instead or (_NOTHING, _NOTHING)))


class HeartbeatReader:
    """The trainer's side.

    >>> reader = HeartbeatReader()
    >>> reader.progress()
    Progress(task=None, index=None, beats=0, instead=None)
    >>> reader.close()
    """

    def __init__(self) -> None:
        self.fd = anonymous_file("mark", _PAGE)

    def progress(self) -> Progress:
        """Where the worker is, or was when it ended."""
        answers, beats, task, index, *instead = self._words()
        if not answers:
            return Progress()
        read = None if instead[0] < 0 else (instead[0], instead[1])
        return Progress(None if task < 0 else task, None if index < 0 else index, beats, read)

    def stacks(self, pid: int) -> str:
        """The stacks of the worker's threads; empty where it doesn't answer."""
        if not self._words()[0]:
            return ""  # the signal would end it
        os.ftruncate(self.fd, _PAGE)
        os.lseek(self.fd, _PAGE, os.SEEK_SET)  # the worker's descriptor has the same offset
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, _ASK)
        deadline, seen = time.monotonic() + _ANSWER_SECONDS, 0
        while time.monotonic() < deadline:
            time.sleep(0.01)
            size = os.fstat(self.fd).st_size - _PAGE
            if size and size == seen:
                break  # nothing was added meanwhile
            seen = size
        return os.pread(self.fd, _MOST, _PAGE).decode(errors="replace").strip()

    def _words(self) -> tuple[int, ...]:
        return _WORDS.unpack(os.pread(self.fd, _WORDS.size, 0))

    def close(self) -> None:
        """Lets go of the page."""
        os.close(self.fd)
