"""SRC: the data files that a command was told, opened as one source."""

import argparse
import contextlib
import itertools
import os
import shutil
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._source.protocol import read_records
from loaderkit._storage.addresses import is_remote
from loaderkit._storage.patterns import file_parts
from loaderkit.formats import registry
from loaderkit.formats._datasets.files import files_in, format_of_files, open_files
from loaderkit.formats._index.find import cached_path, find_index, path_beside
from loaderkit.formats._index.record_index import RecordIndex
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats.indexed import distinct_paths

from .exit_status import UsageError
from .printable import counted

PIPE = "-"


class OpenedSource:
    """A source with what commands ask of it.

    format: its name. source: gives the records. index: where the records lie, None where the source has its own
    index (ArrayRecord) or parts of files. names: of the shards, as they may be shown. ends: (shards,) int64, the
    records up to and with each shard.
    """

    def __init__(
        self, data_format: str, source: Any, index: RecordIndex | None = None, names: list[str] | None = None
    ) -> None:
        self.format, self.source = data_format, source
        if index is None or names is None or len(index) != len(source):
            self.index = None
            named = hasattr(source, "name")
            self.names, ends = _shards_of(source) if named else (names or [], [len(source)])
            self.ends = np.array(ends, np.int64)
        else:
            self.index, self.names, self.ends = index, names, index.shard_ends

    def __len__(self) -> int:
        return len(self.source)

    @property
    def records_each(self) -> NDArray[np.int64]:
        """(shards,) int64: the records of each shard."""
        return np.diff(self.ends, prepend=0)

    def sizes(self) -> NDArray[np.int64] | None:
        """(shards,) int64: the bytes of each shard, None where a server would have to be asked."""
        if self.index is not None:
            return self.index.shard_sizes
        if any(map(is_remote, self.names)):
            return None
        return np.array([Path(name).stat().st_size for name in self.names], np.int64)

    def location(self, key: int) -> str:
        """The record's shard and its place there, such as "train-000.tar[17]"."""
        shard = int(np.searchsorted(self.ends, key, side="right"))
        first = int(self.ends[shard - 1]) if shard else 0
        return f"{self.names[shard]}[{key - first}]"

    def read(self, keys: NDArray[np.int64]) -> list[Any]:
        """The records with these keys, (n,) int64."""
        return read_records(self.source, keys.tolist())


@dataclass(frozen=True, slots=True)
class NamedData:
    """What SRC and the options say, before anything but the first bytes is read.

    names: of the files. format: its name. storage_options: of the server, None without any. piped: whether the
    file is a copy of stdin.
    """

    names: list[str]
    format: str
    storage_options: dict[str, str] | None
    piped: bool

    @property
    def is_scanned(self) -> bool:
        """Whether the files need an index; other formats have their own."""
        return registry.of_name(self.format).scanner is not None

    def scanner(self) -> Any:
        """What finds the records of a file for the index."""
        return registry.of_name(self.format).make_scanner()

    def shards(self) -> ShardSet:
        """The files, each once, for an index of them; UsageError for formats that have their own."""
        if not self.is_scanned:
            raise UsageError(f"SRC: expected files that need an index, got {self.format}, which has its own")
        parts = file_parts(self.names, storage_options=self.storage_options)
        with usage_errors():
            return ShardSet(distinct_paths(parts), self.storage_options)


@contextlib.contextmanager
def named_data(options: argparse.Namespace) -> Iterator[NamedData]:
    """What SRC and the options name; a copy of stdin is there while the block runs."""
    with _without_pipe(options.src) as names:
        with usage_errors():
            names = _files_of(names)
            storage_options = _storage_options(options.storage_option)
            piped = PIPE in options.src
            data_format = options.format or _format_of(names, storage_options, piped=piped)
        yield NamedData(names, data_format, storage_options, PIPE in options.src)


@contextlib.contextmanager
def open_source(options: argparse.Namespace) -> Iterator[OpenedSource]:
    """The source that SRC and the options name, open while the block runs; OSError, or UsageError for the names."""
    with named_data(options) as data, open_named(data) as opened:
        yield opened


@contextlib.contextmanager
def open_named(
    data: NamedData, index: RecordIndex | None = None, *, verify: bool = False
) -> Iterator[OpenedSource]:
    """The source of files that were named.

    index: theirs, None to find it, or to make it for local files. verify: whether the files' own checksums are checked.
    """
    with usage_errors():
        opened = _opened(data, index, verify=verify)
    with contextlib.closing(opened.source) if hasattr(opened.source, "close") else contextlib.nullcontext():
        if data.piped:
            opened.names = ["stdin"]
        yield opened


def shown_names(shards: ShardSet) -> list[str]:
    """The shards' names for a reader: without secrets, and without the current folder."""
    return [shown_name(name) for name in shards.shown]


def shown_name(name: str) -> str:
    """A file's name for a reader: without the current folder.

    >>> shown_name(os.path.abspath("x/a.tar")), shown_name("s3://bucket/a.tar")
    ('x/a.tar', 's3://bucket/a.tar')
    """
    return name.removeprefix(os.path.join(os.getcwd(), ""))


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """A ValueError of the block is about the names or the options that the user gave."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def _opened(data: NamedData, index: RecordIndex | None, *, verify: bool) -> OpenedSource:
    form = registry.of_name(data.format)
    options: dict[str, Any] = dict(form.verify) if verify else {}
    if data.storage_options is not None and not form.remote:
        raise UsageError(f"--storage-option: expected files that loaderkit reads itself, got {data.format}")
    if form.remote:
        options["storage_options"] = data.storage_options
    if form.one_file and len(data.names) > 1:
        raise UsageError(f"SRC: expected one file of the format {form.name}, got {len(data.names)}")
    if form.scanner is None:
        return OpenedSource(data.format, open_files(form, data.names, **options), names=data.names)
    shards = data.shards()
    if index is None:
        scanned = data.scanner()
        _tell_of_indexing(shards, scanned.kind)
        index = find_index(shards, scanned)
    source = open_files(form, data.names, index=index.path, **options)
    return OpenedSource(data.format, source, index, shown_names(shards))


def _tell_of_indexing(shards: ShardSet, kind: str) -> None:
    found = any(map(os.path.exists, (path_beside(shards), cached_path(shards, kind))))
    if sys.stderr.isatty() and not (found or shards.remote):
        count = len(shards.paths)
        print(f"indexing {counted(count, 'shard')}, once", file=sys.stderr)


def _format_of(names: list[str], storage_options: dict[str, str] | None, *, piped: bool) -> str:
    if len(names) == 1 and os.path.isdir(names[0]) and (one := registry.of_folder(names[0])) is not None:
        return one.name
    return format_of_files(names, storage_options, shown="stdin" if piped else None).name


def _files_of(names: list[str]) -> list[str]:
    """The names, and of folders the files in them, as lk.open takes them; a folder that is one data set stays."""
    each = [
        files_in(name) if os.path.isdir(name) and registry.of_folder(name) is None else [name]
        for name in names
    ]
    return [*itertools.chain.from_iterable(each)]


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
        return shown_name(str(source.name(key)).rpartition("[")[0])

    names: list[str] = []
    ends: list[int] = []
    keys, key = range(len(source)), 0
    while key < len(keys):
        names.append(file_of(key))
        key = bisect_left(keys, True, lo=key, key=lambda each: file_of(each) != names[-1])
        ends.append(key)
    return names, ends
