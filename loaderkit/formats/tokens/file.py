"""Integers in one file, usually an object of a server, read by ranges: a .npy file, or a file of bare numbers."""

import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import BLOCK_BYTES, CheckedBlocks
from loaderkit._storage.addresses import redacted
from loaderkit._storage.open_ranges import FileAccess, open_ranges
from loaderkit._storage.range_reader import ObjectVersion, RangeReader, SpanReader, read_range
from loaderkit._storage.read_plan import REMOTE_GAP, plan_reads, slices_of
from loaderkit.formats._index.check import sample_of
from loaderkit.formats.indexed import REMOTE_READ_AHEAD, cached_spans
from loaderkit.formats.npy import HEAD_BYTES, place_of_integers

IntArray = NDArray[np.int64]

# Bytes that are used for each that is read and thrown away, where runs near each other are one read. With fewer there
# are fewer requests, and bytes of a server are paid for: together with the head at most 1.1 are read for each used.
_USED_FOR_EACH = 16
# Bytes of a read for each that either end of it is moved to have a whole block, which can be compared.
_READ_FOR_EACH = 64
# A cache fetches chunks of so many pages, 1 MiB, and gives pages: a run of some KB is copied out of one or two.
_PAGE, _PAGES = 4096, 256
_READ_AT_ONCE = 64 << 20  # bytes, where all are read


