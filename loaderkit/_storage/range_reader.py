"""The contract of what reads bytes: ranges of the shards of one set, wherever they lie."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """What tells one content of an object from another, as the storage says it.

    size: bytes. tag: "mtime_ns:..." of a local file, the ETag of an object without its quotes and "W/", "" where the
    storage gives none. weak: whether the storage says that another tag may stand for the same bytes.
    """

    size: int
    tag: str
    weak: bool = field(default=False, compare=False)


MODIFIED = "modified:"  # what the tag of an object without an ETag begins with, where it has a time of change


def plain_tag(tag: str | None) -> str:
    """An ETag without what servers and stores write differently for the same content.

    >>> plain_tag('W/"abc"'), plain_tag('"abc"'), plain_tag(None)
    ('abc', 'abc', '')
    """
    return (tag or "").removeprefix("W/").strip('"')


class RangeReader(Protocol):
    """Reads ranges of the shards of one set. Safe for threads; a copy unpickled in a worker opens its own files.

    names: the shards, in order; as they may be shown: without userinfo and query. waits: whether a read waits for a
    server, so that reads ahead pay.
    """

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def waits(self) -> bool: ...

    def version(self, shard: int) -> ObjectVersion:
        """What the storage says of a shard now; FileNotFoundError, or StorageError after the retries."""
        ...

    def version_in_use(self, shard: int, seen: ObjectVersion | None = None) -> ObjectVersion:
        """Of which version the bytes of a shard are that this reader gives, or gave before.

        Args:
            shard: its number.
            seen: what was said of it before any byte was read; None asks where nothing was read.
        """
        ...

    def hold(self, shard: int, version: ObjectVersion) -> bool:
        """Says that bytes of this version are used that come from elsewhere; False where others were read."""
        ...

    def read(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> list[bytes | memoryview]:
        """The bytes begins[i] to ends[i] of shard shards[i], for each i, in the order given.

        The arrays are (n,) each. Ranges that lie near each other are read together, and many are in flight at once.
        FileChangedError where a shard isn't the one that was expected, StorageError where a read fails for good.
        """
        ...

    def read_each(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Iterator[bytes | memoryview]:
        """What `read` gives, one at a time: where each is dropped before the next is taken, memory is used again.

        Local ranges are read together only where they follow each other in the order given.
        """
        return iter(self.read(shards, begins, ends))

    def read_as_they_come(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Iterator[tuple[int, bytes | memoryview]]:
        """The same ranges in the order in which they come: the place of each among those given, and its bytes.

        The others are in flight while one is used. What has come and wasn't taken yet is kept, so memory for all
        ranges may be needed.
        """
        return enumerate(self.read(shards, begins, ends))

    def close(self) -> None:
        """Closes files and connections; a later read opens them again."""
        ...


def read_range(ranges: RangeReader, shard: int, begin: int, end: int) -> bytes:
    """The bytes begin to end of one shard.

    Args:
        ranges: reads it, and raises what its `read` does.
        shard: its number.
        begin, end: of the range.
    """
    (found,) = ranges.read(np.array([shard]), np.array([begin]), np.array([end]))
    return bytes(found)


class SpanReader(Protocol):
    """Gives the bytes of records by key. Safe for threads; picklable, so that each worker has its own.

    waits: whether a read may wait for a server. compares: whether whole records are compared with their checksums.
    """

    @property
    def waits(self) -> bool: ...

    @property
    def compares(self) -> bool: ...

    def read(self, keys: NDArray[np.int64]) -> list[bytes | memoryview]:
        """The spans of the records with these keys, (n,) each in [0, records), in the order given."""
        ...

    def read_each(self, keys: NDArray[np.int64]) -> Iterator[bytes | memoryview]:
        """What `read` gives, one at a time, as `RangeReader.read_each`; keys: (n,) in the order of the shards."""
        ...

    def read_parts(
        self,
        keys: NDArray[np.int64],
        shards: NDArray[np.int64],
        begins: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> Iterable[bytes | memoryview]:
        """The bytes begins[i] to ends[i] of shard shards[i], a part of the record keys[i], for each i; (n,) each.

        They are compared with no checksum of a record.
        """
        ...

    def close(self) -> None:
        """Closes files and connections; a later read opens them again."""
        ...
