"""Rows of arrays in NetCDF, HDF5 and Zarr files, and in what xarray opens."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from reprlib import repr as _short
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.closing import Closing
from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.notes import annotate
from loaderkit._base.system.file_identity import FileIdentity, file_changed
from loaderkit._base.system.process_locks import ProcessLocks
from loaderkit._base.system.shared_memory import goes_to_a_worker
from loaderkit._source.content import content_hash, sampled_keys
from loaderkit._source.optional import lacking
from loaderkit._source.record_key import check_key, check_keys
from loaderkit.errors import DataFormatError
from loaderkit.sources.has_card import HasCard, file_sizes
from loaderkit.sources.sliced import sliced

from .stored_variable import StoredVariable, open_path, variables_of

# Libraries have locks of their own, and xarray's, of all HDF5 files, isn't made anew in a child that is forked while
# another thread reads: so a fork waits for this lock. h5py lets one thread of a process read in any case.
_READING = threading.RLock()
_registered_with: set[bool] = set()  # whether h5py was loaded, at each registration


class ArrayFileDataSource(HasCard, Closing):
    """Rows of the variables of a data set of arrays: record k is {name: row k along a dimension}.

    The data set is opened once in each process that reads it, when it first reads, and closed with it.

    Args:
        open: a path of a NetCDF (.nc), HDF5 (.h5, .hdf5) or Zarr (.zarr) data set, or a function without arguments
            that opens one: an xarray.Dataset, an h5py.File or Group, a zarr.Group, or a dict of arrays.
        dim: the dimension that counts the records: its name, or its place in each variable, such as 0.
        names: of the variables that a record has, in this order; None for all that have the dimension. ValueError
            where one is missing, or their lengths differ; TypeError for variables of Python objects.

    FileChangedError where the file was replaced or written to since the source was made.

    >>> source = ArrayFileDataSource(lambda: {"x": np.arange(6).reshape(3, 2), "y": np.zeros(3)}, dim=0)
    >>> source[1]
    {'x': array([2, 3]), 'y': np.float64(0.0)}
    >>> source.take([2, 0])["x"]
    array([[4, 5],
           [0, 1]])
    """

    @former_arguments(removed_in="0.3.0", by_place=["names"])
    def __init__(
        self,
        open: str | os.PathLike[str] | Callable[[], Any],  # noqa: A002 - the word of the field
        dim: str | int,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(open, str | os.PathLike):
            path = os.path.abspath(os.path.expanduser(os.fspath(open)))
            if not os.path.exists(path):
                raise FileNotFoundError(f"open: expected a data set, got {path}, which is missing")
            self._open: Any = path
        elif callable(open):
            self._open = open
        else:
            raise TypeError(f"open: expected a path or a function without arguments, got {_short(open)}")
        if isinstance(dim, bool) or not isinstance(dim, str | int):
            raise TypeError(f"dim: expected a dimension's name or its place, got {dim!r}")
        if isinstance(names, str):
            raise TypeError(f"names: expected a list of names, got {names!r}")
        self._dim, self._names = dim, None if names is None else list(names)
        self._path: str | None = None
        self._identity: FileIdentity | None = None
        self._specs: dict[str, tuple[Any, ...]] | None = None
        self._chunk: int | None = None
        self._prepare()
        variables = self._variables()
        self._names = list(variables)
        # The variable with the largest rows says what is read together.
        self._chunk = max(variables.values(), key=lambda each: each.row_bytes).chunk

    def _prepare(self) -> None:
        self._locks = ProcessLocks(threading.RLock)
        self._process = -1
        self._data: Any = None
        self._found: dict[str, StoredVariable] = {}

    def _variables(self) -> dict[str, StoredVariable]:
        """The variables by name, opened in this process."""
        if self._process != os.getpid():
            # What another process opened isn't closed here: they share the place in the file.
            data = open_path(self._open) if isinstance(self._open, str) else self._open()
            try:
                found = variables_of(data, self._dim, self._names)
            except (ValueError, TypeError) as error:
                annotate(error, f"in the data set {self._open}")
                raise
            except (OSError, RuntimeError, KeyError) as error:  # of the library
                raise DataFormatError(
                    f"{self._open}: expected a data set of variables, got an error of its library: {error}; the file "
                    "is damaged: write it again"
                ) from error
            path = self._open if isinstance(self._open, str) else _path_of(data)
            specs = {name: (each.dtype.str, each.length, *each.row) for name, each in found.items()}
            self._check(path, specs)
            _hold_at_fork()
            self._data, self._found, self._process = data, found, os.getpid()
        return self._found

    def _check(self, path: str | None, specs: dict[str, tuple[Any, ...]]) -> None:
        if self._specs is None:
            self._specs, self._path = specs, path
            lengths = {name: spec[1] for name, spec in specs.items()}
            if len(set(lengths.values())) > 1:
                raise ValueError(f"dim: expected variables of one length along {self._dim!r}, got {lengths}")
            self._identity = None if path is None else FileIdentity.of(_identified(path))
            return
        self._check_file()
        if specs != self._specs:
            raise file_changed(path or "open", f"it had the variables {self._specs} and has {specs} now")

    def _check_file(self) -> None:
        if self._path is not None and self._identity is not None:
            self._identity.check(self._path, FileIdentity.of(_identified(self._path)))

    def file_versions(self) -> Any:
        """What tells exactly these files from others, as JSON values: size and time of the one with the metadata."""
        return None if self._path is None else FileIdentity.of(_identified(self._path)).told()

    def __len__(self) -> int:
        specs = self._specs or {}
        return int(next(iter(specs.values()))[1])

    @sliced
    def __getitem__(self, key: int) -> dict[str, Any]:
        return {name: rows[0] for name, rows in self.take([key]).items()}

    def __getitems__(self, record_keys: ArrayLike) -> list[dict[str, Any]]:
        columns = self.take(record_keys)
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row)) for row in rows]

    def take(self, record_keys: ArrayLike, out: list[NDArray[Any]] | None = None) -> dict[str, NDArray[Any]]:
        """Many records as arrays (n, ...); rows that follow each other in the files are read together.

        Args:
            record_keys: integers (n,); IndexError naming the first that is out of range.
            out: for each variable, in order, an array (n, ...) of its dtype to be filled.
        """
        keys = check_keys(record_keys, len(self), self)
        rows, places = np.unique(keys, return_inverse=True)
        cuts = np.flatnonzero(np.diff(rows) != 1) + 1
        runs = [(int(run[0]), int(run[-1]) + 1) for run in np.split(rows, cuts) if len(run)]
        columns: dict[str, NDArray[Any]] = {}
        with self._locks.own():
            self._check_file()
            for place, (name, variable) in enumerate(self._variables().items()):
                column = (
                    out[place] if out is not None else np.empty((len(keys), *variable.row), variable.dtype)
                )
                if runs:
                    np.take(self._read(name, variable, runs), places, axis=0, out=column, mode="clip")
                columns[name] = column
        return columns

    def _read(self, name: str, variable: StoredVariable, runs: list[tuple[int, int]]) -> NDArray[Any]:
        parts = []
        for begin, end in runs:
            try:
                with _READING:
                    parts.append(variable.read(begin, end))
            except Exception as error:
                self._check_file()
                where = self._path or "open"
                raise DataFormatError(
                    f"{where}: expected rows {begin} to {end - 1} of {name}, got an error of its library: {error}; "
                    "the file is damaged: write it again"
                ) from error
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def chunk_records(self) -> int:
        """Rows of the files' chunks, which are read together; only where they have chunks, else an AttributeError."""
        if self._chunk is None:
            raise lacking(self, "chunk_records", needs="variables with chunks")
        return self._chunk

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the rows of a chunk; only where the files have chunks, else an AttributeError."""
        rows = self.chunk_records
        with self._locks.own():
            return max(1, rows * sum(each.row_bytes for each in self._variables().values()))

    def name(self, record_key: SupportsIndex) -> str:
        """The file and the row, such as "/data/train.nc[17]".

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        return f"{self._path or self._dim}[{check_key(record_key, len(self), self)}]"

    def data_files(self) -> dict[str, int | None]:
        """The files, and the bytes of each."""
        return file_sizes([] if self._path is None else [self._path])

    def fingerprint(self) -> dict[str, Any]:
        """The variables' dtypes and shapes, and a hash of some rows."""
        return {
            "type": "ArraysDataSource",
            "records": len(self),
            "columns": {name: list(spec) for name, spec in (self._specs or {}).items()},
            "content": content_hash(self.__getitems__(sampled_keys(len(self)))),
        }

    def close(self) -> None:
        """Closes the data set; a later read opens it again."""
        with self._locks.own():
            data, process = self._data, self._process
            self._data, self._found, self._process = None, {}, -1
            if process == os.getpid() and callable(close := getattr(data, "close", None)):
                close()

    def __repr__(self) -> str:
        what = (
            repr(self._path) if self._path else getattr(self._open, "__qualname__", type(self._open).__name__)
        )
        return f"ArrayFileDataSource({what}, dim={self._dim!r}, names={self._names}, records={len(self)})"

    def __getstate__(self) -> tuple[Any, ...]:
        # Inode numbers and times hold on this machine and for this run only.
        own = goes_to_a_worker()
        return (
            self._open, self._dim, self._names, self._specs, self._chunk, self._path, self._identity if own else None
        )  # fmt: skip

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._open, self._dim, self._names, self._specs, self._chunk, self._path, self._identity = state
        self._prepare()


def _hold_at_fork() -> None:
    """Lets forks wait for `_READING`, and take it before h5py's own lock, as a read does.

    What is registered last is called first before a fork; so once more where h5py was loaded since.
    """
    h5py_loaded = "h5py" in sys.modules
    if h5py_loaded not in _registered_with:
        _registered_with.add(h5py_loaded)
        os.register_at_fork(
            before=_READING.acquire, after_in_parent=_READING.release, after_in_child=_READING.release
        )


def _path_of(data: Any) -> str | None:
    """The local file of a data set that a function opened, where it says it."""
    encoding = getattr(data, "encoding", None)
    source = encoding.get("source") if isinstance(encoding, dict) else None
    path = source or getattr(getattr(data, "file", data), "filename", None)
    return os.path.abspath(path) if isinstance(path, str) and os.path.exists(path) else None


def _identified(path: str) -> str:
    """The file that says whether a data set was written again: of a Zarr folder its metadata."""
    if os.path.isdir(path):
        for name in ("zarr.json", ".zmetadata", ".zgroup"):
            if os.path.exists(file := os.path.join(path, name)):
                return file
    return path
