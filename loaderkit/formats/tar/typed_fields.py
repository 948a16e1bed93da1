"""What archives that loaderkit wrote say of their records' fields, and the records decoded by it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._storage.range_reader import RangeReader, read_range
from loaderkit.errors import DataFormatError
from loaderkit.formats._index.check import has_sample, shard_changed
from loaderkit.formats._index.counted_index import CountedIndex
from loaderkit.formats._index.record_index import RecordIndex

from .header import BLOCK, number
from .values import DESCRIPTION, TarFields

_HEAD = 4 << 10  # bytes of the first read, enough for the description of some tens of fields


class DescribedShards:
    """The descriptions of the shards of a set; each is read when a record of its shard is.

    Args:
        index: of the set.
        ranges: reads its shards.
    """

    def __init__(self, index: RecordIndex, ranges: RangeReader) -> None:
        self._index, self._ranges = index, ranges
        self._found: dict[int, TarFields | None] = {}
        # What lies before a shard's first record may be a description. An index of counts doesn't know.
        self._candidates: dict[int, int] | None = None
        if not isinstance(index, CountedIndex):
            ends = index.shard_ends
            shards = np.flatnonzero(np.diff(ends, prepend=0))
            _, begins, _ = index.locate(ends[shards - 1] * (shards > 0))
            behind = begins > 0
            self._candidates = dict(zip(shards[behind].tolist(), begins[behind].tolist()))

    def __bool__(self) -> bool:
        """Whether a shard may have one."""
        return self._candidates is None or bool(self._candidates)

    def first(self) -> TarFields | None:
        """The description of the first shard that has one; None without any, and for an index of counts."""
        return next((found for shard in self._candidates or () if (found := self.of(shard))), None)

    def of(self, shard: int) -> TarFields | None:
        """The description of a shard, None where it has none; DataFormatError for one that can't be read."""
        if shard not in self._found:
            self._found[shard] = self._read(shard)
        return self._found[shard]

    def of_record(self, key: int) -> TarFields | None:
        """The description of the shard that has the record with this index key."""
        return self.of(int(self._index.shard_ends.searchsorted(key, "right")))

    def _read(self, shard: int) -> TarFields | None:
        if self._candidates is None:
            begin = int(self._index.starts_of(shard)[0])
        else:
            begin = self._candidates.get(shard, 0)
        if not begin:
            return None
        head = read_range(self._ranges, shard, 0, min(begin, _HEAD))
        member = _description(head)
        # No record has these bytes, so no checksum is of them; the first sampled piece is.
        exact = self._index.exact is not None and not self._ranges.waits
        if exact and not has_sample(self._index, shard, self._ranges):
            raise shard_changed(self._ranges.names[shard], 0, "its size is the same, its bytes aren't")
        if member is None:
            return None
        offset, size = member
        if offset + size > begin:
            return None
        data = head[offset:]
        if offset + size > len(head):
            data = read_range(self._ranges, shard, offset, offset + size)
        try:
            return TarFields.from_bytes(data[:size])
        except ValueError as error:
            raise DataFormatError(
                f"{self._ranges.names[shard]}, member {DESCRIPTION!r}: {error}; decode=False gives bytes"
            ) from error

    def decoded(self, keys: NDArray[np.int64], records: Sequence[dict[str, Any]]) -> list[Any]:
        """Records of an archive as they were written.

        Args:
            keys: (n,), index keys.
            records: n dicts of "__key__" and the fields' bytes. ValueError with the record's file for a value that
                can't be decoded.
        """
        shards = self._index.shard_ends.searchsorted(keys, "right").tolist()
        if all(self.of(shard) is None for shard in set(shards)):
            return list(records)
        decoded: list[Any] = []
        for key, shard, record in zip(keys.tolist(), shards, records):
            if (fields := self.of(shard)) is None:
                decoded.append(record)
                continue
            try:
                decoded.append(fields.decode(record.pop("__key__"), record))
            except ValueError as error:
                place = f"{self._ranges.names[shard]}[{key - self._index.records_of(shard)[0]}]"
                raise ValueError(
                    f"{place}: {error}; get a new copy of the file, or read the bytes with decode=False"
                ) from error
        return decoded


def _description(head: bytes) -> tuple[int, int] | None:
    """Where the description's value lies in an archive that begins so, and its bytes; None for another member."""
    if not head.startswith(DESCRIPTION.encode() + b"\0"):
        return None
    try:
        return BLOCK, number(head[124:136])
    except ValueError:
        return None
