"""The records of one or several files in the order of their keys, or of a field, for `loaderkit convert --by`."""

import argparse
import contextlib
import heapq
import math
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from operator import itemgetter
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .exit_status import UsageError
from .open_source import NamedData, OpenedSource, open_named
from .output import Output
from .read_each import read_all
from .scattered_tar import ScatteredTar
from .values import named_field

KEY = "__key__"


@contextlib.contextmanager
def open_scattered(data: NamedData) -> Iterator[OpenedSource]:
    """As `open_named`; the members of a tar's key may lie apart."""
    if data.format == "tar":
        with contextlib.closing(ScatteredTar(data.shards())) as source:
            yield OpenedSource("tar", source)
    else:
        with open_named(data) as opened:
            yield opened


def sorted_keys(opened: OpenedSource, options: argparse.Namespace, out: Output) -> NDArray[np.int64]:
    """(n,) int64: the keys of the records in the order that --by, --numeric and --reverse ask for."""
    return order_of(_values(opened, options, out), reverse=options.reverse)


def _values(opened: OpenedSource, options: argparse.Namespace, out: Output) -> Iterator[Any]:
    """What is compared, of each record; UsageError for values that have no order."""
    kind: type | None = None
    with out.progress("values", len(opened)) as advance:
        for key, value in _given(opened, options.by, advance):
            found = _comparable(value, options, opened, key)
            if kind is not None and kind is not kind_of(found):
                raise UsageError(
                    f"--by: expected values of one type in {options.by!r}, got {kind_of(found).__name__} beside "
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
            f"--by: expected numbers that have an order, got nan in {opened.location(key)}; leave such records out: "
            "loaderkit convert --call MODULE:FUNCTION, which gives None for them"
        )
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if not isinstance(value, bytes | bool | int | float):
        raise UsageError(
            f"--by: expected text, bytes or numbers, got {type(value).__name__} in {opened.location(key)}"
        )
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool | int | float):
        return value
    try:
        return int(value)  # exactly: numbers of more than 15 digits may be one float
    except ValueError:
        return float(value)


VALUES_IN_MEMORY = 1 << 20  # some 100 MB of short texts


def order_of(
    values: Iterable[Any], *, reverse: bool = False, in_memory: int = VALUES_IN_MEMORY
) -> NDArray[np.int64]:
    """The places of the values in ascending order; equal ones stay in theirs.

    values: that can be compared, and pickled. reverse: the greatest first. in_memory: how many; sorted runs of as many
    are kept in a temporary file each.

    >>> order_of("cab"), order_of([1, 2, 1, 2], reverse=True, in_memory=2)
    (array([1, 2, 0]), array([1, 3, 0, 2]))
    """
    numbered = zip(values, count())
    with contextlib.ExitStack() as stack:
        runs: list[Iterator[tuple[Any, int]]] = []
        while run := sorted(islice(numbered, in_memory), key=itemgetter(0), reverse=reverse):
            if len(run) < in_memory:
                runs.append(iter(run))
                break
            runs.append(_spilled(run, stack))
        merged = heapq.merge(*runs, key=itemgetter(0), reverse=reverse)
        return np.fromiter((place for _, place in merged), np.int64)


def _spilled(run: list[tuple[Any, int]], stack: contextlib.ExitStack) -> Iterator[tuple[Any, int]]:
    file = stack.enter_context(tempfile.TemporaryFile(prefix="loaderkit-"))  # noqa: SIM115 - the stack closes it
    for begin in range(0, len(run), 1 << 10):
        pickle.dump(run[begin : begin + (1 << 10)], file, 5)
    file.seek(0)
    return _read_back(file)


def _read_back(file: IO[bytes]) -> Iterator[tuple[Any, int]]:
    with contextlib.suppress(EOFError):
        while True:
            yield from pickle.load(file)
