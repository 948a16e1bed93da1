"""SRC: the data files that a command was told, opened as one source."""

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit import sources
from loaderkit._storage.names import file_parts, is_remote, redacted

from .data_format import FORMATS, SNIFFED_BYTES, format_by_content, format_by_name
from .exit_status import UsageError

PIPE = "-"


def add_source_arguments(parser: argparse.ArgumentParser, *, pipe: bool = True) -> None:
    """SRC, --format and --storage-option, which all commands on data have. pipe: whether SRC may be "-"."""
    parser.add_argument(
        "sources",
        metavar="SRC",
        nargs="+",
        help="data files: paths, patterns, train-{000..012}.tar, train@64, s3://bucket/x.tar; all are one set"
        + ("; - reads stdin" if pipe else ""),
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="of the files; default: as their names or first bytes say"
    )
    parser.add_argument(
        "--storage-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option for the server, such as region=eu-west-1; may be given several times",
    )


class OpenedSource:
    """A source with what commands ask of it.

    format: one of `FORMATS`. source: gives the records. names: of the shards; shown_names: "stdin" for a pipe. ends:
    (shards,) int64, the records up to and with each shard. index: where records lie, None for formats that have their
    own (ArrayRecord).
    """

    def __init__(self, data_format: str, source: Any, shown_name: str | None = None) -> None:
        self.format, self.source = data_format, source
        self.index: Any = getattr(source, "index", None)
        if self.index is None:
            self.names, ends = _shards_of(source)
        else:
            self.names, ends = list(self.index.shard_names), self.index.shard_ends
        self.shown_names = self.names if shown_name is None else [shown_name]
        self.ends: NDArray[np.int64] = np.asarray(ends, np.int64)

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def records_each(self) -> NDArray[np.int64]:
        """(shards,) int64: the records of each shard."""
        return np.diff(self.ends, prepend=0)

    def sizes(self) -> NDArray[np.int64] | None:
        """(shards,) int64: the bytes of each shard, None where a server would have to be asked."""
        if self.index is not None:
            return np.asarray(self.index.shard_sizes, np.int64)
        if any(map(is_remote, self.names)):
            return None
        return np.array([Path(name).stat().st_size for name in self.names], np.int64)

    def location(self, key: int) -> str:
        """The record's shard and its place there, such as "train-000.tar[17]"."""
        shard = int(np.searchsorted(self.ends, key, side="right"))
        first = int(self.ends[shard - 1]) if shard else 0
        return f"{self.shown_names[shard]}[{key - first}]"

    def read(self, keys: NDArray[np.int64]) -> list[Any]:
        """The records with these keys, (n,) int64."""
        return list(self.source.__getitems__(keys.tolist()))


@contextlib.contextmanager
def open_source(options: argparse.Namespace) -> Iterator[OpenedSource]:
    """The source that SRC and the options name, open while the block runs; OSError, or UsageError for the names."""
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(_without_pipe(options.sources))
        try:
            storage_options = _storage_options(options.storage_option)
            data_format = options.format or _format_of(names, storage_options)
            source = _MAKERS[data_format](names, storage_options)
        except ValueError as error:  # the names, not the data
            raise UsageError(str(error)) from error
        close = getattr(source, "close", None)
        if close is not None:
            stack.callback(close)
        yield OpenedSource(data_format, source, "stdin" if PIPE in options.sources else None)


def _format_of(names: list[str], storage_options: dict[str, str] | None) -> str:
    said = {format_by_name(name) for name in names}
    if len(said) == 1 and (only := said.pop()) is not None:
        return only
    if len(said) > 1:
        raise UsageError(
            f"SRC: expected files of one format, got {', '.join(sorted(map(str, said)))}; give --format"
        )
    first = file_parts(names, storage_options=storage_options)[0].path
    if is_remote(first):
        raise UsageError(f"{redacted(first)}: expected a name that says the format; give --format")
    with open(first, "rb") as file:
        return format_by_content(first, file.read(SNIFFED_BYTES))


@contextlib.contextmanager
def _without_pipe(names: list[str]) -> Iterator[list[str]]:
    if PIPE not in names:
        yield names
        return
    if len(names) > 1:
        raise UsageError("SRC: expected - alone, got it among other names")
    with tempfile.TemporaryDirectory(prefix="loaderkit-") as folder:
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield [str(path)]


def _storage_options(given: list[str]) -> dict[str, str] | None:
    if not given:
        return None
    pairs = [pair.partition("=") for pair in given]
    if any(not sign for _, sign, _ in pairs):
        raise UsageError("--storage-option: expected NAME=VALUE, got no =")  # the value may be a secret
    return {name: value for name, _, value in pairs}


def _shards_of(source: Any) -> tuple[list[str], list[int]]:
    # The records of a file have consecutive keys, and the source says the file of any key.
    def file_of(key: int) -> str:
        return str(source.name(key)).rpartition("[")[0]

    names: list[str] = []
    ends: list[int] = []
    total, key = len(source), 0
    while key < total:
        name, low, high = file_of(key), key, total
        while high - low > 1:  # the file of `low` is this one, that of `high` is another
            middle = (low + high) // 2
            low, high = (middle, high) if file_of(middle) == name else (low, middle)
        names.append(name)
        ends.append(high)
        key = high
    return names, ends


def _array_record(names: list[str], storage_options: dict[str, str] | None) -> Any:
    if storage_options is not None:
        raise UsageError("--storage-option: expected files that loaderkit reads, got array_record")
    return sources.ArrayRecordDataSource(names)


_MAKERS: dict[str, Callable[..., Any]] = {"array_record": _array_record}
