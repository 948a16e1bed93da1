"""Processors and memory that this process may use, according to the kernel and its cgroups."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def available_cpus() -> int:
    """Processors that this process may use: the smaller of its affinity and its cgroups' quota, rounded up.

    >>> available_cpus() >= 1
    True
    """
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    quota = cpu_quota(_ROOT)
    return count if quota is None else min(count, quota)


def available_memory() -> int | None:
    """Bytes that can still be allocated before the kernel kills a process for memory; None where that is unknown.

    The smallest of the kernel's available memory and what the cgroups' limits leave.
    """
    return memory_left(_ROOT)


def own_memory(pid: int) -> int | None:
    """Bytes of a process's own memory (RssAnon): no file and no memory that it shares; None where that is unknown.

    Args:
        pid: of the process.

    >>> own_memory(os.getpid()) != 0
    True
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return None


def processor_times(pid: int, thread: int | None = None) -> tuple[int, int] | None:
    """Nanoseconds of a thread on a processor, and of its waits for one; None where that is unknown.

    Args:
        pid: of the process.
        thread: its native id; None for the main thread.

    >>> processor_times(-1)
    """
    with contextlib.suppress(OSError, ValueError):
        path = f"/proc/{pid}/schedstat" if thread is None else f"/proc/{pid}/task/{thread}/schedstat"
        on_processor, delayed, _ = map(int, Path(path).read_text().split())
        return on_processor, delayed
    return None


def cpu_quota(root: Path) -> int | None:
    """Processors that the cgroups of this process allow, rounded up, at least 1; None without a limit.

    Args:
        root: root folder of the file system.
    """
    quotas: list[int] = []
    for group in cgroups(root, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            most, period = (group / "cpu.max").read_text().split()
            if most != "max":
                quotas.append(-(-int(most) // int(period)))
        with contextlib.suppress(OSError, ValueError):  # cgroup v1
            microseconds = int((group / "cpu.cfs_quota_us").read_text())
            if microseconds > 0:
                quotas.append(-(-microseconds // int((group / "cpu.cfs_period_us").read_text())))
    return max(min(quotas), 1) if quotas else None


def memory_left(root: Path) -> int | None:
    """Bytes that the kernel and the cgroups of this process leave; None where neither has a number.

    Args:
        root: root folder of the file system.
    """
    known: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = (root / "proc/meminfo").read_text().splitlines()
        known += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    for group in cgroups(root, "memory"):
        for limit, usage, kind in (
            ("memory.max", "memory.current", ""),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        ):
            with contextlib.suppress(OSError, ValueError):  # ValueError: "max", no limit
                ceiling = int((group / limit).read_text())
                used = int((group / usage).read_text())
                known.append(max(0, ceiling - used + _file_cache(group, kind)))
    return min(known, default=None)


def _file_cache(group: Path, kind: str) -> int:
    # A cgroup counts its file cache as used, and the kernel drops it when memory is needed. A loader that reads files
    # fills the group with it.
    names = (f"{kind}inactive_file", f"{kind}active_file")
    lines = map(str.split, (group / "memory.stat").read_text().splitlines())
    return sum(int(line[1]) for line in lines if line[0] in names)


def cgroups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's groups and of all groups above them: any of them may set the limit."""
    mounted = root / "sys/fs/cgroup"
    with contextlib.suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            for top in (mounted, mounted / "unified") if not controllers else (mounted / controller,):
                group = top / path.strip("/")
                # In a container the path may be the host's and not exist; its own group is the top folder then.
                yield from (level for level in (group, *group.parents) if level.is_relative_to(top))
