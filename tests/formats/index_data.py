"""A made-up format and a reader of local files, so that the index is tested without the real ones."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loaderkit._codecs.scan import Malformed, Members, ShardScan
from loaderkit._storage.range_reader import ObjectVersion
from loaderkit.formats._index.merge import merge_parts
from loaderkit.formats._index.part_file import ScanOptions
from loaderkit.formats._index.record_index import RecordIndex
from loaderkit.formats._index.scan_shard import scan_shard
from loaderkit.formats.indexed import IndexedDataSource


@dataclass(frozen=True)
class Blocks:
    """Records of blocks of `unit` bytes: "key a=value b=value" and spaces up to the block's end.

    A record is one block or more; it has as many blocks as its first digit says. A key of a record comes first.
    """

    unit: int = 16
    kind: str = "blocks"

    def scan(self, read, size, *, members=True, keys=False, checksums=False):
        starts, names, fields, first, block, lengths, numbers, sums = [0], [], {}, [0], [], [], [], []
        at = 0
        while at < size:
            head = read(at, self.unit)
            if not head[:1].isdigit() or int(head[:1]) == 0:
                raise Malformed(at, f"expected a digit from 1 to 9, got {head[:1]!r}", "write the file again")
            nbytes = int(head[:1]) * self.unit
            content = read(at, nbytes)
            if len(content) < nbytes:
                raise Malformed(at, "expected a whole record, got the file's end")
            key, *rest = content[1:].decode().split()
            names.append(key)
            for number, part in enumerate(rest):
                name, _, value = part.partition("=")
                numbers.append(fields.setdefault(name, len(fields)))
                block.append(at // self.unit + number)
                lengths.append(len(value))
            first.append(len(block))
            sums.append(sum(content))
            at += nbytes
            starts.append(at // self.unit)
        return ShardScan(
            np.array(starts, np.uint64),
            tuple(fields),
            Members(
                np.array(first, np.int64),
                np.array(block, np.uint64),
                np.array(lengths, np.uint64),
                np.array(numbers, np.uint16),
            )
            if members
            else None,
            tuple(names) if keys else None,
            np.array(sums, np.uint32) if checksums else None,
        )


class LocalRanges:
    """Reads local files, as the storage's reader does."""

    waits = False

    def __init__(self, names: Sequence[str]) -> None:
        self.names = [str(name) for name in names]

    def version(self, shard):
        status = os.stat(self.names[shard])
        return ObjectVersion(status.st_size, f"mtime_ns:{status.st_mtime_ns}")

    def read(self, shards, begins, ends):
        contents = [Path(self.names[shard]).read_bytes() for shard in shards]
        return [c[begin:end] for c, begin, end in zip(contents, begins.tolist(), ends.tolist(), strict=True)]

    def close(self):
        pass


class BlocksDataSource(IndexedDataSource):
    """Records as the text between their first digit and the spaces at their end."""

    def __init__(self, paths, **how):
        super().__init__(paths, format=Blocks(), **how)

    def _decode(self, keys, spans):
        return [bytes(span)[1:].decode().rstrip() for span in spans]


def blocks(records: Sequence[str], unit: int = 16) -> bytes:
    """The bytes of a shard with these records, such as "k1 a=xy b=z"."""
    out = b""
    for record in records:
        count = (len(record) + 1 + unit - 1) // unit
        out += f"{count}{record}".encode().ljust(count * unit)
    return out


def make_index(folder, names, *, options: ScanOptions | None = None, unit: int = 16) -> RecordIndex:
    """The index of local shards, scanned one after the other."""
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    ranges = LocalRanges(names)
    parts = [
        scan_shard(Blocks(unit), ranges, s, options or ScanOptions(), str(folder)).part
        for s in range(len(ranges.names))
    ]
    merge_parts(parts, str(folder / "set.lkx"))
    return RecordIndex(str(folder / "set.lkx"))
