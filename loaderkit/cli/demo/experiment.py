"""The demo's experiment: one uninterrupted training, one that is killed and resumed with other workers, compared.

Each training is a process of its own that runs `train.py` and prints a line of JSON for each step. This file starts,
reads, kills and compares them.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Workers:
    """The number and the kind ("process" or "thread") of a training's workers."""

    count: int
    kind: str

    def __str__(self) -> str:
        return f"{self.count} worker {self.kind}{'es' if self.kind == 'process' else 's'}"


@dataclass(slots=True)
class TrainingLog:
    """The output of one training: losses and batch digests by step, and its final results if it reached them."""

    start: int = 0
    steps: int = 0
    losses: dict[int, float] = field(default_factory=dict)
    batches: dict[int, str] = field(default_factory=dict)
    params: str | None = None
    accuracy: float | None = None

    @property
    def last(self) -> int:
        """The last step with a loss; `start` if there is none."""
        return next(reversed(self.losses), self.start)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences of the killed and resumed training from the uninterrupted one."""

    steps: int
    differing: tuple[int, ...]
    same_params: bool

    @property
    def equal(self) -> bool:
        """Whether every batch and the final parameters are the same, bit by bit."""
        return not self.differing and self.same_params


def train(
    data: Path, run: Path, workers: Workers, *, epochs: int, title: str, kill_at: int | None
) -> TrainingLog:
    """Runs `train.py` in a process of its own, and sends it SIGKILL once it has printed step `kill_at`.

    data, run: directories of the records and of the checkpoints. Raises RuntimeError, with the end of the process's
    stderr, if the training fails.
    """
    from tqdm import tqdm

    record = TrainingLog()
    errors = run.with_suffix(".stderr.txt")
    with (
        errors.open("wb") as stderr,
        _training(data, run, workers, epochs, stderr) as process,
        tqdm(
            desc=title, unit=" steps", dynamic_ncols=True, smoothing=0, mininterval=_redraw_seconds()
        ) as bar,
    ):
        for line in process.stdout:
            _note(json.loads(line), record)
            if bar.total is None:
                bar.total, bar.initial, bar.n = record.steps, record.start, record.start
            if record.losses:  # none after the first line, which says where a resumed run begins
                bar.set_postfix(loss=f"{record.losses[record.last]:.3f}", refresh=False)
            bar.update(record.last - bar.n)
            if kill_at is not None and record.last == kill_at:
                process.kill()  # lines that it printed before it died are still read
        bar.refresh()
    if kill_at is None and process.returncode != 0:
        end = "\n".join(errors.read_text(errors="replace").splitlines()[-30:])
        raise RuntimeError(f"training: expected exit status 0, got {process.returncode}:\n{end}")
    if kill_at is not None and record.params is not None:
        raise RuntimeError(f"training: expected to be killed at step {kill_at}, got an end before that")
    return record


@contextlib.contextmanager
def _training(data: Path, run: Path, workers: Workers, epochs: int, stderr: Any) -> Iterator[Any]:
    arguments = [str(data), str(run), "--epochs", str(epochs)]
    arguments += ["--workers", str(workers.count), "--kind", workers.kind]
    # Bit-identical parameters need a backend that adds in a fixed order, and so small a model gains nothing from an
    # accelerator.
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        [sys.executable, "-m", "loaderkit.cli.demo.train", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        pipesize=4096,  # with a small pipe the training can't run far ahead of the lines read, so the kill is in time
    )
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def _note(line: dict[str, Any], record: TrainingLog) -> None:
    match line:
        case {"start": start, "steps": steps}:
            record.start, record.steps = start, steps
        case {"step": step, "loss": loss, "batch": digest}:
            record.losses[step], record.batches[step] = loss, digest
        case {"params": params, "accuracy": accuracy}:
            record.params, record.accuracy = params, accuracy


def compare(reference: TrainingLog, killed: TrainingLog, resumed: TrainingLog) -> Comparison:
    """Compares each batch of the killed and the resumed training with that of the uninterrupted one's same step.

    >>> reference = TrainingLog(batches={1: "a", 2: "b", 3: "c"}, params="p")
    >>> killed = TrainingLog(batches={1: "a", 2: "b"})
    >>> compare(reference, killed, TrainingLog(start=1, batches={2: "b", 3: "c"}, params="p")).equal
    True
    >>> compare(reference, killed, TrainingLog(start=1, batches={2: "b", 3: "x"}, params="p")).differing
    (3,)
    """
    made = [(step, digest) for record in (killed, resumed) for step, digest in record.batches.items()]
    missing = reference.batches.keys() - dict(made).keys()
    wrong = {step for step, digest in made if reference.batches.get(step) != digest}
    return Comparison(
        steps=len(reference.batches),
        differing=tuple(sorted(missing | wrong)),
        same_params=reference.params is not None and reference.params == resumed.params,
    )


def _redraw_seconds() -> float:
    """Seconds between two updates of a progress bar: more where stderr is a log, with a line for each."""
    return 0.1 if sys.stderr.isatty() else 5.0
