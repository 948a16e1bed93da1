"""Where each record of a set of shards lies, read from one mapped file.

The sections of the file, for S shards, R records and M members:

    shard_end      (S,) int64       records up to and with the shard
    shard_size     (S,) int64       bytes
    shard_sample   (S, 16) uint8    hash of 16 pieces of the shard
    shard_name_end, shard_tag_end   (S,) int64: where the shard's text ends in the next two
    shard_name, shard_tag           UTF-8
    starts         (R + S,) u4, u8  record k of shard s is the units starts[k + s] to starts[k + s + 1] of the shard
    member_first   (R + 1,) int64   record k has the members first[k] to first[k + 1]; left out where all records have
                                    as many members, which is `members_each` of the header
    member_block   (M,) u4, u8      the unit of the shard where the member's value begins
    member_size    (M,) u4, u8      bytes
    member_field   (M,) uint16      place in `fields` of the header
    checksum       (R,) uint32      CRC-32C of the record's bytes
    block_end      (S,) int64       blocks up to and with the shard, B in all, where some shard is compressed: its
                                    starts are places in its text
    block_bit, block_text           (B + S,) int64: block k of shard s is its bits [k + s] to [k + s + 1], and the bytes
                                    of its text; a shard that isn't compressed has none
    block_window   (B,) int64       row of `window`, -1 for a block that needs none
    window         (W, 32768) u1    the text before a block
    key_end, key                    (R,) int64 and UTF-8: the records' keys
    key_hash, key_record            (R,) uint64 and int64: hashes of the keys, sorted, with their records

An index of counts has no section after `shard_tag`.
"""

import bisect
import hashlib
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import damaged
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._codecs.checksums import data_crc32c, has_fast_crc32c
from loaderkit._codecs.scan import TextBlocks
from loaderkit._source.fingerprint import KNOWN_TO_SOME_INDEXES, same_where_known
from loaderkit._storage.range_reader import ObjectVersion
from loaderkit.errors import FileChangedError

from .check import shard_changed
from .gzip_points import WINDOW_BYTES
from .layout import SectionFile, torn

# Behind the kind of an index with blocks: older versions so don't take it for one of theirs.
PACKED = " compressed"


@dataclass(frozen=True, slots=True)
class RecordChecksums:
    """The checksums of all records of an index. One costs 0.1 us, and 50 us for 1 MiB (measured).

    index: has them. digest: of all.
    """

    index: "RecordIndex"
    digest: str

    def compare(
        self, keys: NDArray[np.int64], spans: Iterable[bytes | memoryview], names: Sequence[str]
    ) -> None:
        """`compared` of all."""
        for _ in self.compared(keys, spans, names):
            pass

    def compared(
        self,
        keys: NDArray[np.int64],
        spans: Iterable[bytes | memoryview],
        names: Sequence[str],
        doubted: Container[int] | None = None,
    ) -> Iterator[bytes | memoryview]:
        """The spans, each once its record is known to be the one that was indexed.

        FileChangedError for the first that isn't; ChecksumError where its file isn't doubted.

        Args:
            keys: (n,) of the index.
            spans: n, each ends with the bytes of its record.
            names: of the shards.
            doubted: the shards that may not be the indexed ones; None for all.
        """
        shards, begins, ends = self.index.locate(keys)
        checksum, sizes, wanted = data_crc32c(), (ends - begins).tolist(), self.index.checksums_of(keys)
        for place, (span, size, expected) in enumerate(zip(spans, sizes, wanted.tolist())):
            if checksum(bytes(span[len(span) - size :])) != expected:
                shard, begin = int(shards[place]), int(begins[place])
                if doubted is not None and shard not in doubted:
                    raise damaged(
                        names[shard], begin, begin + size, "get a new copy of it, or write it again"
                    )
                record = int(keys[place]) - self.index.records_of(shard)[0]
                raise shard_changed(names[shard], begin, f"record {record} doesn't have its checksum")
            yield span


