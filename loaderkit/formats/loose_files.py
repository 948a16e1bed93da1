"""What the sources of loose files share: a record has a whole file."""

from collections.abc import Sequence
from operator import index as as_index
from typing import TYPE_CHECKING, Any, Never, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.closing import Closing
from loaderkit._base.hints import refuse_foreign_source_method
from loaderkit._source.record_key import check_key, check_keys

from .whole_files import WholeFiles

# Tasks whose files a worker reads ahead where a read waits for a server, as for the sources with an index.
REMOTE_READ_AHEAD = 4


class LooseFilesDataSource(Closing):
    """Records that have a whole file each; a subclass makes the record.

    Args:
        files: the files.
        names: of the files, below the folder that holds them all.
    """

    def __init__(self, files: WholeFiles, names: Sequence[str]) -> None:
        self._files, self._names = files, names

    def _place(self, key: int) -> int:
        """The place of a record's file among the files."""
        return key

    def _record(self, key: int, data: bytes) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, record_key: SupportsIndex) -> Any:
        return self.__getitems__([as_index(check_key(self._from_end(record_key), len(self), self))])[0]

    def _from_end(self, record_key: SupportsIndex) -> SupportsIndex:
        if hasattr(record_key, "__index__") and -len(self) <= as_index(record_key) < 0:
            return as_index(record_key) + len(self)
        return record_key

    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        keys = check_keys(record_keys, len(self), self)
        places: NDArray[np.int64] = np.fromiter(map(self._place, keys.tolist()), np.int64, len(keys))
        return [self._record(key, data) for key, data in zip(keys.tolist(), self._files.read(places))]

    @property
    def read_ahead(self) -> int:
        """Tasks whose files are read ahead: 0 for local files, 4 where reads wait for a server."""
        return REMOTE_READ_AHEAD if self._files.waits else 0

    def name(self, record_key: SupportsIndex) -> str:
        """The record's file.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        return self._files.shown(self._place(check_key(self._from_end(record_key), len(self), self)))

    def fingerprint(self) -> dict[str, Any]:
        """Names below the common folder and sizes of the files; no times and no folders."""
        return {"type": type(self).__name__, "records": len(self), **self._files.digest(self._names)}

    def close(self) -> None:
        """Closes the open files; a later read opens its files again."""
        self._files.close()

    if not TYPE_CHECKING:  # where it would make every misspelled name an attribute

        def __getattr__(self, name: str) -> Never:
            refuse_foreign_source_method(self, name)

    def __repr__(self) -> str:
        more = f" and {len(self._names) - 1} more" if len(self._names) > 1 else ""
        return f"{type(self).__name__}({self._files.shown(0)!r}{more}, records={len(self)})"
