"""Ranges of the text of compressed files: their blocks are read, unpacked and cut."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import damaged
from loaderkit._codecs.scan import Malformed, TextBlocks
from loaderkit._storage.range_reader import ObjectVersion, RangeReader, read_range
from loaderkit.errors import DataFormatError

from .record_index import RecordIndex
from .unpacked_text import MOST_UNPACKED, UnpackedText, unpacked_block

_log = logging.getLogger("loaderkit")

# Unpacked text that a reader keeps: the blocks of 16 chunks of 1 MiB, which an order by chunks reads together, and
# more.
_KEPT_BYTES = 64 << 20
_ADVICE = "write it in small frames: `loaderkit convert IN --to jsonl.zst`"


def readable_ranges(index: RecordIndex, ranges: RangeReader) -> RangeReader:
    """What reads the ranges that an index names: of compressed files those of their text.

    Args:
        index: of the files.
        ranges: reads their bytes.
    """
    if not index.has_blocks:
        return ranges
    if index.greatest_text > MOST_UNPACKED:
        told = index.path, index.greatest_text, _ADVICE
        _log.warning("%s: a frame has %d bytes of text, which can only be read in order; %s", *told)
    return TextRanges(index, ranges)


_Block = tuple[int, int]  # a shard, and the number of a block there


class TextRanges(RangeReader):
    """A `RangeReader` of the text of files, some of which are compressed. A call unpacks each block once.

    A block with more than 64 MiB of text is read from front to back, from any place on, as a run that goes on or a part
    of a conversion does: what lies before the last read is a DataFormatError, as it would be unpacked from its
    beginning for each record.

    Args:
        index: has their blocks.
        ranges: reads the files.
    """

    def __init__(self, index: RecordIndex, ranges: RangeReader) -> None:
        self._index, self._ranges = index, ranges
        self._prepare()

    def _prepare(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Block, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._tables: dict[int, TextBlocks] = {}
        self._large: dict[_Block, _LargeBlock | None] = {}  # those that were begun, and the last one's text

    @property
    def names(self) -> Sequence[str]:
        """The files."""
        return self._ranges.names

    @property
    def waits(self) -> bool:
        """Whether a read waits for a server, and others may begin meanwhile, but not those of a large block."""
        return self._ranges.waits and self._index.greatest_text <= MOST_UNPACKED

    def version(self, shard: int) -> ObjectVersion:
        """Of a file, as the storage says it."""
        return self._ranges.version(shard)

    def version_in_use(self, shard: int, seen: ObjectVersion | None = None) -> ObjectVersion:
        """Of a file, likewise."""
        return self._ranges.version_in_use(shard, seen)

    def hold(self, shard: int, version: ObjectVersion) -> bool:
        """Of a file, likewise."""
        return self._ranges.hold(shard, version)

    def read(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> list[bytes | memoryview]:
        """The bytes begins[i] to ends[i] of the text of shard shards[i], in the order given; (n,) each."""
        found: list[bytes | memoryview] = [b""] * len(begins)
        places: dict[_Block, list[int]] = {}  # of each block those of the ranges with bytes in it
        for shard in np.unique(shards).tolist():
            mine, table = np.flatnonzero(shards == shard), self._table(shard)
            if not len(table.window):
                plain = self._ranges.read(shards[mine], begins[mine], ends[mine])
                for place, data in zip(mine.tolist(), plain):
                    found[place] = data
                continue
            firsts = (table.texts.searchsorted(begins[mine], "right") - 1).tolist()
            lasts = table.texts.searchsorted(ends[mine], "left").tolist()
            for place, first, last in zip(mine.tolist(), firsts, lasts):
                for block in range(first, last):
                    places.setdefault((shard, block), []).append(place)
        parts: dict[int, dict[int, bytes]] = {}  # of ranges in several blocks
        lows, highs = begins.tolist(), ends.tolist()
        for key, text in self._unpacked(places):
            shard, block = key
            begin = int(self._table(shard).texts[block])
            for place in sorted(places[key], key=lows.__getitem__):  # the order of a large block
                low, high = lows[place] - begin, highs[place] - begin
                data = text[max(low, 0) : high]
                if low >= 0 and high <= len(text):
                    found[place] = data
                else:
                    parts.setdefault(place, {})[block] = data
        for place, pieces in parts.items():
            found[place] = b"".join([pieces[block] for block in sorted(pieces)])
        return found

    def close(self) -> None:
        """Closes the files, and forgets what was unpacked; a later read opens them again."""
        self._prepare()
        self._ranges.close()

    def __getstate__(self) -> tuple[Any, ...]:
        return self._index, self._ranges

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._index, self._ranges = state
        self._prepare()

    def _table(self, shard: int) -> TextBlocks:
        table = self._tables.get(shard)
        if table is None:
            table = self._tables[shard] = self._index.blocks_of(shard)
        return table

    def _unpacked(self, blocks: Iterable[_Block]) -> "Iterator[tuple[_Block, bytes | _LargeBlock]]":
        missing = []
        for key in sorted(blocks):
            with self._lock:
                if (text := self._kept.get(key)) is not None:
                    self._kept.move_to_end(key)
            if text is not None:
                yield key, text
            elif np.diff(self._table(key[0]).texts[key[1] : key[1] + 2]) > MOST_UNPACKED:
                yield key, self._large_block(key)
            else:
                missing.append(key)
        if missing:
            shards = np.array([shard for shard, _ in missing])
            bits = [self._table(shard).bits[block : block + 2] for shard, block in missing]
            begins, ends = np.array(bits).T
            for place, data in self._ranges.read_as_they_come(shards, begins // 8, -(-ends // 8)):
                yield missing[place], self._unpack(missing[place], data)

    def _unpack(self, key: _Block, data: bytes | memoryview) -> bytes:
        shard, block = key
        table = self._table(shard)
        begin, end = table.bits[block : block + 2].tolist()
        low, high = table.texts[block : block + 2].tolist()
        row = int(table.window[block])
        try:
            text = unpacked_block(data, high - low, begin % 8, None if row < 0 else self._index.window(row))
        except ValueError as error:
            raise _damaged(self.names[shard], begin // 8, end // 8, error) from error
        with self._lock:
            if self._kept.setdefault(key, text) is text:
                self._kept_bytes += len(text)
            while self._kept_bytes > _KEPT_BYTES:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return text

    def _large_block(self, key: _Block) -> "_LargeBlock":
        with self._lock:
            if (found := self._large.get(key)) is None:
                again = key in self._large
                self._large = dict.fromkeys(self._large)
                table = self._table(key[0])
                found = self._large[key] = _LargeBlock(self._ranges, key[0], table, key[1], again=again)
            return found


class _LargeBlock:
    """The text of a block that is unpacked from front to back; only slices are taken.

    Args:
        ranges: reads the file.
        shard: its number.
        table: of its blocks.
        block: one of them.
        again: whether it was unpacked before, and another one since.
    """

    def __init__(
        self, ranges: RangeReader, shard: int, table: TextBlocks, block: int, *, again: bool
    ) -> None:
        self._name, self._lock, self._again = ranges.names[shard], threading.Lock(), again
        self._nbytes: int = np.diff(table.texts[block : block + 2]).tolist()[0]
        self._begin, self._end = (table.bits[block : block + 2] // 8).tolist()
        size = self._end - self._begin

        def read(offset: int, length: int) -> bytes:
            begin = self._begin + offset
            return read_range(ranges, shard, begin, min(begin + length, self._end))

        self._text = UnpackedText(read, size)

    def __len__(self) -> int:
        return self._nbytes

    def __getitem__(self, part: slice) -> bytes:
        begin, end = part.start, min(part.stop, self._nbytes)
        with self._lock:
            far = self._again and begin > self._text.end + MOST_UNPACKED
            if begin > MOST_UNPACKED and (far or begin < self._text.begin):
                raise DataFormatError(
                    f"{self._name}: expected records in their order from the frame at byte {self._begin:,}, as "
                    f"{MOST_UNPACKED >> 20} MiB of its {self._nbytes:,} bytes of text are unpacked for a read at most, "
                    f"got a record of another place; {_ADVICE}"
                )
            try:
                return self._text(begin, end - begin)
            except Malformed as error:
                raise _damaged(self._name, self._begin, self._end, error) from error


def _damaged(name: str, begin: int, end: int, error: Exception) -> Exception:
    return damaged(name, begin, end, f"get a new copy of it ({error})")
