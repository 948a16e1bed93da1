"""The data against its index. The check of a shard is a record of a data source, so that workers share them."""

import argparse
import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._codecs.scan import Malformed, Scanner, ShardScan
from loaderkit.errors import DataFormatError
from loaderkit.formats._index.build import read_all
from loaderkit.formats._index.check import has_sample
from loaderkit.formats._index.find import cached_path, other_set, path_beside
from loaderkit.formats._index.record_index import RecordIndex
from loaderkit.formats._index.scan_shard import reading
from loaderkit.formats._index.shard_set import ShardSet

from .exit_status import UsageError
from .findings import Finding, finding
from .open_source import NamedData, OpenedSource, open_named, shown_name, shown_names
from .output import Output
from .read_each import read_each

BLOCK = 1 << 14  # members compared at once


@dataclass(frozen=True, slots=True)
class ShardFindings:
    """What was found in one shard."""

    findings: tuple[Finding, ...]


class ShardChecks:
    """Compares shards with their index.

    shards: to be read. scanner: of the files. index: of the shards; None to look at the format alone. full: whether
    each shard is scanned again, every byte of it where the index has checksums.
    """

    def __init__(self, shards: ShardSet, scanner: Scanner, index: RecordIndex | None, *, full: bool) -> None:
        self._names, self._ranges = shown_names(shards), shards.open()
        self._scanner, self._index, self._full = scanner, index, full

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
                scan = self._scanner.scan(
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
        for problem in _differences(index, shard, scan, self._scanner.unit):
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


def shard_findings(checks: ShardChecks, out: Output, *, worker_count: int = 0) -> list[Finding]:
    """What is found in the shards, in order. checks: of them, which are closed. worker_count: processes, 0 for none."""
    findings: list[Finding] = []
    with (
        contextlib.closing(checks),
        out.progress("shards", len(checks)) as advance,
        contextlib.closing(read_all(checks, worker_count)) as found,
    ):
        for shard in found:
            findings += shard.findings
            advance(1)
    return findings


def has_index(options: argparse.Namespace, data: NamedData) -> bool:
    """Whether the data has an index that it can be compared with."""
    return data.is_scanned and _index_path(options, data.shards(), data.scanner().kind) is not None


def compared(
    options: argparse.Namespace, data: NamedData, out: Output
) -> tuple[dict[str, int], list[Finding]]:
    """What differs between the data and its index, with the numbers of shards and records that were compared.

    Data of a format that has its own index is read. UsageError for data without an index.
    """
    if data.is_scanned:
        return _with_index(data, out, options)
    with open_named(data) as opened:
        facts = {"shards": len(opened.names), "records": len(opened)}
        return facts, list(_unreadable(opened, out))


def _index_path(options: argparse.Namespace, shards: ShardSet, kind: str) -> str | None:
    candidates = [options.index] if options.index else [path_beside(shards), cached_path(shards, kind)]
    return next((path for path in candidates if path and os.path.exists(path)), None)


def _with_index(
    data: NamedData, out: Output, options: argparse.Namespace
) -> tuple[dict[str, int], list[Finding]]:
    shards, scanner = data.shards(), data.scanner()
    path = _index_path(options, shards, scanner.kind)
    if path is None:
        raise UsageError(
            "SRC: expected data with an index, got none; `loaderkit index` with the same names makes it"
        )
    facts = {"shards": len(shards.paths), "records": 0}
    try:
        index = RecordIndex(path)
        index.check()
    except DataFormatError as error:
        return facts, [finding("damaged-index", shown_name(path), str(error))]
    facts["records"] = len(index)
    if difference := other_set(index, shards, scanner):
        return facts, [finding("other-set", shown_name(path), difference)]
    checks = ShardChecks(shards, scanner, index, full=options.full)
    findings = shard_findings(checks, out, worker_count=options.processes or 0)
    if options.full and not findings:
        with open_named(data, index, verify=True) as opened:
            findings += _unreadable(opened, out)
    return facts, findings


def _unreadable(opened: OpenedSource, out: Output) -> Iterator[Finding]:
    with out.progress("records", len(opened)) as advance:
        for key, record in read_each(opened, np.arange(len(opened)), advance):
            if isinstance(record, Exception):
                yield finding("unreadable", opened.location(key), str(record))
