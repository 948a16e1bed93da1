"""Looking at processes, and disturbing them; all from /proc."""

import contextlib
import os
import signal
import time
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """The child processes of all threads of a process; none where it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{pid}/task/{task}/children").read_text()
                found += map(int, text.split())
    return found


def descendants_of(pid: int) -> list[int]:
    """The child processes of a process, and theirs."""
    return [each for child in children_of(pid) for each in (child, *descendants_of(child))]


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie, which ended and isn't reaped yet, doesn't."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def send(pid: int, number: signal.Signals) -> bool:
    """Sends a signal; False if the process doesn't exist."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def left_after(pids: list[int], seconds: float) -> list[int]:
    """Those of the processes that still live so much later; returns as soon as none does."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if lives(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def memory_of(pid: int) -> int:
    """Bytes that a process and its children hold now, what they share counted once; 0 where it is gone."""
    total = 0
    for one in (pid, *children_of(pid)):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def descriptors_of(pid: int) -> int:
    """Descriptors that a process holds now; 0 where it is gone."""
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0
