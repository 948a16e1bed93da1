"""Rules about shards: what names, sizes and the index say, without reading a record."""

from collections.abc import Iterator

import numpy as np

from loaderkit._base.size_text import size_text
from loaderkit.formats._index.record_index import RecordIndex

from .findings import Finding, finding
from .open_source import OpenedSource

UNEVEN = 2.0  # times as many or as few records as the median shard
# One read of a server fetches at most 8 MiB. Shards below that take a request each, however few bytes it brings.
SMALL_SHARD = 8 << 20
FEWEST_SHARDS = 4  # of which small ones are worth a word
BLOCK = 1 << 16  # records looked up in the index at once


def lint_shards(opened: OpenedSource) -> Iterator[Finding]:
    """The findings about shards, and those that an index of members gives about all records."""
    yield from _records(opened)
    yield from _bytes(opened)
    if opened.index is not None and opened.index.has_members:
        yield from _members(opened, opened.index)


def _records(opened: OpenedSource) -> Iterator[Finding]:
    each = opened.records_each
    for shard in np.flatnonzero(each == 0).tolist():
        yield finding("empty-shard", opened.names[shard], "has no record")
    median = float(np.median(each[each > 0])) if (each > 0).any() else 0.0
    # The last shard of many writers has what is left.
    for shard in np.flatnonzero((each > UNEVEN * median) | (each * UNEVEN < median))[: len(each)].tolist():
        if each[shard] and not (shard == len(each) - 1 and each[shard] < median):
            problem = f"has {each[shard]:,} records, the median shard {median:,.0f}"
            yield finding("uneven-shards", opened.names[shard], problem)


def _bytes(opened: OpenedSource) -> Iterator[Finding]:
    sizes = opened.sizes()
    if sizes is None or len(sizes) < FEWEST_SHARDS:
        return
    median = float(np.median(sizes))
    if median < SMALL_SHARD:
        total = int(sizes.sum())
        yield finding(
            "small-shards",
            f"{len(sizes):,} shards",
            f"the median shard has {size_text(median)}",
            "on a server each costs a request and a check of its own: put several into one, "
            f"such as {max(1, round(total / (64 * SMALL_SHARD))):,} of {size_text(min(total, 64 * SMALL_SHARD))}",
        )


def _members(opened: OpenedSource, index: RecordIndex) -> Iterator[Finding]:
    total = len(opened)
    # A number for each field; the sum of its members' numbers tells the set of fields that a record has.
    numbers = np.random.default_rng(0).integers(1, 1 << 62, len(index.fields) or 1)
    first_of: dict[int, int] = {}
    counts: dict[int, int] = {}
    empty: list[tuple[int, int]] = []
    empties = 0
    for begin in range(0, total, BLOCK):
        keys = np.arange(begin, min(begin + BLOCK, total))
        members = index.members_of(keys)
        sums = np.add.reduceat(numbers[members.field], members.first[:-1])
        found = np.unique(sums, return_index=True, return_counts=True)
        for value, place, count in zip(*(each.tolist() for each in found)):
            first_of.setdefault(value, begin + place)
            counts[value] = counts.get(value, 0) + count
        places = np.flatnonzero(members.size == 0)
        empties += len(places)
        records = np.searchsorted(members.first, places[: 10 - len(empty)], side="right") - 1
        empty += zip((keys[records]).tolist(), members.field[places[: len(records)]].tolist())
    yield from _differing(opened, index, first_of, counts)
    for key, field in empty:
        others = f" ({empties:,} values are)" if empties > 1 else ""
        yield finding(
            "empty-value", opened.location(key), f"its field {index.fields[field]} is empty{others}"
        )


def _differing(
    opened: OpenedSource, index: RecordIndex, first_of: dict[int, int], counts: dict[int, int]
) -> Iterator[Finding]:
    if len(counts) < 2:
        return
    usual = max(counts, key=counts.__getitem__)
    usual_fields = _fields(index, first_of[usual])
    for value in sorted(counts, key=first_of.__getitem__):
        if value != usual:
            yield fields_finding(
                opened.location(first_of[value]), counts[value], _fields(index, first_of[value]), usual_fields
            )


def _fields(index: RecordIndex, key: int) -> set[str]:
    return {index.fields[field] for field in index.members_of(np.array([key])).field.tolist()}


def fields_finding(location: str, records: int, fields: set[str], usual: set[str]) -> Finding:
    """The finding for records with other fields than most.

    location: of the first of them. records: how many there are. fields: theirs; usual: those of most records.

    >>> fields_finding("a.tar[7]", 1, {"jpg"}, {"jpg", "cls"}).problem
    '1 record lacks cls'
    """
    lacks, has = sorted(usual - fields), sorted(fields - usual)
    said = [f"{verb} {', '.join(names)}" for verb, names in (("lacks", lacks), ("has also", has)) if names]
    count = "1 record" if records == 1 else f"{records:,} records, this one first,"
    return finding("fields-differ", location, f"{count} {' and '.join(said)}")
