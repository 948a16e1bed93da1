"""Checksums of blocks of a file of ours, each compared once, before the first use of the block.

So opening a file costs the same whatever its size, and a flipped bit is an error instead of other data. A block has
64 KiB, the last one less; a checksum is zlib's CRC-32, which needs no further library and takes 17 us a block
(measured). A writer gives the bytes to `BlockChecksums` as they pass, a reader holds `CheckedBlocks`.
"""

import base64
import zlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from loaderkit.errors import ChecksumError

BLOCK_BYTES = 1 << 16

Int64Array = NDArray[np.int64]


class BlockChecksums:
    """The checksums of the blocks of bytes that are given in pieces of any length.

    >>> checksums = BlockChecksums()
    >>> checksums.update(b"loader")
    >>> checksums.update(b"kit")
    >>> checksums.values().tolist() == [zlib.crc32(b"loaderkit")]
    True
    """

    def __init__(self) -> None:
        self._whole: list[int] = []
        self._checksum = self._length = 0  # of the block that isn't whole yet

    def update(self, data: bytes | memoryview) -> None:
        """Adds the bytes that follow."""
        left = memoryview(data).cast("B")
        while left:
            piece = left[: BLOCK_BYTES - self._length]
            self._checksum = zlib.crc32(piece, self._checksum)
            self._length += len(piece)
            left = left[len(piece) :]
            if self._length == BLOCK_BYTES:
                self._whole.append(self._checksum)
                self._checksum = self._length = 0

    def values(self) -> NDArray[np.uint32]:
        """(blocks,) uint32, for all bytes so far."""
        return np.array(self._whole + [self._checksum] * (self._length > 0), np.uint32)

    def text(self) -> str:
        """`values` as text, for a document; `checksums_of_text` reads it."""
        return base64.b64encode(self.values().astype("<u4").tobytes()).decode()


def checksums_of_text(text: str) -> NDArray[np.uint32]:
    """(blocks,) uint32; ValueError for another text.

    >>> checksums_of_text(BlockChecksums().text()).tolist()
    []
    """
    return np.frombuffer(base64.b64decode(text, validate=True), "<u4").astype(np.uint32)


class FileBytes(Protocol):
    """Bytes of a file: an array, usually mapped, or what reads them."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> NDArray[np.uint8]: ...


class CheckedBlocks:
    """Bytes of a file with the checksums of their blocks. Safe for threads: at worst two compare the same block.

    Args:
        path: the file's, for the error.
        data: (bytes,) uint8.
        checksums: (blocks,) uint32; ValueError where they are fewer or more than `data` has blocks.
        offset: of the bytes in the file.
        advice: what to do about a damaged file, such as "delete it to plan again".

    is_checked: whether every block was compared. blocks: their number.

    >>> data = np.arange(100_000, dtype=np.uint8)
    >>> checksums = BlockChecksums()
    >>> checksums.update(data.data)
    >>> blocks = CheckedBlocks("a.plan", data, checksums.values(), offset=64, advice="plan again")
    >>> data[70_000] ^= 1
    >>> blocks.check(0, 65_536)
    >>> blocks.check(0, 65_537)
    Traceback (most recent call last):
        ...
    loaderkit.errors.ChecksumError: a.plan: bytes 65,600 to 100,064 don't have their checksum: the file was damaged ...
    """

    def __init__(
        self, path: str, data: FileBytes, checksums: NDArray[np.uint32], *, offset: int, advice: str
    ) -> None:
        blocks = -(-len(data) // BLOCK_BYTES)
        if len(checksums) != blocks:
            raise ValueError(f"checksums: expected {blocks}, one for each block, got {len(checksums)}")
        self._path, self._offset, self._advice = path, offset, advice
        self._data, self._checksums = data, checksums
        self._good = np.zeros(blocks, np.bool_)
        self.blocks = blocks
        self.is_checked = not blocks

    def check(self, begin: int, end: int) -> None:
        """Compares the blocks that hold the bytes begin to end of the data; ChecksumError for the first wrong one."""
        self.check_each(np.array([begin]), np.array([end]))

    def check_each(self, begins: Int64Array, ends: Int64Array) -> None:
        """`check` of many ranges, (n,) int64 each."""
        if self.is_checked:
            return
        some = ends > begins
        touched = _touched(begins[some], ends[some])
        if not self._good[touched].all():
            self.compare(np.unique(touched))

    def check_all(self) -> None:
        """Compares every block."""
        self.check(0, len(self._data))

    def check_read(self, begins: Int64Array, parts: Sequence[bytes | memoryview]) -> None:
        """Compares the blocks that are whole in parts of the data that a server gave, each time: they come anew.

        Args:
            begins: of the parts, places in the data (n,).
            parts: their bytes.
        """
        for begin, part in zip(begins.tolist(), parts, strict=True):
            end = begin + len(part)
            past = len(self._checksums) if end == len(self._data) else end // BLOCK_BYTES
            for block in range(-(-begin // BLOCK_BYTES), past):
                low = block * BLOCK_BYTES - begin
                self._compare_one(block, memoryview(part)[low : low + BLOCK_BYTES])

    def compare(self, blocks: Int64Array) -> None:
        """Compares those of some blocks, by number (n,), that weren't compared yet."""
        for block in blocks[~self._good[blocks]].tolist():
            begin = block * BLOCK_BYTES
            self._compare_one(block, self._data[begin : min(begin + BLOCK_BYTES, len(self._data))].data)
            self._good[block] = True
        self.is_checked = bool(self._good.all())

    def _compare_one(self, block: int, data: memoryview) -> None:
        if zlib.crc32(data) != self._checksums[block]:
            begin = self._offset + block * BLOCK_BYTES
            raise damaged(self._path, begin, begin + len(data), self._advice)


