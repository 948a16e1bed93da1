"""Runs the probes and prints their table."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from benchmarks.conformance.probes import PROBES, SECONDS
from benchmarks.conformance.subjects import SUBJECTS

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 60.0
_SMOKE = (
    "order independent of workers",
    "resume with other workers",
    "bytes with trailing NULs",
    "state readable",
)


def installed(peers: set[str]) -> dict[str, str]:
    """The subjects that take part, each with its version."""
    found = {}
    for name, distribution in SUBJECTS.items():
        if distribution is None or name in peers or (name == "torchdata" and "torch" in peers):
            try:
                found[name] = version(distribution or "loaderkit")
            except PackageNotFoundError:
                if distribution is None:
                    found[name] = "this tree"
    return found


def run(peers: set[str], *, smoke: bool, say: Callable[[str], None]) -> str:
    """The table as Markdown: a row for each probe, a column for each subject, and what each row does.

    Args:
        peers: the subjects that take part, if they are installed.
        smoke: a few probes of loaderkit alone.
        say: takes a line of progress.
    """
    subjects = installed(set() if smoke else peers)
    names = _SMOKE if smoke else tuple(PROBES)
    # Probes mostly wait for a time limit: two can run at once on a machine of two cores.
    with ThreadPoolExecutor(2) as pool:
        futures = {
            (name, subject): pool.submit(answer, subject, name) for name in names for subject in subjects
        }
        answers = {}
        for (name, subject), future in futures.items():
            answers[name, subject] = future.result()
            say(f"{name}, {subject}: {answers[name, subject]}")
    head = " | ".join(f"{subject} {number}" for subject, number in subjects.items())
    lines = [f"| | {head} |", f"|---|{'---|' * len(subjects)}"]
    for name in names:
        cells = " | ".join(answers[name, subject].replace("|", "/") for subject in subjects)
        lines.append(f"| {name} | {cells} |")
    lines.append("")
    lines += [f"- *{name}*: {PROBES[name][0]}" for name in names]
    return "\n".join(lines)


def answer(subject: str, name: str) -> str:
    """The answer of one probe for one subject, in a process of its own; "hangs" if it exceeds its time limit."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.conformance.child", subject, name],
            stdout=out,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(SECONDS.get(name, _SECONDS))
        except subprocess.TimeoutExpired:
            status = None
        _end(process)
        out.seek(0)
        said = out.read().decode(errors="replace")
    answers = [line.removeprefix("answer ") for line in said.splitlines() if line.startswith("answer ")]
    if answers:
        return answers[-1]
    return "hangs" if status is None else f"no: the process ends with exit code {status}"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends the probe, and all processes that the library has left in the probe's session."""
    for other in psutil.process_iter():
        try:
            if os.getsid(other.pid) == process.pid:
                other.kill()
        except (ProcessLookupError, PermissionError, psutil.Error):
            continue
    process.wait()
