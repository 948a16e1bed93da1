"""What the sources of loose files share: a record has a whole file."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never, SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.closing import Closing
from loaderkit._base.hints import refuse_foreign_source_method
from loaderkit._base.system.shared_memory import goes_to_a_worker
from loaderkit._source.content import digest_of
from loaderkit._source.record_key import check_key, check_keys
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit._storage.open_ranges import all_remote, open_ranges
from loaderkit._storage.range_reader import ObjectVersion
from loaderkit._storage.versions import ask_each
from loaderkit.sources.has_card import HasCard
from loaderkit.sources.sliced import sliced

# Tasks whose files a worker reads ahead where a read waits for a server, as for the sources with an index.
REMOTE_READ_AHEAD = 4


class LooseFilesDataSource(HasCard, Closing):
    """Records that have a whole file each; a subclass makes the record.

    A file is opened when it is read, and must be the one that was there at the beginning.

    Args:
        paths: absolute paths, or addresses of objects of a server. FileNotFoundError for a local file that is missing,
            OSError for one that is no regular file.
        names: of the records' files, below the folder that holds them all.
        storage_options: of the server.
        versions: of objects, by place, where a listing said them.
    """

    def __init__(
        self,
        paths: Sequence[str],
        names: Sequence[str],
        storage_options: Mapping[str, Any] | None = None,
        versions: Sequence[ObjectVersion | None] | None = None,
    ) -> None:
        self._paths, self._names, self._options = paths, names, storage_options
        self._versions = [*(versions or [None] * len(paths))]
        self._open()

    def _open(self) -> None:
        if not all_remote(self._paths):
            self._versions = [*map(_local_version, self._paths)]
        self._ranges = open_ranges(self._paths, storage_options=self._options, expected=self._versions)

    def _place(self, key: int) -> int:
        """The place of a record's file among the files."""
        return key

    def _record(self, key: int, data: bytes) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._names)

    @sliced
    def __getitem__(self, key: int) -> Any:
        return self.__getitems__([key])[0]

    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        keys = check_keys(record_keys, len(self), self)
        places: NDArray[np.int64] = np.fromiter(map(self._place, keys.tolist()), np.int64, len(keys))
        sizes = np.array(self._sizes(places.tolist()), np.int64)
        found = self._ranges.read(places, np.zeros(len(keys), np.int64), sizes)
        return [self._record(key, bytes(data)) for key, data in zip(keys.tolist(), found)]

    def _sizes(self, places: list[int]) -> list[int]:
        def ask(place: int) -> ObjectVersion:
            version = self._versions[place] = self._ranges.version(place)
            return version

        unknown = [place for place in dict.fromkeys(places) if self._versions[place] is None]
        ask_each(ask, unknown, at_once=self._ranges.waits)
        return [cast("ObjectVersion", self._versions[place]).size for place in places]

    @property
    def read_ahead(self) -> int:
        """Tasks whose files are read ahead: 0 for local files, 4 where reads wait for a server."""
        return REMOTE_READ_AHEAD if self._ranges.waits else 0

    def name(self, record_key: SupportsIndex) -> str:
        """The record's file.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        return redacted(self._paths[self._place(check_key(record_key, len(self), self))])

    def data_files(self) -> dict[str, int | None]:
        """The files, and the bytes of each."""
        return {
            redacted(path): None if is_remote(path) else self._sizes([place])[0]
            for place, path in enumerate(self._paths)
        }

    def fingerprint(self) -> dict[str, Any]:
        """Names below the common folder and, of local files, sizes; no times and no folders."""
        sizes = [
            None if is_remote(path) else self._sizes([place])[0] for place, path in enumerate(self._paths)
        ]
        data = digest_of([list(self._names), sizes])
        return {"type": type(self).__name__, "records": len(self), "files": len(sizes), "data": data}

    def close(self) -> None:
        """Closes the open files; a later read opens its files again."""
        self._ranges.close()

    if not TYPE_CHECKING:  # where it would make every misspelled name an attribute

        def __getattr__(self, name: str) -> Never:
            refuse_foreign_source_method(self, name)

    def __repr__(self) -> str:
        more = f" and {len(self._names) - 1} more" if len(self._names) > 1 else ""
        return f"{type(self).__name__}({redacted(self._paths[0])!r}{more}, records={len(self)})"

    def __getstate__(self) -> dict[str, Any]:
        # Times hold on this machine and for this run only.
        return self.__dict__ if goes_to_a_worker() else self.__dict__ | {"_ranges": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state["_ranges"] is None:
            self._open()


def _local_version(path: str) -> ObjectVersion:
    status = os.stat(path)
    if os.path.isdir(path):
        raise IsADirectoryError(
            f"{path}: expected a file, got a folder; write a pattern of its files, such as {path + '/*'!r}"
        )
    return ObjectVersion(status.st_size, f"mtime_ns:{status.st_mtime_ns}")
