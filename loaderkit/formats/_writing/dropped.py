"""The list of the records that a run left out, with their errors: a file beside what was written."""

import json
import os
from collections.abc import Sequence
from typing import Any

from loaderkit._base.notes import text_of
from loaderkit._base.system.whole_file import whole_file

_KIND = "loaderkit dropped records"

ENTRY = ("record_key", "name", "error")
# The list of a run that leaves bad records out; None where one is an error.
Dropped = list[dict[str, Any]] | None


def dropped_record(number: int, error: BaseException, name: str | None = None) -> dict[str, Any]:
    """An entry of the list, with the keys of a quarantine's lines.

    Args:
        number: of the record, its record_key where it is of a source.
        error: which it raised.
        name: the source's, None where it gives none.

    >>> dropped_record(7, ValueError("no picture"))
    {'record_key': 7, 'error': 'ValueError: no picture'}
    """
    named = {} if name is None else {"name": name}
    return {"record_key": number, **named, "error": f"{type(error).__qualname__}: {text_of(error)}"}


def list_path(path: str) -> str:
    """Where the list of what is written to a path lies.

    >>> list_path("data/train")
    'data/train.dropped.jsonl'
    """
    return f"{path}.dropped.jsonl"


def check_list(path: str) -> None:
    """Raises FileExistsError where a file that isn't a list of ours has its name.

    Args:
        path: of the list.
    """
    if not os.path.lexists(path):
        return
    try:
        with open(path, "rb") as file:
            ours = json.loads(file.readline()).get("kind") == _KIND
    except (OSError, ValueError, AttributeError):
        ours = False
    if not ours:
        raise FileExistsError(
            f"{path}: expected the list of dropped records of an earlier run, got another file; move it away"
        )


def records_in_list(path: str) -> int:
    """How many records a list has; 0 where there is none.

    Args:
        path: its file.
    """
    if not os.path.lexists(path):
        return 0
    check_list(path)
    with open(path, "rb") as file:
        return int(json.loads(file.readline())["records"])


def write_list(path: str, dropped: Sequence[dict[str, Any]]) -> None:
    """Writes the list, whole or not at all: a line that says what it is, then one for each record.

    Args:
        path: its file.
        dropped: the entries in order.
    """
    check_list(path)
    with whole_file(path) as file:
        for line in ({"kind": _KIND, "records": len(dropped)}, *dropped):
            file.write(json.dumps(line).encode() + b"\n")
