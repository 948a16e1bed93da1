"""Chosen fields of records as lines with tabs, for `loaderkit show --tsv`."""

import contextlib
import json
from collections.abc import Iterable
from typing import Any

from .exit_status import ExitStatus, UsageError
from .output import Output
from .printable import printable
from .values import field_value, value_json


def table_names(given: list[str] | None) -> list[str]:
    """The names of the columns. given: by -f, each may have several with commas between."""
    names = [name.strip() for each in given or [""] for name in each.split(",")]
    if not all(names) or len({*names}) < len(names):
        said = ",".join(given or []) or "none"
        raise UsageError(f"--field: expected names with commas between, each once, got {said!r}")
    return names


def print_table(out: Output, records: Iterable[tuple[int, Any]], names: list[str], *, header: bool) -> int:
    """Prints a line for each record.

    records: (key, record). names: of the fields. header: whether their names come first.
    """
    seen, count = dict.fromkeys(names, False), 0
    if header and not out.as_json:
        print("\t".join(map(printable, names)))
    for _, record in records:
        count += 1
        row = {name: field_value(record, name, None) for name in names}
        for name, value in row.items():
            seen[name] |= value is not None
        out.document({name: value_json(value) for name, value in row.items()})
        if not out.as_json:
            print("\t".join(map(_cell, row.values())))
    for name, found in seen.items():
        if count and not found:
            raise UsageError(f"--field: expected fields that records have, got {name!r}, which none has")
    return ExitStatus.DONE


def _cell(value: Any) -> str:
    if value is None:
        return ""
    told = value_json(value)
    text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
    with contextlib.suppress(AttributeError):
        text = text.rstrip("\n")  # of a text file
    return printable(text)
