"""Whether a source may be read in a shuffled order: some decode many records for one."""

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
    parts = [part for part in parts if part]
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
        start = 0
        for each in source._sources:
            theirs = range(start, start + len(each))
            check_random_reads(each, [_common(part, theirs) for part in parts])
            start = theirs.stop
    elif callable(check := getattr(source, "check_random_reads", None)):
        check()


def _common(part: range, theirs: range) -> range:
    return range(max(part.start, theirs.start) - theirs.start, min(part.stop, theirs.stop) - theirs.start)
