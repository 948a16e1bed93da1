"""Processors and memory that this process may use, according to the kernel and its cgroups."""

import contextlib
import os
import sys
from collections.abc import Iterator

_ROOT = "/"


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
        for line in read_text(f"/proc/{pid}/status").splitlines():
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
        on_processor, delayed, _ = map(int, read_text(path).split())
        return on_processor, delayed
    return None


def cpu_quota(root: str) -> int | None:
    """Processors that the cgroups of this process allow, rounded up, at least 1; None without a limit.

    Args:
        root: root folder of the file system.
    """
    quotas: list[int] = []
    for group in cgroups(root, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            most, period = read_text(f"{group}/cpu.max").split()
            if most != "max":
                quotas.append(-(-int(most) // int(period)))
        with contextlib.suppress(OSError, ValueError):  # cgroup v1
            microseconds = int(read_text(f"{group}/cpu.cfs_quota_us"))
            if microseconds > 0:
                quotas.append(-(-microseconds // int(read_text(f"{group}/cpu.cfs_period_us"))))
    return max(min(quotas), 1) if quotas else None


def memory_left(root: str) -> int | None:
    """Bytes that the kernel and the cgroups of this process leave; None where neither has a number.

    Args:
        root: root folder of the file system.
    """
    known: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = read_text(f"{root}/proc/meminfo").splitlines()
        known += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    for group in cgroups(root, "memory"):
        for limit, usage, kind in (
            ("memory.max", "memory.current", ""),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        ):
            with contextlib.suppress(OSError, ValueError):  # ValueError: "max", no limit
                ceiling = int(read_text(f"{group}/{limit}"))
                used = int(read_text(f"{group}/{usage}"))
                known.append(max(0, ceiling - used + _file_cache(group, kind)))
    return min(known, default=None)


def _file_cache(group: str, kind: str) -> int:
    # A cgroup counts its file cache as used, and the kernel drops it when memory is needed. A loader that reads files
    # fills the group with it.
    names = (f"{kind}inactive_file", f"{kind}active_file")
    lines = map(str.split, read_text(f"{group}/memory.stat").splitlines())
    return sum(int(line[1]) for line in lines if line[0] in names)


def cgroups(root: str, controller: str) -> Iterator[str]:
    """The folders of this process's groups and of all groups above them: any of them may set the limit."""
    mounted = f"{root}/sys/fs/cgroup"
    with contextlib.suppress(OSError, ValueError):
        for line in read_text(f"{root}/proc/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            names = [name for name in path.split("/") if name]
            for top in (mounted, f"{mounted}/unified") if not controllers else (f"{mounted}/{controller}",):
                # In a container the path may be the host's and not exist; its own group is the top folder then.
                yield from ("/".join((top, *names[:count])) for count in range(len(names), -1, -1))


def read_text(path: str) -> str:
    """What a file says. Without `pathlib`, whose import takes a worker as long as a dozen files of ours."""
    with open(path) as file:
        return file.read()
