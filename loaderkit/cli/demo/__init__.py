"""`loaderkit demo`: a training run that is killed and resumes exactly. `train.py` is the part to copy."""

import argparse
import importlib.util
import tempfile
from pathlib import Path

from loaderkit._base.extras import missing_library
from loaderkit.cli.exit_status import UsageError
from loaderkit.cli.output import Output

from .curves import draw_curves
from .digits import write_digits
from .experiment import Comparison, TrainingLog, Workers, compare, train

LIBRARIES = {
    "jax": "jax",
    "orbax.checkpoint": "orbax-checkpoint",
    "sklearn": "scikit-learn",
    "matplotlib": "matplotlib",
    "tqdm": "tqdm",
}
BATCH_SIZE = 64  # as in train.py
BEFORE = Workers(2, "process")
AFTER = Workers(3, "thread")
FEWEST_EPOCHS = 4  # with fewer the training may end before it can be killed

HELP = """
Train a small classifier, kill it, resume it with other workers, and compare.

--directory DIRECTORY[path]  for data, checkpoints and the picture; default: a new temporary directory
--epochs EPOCHS[int=40]  epochs to train (default: %(default)s)

examples:
  loaderkit demo --epochs 10
"""


def run(options: argparse.Namespace, out: Output) -> int:
    """Runs the demo; UsageError for too few epochs."""
    if options.epochs < FEWEST_EPOCHS:
        raise UsageError(f"--epochs: expected {FEWEST_EPOCHS} or more, got {options.epochs}")
    return run_demo(options.directory, epochs=options.epochs)


def run_demo(directory: Path | None, *, epochs: int) -> int:
    """Runs the whole demo and prints its results; returns 0 if the resumed training equals the uninterrupted one.

    directory: for data, checkpoints and the picture, new or empty; None makes a temporary one. epochs: number of
    epochs to train.
    """
    if missing := missing_libraries():
        print(missing_library("loaderkit demo needs", ", ".join(missing), "demo"))
        return 2
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="loaderkit-demo-"))
    elif directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        print(
            f"--directory: expected a new or empty directory, since a run found in it would be resumed, got {directory}"
        )
        return 2
    data = directory / "data"
    data.mkdir(parents=True, exist_ok=True)
    train_size, test_size = write_digits(data)
    print(f"{train_size:,} handwritten digits to train on, {test_size} to test, as ArrayRecord in {data}")

    kill_at = (epochs * train_size // BATCH_SIZE) * 3 // 5
    reference = train(
        data, directory / "reference", BEFORE, epochs=epochs, title="uninterrupted", kill_at=None
    )
    killed = train(data, directory / "killed", BEFORE, epochs=epochs, title="to be killed ", kill_at=kill_at)
    print(f"SIGKILL      after step {killed.last}, {_place(killed.last, train_size)}; {BEFORE} until here")
    resumed = train(data, directory / "killed", AFTER, epochs=epochs, title="resumed      ", kill_at=None)
    comparison = compare(reference, killed, resumed)
    picture = directory / "curves.png"
    draw_curves(picture, reference=reference, killed=killed, resumed=resumed)
    _report(comparison, reference, killed, resumed, test_size)
    source = Path(__file__).with_name("train.py")
    print(f"Loss curves  {picture}")
    print(f"Source       {source} ({len(source.read_text().splitlines())} lines)")
    return 0 if comparison.equal else 1


def missing_libraries() -> list[str]:
    """The packages that the demo needs and that aren't installed, by their names for pip."""
    return [package for module, package in LIBRARIES.items() if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package of the module is missing
        return False


def _place(step: int, epoch_size: int) -> str:
    epoch, record = divmod(step * BATCH_SIZE, epoch_size)
    return f"{record:,} records into epoch {epoch}"


def _report(
    comparison: Comparison, reference: TrainingLog, killed: TrainingLog, resumed: TrainingLog, tests: int
) -> None:
    twice = killed.last - resumed.start
    print(f"Resumed      from the checkpoint of step {resumed.start} in a new process, with {AFTER}")
    if wrong := comparison.differing:
        print(f"Batches      DIFFER at {len(wrong)} of {comparison.steps} steps, first at {wrong[0]}")
    else:
        print(f"Batches      equal: sha256 of all {comparison.steps} batches, {twice} of them made twice")
    words = "equal" if comparison.same_params else "DIFFER"
    print(f"Parameters   {words}: sha256 {reference.params} uninterrupted")
    print(f"             {' ' * len(words)}         {resumed.params} killed and resumed")
    print(f"Accuracy     {resumed.accuracy:.1%} of {tests} test digits")
