"""Sources one after the other whose records say which of them they are from."""

from collections.abc import Callable, Mapping
from reprlib import repr as _short
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from .concat import ConcatDataSource, where_all_have


class IdColumnDataSource(ConcatDataSource):
    """A ConcatDataSource of dicts that get one key more: the number of their source among the names.

    Args:
        sources: as ConcatDataSource takes them, by name; their records are dicts.
        id_key: the key, which records lack. It holds an np.int32, in columns int32 (n,). TypeError for what isn't a
            text; a record that isn't a dict is a TypeError when it is read, one that has the key a ValueError.

    >>> source = IdColumnDataSource({"web": [{"x": 5}], "code": [{"x": 6}]}, "source")
    >>> source[1]
    {'x': 6, 'source': np.int32(1)}
    """

    def __init__(self, sources: Mapping[str, Any], id_key: str) -> None:
        if not isinstance(id_key, str):
            raise TypeError(f"id_key: expected a text, got {_short(id_key)}")
        self._id_key = id_key
        super().__init__(sources)

    def _reader_of(self, place: int) -> Callable[[int], Any]:
        read, key, number = super()._reader_of(place), self._id_key, np.int32(place)

        def read_with_id(record_key: int) -> dict[str, Any]:
            record = read(record_key)
            if not isinstance(record, dict) or key in record:
                raise self._refused(place, record)
            return {**record, key: number}

        return read_with_id

    def _records_of(self, place: int, keys: list[int]) -> list[Any]:
        number = np.int32(place)
        records = super()._records_of(place, keys)
        for record in records:
            if not isinstance(record, dict) or self._id_key in record:
                raise self._refused(place, record)
        return [{**record, self._id_key: number} for record in records]

    @where_all_have("read_range")
    def read_range(self, record_key: SupportsIndex, start: int, stop: int) -> Any:
        """That of a ConcatDataSource, with the number."""
        place, _ = self._place(record_key)
        return {**super().read_range(record_key, start, stop), self._id_key: np.int32(place)}

    def _columns_of(self, place: int, keys: NDArray[np.int64], out: list[NDArray[Any]] | None) -> Any:
        ids = np.empty(len(keys), np.int32) if out is None else out[-1]
        ids[...] = place
        columns = super()._columns_of(place, keys, None if out is None else out[:-1])
        if not isinstance(columns, dict) or self._id_key in columns:
            raise self._refused(place, columns)
        return {**columns, self._id_key: ids}

    def _refused(self, place: int, record: Any) -> Exception:
        name = place if self.names is None else self.names[place]
        if not isinstance(record, dict):
            kind = type(record).__name__
            return TypeError(
                f"id_key: expected records that are dicts, got a {kind} of {name!r}; make dicts with lk.MapDataSource, "
                "or leave id_key out"
            )
        return ValueError(
            f"id_key: expected a key that records lack, got {self._id_key!r}, which a record of {name!r} has; give "
            "another"
        )

    def fingerprint(self) -> dict[str, Any]:
        """That of a ConcatDataSource with the number of each source, and the key."""
        said = super().fingerprint()
        numbered = {
            name: {**said["sources"][name], "id": place} for place, name in enumerate(self.names or ())
        }
        return {**said, "sources": numbered, "id_key": self._id_key}
