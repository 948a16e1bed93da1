"""`loaderkit sort`: the records of one or several files in the order of their keys, or of a field."""

import argparse
import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .exit_status import UsageError
from .open_source import NamedData, OpenedSource, add_source_arguments, named_data, open_named
from .output import Output, add_output_argument
from .read_each import read_all
from .scattered_tar import ScatteredTar
from .value_order import order_of
from .values import named_field
from .write_output import (
    add_processes_argument,
    add_target_arguments,
    check_pipe,
    write_chosen,
    write_format,
)

KEY = "__key__"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Write the records in the order of their keys, or of a field's values, into one file; records with the same "
        "value stay in their order. The members of a tar's key that lie apart are brought together. Records are read "
        "when they are written, and where there are many the values that are compared lie in temporary files."
    )
    add_source_arguments(parser)
    parser.add_argument(
        "-k", "--field", default=KEY, help="what to sort by: a field, or a path into JSON (default: the key)"
    )
    parser.add_argument(
        "--numeric", action="store_true", help="compare texts and bytes as the numbers they are"
    )
    parser.add_argument("--reverse", action="store_true", help="the greatest first")
    add_target_arguments(parser)
    add_processes_argument(parser)
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Writes the sorted file."""
    check_pipe(options)
    form = write_format(options.output, options.to)
    out = Output(as_json=options.json)
    with named_data(options) as data, _opened(data) as opened:
        order = order_of(_values(opened, options, out), reverse=options.reverse)
        return write_chosen(options, opened.source, order, form, out)


@contextlib.contextmanager
def _opened(data: NamedData) -> Iterator[OpenedSource]:
    if data.format == "tar":
        with contextlib.closing(ScatteredTar(data.shards())) as source:
            yield OpenedSource("tar", source)
    else:
        with open_named(data) as opened:
            yield opened


def _values(opened: OpenedSource, options: argparse.Namespace, out: Output) -> Iterator[Any]:
    """What is compared, of each record; UsageError for values that have no order."""
    kind: type | None = None
    with out.progress("values", len(opened)) as advance:
        for key, value in _given(opened, options.field, advance):
            found = _comparable(value, options, opened, key)
            if kind is not None and kind is not kind_of(found):
                raise UsageError(
                    f"--field: expected values of one type in {options.field!r}, got {kind_of(found).__name__} beside "
                    f"{kind.__name__} in {opened.location(key)}"
                )
            kind = kind_of(found)
            yield found


def _given(opened: OpenedSource, field: str, advance: Callable[[int], None]) -> Iterator[tuple[int, Any]]:
    if field == KEY and isinstance(opened.source, ScatteredTar):
        for key in range(len(opened)):
            yield key, opened.source.key(key)
            advance(1)
        return
    for key, record in read_all(opened, np.arange(len(opened)), advance):
        yield key, named_field(record, field, opened, key)


def kind_of(value: Any) -> type:
    """The type that a value is compared as: numbers of all types are one."""
    return float if isinstance(value, bool | int | float) else type(value)


def _comparable(value: Any, options: argparse.Namespace, opened: OpenedSource, key: int) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if options.numeric:
        try:
            value = _number(value)
        except (ValueError, TypeError):
            raise UsageError(
                f"--numeric: expected numbers, got {value!r:.80} in {opened.location(key)}"
            ) from None
    if isinstance(value, float) and math.isnan(value):
        raise UsageError(
            f"--field: expected numbers that have an order, got nan in {opened.location(key)}; leave such records out: "
            "loaderkit convert --call MODULE:FUNCTION, which gives None for them"
        )
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if not isinstance(value, bytes | bool | int | float):
        raise UsageError(
            f"--field: expected text, bytes or numbers, got {type(value).__name__} in {opened.location(key)}"
        )
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool | int | float):
        return value
    try:
        return int(value)  # exactly: numbers of more than 15 digits may be one float
    except ValueError:
        return float(value)
