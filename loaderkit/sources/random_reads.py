"""Whether a source may be read in a shuffled order: some decode many records for one."""

from typing import Any

from .concat import ConcatDataSource
from .mapped import MapDataSource
from .subset import SubsetDataSource
from .zipped import ZipDataSource


def check_random_reads(source: Any) -> None:
    """Calls the `check_random_reads()` of a source, and of those that it is made of: ValueError where it is refused.

    Args:
        source: any data source that is about to be read in a shuffled order.

    >>> check_random_reads([1, 2, 3])
    """
    if isinstance(source, SubsetDataSource | MapDataSource):
        check_random_reads(source._source)
    elif isinstance(source, ConcatDataSource | ZipDataSource):
        for part in source._sources:
            check_random_reads(part)
    elif callable(check := getattr(source, "check_random_reads", None)):
        check()