@dataclass(frozen=True, slots=True)
class MemberRanges:
    """Where the values of some records lie, each within its record's span.

    first: (records + 1,) int64; record i has the members first[i] to first[i + 1] of the other arrays. begin:
    (members,) int64, bytes from the beginning of the record's span. size: (members,) int64, bytes. field: (members,)
    uint16, places in `RecordIndex.fields`.
    """

    first: NDArray[np.int64]
    begin: NDArray[np.int64]
    size: NDArray[np.int64]
    field: NDArray[np.uint16]


class RecordIndex:
    """An index, mapped: opening reads the header and the sections below 1 MiB, a lookup touches two pages.

    Args:
        path: the index's file. FileNotFoundError where there is none, DataFormatError for a damaged one.

    kind: the format's name. unit: bytes of a unit. fields: names of the members' fields. digest: of the data's
    identity, which is kind, base names, sizes, samples and starts; the same for a copied set. content: more that tells
    data apart, where the index has it: digests of the records' `checksums`, where they can be compared here, or of the
    `samples` of an index of counts.
    shards: their number. shard_ends: (shards,) int64, the records up to and with each shard.
    chunk_records: records of about 1 MiB. nbytes: the shards' bytes in all, unpacked. counts: whether only the number
    of records of each shard is known.
    Safe for threads; a pickle holds the path, and the file is mapped again.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = file = SectionFile(path)
        header = file.header
        try:
            self.kind: str = header["kind"].removesuffix(PACKED)
            self.unit: int = header["unit"]
            self.fields: tuple[str, ...] = tuple(header["fields"])
            self.digest: str = header["data_digest"]
            self.chunk_records: int = header["chunk_records"]
            self.nbytes: int = header["bytes"]
            self.counts: bool = header["counts"]
            self.content: dict[str, str] = {}
            for name in KNOWN_TO_SOME_INDEXES:
                if (told := header.get(f"{name}_digest")) and (name == "samples" or has_fast_crc32c()):
                    self.content[name] = told
            self._records: int = header["records"]
            self.shards: int = header["shards"]
            self._members_each: int | None = header["members_each"]
            self.shard_ends: NDArray[np.int64] = file.sections["shard_end"]
            self.shard_sizes: NDArray[np.int64] = file.sections["shard_size"]
            self.shard_samples: NDArray[np.uint8] = file.sections["shard_sample"]
        except (KeyError, TypeError) as error:
            raise torn(path, f"it lacks {error}") from None
        if int(self.shard_ends[-1]) != self._records or len(self.shard_ends) != self.shards:
            raise torn(path, "its shards don't have as many records as its header says")
        # Used whole, by the shards' number.
        file.check([name for name in file.sections if name.startswith("shard_")])
        self._starts = file.sections.get("starts")
        self._whole = self.unit == 1 or self.counts  # a lookup multiplies for other units only

    def __len__(self) -> int:
        return self._records

    def __repr__(self) -> str:
        return (
            f"RecordIndex({self.path!r}, kind={self.kind!r}, shards={self.shards}, records={self._records})"
        )

    @property
    def shard_names(self) -> "ShardTexts":
        """The shards' names, in order, as they were written when the index was made, without userinfo and query."""
        return ShardTexts(self, "shard_name")

    @property
    def shard_tags(self) -> "ShardTexts":
        """The tag of each shard when it was indexed."""
        return ShardTexts(self, "shard_tag")

    @property
    def shard_versions(self) -> Sequence[ObjectVersion]:
        """Size and tag of each shard when it was indexed."""
        return _Versions(self)

    @property
    def has_members(self) -> bool:
        """Whether it says where the members of each record lie."""
        return "member_block" in self._file.sections

    @property
    def has_blocks(self) -> bool:
        """Whether some shards are compressed: records are then places in their text."""
        return "block_end" in self._file.sections

    @property
    def greatest_text(self) -> int:
        """Bytes of the largest block's text; only where `has_blocks`."""
        found: int = self._file.header["greatest_text"]
        return found

    def blocks_of(self, shard: int) -> TextBlocks:
        """The blocks of a shard, none of one that isn't compressed; only where `has_blocks`."""
        sections = self._file.sections
        ends = sections["block_end"]
        begin, end = int(ends[shard - 1]) if shard else 0, int(ends[shard])
        first, last = begin + shard, end + shard + 1
        self._file.check_range("block_bit", first, last)
        self._file.check_range("block_text", first, last)
        self._file.check_range("block_window", begin, end)
        return TextBlocks(
            sections["block_bit"][first:last],
            sections["block_text"][first:last],
            sections["block_window"][begin:end],
            sections["window"],
        )

    def window(self, row: int) -> bytes:
        """The text before a block that begins within a member of gzip; row: of the block."""
        self._file.check_range("window", row * WINDOW_BYTES, (row + 1) * WINDOW_BYTES)
        return bytes(self._file.sections["window"][row])

    @property
    def has_keys(self) -> bool:
        """Whether `find` works."""
        return "key_hash" in self._file.sections

    @property
    def checksums(self) -> NDArray[np.uint32] | None:
        """(records,) uint32: the CRC-32C of each record's bytes, None where they weren't stored."""
        found = self._file.sections.get("checksum")
        if found is not None:
            self._file.check_range("checksum", 0, len(found))
        return found

    @property
    def exact(self) -> RecordChecksums | None:
        """Tells records from others of the same size; None without checksums, or without what computes them."""
        digest = self.content.get("checksums")
        return None if digest is None else RecordChecksums(self, digest)

    def checksums_of(self, keys: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The checksums of records, (n,); keys: (n,) int64 in [0, records)."""
        self._file.check_items("checksum", keys)
        return self._file.sections["checksum"][keys]

    def locate(
        self, keys: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The shards of records, and the bytes where each begins and ends in its shard; all (n,) int64.

        Args:
            keys: (n,) int64 in [0, records). ValueError for an index of counts.
        """
        known = self._known_starts()
        shards = self.shard_ends.searchsorted(keys, "right")
        places = keys + shards
        self._file.check_items("starts", places, 2)
        begins = known[places].astype(np.int64)
        places += 1
        ends = known[places].astype(np.int64)
        if not self._whole:
            begins *= self.unit
            ends *= self.unit
        if (ends < begins).any():  # an older index has no checksums of the blocks of its large sections
            raise torn(self.path, "a record ends before it begins")
        return shards, begins, ends

    def starts_of(self, shard: int) -> NDArray[np.int64]:
        """(records of the shard + 1,) int64: the bytes where its records begin, and where the last one ends."""
        known = self._known_starts()
        first, end = self.records_of(shard)
        self._file.check_range("starts", first + shard, end + shard + 1)
        return known[first + shard : end + shard + 1].astype(np.int64) * self.unit

    def _known_starts(self) -> NDArray[Any]:
        if self._starts is None:
            raise ValueError(
                f"{self.path}: expected an index with the place of each record, got one of counts"
            )
        return self._starts

    def records_of(self, shard: int) -> tuple[int, int]:
        """The first record of a shard, and the one after its last."""
        return int(self.shard_ends[shard - 1]) if shard else 0, int(self.shard_ends[shard])

    def members_of(self, keys: NDArray[np.int64], starts: NDArray[np.int64] | None = None) -> MemberRanges:
        """Where the members of records lie.

        Args:
            keys: (n,) int64 in [0, records). ValueError where the index has no members.
            starts: (n,) int64, where the records begin in their shards, if the caller has located them.
        """
        sections = self._file.sections
        if not self.has_members:
            raise ValueError(f"{self.path}: expected an index with members, got one of spans only")
        each = self._members_each
        if starts is None:
            _, starts, _ = self.locate(keys)
        if each is None:
            self._file.check_items("member_first", keys, 2)
            lows = sections["member_first"][keys]
            counts = sections["member_first"][keys + 1] - lows
            first = np.zeros(len(keys) + 1, np.int64)
            np.cumsum(counts, out=first[1:])
            places = np.arange(first[-1]) + np.repeat(lows - first[:-1], counts)
        else:
            counts = np.int64(each)
            first = np.arange(len(keys) + 1) * each
            places = (keys[:, None] * each + np.arange(each)).ravel()
        for name in ("member_block", "member_size", "member_field"):
            self._file.check_items(name, places)
        begin = sections["member_block"][places].astype(np.int64) * self.unit - np.repeat(starts, counts)
        size = sections["member_size"][places].astype(np.int64)
        return MemberRanges(first, begin, size, sections["member_field"][places])

    def find(self, key: str) -> int:
        """The record with this key, the first of several; KeyError where none has it, ValueError without keys."""
        if not self.has_keys:
            raise ValueError(
                f"{self.path}: expected an index with keys, got one without; `loaderkit index --keys` makes it"
            )
        sections = self._file.sections
        wanted = hash_of_key(key)
        hashes: NDArray[np.uint64] = sections["key_hash"]

        def hash_at(place: int) -> int:
            self._file.check_range("key_hash", place, place + 1)
            return int(hashes[place])

        at = bisect.bisect_left(range(len(hashes)), wanted, key=hash_at)
        while at < len(hashes) and hash_at(at) == wanted:  # equal hashes are sorted by record
            self._file.check_range("key_record", at, at + 1)
            record = int(sections["key_record"][at])
            if self.key(record) == key:
                return record
            at += 1
        raise KeyError(key)

    def key(self, record: int) -> str:
        """The stored key of a record."""
        ends, text = self._file.sections["key_end"], self._file.sections["key"]
        self._file.check_range("key_end", max(record - 1, 0), record + 1)
        begin = int(ends[record - 1]) if record else 0
        self._file.check_range("key", begin, int(ends[record]))
        return bytes(text[begin : int(ends[record])]).decode("utf-8", "surrogateescape")

    def check(self) -> None:
        """Compares every section with its checksum, reading the whole index; DataFormatError for the first wrong."""
        self._file.check()

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened_again, (self.path, self.digest, self.content)


def _opened_again(path: str, digest: str, content: dict[str, str]) -> RecordIndex:
    index = RecordIndex(path)
    if index.digest != digest or not same_where_known(index.content, content):
        raise FileChangedError(
            f"{path}: expected the index of the data that the run began with, got one of other data; stop the run and "
            "make the source again"
        )
    return index


def hash_of_key(key: str) -> int:
    """A hash of 64 bits of a record's key, the same everywhere.

    >>> hash_of_key("n01440764_10026")
    8622913096764076126
    """
    text = key.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


class _OfShards(Sequence[Any]):
    """Values of the shards, made when they are asked for. A pickle of the index holds its path only."""

    def __init__(self, index: RecordIndex) -> None:
        self._index = index

    def __len__(self) -> int:
        return self._index.shards

    def __getitem__(self, shard: Any) -> Any:
        if isinstance(shard, slice):
            return [self._of(each) for each in range(*shard.indices(len(self)))]
        return self._of(range(len(self))[shard])

    def _of(self, shard: int) -> Any:
        raise NotImplementedError


class ShardTexts(_OfShards):
    """Texts of the shards; section: that has them."""

    def __init__(self, index: RecordIndex, section: str) -> None:
        super().__init__(index)
        self._ends, self._text = index._file.sections[f"{section}_end"], index._file.sections[section]

    def _of(self, shard: int) -> str:
        begin = int(self._ends[shard - 1]) if shard else 0
        return bytes(self._text[begin : int(self._ends[shard])]).decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        whole = bytes(self._text)
        for begin, end in pairwise([0, *self._ends.tolist()]):
            yield whole[begin:end].decode("utf-8", "surrogateescape")


class _Versions(_OfShards):
    def _of(self, shard: int) -> ObjectVersion:
        return ObjectVersion(int(self._index.shard_sizes[shard]), self._index.shard_tags[shard])

    def __iter__(self) -> Iterator[ObjectVersion]:
        return map(ObjectVersion, self._index.shard_sizes.tolist(), self._index.shard_tags)
