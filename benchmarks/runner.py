"""Runs the contenders in turn, each in a fresh process, as many rounds as asked for."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from json import loads
from pathlib import Path

from benchmarks.benchmark import Benchmark, Metrics, Round, Size
from benchmarks.contender import LIBRARIES, Contender, installed

ROOT = Path(__file__).resolve().parents[1]
WITHOUT_PROMETHEUS = ROOT / "benchmarks" / "peers" / "without_prometheus"
PATIENCE_S = 900.0  # for one process; the longest measures for two minutes
_SAID = 400  # characters of a failure

Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """The results of the rounds of one benchmark.

    Args:
        rounds: the metrics of all contenders that ran, by name, for each round.
        failures: why a contender failed, by name; it isn't tried again.
        left_out: contenders whose peer isn't installed or wasn't asked for, and why.
    """

    workload: str
    benchmark: Benchmark
    rounds: list[Round] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def run(
    workload: str, benchmark: Benchmark, *, peers: set[str], repeats: int, size: Size, say: Say
) -> Outcome:
    """All rounds of a benchmark: every contender once in each round, in reverse order in every other round.

    Args:
        peers: those that take part besides the bare loop and loaderkit.
        repeats: rounds.
        say: takes a line of progress.
    """
    outcome = Outcome(workload, benchmark)
    taking_part = []
    for contender in benchmark.contenders:
        reason = why_left_out(contender, peers)
        if reason is None:
            taking_part.append(contender)
        else:
            outcome.left_out[contender.name] = reason
    for number in range(repeats):
        results: dict[str, Metrics] = {}
        # Every other round in reverse order: a drift of the machine's speed (heat, neighbours) then affects all alike.
        for group in _groups(taking_part if number % 2 == 0 else taking_part[::-1], size):
            group = [contender for contender in group if contender.name not in outcome.failures]
            names = [contender.name for contender in group]
            if not names:
                continue
            say(f"{benchmark.name}, round {number + 1} of {repeats}: {'; '.join(names)}")
            measured = in_fresh_process(workload, benchmark, group, size)
            if isinstance(measured, str):
                say(f"  failed: {measured}")
                outcome.failures.update(dict.fromkeys(names, measured))
            else:
                results.update(measured)
        outcome.rounds.append(results)
    return outcome


def _groups(contenders: list[Contender], size: Size) -> list[list[Contender]]:
    # A smoke run measures nothing, so one process runs all contenders; loops that fork go first, before any thread.
    if size.smoke:
        return [sorted(contenders, key=lambda contender: not forks(contender))]
    return [[contender] for contender in contenders]


def forks(contender: Contender) -> bool:
    """Whether the contender forks the process that it runs in."""
    return contender.peer == "bare" and contender.workers > 0 and contender.kind == "process"


def why_left_out(contender: Contender, peers: set[str]) -> str | None:
    """Why a contender doesn't take part, None if it does."""
    if contender.peer in ("bare", "loaderkit"):
        return None
    if contender.peer not in peers:
        return "not asked for"
    library = LIBRARIES[contender.peer]
    return None if installed(contender.peer) or library is None else f"{library[0]} is not installed"


def in_fresh_process(
    workload: str, benchmark: Benchmark, contenders: list[Contender], size: Size
) -> Mapping[str, Metrics] | str:
    """The metrics by contender, or the reason why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "metrics.json"
        command = [
            *(sys.executable, "-m", "benchmarks.child", workload, benchmark.name),
            *(contender.name for contender in contenders),
            *("--out", str(out), "--folder", str(size.folder), "--seconds", str(size.seconds)),
            *("--latency-s", str(size.latency_s), "--megabytes", str(size.megabytes)),
            *(["--smoke"] if size.smoke else []),
        ]
        with tempfile.TemporaryFile() as errors:
            ended = _finished(command, _environment(), errors.fileno())
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
        if ended == 0 and out.exists():
            metrics: Mapping[str, Metrics] = loads(out.read_text())
            return metrics
    last = said.splitlines()[-1] if said else "it said nothing"
    return f"{ended}: {last[:_SAID]}" if ended else last[:_SAID]


def _environment() -> dict[str, str]:
    # Worker processes of every peer find the functions by their module, in any current directory.
    paths = [str(WITHOUT_PROMETHEUS), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _finished(command: list[str], environment: dict[str, str], errors: int) -> str | int:
    process = subprocess.Popen(
        command, env=environment, stdout=errors, stderr=errors, start_new_session=True, cwd=ROOT
    )
    try:
        status = process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        # The whole group, also after a normal end: a library may have left workers behind, which the next one must
        # not compete with.
        _end_group(process)
    if status is None:
        return f"no end after {PATIENCE_S:.0f} s"
    return f"exit status {status}" if status else 0


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
