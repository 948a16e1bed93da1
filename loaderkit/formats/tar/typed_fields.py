"""What archives that loaderkit wrote say of their records' fields, and the records decoded by it."""

from collections.abc import Iterable, Sequence
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
        self._read([shard])
        return self._found[shard]

    def of_record(self, key: int) -> TarFields | None:
        """The description of the shard that has the record with this index key."""
        return self.of(int(self._index.shard_ends.searchsorted(key, "right")))

    def _read(self, shards: Iterable[int]) -> None:
        """Reads the descriptions of those shards that weren't read yet; their beginnings together."""
        if not (new := [shard for shard in shards if shard not in self._found]):
            return
        begins = {shard: self._begin(shard) for shard in new}
        heads = {shard: min(begin, _HEAD) for shard, begin in begins.items() if begin}
        zeros = np.zeros(len(heads), np.int64)
        read = self._ranges.read(np.array([*heads], np.int64), zeros, np.array([*heads.values()], np.int64))
        for shard, head in zip(heads, read):
            self._found[shard] = self._described(shard, bytes(head), begins[shard])
        for shard in begins.keys() - heads:
            self._found[shard] = None

    def _begin(self, shard: int) -> int:
        """Where a description would end that is before a shard's first record; 0 where there is none."""
        if self._candidates is None:
            return int(self._index.starts_of(shard)[0])
        return self._candidates.get(shard, 0)

    def _described(self, shard: int, head: bytes, begin: int) -> TarFields | None:
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
        self._read(set(shards))
        if all(self._found[shard] is None for shard in set(shards)):
            return list(records)
        decoded: list[Any] = []
        for key, shard, record in zip(keys.tolist(), shards, records):
            if (fields := self._found[shard]) is None:
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
