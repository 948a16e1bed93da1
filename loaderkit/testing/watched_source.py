"""A source that hands out copies of another source's own arrays and detects writes to them."""

from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.tree import flatten, paths, unflatten
from loaderkit._source.naming import namer_of
from loaderkit.errors import PurityError

from .snapshot import Snapshot, copied, difference, snapshot_of


@dataclass(frozen=True, slots=True)
class _Lent:
    """An array of the source's own, handed out as the copy `array`; `was` is a second copy, to compare with."""

    record_key: int
    path: str
    array: np.ndarray
    was: np.ndarray


class WatchedSource:
    """The records of another source, with copies of the arrays that the source keeps and would hand out again.

    Args:
        source: any data source. PurityError at the first record that differs when it is read twice.

    >>> source = WatchedSource([np.zeros(2)])
    >>> source[0][1] = 5
    >>> source.written()
    (0, '')
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self.name = namer_of(source)
        self._lent: list[_Lent] = []

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, record_key: int) -> Any:
        first = self._source[record_key]
        before = snapshot_of(first)
        second = self._source[record_key]
        self._check(record_key, before, snapshot_of(second))
        leaves, structure = flatten(first)
        others, _ = flatten(second)
        for place, (path, leaf, other) in enumerate(zip(paths(structure), leaves, others, strict=True)):
            if (
                isinstance(leaf, np.ndarray)
                and isinstance(other, np.ndarray)
                and np.may_share_memory(leaf, other)
            ):
                leaves[place] = copied(leaf)
                self._lent.append(_Lent(record_key, path, leaves[place], copied(leaf)))
        return unflatten(structure, leaves)

    def _check(self, record_key: int, before: Snapshot, after: Snapshot) -> None:
        found = difference(before, after)
        if found is not None:
            raise PurityError(
                f"data_source[{record_key}]: expected the same record from two reads, got {found.path or 'one'} as "
                f"{found.one}, then as {found.other}. A record must be a function of its key",
                operation="data_source",
                leaf=found.path,
            )

    def written(self) -> tuple[int, str] | None:
        """Record key and path of the first array of the source's own that was written to; None if there is none."""
        for lent in self._lent:
            if difference(snapshot_of(lent.was), snapshot_of(lent.array)) is not None:
                return lent.record_key, lent.path
        return None
