"""What differs between operating systems, and what only the system can tell: processors, memory, parents.

Linux is complete. macOS lacks pidfds and the parent-death signal; there the end of a worker's channel says the same a
moment later. Everything that asks the system for such things is in this file.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from loaderkit._descriptors import above_standard

LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
IN_WORKER = "LOADERKIT_WORKER"  # set in the environment of workers and of what they start
_ROOT = Path("/")


def available_cpus() -> int:
    """Processors this process may use: its affinity, and the quota of its cgroups rounded up; at least 1.

    >>> available_cpus() >= 1
    True
    """
    count = len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1
    quota = cpu_quota(_ROOT)
    return count if quota is None else min(count, quota)


def available_memory() -> int | None:
    """Bytes that can still be taken before something is killed for it, None where the system doesn't say.

    The smallest of what the kernel calls available and what the limits of the cgroups leave.
    """
    return memory_left(_ROOT)


def cpu_quota(root: Path) -> int | None:
    """Processors that the cgroups of this process allow, rounded up; None without a limit.

    Args:
        root: the file system's.
    """
    quotas: list[int] = []
    for group in _cgroups(root, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            most, period = (group / "cpu.max").read_text().split()
            if most != "max":
                quotas.append(-(-int(most) // int(period)))
        with contextlib.suppress(OSError, ValueError):  # the older hierarchy
            microseconds = int((group / "cpu.cfs_quota_us").read_text())
            if microseconds > 0:
                quotas.append(-(-microseconds // int((group / "cpu.cfs_period_us").read_text())))
    return max(min(quotas), 1) if quotas else None


def memory_left(root: Path) -> int | None:
    """Bytes that the kernel and the cgroups of this process leave; None where neither says.

    Args:
        root: the file system's.
    """
    known: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = (root / "proc/meminfo").read_text().splitlines()
        known += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    for group in _cgroups(root, "memory"):
        for limit, usage, kind in (
            ("memory.max", "memory.current", ""),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        ):
            with contextlib.suppress(OSError, ValueError):  # also "max", which is no number
                ceiling = int((group / limit).read_text())
                used = int((group / usage).read_text())
                known.append(max(0, ceiling - used + _file_cache(group, kind)))
    return min(known, default=None)


def _file_cache(group: Path, kind: str) -> int:
    # It counts as used, and gives way to whoever needs memory: a loader that reads files fills the group with it.
    names = (f"{kind}inactive_file", f"{kind}active_file")
    lines = map(str.split, (group / "memory.stat").read_text().splitlines())
    return sum(int(line[1]) for line in lines if line[0] in names)


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """The groups of this process, each with those above it: any of them may set the limit."""
    mounted = root / "sys/fs/cgroup"
    with contextlib.suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            for top in (mounted, mounted / "unified") if not controllers else (mounted / controller,):
                group = top / path.strip("/")
                # In a container the path may be the host's and lead nowhere; then its own group is the top.
                yield from (level for level in (group, *group.parents) if level.is_relative_to(top))


def open_process(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, None where there is no such thing."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        with above_standard():
            return os.pidfd_open(pid)
    except OSError:  # an old kernel, or the process is gone: the channel's end tells
        return None


def dying_with_parent_thread(parent: int) -> str:
    """Statements for a new interpreter's first line: the kernel kills it when the thread that started it ends.

    That holds even inside a stuck C call. Where the parent is gone already, it ends itself.

    Args:
        parent: the process of that thread.
    """
    if not LINUX:
        return ""
    return (
        f"import ctypes, os; ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)}, 0, 0, 0);"
        f"os.getppid() == {parent} or os._exit(0);"
    )


def process_state(pid: int) -> str:
    """What the kernel says a process is doing, in a few words.

    >>> process_state(os.getpid()).startswith("the kernel says")
    True
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        state = next(line.partition(":")[2].strip() for line in status if line.startswith("State:"))
    except OSError:
        return "the kernel says nothing of it"
    inside = ""
    with contextlib.suppress(OSError):
        inside = Path(f"/proc/{pid}/wchan").read_text().strip()
    return f"the kernel says {state}" + (f", in {inside}" if inside not in ("", "0") else "")


def worker_environment() -> dict[str, str]:
    """The trainer's environment, changed so that a worker sees no accelerator and starts no threads of its own.

    It has to be in place before the worker's first import: libraries read it once.
    """
    environment = {**os.environ, IN_WORKER: "1"}
    for hidden in (
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "TPU_VISIBLE_CHIPS",
    ):
        environment[hidden] = ""
    environment["JAX_PLATFORMS"] = "cpu"
    for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
        environment[f"{library}_NUM_THREADS"] = "1"
    environment["VECLIB_MAXIMUM_THREADS"] = environment["OPENCV_FOR_THREADS_NUM"] = "1"
    return environment
