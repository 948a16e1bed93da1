"""The command `loaderkit`, also `python -m loaderkit`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from loaderkit._base.version import __version__

FEWEST_EPOCHS = 4  # with fewer the training may end before it can be killed


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with `arguments`, by default the program's own; returns the exit status.

    >>> main(["--help"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    parser = argparse.ArgumentParser(prog="loaderkit", description="A deterministic data loader for JAX.")
    parser.add_argument("--version", action="version", version=f"loaderkit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="train on handwritten digits, kill the training in the middle of an epoch, resume it exactly",
        description="Train a small classifier, kill it, resume it with other workers, and compare.",
    )
    demo.add_argument(
        "--directory",
        type=Path,
        help="for data, checkpoints and the picture; default: a new temporary directory",
    )
    demo.add_argument("--epochs", type=int, default=40, help="epochs to train (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.epochs < FEWEST_EPOCHS:
        demo.error(f"--epochs: expected {FEWEST_EPOCHS} or more, got {options.epochs}")

    from loaderkit.demo.command import run_demo

    return run_demo(options.directory, epochs=options.epochs)
