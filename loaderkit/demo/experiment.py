"""The demo's story: train once in peace, train again and be killed, go on with other workers, and compare.

Each training is a process of its own that runs `train.py` and prints a line of JSON a step; here they are
started, watched, killed and compared.
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
    """How many workers of which kind ("process" or "thread") a training uses."""

    count: int
    kind: str

    def __str__(self) -> str:
        return f"{self.count} worker {self.kind}{'es' if self.kind == 'process' else 's'}"


@dataclass(slots=True)
class Record:
    """What one training printed: losses and batch digests by step, and its end if it came so far."""

    start: int = 0
    steps: int = 0
    losses: dict[int, float] = field(default_factory=dict)
    batches: dict[int, str] = field(default_factory=dict)
    params: str | None = None
    accuracy: float | None = None

    @property
    def last(self) -> int:
        """The last step that was made."""
        return next(reversed(self.losses), self.start)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where the killed and the resumed training together differ from the one in peace: nowhere, one hopes."""

    steps: int
    differing: tuple[int, ...]
    same_params: bool

    @property
    def equal(self) -> bool:
        """Whether every batch and the final parameters are the same, bit by bit."""
        return not self.differing and self.same_params


def train(data: Path, run: Path, workers: Workers, *, epochs: int, title: str, kill_at: int | None) -> Record:
    """Run `train.py` in a process of its own, and SIGKILL it once it has told of step `kill_at`.

    data, run: directories of the records and of the checkpoints. RuntimeError, with the end of what the
    process wrote to its stderr, if it fails.
    """
    from tqdm import tqdm

    record = Record()
    errors = run.with_suffix(".stderr.txt")
    with (
        errors.open("wb") as stderr,
        _training(data, run, workers, epochs, stderr) as process,
        tqdm(desc=title, unit=" steps", dynamic_ncols=True, smoothing=0, mininterval=_redrawn()) as bar,
    ):
        for line in process.stdout:
            _note(json.loads(line), record)
            if bar.total is None:
                bar.total, bar.initial, bar.n = record.steps, record.start, record.start
            bar.set_postfix(loss=f"{record.losses.get(record.last, float('nan')):.3f}", refresh=False)
            bar.update(record.last - bar.n)
            if kill_at is not None and record.last == kill_at:
                process.kill()  # what it still printed before it died is read, too
        bar.refresh()
    if kill_at is None and process.returncode != 0:
        end = "\n".join(errors.read_text(errors="replace").splitlines()[-30:])
        raise RuntimeError(f"the training ended with exit status {process.returncode}:\n{end}")
    if kill_at is not None and record.params is not None:
        raise RuntimeError(f"the training ended before it could be killed at step {kill_at}")
    return record


@contextlib.contextmanager
def _training(data: Path, run: Path, workers: Workers, epochs: int, stderr: Any) -> Iterator[Any]:
    arguments = [str(data), str(run), "--epochs", str(epochs)]
    arguments += ["--workers", str(workers.count), "--kind", workers.kind]
    # Parameters equal bit by bit need a backend that adds in a fixed order; so small a model gains nothing
    # from an accelerator anyway.
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        [sys.executable, "-m", "loaderkit.demo.train", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        pipesize=4096,  # a small pipe keeps the training close to what the reader knows of it
    )
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def _note(line: dict[str, Any], record: Record) -> None:
    match line:
        case {"start": start, "steps": steps}:
            record.start, record.steps = start, steps
        case {"step": step, "loss": loss, "batch": digest}:
            record.losses[step], record.batches[step] = loss, digest
        case {"params": params, "accuracy": accuracy}:
            record.params, record.accuracy = params, accuracy


def compare(peaceful: Record, killed: Record, resumed: Record) -> Comparison:
    """Hold each batch of the killed and the resumed training against the same step of the one in peace.

    >>> peaceful = Record(batches={1: "a", 2: "b", 3: "c"}, params="p")
    >>> killed = Record(batches={1: "a", 2: "b"})
    >>> compare(peaceful, killed, Record(start=1, batches={2: "b", 3: "c"}, params="p")).equal
    True
    >>> compare(peaceful, killed, Record(start=1, batches={2: "b", 3: "x"}, params="p")).differing
    (3,)
    """
    made = [(step, digest) for record in (killed, resumed) for step, digest in record.batches.items()]
    missing = peaceful.batches.keys() - dict(made).keys()
    wrong = {step for step, digest in made if peaceful.batches.get(step) != digest}
    return Comparison(
        steps=len(peaceful.batches),
        differing=tuple(sorted(missing | wrong)),
        same_params=peaceful.params is not None and peaceful.params == resumed.params,
    )


def _redrawn() -> float:
    """Seconds between two drawings of a progress bar: seldom where each becomes a line of a log."""
    return 0.1 if sys.stderr.isatty() else 5.0
