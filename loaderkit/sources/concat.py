"""Several sources, one after the other."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from .fingerprint import fingerprint_of
from .naming import namer_of
from .protocol import check_key, check_keys, read_record, read_records, require_methods, short_repr


class ConcatDataSource:
    """The records of the first source, then those of the second, and so on.

    Args:
        sources: one data source or more, of any kinds. ValueError for none, TypeError naming the place of an object
            that isn't a data source.

    >>> source = ConcatDataSource([range(3), "ab"])
    >>> len(source), source[2], source[3]
    (5, 2, 'a')
    """

    def __init__(self, sources: Sequence[Any]) -> None:
        self._sources = tuple(sources)
        if not self._sources:
            raise ValueError("sources: expected one data source or more, got an empty sequence")
        for place, source in enumerate(self._sources):
            require_methods(source, argument=f"sources[{place}]")
        # (sources,) int64: ends[i] is the first key past source i
        self._ends = np.cumsum([len(source) for source in self._sources], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, record_key: SupportsIndex) -> Any:
        key = check_key(record_key, len(self), self)
        place = int(np.searchsorted(self._ends, key, side="right"))
        source = self._sources[place]
        return read_record(source, key - int(self._ends[place]) + len(source))

    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        keys = check_keys(record_keys, len(self), self)
        places = np.searchsorted(self._ends, keys, side="right")
        records: list[Any] = [None] * len(keys)
        for place in np.unique(places).tolist():
            source = self._sources[place]
            wanted = np.flatnonzero(places == place)
            theirs = keys[wanted] - self._ends[place] + len(source)
            for row, record in zip(wanted.tolist(), read_records(source, theirs.tolist())):
                records[row] = record
        return records

    def name(self, record_key: SupportsIndex) -> str | None:
        """The name that the record's own source gives it, None where it gives none.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        key = check_key(record_key, len(self), self)
        place = int(np.searchsorted(self._ends, key, side="right"))
        source = self._sources[place]
        return namer_of(source)(key - int(self._ends[place]) + len(source))

    def fingerprint(self) -> dict[str, Any]:
        """The fingerprints of the sources, in order."""
        return {
            "type": "ConcatDataSource",
            "records": len(self),
            "sources": [fingerprint_of(source) for source in self._sources],
        }

    def __repr__(self) -> str:
        names = [short_repr(source) for source in self._sources[:3]]
        more = len(self._sources) - len(names)
        return f"ConcatDataSource([{', '.join(names)}{f', and {more} more' if more else ''}])"
