"""What differs between operating systems, and what only the system can tell: processors, memory, parents.

Linux is complete. macOS lacks pidfds and the parent-death signal; there the end of a worker's channel says the same a
moment later. Everything that asks the system for such things is in this file.
"""

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_CGROUP = Path("/sys/fs/cgroup")


def available_cpus() -> int:
    """Processors this process may use: its affinity, and the quota of its cgroup rounded up; at least 1.

    >>> available_cpus() >= 1
    True
    """
    count = len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        if quota != "max":
            count = min(count, -(-int(quota) // int(period)))
    with contextlib.suppress(OSError, ValueError):  # the older hierarchy
        microseconds = int((_CGROUP / "cpu/cpu.cfs_quota_us").read_text())
        if microseconds > 0:
            count = min(count, -(-microseconds // int((_CGROUP / "cpu/cpu.cfs_period_us").read_text())))
    return max(count, 1)


def available_memory() -> int | None:
    """Bytes that can still be taken before something is killed for it, None where the system doesn't say.

    The smaller of what the kernel calls available and what the cgroup's limit leaves.
    """
    known: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        known += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    for limit, usage in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            ceiling = (_CGROUP / limit).read_text().strip()
            if ceiling != "max":
                known.append(max(0, int(ceiling) - int((_CGROUP / usage).read_text())))
    return min(known, default=None)


def open_process(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, None where there is no such thing."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, or the process is gone: the channel's end tells
        return None


def die_with_parent_thread() -> None:
    """Asks the kernel to kill this process when the thread that started it ends: holds even inside a stuck C call."""
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def worker_environment() -> dict[str, str]:
    """The trainer's environment, changed so that a worker sees no accelerator and starts no threads of its own.

    It has to be in place before the worker's first import: libraries read it once.
    """
    environment = dict(os.environ)
    for hidden in (
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "TPU_VISIBLE_CHIPS",
    ):
        environment[hidden] = ""
    environment["JAX_PLATFORMS"] = "cpu"
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"):
        environment[threads] = "1"
    return environment
