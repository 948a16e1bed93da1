"""Records of one split of a data set with a card."""

import hashlib
import os
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit.errors import ChecksumError
from loaderkit.sources import SubsetDataSource

from .card import DatasetCard
from .splits import SplitSlice


class SplitDataSource(SubsetDataSource):
    """A slice of a split. Its fingerprint is of the card's content, so that a copy of the data set is the same data.

    Args:
        source: gives the records of the whole split.
        card: of the data set.
        part: the slice; ValueError where it has no record.
        folder: of the card, where each file is compared with its checksum before its first record is read; None
            compares none.
    """

    def __init__(self, source: Any, card: DatasetCard, part: SplitSlice, folder: str | None = None) -> None:
        super().__init__(source, range(part.start, part.stop))
        self._part = part
        files = [file for file in card.splits[part.split] if file.records]
        self._ends = np.array([*accumulate(file.records for file in files)])
        # By number of the file, those that this process hasn't compared yet.
        self._unseen: dict[int, tuple[str, str]] = {}
        if folder is not None:
            paths = [os.path.join(folder, *file.name.split("/")) for file in files]
            self._unseen = {n: (path, file.sha256) for n, (path, file) in enumerate(zip(paths, files))}
        self._splits = {name: sum(lengths) for name, lengths in card.shard_lengths().items()}
        self._identity = {"dataset": f"{card.name}:{card.version}", "content": card.digest_of(part.split)}

    def _source_keys(self, record_keys: ArrayLike) -> NDArray[np.int64]:
        keys = super()._source_keys(record_keys)
        if self._unseen:
            self._compare(np.unique(self._ends.searchsorted(keys, "right")).tolist())
        return keys

    def _source_key(self, key: int) -> int:
        key = super()._source_key(key)
        if self._unseen:
            self._compare([int(self._ends.searchsorted(key, "right"))])
        return key

    def _compare(self, files: Sequence[int]) -> None:
        for number in files:
            if (unseen := self._unseen.get(number)) is not None:  # at worst two threads read a file
                path, promised = unseen
                with open(path, "rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != promised:
                    raise ChecksumError(
                        f"{path}: expected the bytes that the data set's card promises, of sha256 {promised[:16]}..., "
                        f"got others, of {found[:16]}...; get a new copy of the file"
                    )
                self._unseen.pop(number, None)

    def splits(self) -> dict[str, int]:
        """The records of each split of the data set."""
        return dict(self._splits)

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
