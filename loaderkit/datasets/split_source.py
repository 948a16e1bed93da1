"""Records of one split of a data set with a card."""

from typing import Any

from loaderkit.sources import SubsetDataSource

from .card import DatasetCard
from .splits import SplitSlice


class SplitDataSource(SubsetDataSource):
    """A slice of a split. Its fingerprint is of the card's content, so that a copy of the data set is the same data.

    Args:
        source: gives the records of the whole split.
        card: of the data set.
        part: the slice; ValueError where it has no record.
    """

    def __init__(self, source: Any, card: DatasetCard, part: SplitSlice) -> None:
        super().__init__(source, range(part.start, part.stop))
        self._part = part
        self._identity = {"dataset": f"{card.name}:{card.version}", "content": card.digest_of(part.split)}

    def fingerprint(self) -> dict[str, Any]:
        """Name and version, the split, a digest of its files' checksums, and the slice."""
        part = self._part
        return {
            "type": "SplitDataSource",
            **self._identity,
            "split": part.split,
            "records": [part.start, part.stop],
        }

    def __repr__(self) -> str:
        part = self._part
        return f"SplitDataSource({self._identity['dataset']}, {part.split}[{part.start}:{part.stop}])"
