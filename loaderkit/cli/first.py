"""`loaderkit first`: a field of the first record, or of the first that a function chooses."""

import argparse
import json
import sys
from typing import Any

import numpy as np

from loaderkit.errors import DataFormatError

from .exit_status import ExitStatus
from .named_function import named_function
from .open_source import add_source_arguments, open_source
from .output import Output, add_output_argument
from .read_each import read_all
from .values import named_field, value_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Write a field of the first record to stdout, and nothing else: bytes as they are, other values as a line of "
        "text, or all as a JSON document. The exit status is 1 where no record is chosen."
    )
    add_source_arguments(parser)
    parser.add_argument(
        "-f", "--field", required=True, help="its name, or a path into JSON such as json.label"
    )
    parser.add_argument(
        "--where",
        metavar="MODULE:FUNCTION",
        help="the first record for which this Python function gives true",
    )
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Writes the value."""
    where = named_function("--where", options.where) if options.where else None
    with open_source(options) as opened:
        for key, record in read_all(opened, np.arange(len(opened))):
            try:
                chosen = where is None or where(record)
            except Exception as error:
                # As an uncaught one it would end with 1, which says that no record is chosen.
                raise DataFormatError(
                    f"--where: expected true or false from {options.where} for {opened.location(key)}, got "
                    f"{type(error).__name__}: {error}"
                ) from error
            if chosen:
                value = named_field(record, options.field, opened, key)
                if options.json:
                    place = {"record": key, "location": opened.location(key), "field": options.field}
                    Output(as_json=True).document({**place, "value": value_json(value)})
                else:
                    write_value(value)
                return ExitStatus.DONE
    print("loaderkit first: no record was chosen", file=sys.stderr)
    return ExitStatus.FINDINGS


def write_value(value: Any) -> None:
    """Writes a value to stdout: bytes as they are, other values as a line."""
    if isinstance(value, bytes | bytearray | memoryview):
        sys.stdout.buffer.write(value)
        sys.stdout.buffer.flush()
        return
    text = value if isinstance(value, str) else json.dumps(value_json(value), ensure_ascii=False)
    print(text.encode("utf-8", "backslashreplace").decode())
