"""`loaderkit records`: the records of a step, with the names that the source gives them; reads no data."""

import argparse
from functools import partial
from typing import Any

from loaderkit._loader.loader import DataLoader, settings_of
from loaderkit._order.metadata import RecordMetadata
from loaderkit.errors import LoaderkitError
from loaderkit.sources.naming import namer_of

from .exit_status import ExitStatus, UsageError
from .output import Output, add_output_argument
from .saved_states import SavedState, find_saved
from .user_loader import add_loader_argument, with_loader

TAKES_ARGUMENTS = True  # those of the script, behind --


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Print which records a step of a training has, at any step, without reading data. With --state through all "
        "that was skipped, resized and replaced until then. Arguments of the script stand behind --."
    )
    add_loader_argument(parser, scripts=True)
    parser.add_argument("--step", type=int, required=True, metavar="N", help="the step, from 0 on")
    parser.add_argument(
        "--state", metavar="CKPT", help="a saved position of the run, as `loaderkit state` takes it"
    )
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the records of the step."""
    saved = None if options.state is None else find_saved(options.state)
    return with_loader(options.loader, options.arguments, partial(_print, options, saved))


def _print(options: argparse.Namespace, saved: SavedState | None, loader: DataLoader[Any], step: Any) -> int:
    out, ledger = Output(as_json=options.json), {}
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
        entry = {"row": row, **_entry(record, record.name)}
        if record.index in ledger:
            instead = sampler[ledger[record.index]]
            assert instead.record_key is not None
            entry["read_instead"] = _entry(instead, name(instead.record_key))
        rows.append(entry)
    first, last = records[0].index, records[-1].index
    epoch = first // length if isinstance(length, int) and length else None
    out.document({"step": options.step, "epoch": epoch, "records": rows})
    in_epoch = "" if epoch is None else f"epoch {epoch:,}, "
    out.text(f"step {options.step:,}, {in_epoch}indices {first:,}..{last:,}", style="bold")
    for entry in rows:
        out.text(f"  row {entry['row']}  {_text(entry)}")
    return ExitStatus.DONE


def _entry(record: RecordMetadata, name: str | None) -> dict[str, Any]:
    return {"index": record.index, "record_key": record.record_key, "name": name}


def _text(entry: dict[str, Any]) -> str:
    text = f"index {entry['index']:,}  record_key {entry['record_key']:,}"
    text += "" if entry["name"] is None else f"  {entry['name']}"
    if "read_instead" in entry:
        text += f"  is bad; read instead: {_text(entry['read_instead'])}"
    return text
