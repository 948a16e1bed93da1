"""The records of a step, with the names that the source gives them, for `loaderkit explain`; reads no data."""

import argparse
from typing import Any

from loaderkit._loader.loader import DataLoader, settings_of
from loaderkit._order.metadata import RecordMetadata
from loaderkit._source.naming import namer_of
from loaderkit.errors import LoaderkitError

from .exit_status import ExitStatus, UsageError
from .output import Output
from .saved_states import SavedState


def print_records(
    options: argparse.Namespace, saved: SavedState | None, loader: DataLoader[Any], step: Any
) -> int:
    """Prints the records of step --step of a loader, after `saved` where there is one."""
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
