"""`loaderkit table`: chosen fields of all records as lines with tabs."""

import argparse
import contextlib
import json
from typing import Any

import numpy as np

from .exit_status import ExitStatus, UsageError
from .open_source import add_source_arguments, open_source
from .output import Output, add_output_argument
from .printable import printable
from .read_each import read_all
from .values import field_value, value_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Print fields of all records, a line each with tabs between the values, under a line with the fields' names. "
        "Tabs, line ends and control characters in values are escaped."
    )
    add_source_arguments(parser)
    parser.add_argument(
        "-f",
        "--fields",
        required=True,
        metavar="A,B.C",
        help="their names with commas between; b.c is the field of that name, or c in the JSON of field b",
    )
    parser.add_argument("-n", "--number", type=int, metavar="N", help="of records (default: all)")
    parser.add_argument("--no-header", action="store_true", help="leave out the line with the names")
    add_output_argument(parser, "print a line of JSON for each record")


def run(options: argparse.Namespace) -> int:
    """Prints the table."""
    names = [name.strip() for name in options.fields.split(",")]
    if not all(names) or len({*names}) < len(names):
        raise UsageError(f"--fields: expected names with commas between, each once, got {options.fields!r}")
    if options.number is not None and options.number < 0:
        raise UsageError(f"--number: expected 0 or more, got {options.number}")
    out = Output(as_json=options.json)
    seen = dict.fromkeys(names, False)
    with open_source(options) as opened:
        if not (options.json or options.no_header):
            print("\t".join(map(printable, names)))
        keys = np.arange(len(opened) if options.number is None else min(options.number, len(opened)))
        for _, record in read_all(opened, keys):
            row = {name: field_value(record, name, None) for name in names}
            for name, value in row.items():
                seen[name] |= value is not None
            out.document({name: value_json(value) for name, value in row.items()})
            if not options.json:
                print("\t".join(map(_cell, row.values())))
    for name, found in seen.items():
        if len(keys) and not found:
            raise UsageError(f"--fields: expected fields that records have, got {name!r}, which none has")
    return ExitStatus.DONE


def _cell(value: Any) -> str:
    if value is None:
        return ""
    told = value_json(value)
    text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
    with contextlib.suppress(AttributeError):
        text = text.rstrip("\n")  # of a text file
    return printable(text)
