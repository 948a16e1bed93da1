"""`loaderkit explain`: whether a loader is the bottleneck, by experiments; with --step, which records a step has."""

import argparse
import os
import runpy
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from loaderkit._loader.loader import DataLoader, settings_of
from loaderkit._order.metadata import RecordMetadata
from loaderkit._source.naming import namer_of
from loaderkit.errors import LoaderkitError

from .exit_status import ExitStatus, UsageError
from .named_function import named_function
from .options import check_pairs
from .output import Output
from .state import SavedState, find_saved

TAKES_ARGUMENTS = True  # those of the script, behind --
SECONDS = 20.0
OnLoader = Callable[[DataLoader[Any], Any], None]
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


def run(options: argparse.Namespace, out: Output) -> None:
    """Measures, or names the records of a step, and prints."""
    if options.step is not None:
        if options.seconds is not None:
            raise UsageError("--seconds: expected no --step, which measures nothing, got both")
        saved = None if options.state is None else find_saved(options.state)
        with_loader(options.script, options.arguments, partial(print_records, options, out, saved))
        return
    check_pairs(options, {"step": ["state"]}, {})
    with_loader(options.script, options.arguments, partial(_print, options, out))


def _print(options: argparse.Namespace, out: Output, loader: DataLoader[Any], step: Any) -> None:
    try:
        with loader:
            said = loader.explain(step, seconds=SECONDS if options.seconds is None else options.seconds)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    out.document(said.to_json())
    for line in str(said).splitlines():
        out.text(line)


def print_records(
    options: argparse.Namespace, out: Output, saved: SavedState | None, loader: DataLoader[Any], step: Any
) -> None:
    """Prints the records of step --step of a loader, after `saved` where there is one."""
    ledger: dict[int, int] = {}
    with iter(loader) as it:
        try:
            if saved is not None:
                it.set_state(saved.documents())
                ledger = dict(saved.state().losses.ledger)
            records = it.records(options.step)
        except (ValueError, IndexError, LoaderkitError) as error:
            raise UsageError(str(error)) from error
        sampler, name = it.sampler, namer_of(settings_of(loader).source)
    length = getattr(sampler, "epoch_length", None) or getattr(sampler, "num_records", None)
    rows = []
    for row, record in enumerate(records):
        entry = {"row": row, **_named(record, record.name)}
        if record.index in ledger:
            instead = sampler[ledger[record.index]]
            assert instead.record_key is not None
            entry["read_instead"] = _named(instead, name(instead.record_key))
        rows.append(entry)
    first, last = records[0].index, records[-1].index
    epoch = first // length if isinstance(length, int) and length else None
    out.document({"step": options.step, "epoch": epoch, "records": rows})
    in_epoch = "" if epoch is None else f"epoch {epoch:,}, "
    out.text(f"step {options.step:,}, {in_epoch}indices {first:,}..{last:,}", style="bold")
    for entry in rows:
        out.text(f"  row {entry['row']}  {_line_of(entry)}")


def _named(record: RecordMetadata, name: str | None) -> dict[str, Any]:
    return {"index": record.index, "record_key": record.record_key, "name": name}


def _line_of(entry: dict[str, Any]) -> str:
    text = f"index {entry['index']:,}  record_key {entry['record_key']:,}"
    text += "" if entry["name"] is None else f"  {entry['name']}"
    if "read_instead" in entry:
        text += f"  is bad; read instead: {_line_of(entry['read_instead'])}"
    return text


def with_loader(name: str, arguments: list[str], work: OnLoader) -> None:
    """Does something with the loader that is named.

    A script has no finally, no exit handler and no last checkpoint: the process ends within its iter(loader). What it
    did before has happened.

    Args:
        name: a script's path, or module:function.
        arguments: the script's.
        work: takes the loader, and the step where the function gave one.
    """
    if ":" in name and not os.path.exists(name):
        work(*_of_function(name))
        return
    if not os.path.isfile(name):
        raise UsageError(f"SCRIPT: expected a script or module:function, got {name}, which isn't there")
    iterate = DataLoader.__iter__

    def hook(loader: DataLoader[Any]) -> NoReturn:
        status = int(ExitStatus.UNREADABLE)
        DataLoader.__iter__ = iterate  # type: ignore[method-assign]
        try:
            work(loader, None)
            status = int(ExitStatus.DONE)
        except UsageError as error:
            print(f"loaderkit: {error}", file=sys.stderr)
            status = int(ExitStatus.USAGE)
        except BaseException as error:  # noqa: BLE001 - the process ends here
            print(f"loaderkit: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    DataLoader.__iter__ = hook  # type: ignore[method-assign]
    sys.argv = [name, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
    try:
        runpy.run_path(name, run_name="__main__")
    finally:
        DataLoader.__iter__ = iterate  # type: ignore[method-assign]
    raise UsageError(
        f"SCRIPT: expected one that iterates over a loader, got {name}, which ended without iter(loader)"
    )


def _of_function(name: str) -> tuple[DataLoader[Any], Any]:
    made = named_function("MODULE:FUNCTION", name)()
    loader, step = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(loader, DataLoader):
        raise UsageError(
            f"MODULE:FUNCTION: expected one that returns a loader, got a {type(loader).__name__}"
        )
    return loader, step
