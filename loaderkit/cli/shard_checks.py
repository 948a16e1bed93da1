"""The check of one shard against its index: a data source with a record for each shard, so that workers share them."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._codecs.scan import Malformed, Scanner, ShardScan
from loaderkit.formats._index.check import has_sample
from loaderkit.formats._index.record_index import RecordIndex
from loaderkit.formats._index.scan_shard import reading
from loaderkit.formats._index.shard_set import ShardSet

from .findings import Finding, finding
from .open_source import shown_names

BLOCK = 1 << 14  # members compared at once

RULES = ("missing-shard", "other-size", "other-content", "malformed", "index-differs")


@dataclass(frozen=True, slots=True)
class ShardFindings:
    """What was found in one shard."""

    findings: tuple[Finding, ...]


class ShardChecks:
    """Compares shards with their index.

    shards: to be read. format: of the files. index: of the shards; None to look at the format alone. full: whether each
    shard is scanned again, every byte of it where the index has checksums.
    """

    def __init__(self, shards: ShardSet, format: Scanner, index: RecordIndex | None, *, full: bool) -> None:  # noqa: A002
        self._names, self._ranges = shown_names(shards), shards.open()
        self._format, self._index, self._full = format, index, full

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, shard: int) -> ShardFindings:
        return ShardFindings(tuple(self._findings(shard)))

    def fingerprint(self) -> dict[str, Any]:
        """For the loader, which asks for one; no state is saved."""
        return {"shards": len(self)}

    def close(self) -> None:
        """Closes the open files."""
        self._ranges.close()

    def _findings(self, shard: int) -> Iterator[Finding]:
        name, index = self._names[shard], self._index
        try:
            version = self._ranges.version(shard)
        except FileNotFoundError:
            yield finding("missing-shard", name, "there is no such file")
            return
        if index is not None:
            was = int(index.shard_sizes[shard])
            if version.size != was:
                how = f"it had {was:,} bytes when it was indexed, and has {version.size:,}"
                yield finding("other-size", name, f"at byte {min(was, version.size)}: {how}")
                return
            if not has_sample(index, shard, self._ranges):
                how = "it has the size of the indexed file and other bytes"
                yield finding("other-content", name, how)
        if self._full:
            yield from self._scanned(shard, version.size)

    def _scanned(self, shard: int, size: int) -> Iterator[Finding]:
        name, index = self._names[shard], self._index
        checksums = None if index is None else index.checksums
        try:
            with reading(self._ranges, shard, size) as read:
                scan = self._format.scan(
                    read,
                    size,
                    members=index is not None and index.has_members,
                    checksums=checksums is not None,
                )
        except Malformed as error:
            yield finding("malformed", name, f"at byte {error.offset}: {error.problem}", error.remedy)
            return
        if index is None:
            return
        first, end = index.records_of(shard)
        for problem in _differences(index, shard, scan, self._format.unit):
            yield finding("index-differs", name, problem)
            return
        if checksums is not None and scan.checksums is not None:
            wrong = np.flatnonzero(scan.checksums != checksums[first:end])
            starts = index.starts_of(shard)
            for record in wrong.tolist():
                problem = f"at byte {starts[record]}: the checksum of the record isn't that of the index"
                yield finding("other-content", f"{name}[{record}]", problem)


def _differences(index: RecordIndex, shard: int, scan: ShardScan, unit: int) -> Iterator[str]:
    found = scan.starts.astype(np.int64) * unit
    first, end = index.records_of(shard)
    if end - first != len(found) - 1:
        yield f"the index has {end - first:,} records, the file {len(found) - 1:,}"
        return
    if index.counts:
        return
    starts = index.starts_of(shard)
    if (differ := starts != found).any():
        place = int(differ.argmax())
        yield f"at byte {min(starts[place], found[place])}: the index has another place for record {place}"
    elif scan.members is not None and (record := _other_member(index, shard, scan, unit)) is not None:
        yield f"at byte {starts[record]}: the index has other fields for record {record}"


def _other_member(index: RecordIndex, shard: int, scan: ShardScan, unit: int) -> int | None:
    members, (first, end) = scan.members, index.records_of(shard)
    assert members is not None
    fields = np.array([*map(index.fields.index, scan.fields)] or [0], np.int64)
    for begin in range(first, end, BLOCK):
        keys = np.arange(begin, min(begin + BLOCK, end))
        told = index.members_of(keys)
        low, high = members.first[begin - first], members.first[begin - first + len(keys)]
        if not np.array_equal(told.first, members.first[begin - first : begin - first + len(keys) + 1] - low):
            return begin - first
        _, begins, _ = index.locate(keys)
        per_record: NDArray[np.int64] = np.repeat(begins, np.diff(told.first))
        same = (
            (told.begin + per_record == members.block[low:high].astype(np.int64) * unit)
            & (told.size == members.size[low:high].astype(np.int64))
            & (told.field == fields[members.field[low:high]])
        )
        if not same.all():
            wrong = int((~same).argmax())
            return begin - first + int(np.searchsorted(told.first, wrong, side="right")) - 1
    return None


def check_each(checks: ShardChecks, worker_count: int) -> Generator[ShardFindings]:
    """What is found in each shard, in order.

    checks: of the shards. worker_count: processes, 0 for none.
    """
    if not worker_count:
        yield from map(checks.__getitem__, range(len(checks)))
        return
    from loaderkit._loader.loader import DataLoader
    from loaderkit.samplers import IndexSampler

    loader = DataLoader(
        data_source=checks, sampler=IndexSampler(len(checks), num_epochs=1), worker_count=worker_count
    )
    with iter(loader) as found:
        yield from found