class TokenFile:
    """Integers of an object, as an array of one dimension that gives runs of its elements.

    The object must stay as it is: another size or ETag is a FileChangedError, also in workers.

    Args:
        path: the whole name of the object. FileNotFoundError where it is missing, DataFormatError where it isn't a .npy
            file, or was truncated.
        dtype: of the numbers in a file of bare ones; None reads the head of a .npy file.
        access: of the object.

    path: as it may be shown.
    """

    def __init__(self, path: str, dtype: np.dtype[Any] | None, access: FileAccess) -> None:
        self.path, options = redacted(path), access.storage_options
        with closing(open_ranges([path], storage_options=options)) as ranges:
            version = ranges.version(0)
        self._ranges = open_ranges([path], storage_options=options, expected=[version], max_gap=0)
        head = b""
        if dtype is None:
            head = read_range(self._ranges, 0, 0, min(version.size, HEAD_BYTES))
        self._begin, self.shape, self.dtype = place_of_integers(self.path, version.size, head, dtype)
        self._pages: SpanReader | None = None
        if access.cache is not None:
            self._pages = cached_spans(_pages_of(self._ranges, version), self._ranges, access.cache)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay: some where a read waits for a server."""
        return REMOTE_READ_AHEAD if self._ranges.waits else 0

    @property
    def as_bytes(self) -> "TokenBytes":
        """The bytes of all numbers, to be compared by blocks."""
        return TokenBytes(self)

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""
        return len(self) * self.dtype.itemsize

    def slices(
        self, begins: IntArray, ends: IntArray, blocks: CheckedBlocks | None = None
    ) -> list[NDArray[Any]]:
        """Runs of elements, read-only, all read by one call.

        Args:
            begins, ends: place of the first element of each run, and the place behind its last (n,).
            blocks: of `as_bytes`, which are compared: before their first use, or of a server without a cache, where a
                run of some KB would cost 64 KiB, each that a read has whole.
        """
        begins, ends = (self.dtype.itemsize * places for places in (begins, ends))
        if self._pages is None and self._ranges.waits:
            spans = self._read(begins, ends, blocks)
        else:
            spans = (self._read if self._pages is None else self._read_pages)(begins, ends)
            if blocks is not None:
                blocks.check_each(begins, ends)
        return [np.frombuffer(span, self.dtype) for span in spans]

    def whole(self, out: NDArray[Any]) -> None:
        """Reads all elements.

        Args:
            out: (n,) of the same dtype, to be filled.
        """
        step = _READ_AT_ONCE // self.dtype.itemsize
        for low in range(0, len(self), step):
            high = min(low + step, len(self))
            (out[low:high],) = self.slices(np.array([low]), np.array([high]))

    def _read(
        self, begins: IntArray, ends: IntArray, blocks: CheckedBlocks | None = None
    ) -> Sequence[bytes | memoryview]:
        plan = plan_reads(np.zeros_like(begins), begins, ends, max_gap=widest_gap(begins, ends))
        if blocks is not None:
            lows, highs = with_whole_blocks(plan.begins, plan.ends, self.nbytes)
            offset = plan.offset + (plan.begins - lows)[plan.read]
            plan = replace(plan, begins=lows, ends=highs, offset=offset)
        found = self._ranges.read(plan.shards, self._begin + plan.begins, self._begin + plan.ends)
        if blocks is not None:
            blocks.check_read(plan.begins, found)
        return slices_of(plan, found, ends - begins)

    def _read_pages(self, begins: IntArray, ends: IntArray) -> Sequence[bytes | memoryview]:
        assert self._pages is not None
        begins, ends = self._begin + begins, self._begin + ends
        firsts = begins // _PAGE
        counts = np.where(ends > begins, -(-ends // _PAGE) - firsts, 0)
        past = np.cumsum(counts)
        pages = self._pages.read(np.arange(counts.sum()) + np.repeat(firsts - past + counts, counts))
        places = zip(
            (past - counts).tolist(), past.tolist(), (begins % _PAGE).tolist(), (ends - begins).tolist()
        )
        return [
            memoryview(pages[low] if high - low == 1 else b"".join(pages[low:high]))[skip : skip + length]
            for low, high, skip, length in places
        ]

    def __repr__(self) -> str:
        return f"TokenFile({self._ranges.names[0]!r}, {len(self)} of {self.dtype})"


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """The bytes of all numbers of a file; parts begin and end with numbers."""

    file: TokenFile

    def __len__(self) -> int:
        return self.file.nbytes

    def __getitem__(self, part: slice) -> NDArray[np.uint8]:
        begin, end = (np.array([place // self.file.dtype.itemsize]) for place in (part.start, part.stop))
        return self.file.slices(begin, end)[0].view(np.uint8)


def widest_gap(begins: IntArray, ends: IntArray) -> int:
    """Bytes between runs up to which they are read together, so that few bytes are read and not used.

    Args:
        begins, ends: of the runs, in bytes (n,).

    >>> widest_gap(np.array([0, 1010, 5000]), np.array([1000, 2000, 6000]))  # of 3,980 bytes 10 more are read
    10
    """
    order = begins.argsort()
    gaps = begins[order][1:] - np.maximum.accumulate(ends[order])[:-1]
    gaps = np.sort(gaps[(gaps > 0) & (gaps <= REMOTE_GAP)])
    allowed = int((ends - begins).sum()) // _USED_FOR_EACH
    fits = int(np.cumsum(gaps).searchsorted(allowed, "right"))
    if fits < len(gaps):  # of equal gaps all or none
        fits = int(gaps.searchsorted(gaps[fits]))
    return int(gaps[fits - 1]) if fits else 0


def with_whole_blocks(begins: IntArray, ends: IntArray, nbytes: int) -> tuple[IntArray, IntArray]:
    """Reads with each end moved out to that of a block, where few bytes are read for it.

    Args:
        begins, ends: of the reads, in bytes of the numbers (n,).
        nbytes: of all numbers.

    >>> lows, highs = with_whole_blocks(np.array([9, 9]), np.array([9_000, 131_000]), 200_000)
    >>> lows.tolist(), highs.tolist()
    ([9, 0], [9000, 131072])
    """
    lengths = ends - begins
    most = np.where(lengths < BLOCK_BYTES, 0, lengths // _READ_FOR_EACH)
    lows = begins // BLOCK_BYTES * BLOCK_BYTES
    highs = np.minimum(-(-ends // BLOCK_BYTES) * BLOCK_BYTES, nbytes)
    return np.where(begins - lows <= most, lows, begins), np.where(highs - ends <= most, highs, ends)


@dataclass(frozen=True, slots=True)
class FilePages:
    """The pages of an object, for a cache: it asks for the same as of an index of records.

    nbytes: of the object. digest: of its version and content. chunk_records: pages of a chunk. exact: pages have no
    checksums.
    """

    nbytes: int
    digest: str
    chunk_records: int
    exact: None = None

    @property
    def shard_ends(self) -> IntArray:
        """The pages (1,), as there is one object."""
        return np.array([len(self)], np.int64)

    def __len__(self) -> int:
        return (self.nbytes + _PAGE - 1) // _PAGE

    def locate(self, keys: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Shard, first byte and end of each page, (n,) each.

        Args:
            keys: numbers of pages (n,).

        >>> [place.tolist() for place in FilePages(5000, "", 256).locate(np.array([0, 1]))]
        [[0, 0], [0, 4096], [4096, 5000]]
        """
        begins = keys * _PAGE
        return np.zeros_like(keys), begins, np.minimum(begins + _PAGE, self.nbytes)


def _pages_of(ranges: RangeReader, version: ObjectVersion) -> FilePages:
    # A copy on another server with the same tag has the same chunks. The tag alone doesn't say it: some servers make it
    # of time and size.
    told = hashlib.sha256(f"{version.size} {version.tag} ".encode())
    told.update(sample_of(ranges, 0, version.size))
    return FilePages(version.size, told.hexdigest(), _PAGES)
