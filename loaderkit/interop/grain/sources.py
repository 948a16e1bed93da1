"""Grain's data sources under their names; any object with `__len__` and `__getitem__` is one, too."""

import hashlib
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from loaderkit._base.notes import annotate, notes_of
from loaderkit._source.protocol import RandomAccessDataSource
from loaderkit._storage.patterns import paths_as_written
from loaderkit.errors import FileChangedError
from loaderkit.formats.array_record.source import ArrayRecordDataSource as _ArrayRecords
from loaderkit.sources import RangeDataSource as _Range

from ._shared_memory import SharedMemoryDataSource

__all__ = ["ArrayRecordDataSource", "RandomAccessDataSource", "RangeDataSource", "SharedMemoryDataSource"]


class ArrayRecordDataSource(_ArrayRecords):
    """The records (bytes) of ArrayRecord files, in the order of the files.

    Args:
        paths: a name or several, TFDS's file instructions among them. ValueError where there is none.
        reader_options: options of array-record's reader.

    A file that is missing or can't be read is an OSError of its kind, such as a FileNotFoundError, and a RuntimeError,
    too, as in Grain. The repr is Grain's, by which Grain's checkpoints know the source: a hash of the names as they
    were written.
    """

    def __init__(self, paths: Any, reader_options: Mapping[str, str] | None = None) -> None:
        single = isinstance(paths, str | PathLike) or hasattr(paths, "filename")
        if not single and not (isinstance(paths, Sequence) and paths):
            raise ValueError(
                f"paths: expected a name, a file instruction, or some of them in a list, got {paths!r}"
            )
        try:
            super().__init__(paths, reader_options=reader_options)
        except FileChangedError:  # Grain has no such error
            raise
        except OSError as error:
            raise _as_in_grain(error) from None
        self._written = paths_as_written(paths)

    @property
    def paths(self) -> list[str]:
        """The files as they were written, in order."""
        return [*self._written]

    def __repr__(self) -> str:
        names = hashlib.sha1("".join(self._written).encode(), usedforsecurity=False).hexdigest()
        return f"ArrayRecordDataSource(hash_of_paths={names})"

    def __getstate__(self) -> tuple[Any, ...]:
        return *super().__getstate__(), self._written

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        *ours, self._written = state
        super().__setstate__(tuple(ours))


class _MissingFileError(FileNotFoundError, RuntimeError):
    """No such file, which is a RuntimeError in Grain."""


class _FolderError(IsADirectoryError, RuntimeError):
    """A folder in place of a file, which is a RuntimeError in Grain."""


class _ForbiddenFileError(PermissionError, RuntimeError):
    """A file that may not be read, which is a RuntimeError in Grain."""


class _UnreadableFileError(OSError, RuntimeError):
    """Any other error of a file, which is a RuntimeError in Grain."""


_KINDS: dict[type[OSError], type[OSError]] = {
    FileNotFoundError: _MissingFileError,
    IsADirectoryError: _FolderError,
    PermissionError: _ForbiddenFileError,
    OSError: _UnreadableFileError,
}


def _as_in_grain(error: OSError) -> OSError:
    kind = next(ours for base, ours in _KINDS.items() if isinstance(error, base))
    made = kind(*error.args) if error.filename is None else kind(*error.args, error.filename)
    for note in notes_of(error):
        annotate(made, note)
    return made


class RangeDataSource(_Range):
    """The numbers of range(start, stop, step).

    >>> list(RangeDataSource(0, 6, 2)[key] for key in range(3)), RangeDataSource(0, 6, 2)
    ([0, 2, 4], RangeDataSource(start=0, stop=6, step=2))
    """

    def __init__(self, start: int, stop: int, step: int) -> None:
        super().__init__(start, stop, step)
