"""`loaderkit first`: a field of the first record, or of the first that a function chooses."""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .exit_status import ExitStatus, UsageError
from .open_source import add_source_arguments, open_source
from .read_each import read_each
from .values import value_json
from .write_output import named_field


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Write a field of the first record to stdout, and nothing else: bytes as they are, other values as a line of "
        "text. The exit status is 1 where no record is chosen."
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


def run(options: argparse.Namespace) -> int:
    """Writes the value."""
    where = named_function("--where", options.where) if options.where else None
    with open_source(options) as opened:
        for key, record in read_each(opened, np.arange(len(opened)), lambda more: None):
            if isinstance(record, Exception):
                raise record if isinstance(record, OSError) else OSError(f"{opened.location(key)}: {record}")
            if where is None or where(record):
                write_value(named_field(record, options.field, opened, key))
                return ExitStatus.DONE
    print("loaderkit first: no record was chosen", file=sys.stderr)
    return ExitStatus.FINDINGS


def named_function(option: str, name: str) -> Callable[[Any], Any]:
    """A Python function by its module and name; UsageError where there is none.

    option: that gives it. name: such as "filters:is_cat" or "package.filters:is_cat"; modules of the current folder
    are found, too.

    >>> named_function("--where", "os.path:basename")("a/b")
    'b'
    """
    module, colon, function = name.partition(":")
    if not colon or not module or not function:
        raise UsageError(f"{option}: expected MODULE:FUNCTION, got {name!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in function.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"{option}: expected a function that Python can import, got {name!r}: {error}"
        ) from error
    if not callable(found):
        raise UsageError(f"{option}: expected a function, got {name!r}, which is {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def write_value(value: Any) -> None:
    """Writes a value to stdout: bytes as they are, other values as a line."""
    if isinstance(value, bytes | bytearray | memoryview):
        sys.stdout.buffer.write(value)
        sys.stdout.buffer.flush()
        return
    text = value if isinstance(value, str) else json.dumps(value_json(value), ensure_ascii=False)
    print(text.encode("utf-8", "backslashreplace").decode())
