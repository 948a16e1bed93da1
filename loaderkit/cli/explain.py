"""`loaderkit explain`: whether a loader is the bottleneck, by experiments."""

import argparse
from functools import partial
from typing import Any

from loaderkit._loader.loader import DataLoader

from .exit_status import ExitStatus, UsageError
from .output import Output, add_output_argument
from .user_loader import add_loader_argument, with_loader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Measure a loader with half and twice its workers, its reads alone, and the training step, and say what limits "
        "it. The function returns a loader, or a loader and a step (a function of a batch). In a training script write "
        "print(it.explain()) instead."
    )
    add_loader_argument(parser, scripts=False)
    parser.add_argument(
        "--seconds", type=float, default=20.0, metavar="S", help="for all experiments (default: 20)"
    )
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Measures and prints."""
    return with_loader(options.loader, [], partial(_print, options))


def _print(options: argparse.Namespace, loader: DataLoader[Any], step: Any) -> int:
    out = Output(as_json=options.json)
    try:
        with loader:
            said = loader.explain(step, seconds=options.seconds)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    out.document(said.to_json())
    for line in str(said).splitlines():
        out.text(line)
    return ExitStatus.DONE
