"""Whole files as bytes, by their places in a list: what the sources of loose files read with."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.shared_memory import goes_to_a_worker
from loaderkit._source.content import digest_of
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit._storage.open_ranges import all_remote, open_ranges
from loaderkit._storage.range_reader import ObjectVersion


class WholeFiles:
    """Reads files whole. A file is opened when it is read, and must be the one that was there at the beginning.

    Args:
        paths: absolute paths, or addresses of objects of a server. FileNotFoundError for a local file that is missing,
            OSError for one that is no regular file.
        storage_options: of the server.
        versions: of objects, by place, where a listing said them.
    """

    def __init__(
        self,
        paths: Sequence[str],
        storage_options: Mapping[str, Any] | None = None,
        versions: Sequence[ObjectVersion | None] | None = None,
    ) -> None:
        self.paths = list(paths)
        self._options = storage_options
        self._versions: list[ObjectVersion | None] = [None] * len(self.paths)
        if versions is not None:
            self._versions = list(versions)
        self._open()

    def _open(self) -> None:
        if not all_remote(self.paths):
            self._versions = [*map(_local_version, self.paths)]
        self._ranges = open_ranges(self.paths, storage_options=self._options, expected=self._versions)

    @property
    def waits(self) -> bool:
        """Whether a read waits for a server."""
        return self._ranges.waits

    def read(self, places: NDArray[np.int64]) -> list[bytes]:
        """The bytes of these files, in the order given.

        Args:
            places: (n,) int64, in [0, files). FileChangedError for a file that was replaced or written to.
        """
        sizes = np.fromiter((self._size(place) for place in places.tolist()), np.int64, len(places))
        return [*map(bytes, self._ranges.read(places, np.zeros(len(places), np.int64), sizes))]

    def _size(self, place: int) -> int:
        version = self._versions[place]
        if version is None:
            version = self._versions[place] = self._ranges.version(place)
        return version.size

    def shown(self, place: int) -> str:
        """A file's name without secrets."""
        return redacted(self.paths[place])

    def digest(self, names: Sequence[str]) -> dict[str, Any]:
        """What tells these files from others: how many there are, their names and, of local ones, sizes.

        Args:
            names: of the files, without the folder that holds them all.
        """
        sizes = [None if is_remote(path) else self._size(place) for place, path in enumerate(self.paths)]
        return {"files": len(sizes), "data": digest_of([list(names), sizes])}

    def close(self) -> None:
        """Closes the open files; a later read opens its files again."""
        self._ranges.close()

    def __getstate__(self) -> tuple[Any, ...]:
        # Times hold on this machine and for this run only.
        own = goes_to_a_worker()
        return self.paths, self._options, self._versions, self._ranges if own else None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.paths, self._options, self._versions, ranges = state
        if ranges is None:
            self._open()
        else:
            self._ranges = ranges


def _local_version(path: str) -> ObjectVersion:
    status = os.stat(path)
    if os.path.isdir(path):
        raise IsADirectoryError(
            f"{path}: expected a file, got a folder; write a pattern of its files, such as {path + '/*'!r}"
        )
    return ObjectVersion(status.st_size, f"mtime_ns:{status.st_mtime_ns}")
