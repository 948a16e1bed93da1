"""The base class of sources that have a card."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .card import SourceCard

SAMPLED = 8  # records; the first ones are read together, also where others would be read alone


class HasCard:
    """A base class of sources: what they hold, at a glance."""

    def card(self) -> SourceCard:
        """Number of records, fields with dtypes and shapes, size on disk, shards, a sample, splits; to be printed.

        It reads the first records, eight at most.
        """
        from .card import card_of  # a worker needs none of it

        return card_of(self, self._sampled(), self.data_files(), self.splits())

    def data_files(self) -> dict[str, int | None]:
        """The files with the records, and the bytes of each, None where a server or a folder would have to be asked."""
        return {name: size for each in self._below() for name, size in each.data_files().items()}

    def splits(self) -> dict[str, int]:
        """The records of each split of the data set that the records are of; none where it has no splits."""
        return {name: count for each in self._below() for name, count in each.splits().items()}

    def _below(self) -> Iterator[HasCard]:
        each = vars(self).get("_sources") or [vars(self).get("_source")]
        return (source for source in each if isinstance(source, HasCard))

    def _sampled(self) -> list[int]:
        """The keys of the records that are looked at."""
        source: Any = self
        return [*range(min(SAMPLED, len(source)))]


def file_sizes(names: Iterable[str]) -> dict[str, int | None]:
    """The bytes of files, None for what is no local file.

    >>> file_sizes(["s3://bucket/a.tar"])
    {'s3://bucket/a.tar': None}
    """
    return {name: os.path.getsize(name) if os.path.isfile(name) else None for name in names}
