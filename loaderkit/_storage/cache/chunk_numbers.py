"""Which chunk a record is in, and where chunks lie.

A chunk is `chunk_records` consecutive records, cut where a shard ends. Its number is the `key // chunk_records` of its
records plus their shard: both grow along the records and one of them with each chunk, so no two chunks have the same.
"""

import hashlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]


class ExactRecords(Protocol):
    """The checksums of an index's records. digest: of all."""

    @property
    def digest(self) -> str: ...

    def compare(self, keys: Int64Array, spans: Sequence[bytes | memoryview], names: Sequence[str]) -> None:
        """FileChangedError, by the names of the shards, for the first record that isn't the one that was indexed."""
        ...


class ChunkedIndex(Protocol):
    """What a cache asks of an index of records.

    chunk_records: records of a chunk. digest: the same for the same records in the same shards. nbytes: of all shards.
    shard_ends: (shards,) int64, the records up to and with each shard. exact: of the records, None where they
    have no checksums.
    """

    @property
    def chunk_records(self) -> int: ...

    @property
    def digest(self) -> str: ...

    @property
    def exact(self) -> ExactRecords | None: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def shard_ends(self) -> Int64Array: ...

    def __len__(self) -> int: ...

    def locate(self, keys: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Shard, first byte and end of each record, (n,) int64 each."""
        ...


class ChunkNumbers:
    """The chunks of an index.

    Args:
        index: where the records lie.

    key: 32 bytes, the digest of the index and of the size of its chunks.
    """

    def __init__(self, index: ChunkedIndex) -> None:
        self._index, self._size = index, index.chunk_records
        self.key = hashlib.sha256(f"{index.digest}/{self._size}".encode()).digest()

    @property
    def nbytes(self) -> int:
        """Bytes of all shards."""
        return self._index.nbytes

    @property
    def end(self) -> int:
        """One past the greatest number."""
        last = np.array([len(self._index) - 1], np.int64)
        return int(self.of(last)[0]) + 1 if last[0] >= 0 else 0

    @property
    def mean_bytes(self) -> int:
        """Bytes of a chunk, on average."""
        return max(1, self.bytes_of(self._size))

    def bytes_of(self, records: int) -> int:
        """Bytes of so many records, on average."""
        return self._index.nbytes * records // max(1, len(self._index))

    def of(self, keys: Int64Array, shards: Int64Array | None = None) -> Int64Array:
        """The number of each record's chunk, (n,) int64.

        Args:
            keys: (n,) int64 in [0, records).
            shards: (n,) int64, those of the records, where they are known.
        """
        where = self._index.shard_ends.searchsorted(keys, "right") if shards is None else shards
        numbers: Int64Array = keys // self._size + where
        return numbers

    def span(self, key: int) -> tuple[int, int, int]:
        """The shard of the chunk of a record, and where the chunk begins and ends there, in bytes."""
        records = self.records(key)
        shards, begins, ends = self._index.locate(records[[0, -1]])
        return int(shards[0]), int(begins[0]), int(ends[1])

    def records(self, key: int) -> Int64Array:
        """The records of the chunk of a record, (n,) int64."""
        first, ends = key // self._size * self._size, self._index.shard_ends
        shard = int(ends.searchsorted(key, "right"))
        begin = int(ends[shard - 1]) if shard else 0
        return np.arange(max(first, begin), min(first + self._size, int(ends[shard])), dtype=np.int64)

    def first_keys(self, numbers: Int64Array) -> Int64Array:
        """The first record of each chunk, (n,) int64; of another number any record."""
        ends = self._index.shard_ends
        firsts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        lowest = firsts // self._size + np.arange(len(firsts))  # number of each shard's first chunk
        shards = np.maximum(lowest.searchsorted(numbers, "right") - 1, 0)
        keys = np.maximum((numbers - shards) * self._size, firsts[shards])
        found: Int64Array = np.clip(keys, 0, max(0, len(self._index) - 1))
        return found
