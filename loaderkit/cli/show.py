"""`loaderkit show`: records as readable text, or the bytes of one field."""

import argparse
import json
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .exit_status import ExitStatus, UsageError
from .open_source import OpenedSource, add_source_arguments, open_source
from .output import Output, add_output_argument
from .printable import printable
from .values import fields_of, value_json, value_text

FIRST_RECORDS = 5
NARROWEST = 20  # characters of a value on a narrow terminal
LONGEST_VALUE = 200  # characters of a value, where --field didn't ask for it
TOGETHER = 64  # records read at once


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Show records: text as text, images as their format and size, other values by their first bytes."
    )
    add_source_arguments(parser)
    parser.add_argument(
        "-f", "--field", action="append", help="show this field only, in full; may be given several times"
    )
    parser.add_argument(
        "-n", "--number", type=int, help=f"of records (default: {FIRST_RECORDS}, with --key 1)"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--key", type=int, help="show from the record with this number on, -1 for the last")
    which.add_argument("--find", metavar="NAME", help="show the record with this key, such as a tar's 000017")
    parser.add_argument(
        "--raw", action="store_true", help="write the bytes of the field to stdout, and nothing else"
    )
    add_output_argument(parser, "print a line of JSON for each record")


def run(options: argparse.Namespace) -> int:
    """Shows the records."""
    if (options.number or 0) < 0:
        raise UsageError(f"--number: expected 0 or more, got {options.number}")
    if options.raw and (options.json or len(options.field or []) > 1):
        raise UsageError("--raw: expected one --field at most and no --json")
    out = Output(as_json=options.json)
    with open_source(options) as opened:
        keys = _keys(options, opened)
        for begin in range(0, len(keys), TOGETHER):
            part = keys[begin : begin + TOGETHER]
            for key, record in zip(part.tolist(), opened.read(part)):
                # Of a tar's record one field is written, of others the record.
                whole = options.raw and not options.field and opened.format != "tar"
                fields = {"record": record} if whole else fields_of(record)
                fields = _chosen(fields, options.field, opened.location(key))
                if options.raw:
                    _write(fields, opened.location(key))
                else:
                    _show(out, key, opened.location(key), fields, in_full=bool(options.field))
    return ExitStatus.DONE


def _keys(options: argparse.Namespace, opened: OpenedSource) -> NDArray[np.int64]:
    total = len(opened)
    if options.find is not None:
        return np.array([_find(opened, options.find)], np.int64)
    if options.key is None:
        return np.arange(min(FIRST_RECORDS if options.number is None else options.number, total))
    if not -total <= options.key < total:
        raise UsageError(f"--key: expected a number below {total}, the number of records, got {options.key}")
    first = options.key % total
    return np.arange(first, min(first + (1 if options.number is None else options.number), total))


def _find(opened: OpenedSource, name: str) -> int:
    find = getattr(opened.source, "find", None)
    if find is None:
        raise UsageError(f"--find: expected records with keys, as those of tar files, got {opened.format}")
    try:
        return int(find(name))
    except KeyError:
        raise UsageError(f"--find: expected the key of a record, got {name!r}, which none has") from None
    except ValueError as error:  # the index has no keys
        raise UsageError(f"--find: {error}") from error


def _chosen(fields: dict[str, Any], wanted: list[str] | None, location: str) -> dict[str, Any]:
    if wanted is None:
        return fields
    for name in wanted:
        if name not in fields:
            has = ", ".join(map(printable, fields))
            raise UsageError(f"--field: expected a field of {location}, which has {has}, got {name!r}")
    return {name: fields[name] for name in wanted}


def _show(out: Output, key: int, location: str, fields: dict[str, Any], *, in_full: bool) -> None:
    values = {name: value_json(value) for name, value in fields.items()} if out.as_json else {}
    out.document({"key": key, "location": location, "fields": values})
    most = None if in_full else LONGEST_VALUE
    if most is not None and out.width is not None:
        most = max(out.width - max(map(len, fields), default=0) - 4, NARROWEST)
    out.text(f"{key}  {location}", style="bold")
    out.facts([(name, value_text(value, most)) for name, value in fields.items()])


def _write(fields: dict[str, Any], location: str) -> None:
    values = [value for name, value in fields.items() if name != "__key__" or len(fields) == 1]
    if len(values) != 1:
        has = ", ".join(map(printable, fields))
        raise UsageError(f"--raw: expected --field with one of the fields of {location}: {has}")
    (value,) = values
    if not isinstance(value, bytes | bytearray | memoryview):
        text = value if isinstance(value, str) else json.dumps(value_json(value), ensure_ascii=False)
        value = (text + "\n").encode("utf-8", "surrogateescape")
    sys.stdout.buffer.write(value)
