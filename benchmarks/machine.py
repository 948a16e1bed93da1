"""The machine and the versions of a run."""

import os
import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

import loaderkit

LIBRARIES = (
    "numpy",
    "array-record",
    "opencv-python-headless",
    "grain",
    "torch",
    "tensorflow",
    "datasets",
    "webdataset",
    "obstore",
    "litdata",
    "mosaicml-streaming",
    "cloudpickle",
    "psutil",
)


def versions() -> dict[str, str]:
    """Versions of loaderkit with its commit, of Python, and of each library; "not installed" for a missing one."""
    found = {"loaderkit": f"{loaderkit.__version__}{_commit()}", "Python": platform.python_version()}
    for name in LIBRARIES:
        found[name] = "not installed"
        for build in (name, f"{name}-cpu"):
            with suppress(PackageNotFoundError):
                found[name] = version(build)
    return found


def machine() -> dict[str, str]:
    """Processor, cores that may be used, memory, system, date."""
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def load() -> str:
    """The load of the machine: runnable processes in the last minute, this suite's own included."""
    return f"{os.getloadavg()[0]:.2f}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    root = Path(__file__).resolve().parents[1]
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" ({said.stdout.strip()})"
