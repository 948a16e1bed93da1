"""Whether a source may be read in a shuffled order: some decode many records for one."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from .concat import ConcatDataSource
from .mapped import MapDataSource
from .subset import SubsetDataSource
from .zipped import ZipDataSource


def check_random_reads(source: Any, parts: Iterable[range]) -> None:
    """Calls the `check_random_reads()` of a source, and of those that it is made of: ValueError where it is refused.

    Args:
        source: any data source that is about to be read.
        parts: the record keys that are read in a random order.

    >>> check_random_reads([1, 2, 3], [range(3)])
    """
    parts = _joined(parts)
    if not parts:
        return
    if isinstance(source, MapDataSource):
        check_random_reads(source._source, parts)
    elif isinstance(source, SubsetDataSource):
        check_random_reads(source._source, [range(len(source._source))])
    elif isinstance(source, ZipDataSource):
        for each in source._sources:
            check_random_reads(each, parts)
    elif isinstance(source, ConcatDataSource):
        stops = [part.stop for part in parts]
        start = 0
        for each in source._sources:
            stop = start + len(each)
            touched = parts[bisect_right(stops, start) : bisect_right(stops, stop) + 1]
            check_random_reads(
                each, [range(max(part.start - start, 0), min(part.stop, stop) - start) for part in touched]
            )
            start = stop
    elif callable(check := getattr(source, "check_random_reads", None)):
        check()


def _joined(parts: Iterable[range]) -> list[range]:
    """The same keys in ascending parts that don't touch each other."""
    joined: list[range] = []
    for part in sorted(filter(None, parts), key=lambda part: part.start):
        if joined and part.start <= joined[-1].stop:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, part.stop))
        else:
            joined.append(part)
    return joined
