"""`loaderkit demo`: a training run that is killed and resumes exactly. `train.py` is the part to copy."""

import argparse

from loaderkit.cli.exit_status import UsageError
from loaderkit.cli.output import Output

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

    from .command import run_demo

    return run_demo(options.directory, epochs=options.epochs)
