"""Numbers in files that are read by ranges, usually objects of a server: .npy files, or files of bare numbers."""

import hashlib
from collections.abc import Sequence
from contextlib import closing
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import BLOCK_BYTES, JoinedBlocks
from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._storage.addresses import redacted
from loaderkit._storage.open_ranges import FileAccess, open_ranges
from loaderkit._storage.range_reader import ObjectVersion, RangeReader, SpanReader
from loaderkit._storage.read_plan import REMOTE_GAP, plan_reads, slices_of
from loaderkit._storage.versions import versions_of
from loaderkit.formats._index.check import samples_of
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
_FILE_BITS = 50  # runs of two objects are further apart than any gap


class TokenFiles:
    """Numbers of objects, each an array of one dimension, that give runs of their numbers.

    The objects must stay as they are: another size or ETag is a FileChangedError, also in workers.

    Args:
        paths: the whole names of the objects. FileNotFoundError where one is missing, DataFormatError where it isn't a
            .npy file, or was truncated.
        dtype: of the numbers in files of bare ones; None reads the heads of .npy files.
        access: of the objects.

    dtypes, shapes: of each. counts: how many numbers each has (files,), where it has one dimension.
    """

    def __init__(self, paths: Sequence[str], dtype: np.dtype[Any] | None, access: FileAccess) -> None:
        options, files = access.storage_options, np.arange(len(paths))
        with closing(open_ranges(paths, storage_options=options)) as ranges:
            versions = versions_of(ranges)
        self._ranges = open_ranges(paths, storage_options=options, expected=versions, max_gap=0)
        sizes = np.array([version.size for version in versions], np.int64)
        heads: Sequence[bytes | memoryview] = [b""] * len(paths)
        if dtype is None:
            heads = self._ranges.read(files, np.zeros_like(sizes), np.minimum(sizes, HEAD_BYTES))
        named = zip(map(redacted, paths), sizes.tolist(), heads)
        places = [place_of_integers(name, size, bytes(head), dtype) for name, size, head in named]
        self.dtypes, self.shapes = [each[2] for each in places], [each[1] for each in places]
        self.dtype = self.dtypes[0]
        self.counts = np.array([shape[0] if shape else 0 for shape in self.shapes], np.int64)
        self._begins = np.array([each[0] for each in places], np.int64)
        self._pages: SpanReader | None = None
        if access.cache is not None:
            pages = _pages_of(self._ranges, versions)
            self._first_pages = pages.shard_ends - pages.counts
            self._pages = cached_spans(pages, self._ranges, access.cache)

    def at(self, begins: Sequence[int], counts: Sequence[int], dtype: np.dtype[Any]) -> Self:
        """Other numbers of the same objects.

        Args:
            begins, counts: by file, the byte of the first number, and how many there are.
            dtype: of all.
        """
        other = copy(self)
        other._begins, other.counts = np.array(begins, np.int64), np.array(counts, np.int64)
        other.dtype = dtype
        return other

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay: some where a read waits for a server."""
        return REMOTE_READ_AHEAD if self._ranges.waits else 0

    def as_bytes(self, file: int) -> "TokenBytes":
        """The bytes of all numbers of one object, to be compared by blocks."""
        return TokenBytes(self, file)

    def slices(
        self, files: IntArray, begins: IntArray, ends: IntArray, blocks: JoinedBlocks | None = None
    ) -> list[NDArray[Any]]:
        """Runs of numbers, read-only, all read by one call.

        Args:
            files: the object of each run (n,).
            begins, ends: place of the first number of each run in its object, and the place behind its last (n,).
            blocks: of `as_bytes`, which are compared: before their first use, or of a server without a cache, where a
                run of some KB would cost 64 KiB, each that a read has whole.
        """
        begins, ends = (self.dtype.itemsize * places for places in (begins, ends))
        if self._pages is None and self._ranges.waits:
            spans = self._read(files, begins, ends, blocks)
        else:
            spans = (self._read if self._pages is None else self._read_pages)(files, begins, ends)
            if blocks is not None:
                blocks.check_each(files, begins, ends)
        return [np.frombuffer(span, self.dtype) for span in spans]

    def whole(self) -> list[NDArray[Any]]:
        """All numbers of each object."""
        return [self._whole(file, count) for file, count in enumerate(self.counts.tolist())]

    def _whole(self, file: int, count: int) -> NDArray[Any]:
        out: NDArray[Any] = np.empty(count, self.dtype)
        step = _READ_AT_ONCE // self.dtype.itemsize
        for low in range(0, count, step):
            high = min(low + step, count)
            (out[low:high],) = self.slices(np.array([file]), np.array([low]), np.array([high]))
        return out

    def _read(
        self, files: IntArray, begins: IntArray, ends: IntArray, blocks: JoinedBlocks | None = None
    ) -> Sequence[bytes | memoryview]:
        apart = files << _FILE_BITS
        plan = plan_reads(files, begins, ends, max_gap=widest_gap(apart + begins, apart + ends))
        if blocks is not None:
            nbytes = self.counts[plan.shards] * self.dtype.itemsize
            lows, highs = with_whole_blocks(plan.begins, plan.ends, nbytes)
            offset = plan.offset + (plan.begins - lows)[plan.read]
            plan = replace(plan, begins=lows, ends=highs, offset=offset)
        starts = self._begins[plan.shards]
        found = self._ranges.read(plan.shards, starts + plan.begins, starts + plan.ends)
        if blocks is not None:
            blocks.check_read(plan.shards, plan.begins, found)
        return slices_of(plan, found, ends - begins)

    def _read_pages(self, files: IntArray, begins: IntArray, ends: IntArray) -> Sequence[bytes | memoryview]:
        assert self._pages is not None
        starts = self._begins[files]
        begins, ends = starts + begins, starts + ends
        firsts = begins // _PAGE
        counts = np.where(ends > begins, -(-ends // _PAGE) - firsts, 0)
        past = np.cumsum(counts)
        firsts += self._first_pages[files]
        pages = self._pages.read(np.arange(counts.sum()) + np.repeat(firsts - past + counts, counts))
        places = zip(
            (past - counts).tolist(), past.tolist(), (begins % _PAGE).tolist(), (ends - begins).tolist()
        )
        return [
            memoryview(pages[low] if high - low == 1 else b"".join(pages[low:high]))[skip : skip + length]
            for low, high, skip, length in places
        ]

    def __repr__(self) -> str:
        return f"TokenFiles({list(self._ranges.names)}, {self.counts.sum()} of {self.dtype})"


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """The bytes of all numbers of one object; parts begin and end with numbers."""

    files: TokenFiles
    file: int

    def __len__(self) -> int:
        return int(self.files.counts[self.file]) * self.files.dtype.itemsize

    def __getitem__(self, part: slice) -> NDArray[np.uint8]:
        begin, end = (np.array([place // self.files.dtype.itemsize]) for place in (part.start, part.stop))
        return self.files.slices(np.array([self.file]), begin, end)[0].view(np.uint8)


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


def with_whole_blocks(begins: IntArray, ends: IntArray, nbytes: IntArray | int) -> tuple[IntArray, IntArray]:
    """Reads with each end moved out to that of a block, where few bytes are read for it.

    Args:
        begins, ends: of the reads, in bytes of the numbers (n,).
        nbytes: of all numbers, one or (n,).

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
    """The pages of objects, for a cache: it asks for the same as of an index of records.

    sizes: bytes of each object (objects,). digest: of their versions and contents. chunk_records: pages of a chunk.
    exact: pages have no checksums.
    """

    sizes: IntArray
    digest: str
    chunk_records: int
    exact: None = None

    @property
    def counts(self) -> IntArray:
        """The pages of each object (objects,)."""
        return -(-self.sizes // _PAGE)

    @property
    def shard_ends(self) -> IntArray:
        """The pages up to and with each object (objects,)."""
        return np.cumsum(self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of all objects."""
        return int(self.sizes.sum())

    def __len__(self) -> int:
        return int(self.counts.sum())

    def locate(self, keys: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Shard, first byte and end of each page, (n,) each.

        Args:
            keys: numbers of pages (n,).

        >>> [place.tolist() for place in FilePages(np.array([5000, 9]), "", 256).locate(np.array([0, 1, 2]))]
        [[0, 0, 1], [0, 4096, 0], [4096, 5000, 9]]
        """
        ends = self.shard_ends
        shards = ends.searchsorted(keys, "right")
        begins = (keys - (ends - self.counts)[shards]) * _PAGE
        return shards, begins, np.minimum(begins + _PAGE, self.sizes[shards])


def _pages_of(ranges: RangeReader, versions: Sequence[ObjectVersion]) -> FilePages:
    # A copy on another server with the same tag has the same chunks. The tag alone doesn't say it: some servers make it
    # of time and size.
    told = hashlib.sha256()
    samples = samples_of(ranges, range(len(versions)), [version.size for version in versions])
    for version, sample in zip(versions, samples):
        told.update(f"{version.size} {version.tag} ".encode())
        told.update(sample)
    return FilePages(np.array([version.size for version in versions], np.int64), told.hexdigest(), _PAGES)
