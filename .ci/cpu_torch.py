"""Prints the requirement by which pip installs PyTorch's build for CPUs here; exits with 1 if pip can't find one.

On Linux the wheel of the plain name requires CUDA's packages, several gigabytes of them. A build for CPUs has a
version that says so (2.13.0+cpu), or requires none of these packages on this machine. Each query has a time limit;
one that fails counts as no.
"""

import json
import re
import subprocess
import sys
from typing import Any

LISTED_WITHIN_S, RESOLVED_WITHIN_S = 60, 120
OF_CUDA = re.compile(r"nvidia|cuda|triton|pytorch-triton")


def requirement() -> str | None:
    listed = pip(LISTED_WITHIN_S, "index", "versions", "torch")
    if (version := labelled(listed)) is not None:
        return f"torch=={version}"
    plan = ["--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", "-"]
    return "torch" if is_for_cpus(pip(RESOLVED_WITHIN_S, "install", *plan, "torch")) else None


def pip(seconds: float, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout if done.returncode == 0 else ""


def labelled(listed: str) -> str | None:
    """The newest version for CPUs among those that `pip index versions` lists, newest first."""
    available = next((line for line in listed.splitlines() if line.startswith("Available versions:")), "")
    found = re.search(r"(?<![\w.])[0-9][\w.]*\+cpu(?![\w.])", available)
    return None if found is None else found[0]


def is_for_cpus(report: str) -> bool:
    """Whether the package that `pip install --dry-run --report` would install requires no CUDA on this machine."""
    try:
        from pip._vendor.packaging.requirements import Requirement

        (install,) = json.loads(report)["install"]
        needed: list[Any] = [Requirement(line) for line in install["metadata"].get("requires_dist", [])]
        asked = [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    except (ImportError, ValueError, KeyError, TypeError):
        return False
    return not any(OF_CUDA.match(name) for name in asked)


if __name__ == "__main__":
    found = requirement()
    if found is None:
        sys.exit(1)
    print(found)
