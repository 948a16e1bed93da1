"""Grain's data sources under their names; any object with `__len__` and `__getitem__` is one, too."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from operator import index as to_index
from os import PathLike
from typing import Any, SupportsIndex

from numpy.typing import ArrayLike

from loaderkit._base.notes import annotate, notes_of
from loaderkit.errors import FileChangedError
from loaderkit.sources import ArrayRecordDataSource as _ArrayRecords
from loaderkit.sources import RandomAccessDataSource
from loaderkit.sources.array_record_paths import paths_as_written

from ._shared_memory import SharedMemoryDataSource

__all__ = [
    "ArrayRecordDataSource",
    "RandomAccessDataSource",
    "RangeDataSource",
    "SharedMemoryDataSource",
]


class ArrayRecordDataSource(_ArrayRecords):
    """The records (bytes) of ArrayRecord files, in the order of the files.

    Args:
        paths: a name or several, TFDS's file instructions among them. ValueError where there is none.
        reader_options: options of array-record's reader.

    A file that is missing or can't be read is an OSError of its kind, as a FileNotFoundError, and a RuntimeError, too,
    as in Grain. Its repr is Grain's, which is what Grain's checkpoints know it by: a hash of the names as they were
    written.
    """

    def __init__(self, paths: Any, reader_options: Mapping[str, str] | None = None) -> None:
        single = isinstance(paths, str | PathLike) or hasattr(paths, "filename")
        if not single and not (isinstance(paths, Sequence) and paths):
            raise ValueError(
                f"paths: expected a name, a file instruction, or some of them in a list, got {paths!r}"
            )
        try:
            super().__init__(paths, reader_options)
        except OSError as error:
            raise _as_in_grain(error) from None
        self._written = paths_as_written(paths)

    @property
    def paths(self) -> list[str]:
        """The files as they were written, in order."""
        return [*self._written]

    def __getitem__(self, record_key: SupportsIndex) -> bytes:
        if not 0 <= to_index(record_key) < len(self):
            raise ValueError(f"record_key: expected one in [0, {len(self)}), got {record_key}")
        return super().__getitem__(record_key)

    def __getitems__(self, record_keys: ArrayLike) -> list[bytes]:
        # Said again, for it isn't inherited past a __getitem__ of the class's own.
        return super().__getitems__(record_keys)

    def __iter__(self) -> Iterator[bytes]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        names = hashlib.sha1("".join(self._written).encode(), usedforsecurity=False).hexdigest()
        return f"ArrayRecordDataSource(hash_of_paths={names})"

    def __getstate__(self) -> tuple[Any, ...]:
        return *super().__getstate__(), self._written

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        *ours, self._written = state
        super().__setstate__(tuple(ours))


class _MissingFileError(FileNotFoundError, RuntimeError):
    """A RuntimeError in Grain."""


class _FolderError(IsADirectoryError, RuntimeError):
    """A RuntimeError in Grain."""


class _ForbiddenFileError(PermissionError, RuntimeError):
    """A RuntimeError in Grain."""


class _UnreadableFileError(OSError, RuntimeError):
    """A RuntimeError in Grain."""


_KINDS: dict[type[OSError], type[OSError]] = {
    FileNotFoundError: _MissingFileError,
    IsADirectoryError: _FolderError,
    PermissionError: _ForbiddenFileError,
}


def _as_in_grain(error: OSError) -> OSError:
    if isinstance(error, FileChangedError):  # Grain has no such error
        return error
    kind = next((ours for base, ours in _KINDS.items() if isinstance(error, base)), _UnreadableFileError)
    made = kind(*error.args) if error.filename is None else kind(*error.args, error.filename)
    for note in notes_of(error):
        annotate(made, note)
    return made


class RangeDataSource:
    """The numbers of range(start, stop, step).

    >>> list(RangeDataSource(0, 6, 2)[key] for key in range(3)), RangeDataSource(0, 6, 2)
    ([0, 2, 4], RangeDataSource(start=0, stop=6, step=2))
    """

    def __init__(self, start: int, stop: int, step: int) -> None:
        assert step != 0, "step: expected another number than 0"
        self._start, self._stop, self._step = start, stop, step
        self._len = math.ceil((stop - start) / step)
        assert self._len >= 0, f"a range from {start} to {stop} by {step} has no length"

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, record_key: SupportsIndex) -> int:
        key = to_index(record_key)
        if not 0 <= key < self._len:
            raise IndexError(f"record_key: expected one in [0, {self._len}), got {key}")
        return self._start + key * self._step

    def __repr__(self) -> str:
        return f"RangeDataSource(start={self._start}, stop={self._stop}, step={self._step})"
