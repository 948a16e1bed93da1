"""An index of counts: it knows how many records each shard has, and scans a shard when its first record is read."""

import hashlib
import os
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.canonical_json import canonical
from loaderkit._codecs.scan import Scanner
from loaderkit._order.groups import groups
from loaderkit._storage.range_reader import ObjectVersion
from loaderkit.errors import DataFormatError

from .check import ShardCheck
from .layout import SectionFile, SectionWriter
from .merge import Totals, header_of, shard_sections, write_shards
from .part_file import ScanOptions
from .record_index import RecordIndex
from .scan_shard import scan_shard
from .shard_set import ShardSet

_SPANS_ONLY = ScanOptions(members=False)
_OPEN_PARTS = 128  # each holds a descriptor


class CountedIndex(RecordIndex):
    """An index of counts with its shards, so that it can say where their records lie.

    A chunk has the records of a mean shard, as a shard is read whole for its scan.

    Args:
        path: the index's file.
        shards: of the index, in order.
        scanner: scans them.
        folder: keeps what the scans found, for all processes and later runs.
    """

    def __init__(self, path: str, shards: ShardSet, scanner: Scanner, folder: str) -> None:
        super().__init__(path)
        self._set, self._scanner, self._folder = shards, scanner, folder
        self._ranges = shards.open(ShardCheck(self))
        self._scanning = threading.Lock()
        self._starts_cached = lru_cache(_OPEN_PARTS)(self._scanned)

    def _scanned(self, shard: int) -> NDArray[Any]:
        os.makedirs(self._folder, exist_ok=True)
        found = scan_shard(self._scanner, self._ranges, shard, _SPANS_ONLY, self._folder)
        part = SectionFile(found.part)
        if "blocks" in part.header:
            raise DataFormatError(
                f"{self._set.shown[shard]}: expected a file that isn't compressed, as its index has only counts, got a "
                "compressed one; make an index without --counts"
            )
        part.check(["starts"])
        starts = part.sections["starts"]
        first, end = self.records_of(shard)
        if len(starts) - 1 != end - first:
            raise DataFormatError(
                f"{self._set.shown[shard]}: expected {end - first:,} records, as its count says, got "
                f"{len(starts) - 1:,}; make an index without --counts"
            )
        return starts

    def starts_of(self, shard: int) -> NDArray[np.int64]:
        """As of any index; the shard is scanned where it wasn't yet."""
        with self._scanning:
            starts = self._starts_cached(shard)
        return starts.astype(np.int64) * self.unit

    def locate(
        self, keys: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """As of any index; shards are scanned where they weren't yet."""
        shards = self.shard_ends.searchsorted(keys, "right")
        begins, ends = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        for shard, here in groups(shards):
            starts, places = self.starts_of(shard), keys[here] - self.records_of(shard)[0]
            begins[here], ends[here] = starts[places], starts[places + 1]
        return shards, begins, ends

    def __reduce__(self) -> tuple[Any, ...]:
        return CountedIndex, (self.path, self._set, self._scanner, self._folder)


def write_counts(
    shards: ShardSet,
    scanner: Scanner,
    counts: Sequence[int],
    versions: Sequence[ObjectVersion],
    samples: Sequence[bytes],
    destination: str,
) -> None:
    """Writes an index of counts.

    Args:
        shards: one at least.
        scanner: of the shards.
        counts, versions, samples: of each shard.
        destination: the index's file.
    """
    sizes = [version.size for version in versions]
    told = [[name, size, count] for name, size, count in zip(shards.base_names, sizes, counts)]
    totals = Totals(scanner.kind, scanner.unit, [*counts], sizes, [*samples])
    totals.names = [name.encode("utf-8", "surrogateescape") for name in shards.shown]
    totals.tags = [version.tag.encode("utf-8", "surrogateescape") for version in versions]
    totals.identity = hashlib.sha256(canonical([scanner.kind, scanner.unit, "counts", told]).encode())
    header = header_of(totals) | {
        "chunk_records": max(1, sum(counts) // len(counts)),
        "counts": True,
        "samples_digest": f"sha256:{hashlib.sha256(b''.join(samples)).hexdigest()[:32]}",
    }
    with SectionWriter(destination, header, shard_sections(totals)) as writer:
        write_shards(writer, totals)
