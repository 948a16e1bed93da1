"""Records of several sources side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.numbers import true_or_false
from loaderkit._base.tree import flatten
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.naming import namer_of
from loaderkit._source.optional import advised_chunk, column_reader, lacking, many_reader, only_where
from loaderkit._source.protocol import read_record, read_records
from loaderkit._source.record_key import check_key, check_keys

from .has_card import HasCard
from .parts import calls_of_parts, parts_of, parts_repr
from .sliced import sliced


class ZipDataSource(HasCard):
    """Record k is record k of each source: a tuple of them, or a dict by the names of a mapping.

    It has `__getitems__`, `take` and `chunk_records` where all of its sources have it.

    Args:
        sources: one data source or more, in a sequence or a mapping from names. ValueError for none, TypeError naming
            the place or the name of an object that isn't a data source.
        strict: whether lengths that differ are a ValueError; False takes the first records of the longer sources.

    >>> ZipDataSource([range(3), "abc"])[1], ZipDataSource({"x": range(3), "y": "abc"})[1]
    ((1, 'b'), {'x': 1, 'y': 'b'})
    """

    def __init__(self, sources: Sequence[Any] | Mapping[str, Any], *, strict: bool = True) -> None:
        true_or_false("strict", strict)
        self.names, self._sources = parts_of(sources)
        lengths = [len(source) for source in self._sources]
        self._records = min(lengths)
        if strict and max(lengths) > self._records:
            of = self.names or range(len(lengths))
            short, long = (lengths.index(n) for n in (self._records, max(lengths)))
            raise ValueError(
                f"sources: expected sources of one length, got {lengths[short]} records of sources[{of[short]!r}] and "
                f"{lengths[long]} of sources[{of[long]!r}]; strict=False takes the first {self._records} of each"
            )
        self._leaves: list[int] = []  # of a record of each source, known after the first `take`

    def __len__(self) -> int:
        return self._records

    def _joined(self, of_each: Sequence[Any]) -> Any:
        return tuple(of_each) if self.names is None else dict(zip(self.names, of_each))

    @sliced
    def __getitem__(self, key: int) -> Any:
        return self._joined([read_record(source, key) for source in self._sources])

    def _require(self, name: str, find: Callable[[Any], Any]) -> None:
        if any(find(source) is None for source in self._sources):
            raise lacking(self, name, needs=f"sources that all have `{name}`")

    @only_where(lambda self: self._require("__getitems__", many_reader))
    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        """Many records, one call for each source; only where all have `__getitems__`, else an AttributeError."""
        keys = check_keys(record_keys, self._records, self).tolist()
        return list(map(self._joined, zip(*(read_records(source, keys) for source in self._sources))))

    @only_where(lambda self: self._require("take", column_reader))
    def take(self, record_keys: ArrayLike, out: list[NDArray[Any]] | None = None) -> Any:
        """Many records as columns; only where all sources have `take`, else an AttributeError.

        Args:
            record_keys: integers (n,).
            out: for each leaf, in the order of the tree, an array (n, ...) to be filled.
        """
        keys = check_keys(record_keys, self._records, self)
        takes = [column_reader(source) for source in self._sources]
        if out is None:
            return self._joined([take(keys) for take in takes if take is not None])
        if not self._leaves:
            none = np.empty(0, np.int64)
            self._leaves = [len(flatten(take(none))[0]) for take in takes if take is not None]
        ends = np.cumsum(self._leaves).tolist()
        theirs = [out[end - count : end] for count, end in zip(self._leaves, ends)]
        return self._joined([take(keys, out=own) for take, own in zip(takes, theirs) if take is not None])

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay: the most that one of the sources says, as `parts.calls_of_parts` explains."""
        return calls_of_parts(
            self._sources, in_bulk=all(many_reader(source) is not None for source in self._sources)
        )

    @property
    def chunk_records(self) -> int:
        """Consecutive records that are read together: the most that a source says, so that no chunk is read twice.

        Only where all have it, else an AttributeError.
        """
        self._require("chunk_records", advised_chunk)
        return max(advised_chunk(source) or 1 for source in self._sources)

    def name(self, record_key: SupportsIndex) -> str | None:
        """The first name that a source gives the record, None where none gives one.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        key = check_key(record_key, self._records, self)
        names = (namer_of(source)(key) for source in self._sources)
        return next((name for name in names if name is not None), None)

    def fingerprint(self) -> dict[str, Any]:
        """The number of records, and the fingerprints of the sources: by name where they have names, else in order."""
        prints = [fingerprint_of(source) for source in self._sources]
        sources = prints if self.names is None else dict(zip(self.names, prints))
        return {"type": "ZipDataSource", "records": self._records, "sources": sources}

    def __repr__(self) -> str:
        return f"ZipDataSource({parts_repr(self.names, self._sources)})"
