"""Makes the index of a set of shards: scans them in parallel, each into a part file, and merges the parts.

The loader itself is the machinery: the shards are the records of a data source, and reading one scans it. A build that
was killed goes on with the parts that it left, and the index has the same bytes as if it hadn't been.
"""

import contextlib
import os
import re
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.resources import available_cpus
from loaderkit._codecs.scan import Scanner
from loaderkit._storage.range_reader import RangeReader
from loaderkit._storage.versions import versions_of

from .check import samples_of
from .counted_index import write_counts
from .foreign import record_counts
from .merge import merge_parts
from .part_file import ScanOptions
from .record_index import RecordIndex
from .scan_shard import ScannedShard, scan_shard
from .shard_set import ShardSet

# Starting worker processes takes as long as the scan of some 100 MB.
INLINE_BYTES = 256 * 10**6

_OURS = re.compile(r".*\.(part|partial)")  # in the folder of unfinished work

# Takes the number of shards that are done, and their bytes.
OnProgress = Callable[[int, int], None]


def build_index(
    shards: ShardSet,
    scanner: Scanner,
    destination: str,
    *,
    options: ScanOptions | None = None,
    worker_count: int | None = None,
    on_progress: OnProgress | None = None,
) -> RecordIndex:
    """Makes the index, replacing one of that name.

    Args:
        shards: to be indexed.
        scanner: reads them. DataFormatError names the shard, the offset and the remedy where one isn't of it.
        destination: the index's file; the folder DESTINATION.parts holds what is finished until all is.
        options: what the index holds; None for members without keys and checksums.
        worker_count: processes; None for as many as processors, and none for one shard or less than 256 MB.
        on_progress: called after each shard.
    """
    folder = f"{destination}.parts"
    os.makedirs(folder, exist_ok=True)
    with closing(shards.open()) as ranges:
        scans = ShardScans(scanner, ranges, options or ScanOptions(), folder)
        if worker_count is None:
            worker_count = 0 if _is_small(shards, ranges) else available_cpus()
        parts: list[str] = []
        nbytes = 0
        for scanned in read_all(scans, min(worker_count, len(scans))):
            parts.append(scanned.part)
            nbytes += scanned.nbytes
            if on_progress is not None:
                on_progress(len(parts), nbytes)
    merge_parts(parts, destination, folder=folder)
    index = RecordIndex(destination)
    for name in filter(_OURS.fullmatch, os.listdir(folder)):
        with contextlib.suppress(FileNotFoundError):  # another process's, which has no locks
            os.unlink(os.path.join(folder, name))
    with contextlib.suppress(OSError):  # it has other files
        os.rmdir(folder)
    return index


@dataclass(frozen=True, slots=True)
class ShardScans:
    """A data source with a record for each shard: reading it makes the shard's part file.

    Args:
        scanner, ranges, options, folder: as `scan_shard` takes them.
    """

    scanner: Scanner
    ranges: RangeReader
    options: ScanOptions
    folder: str

    def __len__(self) -> int:
        return len(self.ranges.names)

    def __getitem__(self, shard: int) -> ScannedShard:
        return scan_shard(self.scanner, self.ranges, shard, self.options, self.folder)

    def fingerprint(self) -> dict[str, Any]:
        """For the loader, which asks for one; no state is saved."""
        return {"shards": len(self)}


def _is_small(shards: ShardSet, ranges: RangeReader) -> bool:
    if len(shards.paths) == 1:
        return True
    # The size of an object costs a round trip, so remote shards aren't asked.
    return not shards.remote and sum(ranges.version(s).size for s in range(len(shards.paths))) < INLINE_BYTES


def read_all(source: Any, worker_count: int) -> Generator[Any]:
    """The records of a source in order, read by so many worker processes, or by this one."""
    if not worker_count:
        yield from map(source.__getitem__, range(len(source)))
        return
    from loaderkit._loader.one_pass import one_pass

    with iter(one_pass(source, worker_count=worker_count)) as records:
        yield from records


def build_counts(
    shards: ShardSet, scanner: Scanner, destination: str, *, source: str | None = None
) -> RecordIndex:
    """Makes an index of counts: of the shards 16 pieces are read, and each is scanned when its first record is.

    Args:
        shards: to be indexed. A server is asked for the size of each, and for 64 KiB in 16 pieces.
        scanner: reads them.
        destination: the index's file.
        source: the file that says how many records each has, as `record_counts` takes it.
    """
    counts = record_counts(shards, source)
    with closing(shards.open()) as ranges:
        versions = versions_of(ranges)
        samples = samples_of(ranges, range(len(versions)), [version.size for version in versions])
    write_counts(shards, scanner, counts, versions, samples, destination)
    return RecordIndex(destination)
