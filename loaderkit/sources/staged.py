"""A source whose rows lack some documents from a stage on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.tree import flatten
from loaderkit._order.groups import groups
from loaderkit._order.stage_keys import MOST_ROWS, STAGE_SHIFT, rows_of_keys
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.naming import Routed, namer_of
from loaderkit._source.optional import (
    SourceAdvice,
    column_reader,
    each_reader,
    many_reader,
    offered,
    where_below_has,
)
from loaderkit._source.origins import Origins, OriginsBelow, origins_of
from loaderkit._source.protocol import read_record, read_records

from .exclusion import excluding


class StagedDataSource(SourceAdvice, OriginsBelow, Routed):
    """The rows of a source, and those of its stages, which lack documents; `_order.stage_keys` says the keys.

    A plain key reads the source itself, by one comparison more; its length, advice and fingerprint are the source's.

    Args:
        source: any data source, of fewer than 2**44 records.
        stages: {number from 1 on: documents}, as `exclusion.excluding` takes them.

    >>> import loaderkit as lk
    >>> corpus = lk.TokenDataSource(np.arange(10, 15), [0, 3, 5])
    >>> rows = lk.PackedDataSource(corpus, lk.plan_packing(corpus.lengths, 6))
    >>> staged = StagedDataSource(rows, {1: [0]})
    >>> staged[0]["tokens"].tolist(), staged[0 | 1 << STAGE_SHIFT]["tokens"].tolist()
    ([10, 11, 12, 13, 14, 0], [13, 14, 0, 0, 0, 0])
    """

    def __init__(self, source: Any, stages: Mapping[int, Any]) -> None:
        self._source = self.plain = source
        self._stages = {
            0: source,
            **{number: excluding(source, documents) for number, documents in stages.items()},
        }

    def __len__(self) -> int:
        return len(self._source)

    def _place(self, record_key: int) -> tuple[Any, int]:
        if record_key < MOST_ROWS:
            return self._source, record_key
        return self._stages[record_key >> STAGE_SHIFT], self.plain_key(record_key)

    def plain_key(self, record_key: int) -> int:
        """The row of a key."""
        return record_key & (MOST_ROWS - 1)

    def __getitem__(self, record_key: int) -> Any:
        return read_record(*self._place(record_key))

    def read_each(self, record_keys: NDArray[np.int64]) -> Iterator[Any]:
        """The records of many keys, each read when it is asked for.

        Args:
            record_keys: (n,) int64.
        """
        each = each_reader(self._source)
        if each is None or (len(record_keys) and record_keys.max() >= MOST_ROWS):
            return map(self.__getitem__, record_keys.tolist())
        return each(record_keys)

    @where_below_has("__getitems__", many_reader)
    def __getitems__(self, keys: Sequence[int]) -> Sequence[Any]:
        """Many records in one call; only where the source has `__getitems__`, else an AttributeError."""
        if not len(keys) or max(keys) < MOST_ROWS:
            return read_records(self._source, keys)
        records: list[Any] = [None] * len(keys)
        for number, places in groups(np.asarray(keys) >> STAGE_SHIFT):
            source = self._stages[number]
            rows = [self.plain_key(keys[place]) for place in places.tolist()]
            for place, record in zip(places.tolist(), read_records(source, rows), strict=True):
                records[place] = record
        return records

    @property
    def take(self) -> Callable[..., Any]:
        """Many records as columns; only where the source has `take`, else an AttributeError.

        Args:
            record_keys: (n,) ints.
            out: the arrays to be filled, as the source's own `take` expects them.
        """
        return partial(self._take, offered(self, "take", column_reader(self._source)))

    def _take(
        self, plain: Callable[..., Any], record_keys: Any, out: list[NDArray[Any]] | None = None
    ) -> Any:
        keys = np.asarray(record_keys)
        if not len(keys) or keys.max() < MOST_ROWS:
            return plain(record_keys, out=out)
        # All as they were planned, without a copy; then the few rows that lack a document once more, over them.
        columns = plain(rows_of_keys(keys), out=out)
        leaves = flatten(columns)[0] if out is None else out
        for number, places in groups(keys >> STAGE_SHIFT):
            if number:
                take = column_reader(self._stages[number])
                assert take is not None
                for leaf, theirs in zip(leaves, flatten(take(rows_of_keys(keys[places])))[0], strict=True):
                    leaf[places] = theirs
        return columns

    @property
    def chunk_feed(self) -> Any:
        """The chunks of the records, which are those of plain keys; None where the source has no cache."""
        feed = getattr(self._source, "chunk_feed", None)
        return None if feed is None else feed.of_keys(rows_of_keys)

    def origins(self, record_keys: ArrayLike) -> Origins:
        """Where the records are from, of each as its stage has it."""
        keys = np.asarray(record_keys, np.int64)
        parts = [Origins.of_documents(keys[:0])]
        for number, places in groups(keys >> STAGE_SHIFT):
            source = self._stages[number]
            parts.append(origins_of(source, rows_of_keys(keys[places])).of_rows(places))
        return Origins.joined(parts)

    def name(self, record_key: int) -> str | None:
        """The name that the record's source gives it, None where it gives none."""
        source, row = self._place(record_key)
        return namer_of(source)(row)

    def fingerprint(self) -> dict[str, Any]:
        """The source's own: which rows lack documents is the order's, and is compared with that."""
        return fingerprint_of(self._source)
