"""`loaderkit doctor`: whether this machine has what loaders need, with the fix where it hasn't."""

import argparse
import logging
import math
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable

from loaderkit._base.size_text import size_text
from loaderkit._base.system.platform import open_process
from loaderkit._base.system.processor_level import present_level
from loaderkit._base.system.resources import available_cpus, available_memory
from loaderkit._base.system.shared_memory import anonymous_file
from loaderkit._base.version import __version__
from loaderkit.formats.load import load

from .cluster import Finding, cluster_of, host_findings
from .exit_status import ExitStatus, UsageError
from .output import Output

Found = tuple[bool, str, str]  # of one thing: whether it is well, what it is, and what to do where it isn't

_FEW_DESCRIPTORS = 1024
_LITTLE_MEMORY = 2 << 30
_DEVICES_SECONDS = 60
_PROBE = "import jax; print(jax.__version__, '|', ', '.join(map(str, jax.devices())))"

HELP = """
Check processors, memory, descriptors, the system's features, versions, devices and a worker; or the hosts of a cluster:
what each has, lacks, and how fast it is.

PATH?  with --cluster: data that each host should find
--cluster KIND[cluster]  ray: check the hosts of a Ray cluster
--cluster-address HOST:PORT  of its head (default: the cluster of this machine, or RAY_ADDRESS)
--no-devices  don't start JAX in a child process
--json

examples:
  loaderkit doctor --json
  loaderkit doctor --cluster ray train.tar
"""


def run(options: argparse.Namespace, out: Output) -> ExitStatus | None:
    """Prints what was found; exit status 1 where something isn't well."""
    cluster = cluster_of(options)
    if cluster is None and options.path is not None:
        raise UsageError("PATH: expected with --cluster, got it without")
    found = _here(options) if cluster is None else [*host_findings(cluster, options.path)]
    out.document({"findings": found})
    for one in found:
        fix = f". {one['fix']}" if one["fix"] else ""
        out.text(f"{'ok  ' if one['ok'] else 'warn'}  {one['name']}: {one['text']}{fix}")
    return None if all(one["ok"] for one in found) else ExitStatus.FINDINGS


def _here(options: argparse.Namespace) -> list[Finding]:
    found = []
    for name, check in CHECKS.items():
        if check is _devices and options.no_devices:
            continue
        try:
            good, text, fix = check()
        except Exception as error:  # noqa: BLE001 - a check that can't be made is a finding
            name, good, text, fix = check.__name__.strip("_"), False, f"{type(error).__name__}: {error}", ""
        found.append({"name": name, "ok": good, "text": text, "fix": fix})
    return found


def _versions() -> Found:
    import numpy as np

    python = ".".join(map(str, sys.version_info[:3]))
    return True, f"loaderkit {__version__}, Python {python}, numpy {np.__version__}", ""


def _interpreter() -> Found:
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return True, "free-threaded: worker_kind='thread' uses all processors", ""
    return True, "with a global lock: threads share one processor for Python code, processes don't", ""


def _processors() -> Found:
    here, all_of = available_cpus(), os.cpu_count() or 1
    fix = "" if here > 1 else "Workers and trainer share one: give the job more"
    return here > 1, f"{here} of {all_of} may be used, {present_level() or platform.machine()}", fix


def _memory() -> Found:
    left = available_memory()
    if left is None:
        return True, "unknown on this system", ""
    enough = left >= _LITTLE_MEMORY
    return enough, f"{size_text(left)} available", "" if enough else "Give the job more, or fewer workers"


def _descriptors() -> Found:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (math.inf if limit == resource.RLIM_INFINITY else limit for limit in limits)
    enough = soft >= _FEW_DESCRIPTORS
    soft_text, hard_text = ("unlimited" if limit == math.inf else f"{limit:,}" for limit in (soft, hard))
    return enough, f"{soft_text} of {hard_text}", "" if enough else f"Raise it: ulimit -n {min(hard, 65536)}"


def _memfd() -> Found:
    os.close(anonymous_file("doctor", 4096))
    return True, "memory without a name can be made", ""


def _pidfd() -> Found:
    descriptor = open_process(os.getpid())
    if descriptor is None:
        return False, "the system has none", "Workers are watched by their channels alone"
    os.close(descriptor)
    return True, "the ends of workers are seen at once", ""


def _worker() -> Found:
    """Starts a worker, kills it, and reads on; the log of its death would alarm."""
    log = logging.getLogger("loaderkit")
    log.disabled, disabled = True, log.disabled
    try:
        return _killed_worker()
    finally:
        log.disabled = disabled


def _killed_worker() -> Found:
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
    return good, f"{what}: {len(seen)} of 64 records", fix


def _pid(x: object) -> int:
    return os.getpid()


def _devices() -> Found:
    command = [sys.executable, "-c", _PROBE]
    fix = 'See the whole error: python -c "import jax; jax.devices()"'
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_DEVICES_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False, f"no answer in {_DEVICES_SECONDS} s", fix
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["no output"])[-1]
        good = "No module named 'jax'" in last
        return good, last[:200], "" if good else fix
    version, _, devices = ran.stdout.strip().partition(" | ")
    return True, f"{version}: {devices[:200]}", ""


CHECKS: dict[str, Callable[[], Found]] = {
    "versions": _versions,
    "interpreter": _interpreter,
    "processors": _processors,
    "memory": _memory,
    "descriptors": _descriptors,
    "shared memory": _memfd,
    "pidfd": _pidfd,
    "worker": _worker,
    "JAX": _devices,
}
