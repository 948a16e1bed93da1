"""`loaderkit doctor`: whether this machine has what loaders need, with the fix where it hasn't."""

import argparse
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from loaderkit._base.system.platform import open_process
from loaderkit._base.system.resources import available_cpus, available_memory
from loaderkit._base.system.shared_memory import anonymous_file
from loaderkit._base.version import __version__
from loaderkit.formats.load import load

from .exit_status import ExitStatus
from .output import Output
from .printable import size_text

_FEW_DESCRIPTORS = 1024
_LITTLE_MEMORY = 2 << 30
_DEVICES_SECONDS = 60
_PROBE = "import jax; print(jax.__version__, '|', ', '.join(map(str, jax.devices())))"

HELP = """
Check processors, memory, descriptors, the system's features, versions, devices and a worker.

--no-devices  don't start JAX in a child process
--json

examples:
  loaderkit doctor --json
"""


@dataclass(frozen=True, slots=True)
class SystemCheck:
    """What was found of one thing: whether it is well, and what to do where it isn't."""

    name: str
    good: bool
    text: str
    fix: str = ""


def run(options: argparse.Namespace) -> int:
    """Prints what was found; exit status 1 where something isn't well."""
    checks: list[Callable[[], SystemCheck]] = [
        _versions, _interpreter, _processors, _memory, _descriptors, _memfd, _pidfd, _worker,
    ]  # fmt: skip
    if not options.no_devices:
        checks.append(_devices)
    found = []
    for check in checks:
        try:
            found.append(check())
        except Exception as error:  # noqa: BLE001 - a check that can't be made is a finding
            found.append(SystemCheck(check.__name__.strip("_"), False, f"{type(error).__name__}: {error}"))
    out = Output(as_json=options.json)
    out.document(
        {"findings": [{"name": one.name, "ok": one.good, "text": one.text, "fix": one.fix} for one in found]}
    )
    for one in found:
        out.text(
            f"{'ok  ' if one.good else 'warn'}  {one.name}: {one.text}" + (f". {one.fix}" if one.fix else "")
        )
    return ExitStatus.DONE if all(one.good for one in found) else ExitStatus.FINDINGS


def _versions() -> SystemCheck:
    import numpy as np

    python = ".".join(map(str, sys.version_info[:3]))
    return SystemCheck("versions", True, f"loaderkit {__version__}, Python {python}, numpy {np.__version__}")


def _interpreter() -> SystemCheck:
    free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    return SystemCheck(
        "interpreter",
        True,
        "free-threaded: worker_kind='thread' uses all processors"
        if free
        else "with a global lock: threads share one processor for Python code, processes don't",
    )


def _processors() -> SystemCheck:
    here, all_of = available_cpus(), os.cpu_count() or 1
    text = f"{here} of {all_of} may be used"
    return SystemCheck(
        "processors", here > 1, text, "" if here > 1 else "Workers and trainer share one: give the job more"
    )


def _memory() -> SystemCheck:
    left = available_memory()
    if left is None:
        return SystemCheck("memory", True, "unknown on this system")
    enough = left >= _LITTLE_MEMORY
    return SystemCheck(
        "memory",
        enough,
        f"{size_text(left)} available",
        "" if enough else "Give the job more, or fewer workers",
    )


def _descriptors() -> SystemCheck:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (math.inf if limit == resource.RLIM_INFINITY else limit for limit in limits)
    enough = soft >= _FEW_DESCRIPTORS
    soft_text, hard_text = ("unlimited" if limit == math.inf else f"{limit:,}" for limit in (soft, hard))
    return SystemCheck(
        "descriptors",
        enough,
        f"{soft_text} of {hard_text}",
        "" if enough else f"Raise it: ulimit -n {min(hard, 65536)}",
    )


def _memfd() -> SystemCheck:
    os.close(anonymous_file("doctor", 4096))
    return SystemCheck("shared memory", True, "memory without a name can be made")


def _pidfd() -> SystemCheck:
    descriptor = open_process(os.getpid())
    if descriptor is None:
        return SystemCheck(
            "pidfd", False, "the system has none", "Workers are watched by their channels alone"
        )
    os.close(descriptor)
    return SystemCheck("pidfd", True, "the ends of workers are seen at once")


def _worker() -> SystemCheck:
    """Starts a worker, kills it, and reads on."""
    with load(range(64), num_epochs=1, operations=[_pid], batch_size=1, worker_count=1) as loader:
        seen = []
        for batch in loader:
            seen.append(int(batch[0]))
            if len(seen) == 1:
                os.kill(seen[0], signal.SIGKILL)
    lost = loader.stats().pool.lost
    what = "started, killed and replaced" if lost else "started, and killed behind its last task"
    good = len(seen) == 64 and lost <= 1
    fix = "" if good else "Workers end by themselves here: see the log of loaderkit at INFO"
    return SystemCheck("worker", good, f"{what}: {len(seen)} of 64 records", fix)


def _pid(x: object) -> int:
    return os.getpid()


def _devices() -> SystemCheck:
    command = [sys.executable, "-c", _PROBE]
    fix = 'See the whole error: python -c "import jax; jax.devices()"'
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_DEVICES_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return SystemCheck("JAX", False, f"no answer in {_DEVICES_SECONDS} s", fix)
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["no output"])[-1]
        good = "No module named 'jax'" in last
        return SystemCheck("JAX", good, last[:200], "" if good else fix)
    version, _, devices = ran.stdout.strip().partition(" | ")
    return SystemCheck("JAX", True, f"{version}: {devices[:200]}")