class JoinedBlocks:
    """The blocks of several files, looked up together: a call costs the same for one file and for a hundred.

    Args:
        files: of each file; None for one without checksums.

    >>> data = np.arange(9, dtype=np.uint8)
    >>> one = CheckedBlocks("a", data, np.array([zlib.crc32(data)], np.uint32), offset=0, advice="")
    >>> blocks = JoinedBlocks([None, one])
    >>> blocks.check_each(np.array([0, 1]), np.array([0, 2]), np.array([5, 4]))
    >>> blocks.is_checked
    True
    """

    def __init__(self, files: Sequence[CheckedBlocks | None]) -> None:
        self._files = files
        self._known = np.array([file is not None for file in files], np.bool_)
        counts = [0 if file is None else file.blocks for file in files]
        self._ends = np.cumsum(counts, dtype=np.int64)
        self._starts = self._ends - counts
        self._good = np.zeros(sum(counts), np.bool_)
        self.is_checked = not sum(counts)

    def check_each(self, files: Int64Array, begins: Int64Array, ends: Int64Array) -> None:
        """Compares the blocks that hold bytes of the files; ChecksumError for a wrong one.

        Args:
            files, begins, ends: numbers of the files, and places in the data of each, (n,) int64 each.
        """
        if self.is_checked:
            return
        some = (ends > begins) & self._known[files]
        starts = self._starts[files[some]]
        touched = _touched(begins[some], ends[some]) + starts[:, None]
        if self._good[touched].all():
            return
        blocks = np.unique(touched)
        where = self._ends.searchsorted(blocks, "right")
        for number in np.unique(where).tolist():
            file, theirs = self._files[number], blocks[where == number]
            assert file is not None
            file.compare(theirs - self._starts[number])
            self._good[theirs] = True
        self.is_checked = bool(self._good.all())

    def check_read(self, files: Int64Array, begins: Int64Array, parts: Sequence[bytes | memoryview]) -> None:
        """`CheckedBlocks.check_read` of parts of several files.

        Args:
            files, begins: numbers of the files, and places in the data of each (n,).
            parts: their bytes.
        """
        for number, begin, part in zip(files.tolist(), begins.tolist(), parts, strict=True):
            if (file := self._files[number]) is not None:
                file.check_read(np.array([begin]), [part])


def _touched(begins: Int64Array, ends: Int64Array) -> Int64Array:
    """The blocks of ranges, none empty: (n, most blocks of one); the last of a range stands for those it lacks."""
    firsts, lasts = begins // BLOCK_BYTES, (ends - 1) // BLOCK_BYTES
    following = np.arange((lasts - firsts).max(initial=0) + 1)
    touched: Int64Array = np.minimum(firsts[:, None] + following, lasts[:, None])
    return touched


def damaged(path: str, begin: int, end: int, advice: str) -> ChecksumError:
    """The error for bytes of a file of ours that aren't those that were written.

    Args:
        path: the file's.
        begin, end: where the bytes lie in it.
        advice: what to do.

    >>> str(damaged("a.plan", 64, 128, "plan again"))
    "a.plan: bytes 64 to 128 don't have their checksum: the file was damaged after it was written; plan again"
    """
    return ChecksumError(
        f"{path}: bytes {begin:,} to {end:,} don't have their checksum: the file was damaged after it was written; "
        f"{advice}"
    )
