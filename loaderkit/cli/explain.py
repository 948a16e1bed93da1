"""`loaderkit explain`: whether a loader is the bottleneck, by experiments; with --step, which records a step has."""

import argparse
from functools import partial
from typing import Any

from loaderkit._loader.loader import DataLoader

from .exit_status import ExitStatus, UsageError
from .output import Output
from .records import print_records
from .saved_states import find_saved
from .user_loader import with_loader

TAKES_ARGUMENTS = True  # those of the script, behind --
SECONDS = 20.0
HELP = f"""
Measure a loader with half and twice its workers, its reads alone, and the training step, and say what limits it. The
function returns a loader, or a loader and a step (a function of a batch). In a training script write
print(it.explain()) instead. With --step print which records that step has, without reading data; arguments of a script
stand behind --.

SCRIPT  a script, which runs until its first iter(loader) and no further, or module:function that returns a loader, or a
        loader and a step
--seconds S[float]  for all experiments (default: {SECONDS:g})
--step N[int]  print the records of this step, from 0 on
--state CKPT  with --step: a saved position of the run, as `loaderkit state` takes it; all that was skipped, resized and
        replaced until then counts
--json

examples:
  loaderkit explain train:make_loader --seconds 60
  loaderkit explain train.py --step 1200 --state checkpoints/1000 -- --batch-size 64
"""


def run(options: argparse.Namespace) -> int:
    """Measures, or names the records of a step, and prints."""
    if options.step is not None:
        if options.seconds is not None:
            raise UsageError("--seconds: expected no --step, which measures nothing, got both")
        saved = None if options.state is None else find_saved(options.state)
        return with_loader(options.script, options.arguments, partial(print_records, options, saved))
    if options.state is not None:
        raise UsageError(
            "--state: expected with --step N, the step whose records are asked for, got it alone"
        )
    return with_loader(options.script, options.arguments, partial(_print, options))


def _print(options: argparse.Namespace, loader: DataLoader[Any], step: Any) -> int:
    out = Output(as_json=options.json)
    try:
        with loader:
            said = loader.explain(step, seconds=SECONDS if options.seconds is None else options.seconds)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    out.document(said.to_json())
    for line in str(said).splitlines():
        out.text(line)
    return ExitStatus.DONE
