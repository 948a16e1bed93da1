"""Reads the pieces of packed rows from any source of documents."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loaderkit._order.packing.leaves import FeatureLeaves, alike, document_value, feature_array, shown
from loaderkit._order.permutation import Int64Array
from loaderkit._source.naming import namer_of
from loaderkit._source.optional import part_reader
from loaderkit._source.protocol import read_records

from .pack_plan import RowPieces

Part = dict[str, NDArray[Any]]  # an array (tokens, ...) for each feature


class PackedFeature(NamedTuple):
    """A feature that is packed.

    leaves: what rows have of it. row: tokens of a row. column: of the plan's starts and lengths, None where there is
    one for all features.
    """

    leaves: FeatureLeaves
    row: int
    column: int | None

    @property
    def name(self) -> str:
        """Of its array in documents."""
        return self.leaves.name

    @property
    def names(self) -> tuple[str, ...]:
        """Of its array in documents, and of those with a value for each of its tokens."""
        return (self.name, *(name for _, name in self.leaves.by_token))

    def of(self, values: Int64Array) -> Int64Array:
        """The feature's own of the plan's starts or lengths (n,)."""
        return values if self.column is None else values[:, self.column]


class DocumentReader:
    """Documents of a source, and parts of them, compared with the lengths that were planned.

    Args:
        source: any source of arrays (tokens, ...) or of dicts of them.
        features: that are read; a source of bare arrays has one.
        across: whether the token behind a piece is read with it.
    """

    def __init__(self, source: Any, features: Sequence[PackedFeature], *, across: bool) -> None:
        self._source, self._features, self._across = source, features, across
        self._per_document = [name for _, name in features[0].leaves.by_document]

    @property
    def reads_parts(self) -> bool:
        """Whether the source reads parts of documents."""
        return part_reader(self._source) is not None

    def goes_on(
        self, feature: PackedFeature, pieces: RowPieces, planned: Int64Array
    ) -> NDArray[np.bool_] | None:
        """Whether the token behind each piece is read with it (n,); None where none is.

        Args:
            feature: one of the features.
            pieces: of rows.
            planned: lengths of their documents.
        """
        if not self._across:
            return None
        lengths = feature.of(pieces.lengths)
        found: NDArray[np.bool_] = (lengths > 0) & (feature.of(pieces.starts) + lengths < feature.of(planned))
        return found

    def pieces(self, pieces: RowPieces, planned: Int64Array) -> list[Part]:
        """The pieces of rows; each document is read once, or parts of it where the source has `read_range`.

        Args:
            pieces: of the rows.
            planned: lengths of the documents of these pieces. ValueError naming a document that has another length.
        """
        documents: list[int] = pieces.documents.tolist()
        starts, lengths, expected = (
            [feature.of(values).tolist() for feature in self._features]
            for values in (pieces.starts, pieces.lengths, planned)
        )
        for number, feature in enumerate(self._features):
            if (goes_on := self.goes_on(feature, pieces, planned)) is not None:
                lengths[number] = (feature.of(pieces.lengths) + goes_on).tolist()
        parted: list[bool] = [False] * len(documents)
        if self.reads_parts and planned.ndim == 1:
            parted = (pieces.lengths != planned).tolist()
        whole = sorted({document for document, in_part in zip(documents, parted) if not in_part})
        records = {
            document: self._sequences(record, document)
            for document, record in zip(whole, read_records(self._source, whole) if whole else ())
        }
        found: list[Part] = []
        for number, document in enumerate(documents):
            start, length, wanted = starts[0][number], lengths[0][number], expected[0][number]
            if parted[number]:
                record = self._sequences(self._source.read_range(document, start, start + length), document)
                start, wanted = 0, length
            else:
                record = records[document]
            part = {name: record[name] for name in self._per_document}
            for place, feature in enumerate(self._features):
                if place and not parted[number]:
                    start, length, wanted = (each[place][number] for each in (starts, lengths, expected))
                for name in feature.names:
                    self.expect(document, name, wanted, len(record[name]))
                    part[name] = record[name][start : start + length]
            found.append(part)
        return found

    def check_alike(self, arrays: Sequence[NDArray[Any]], name: str, documents: Sequence[int]) -> None:
        """ValueError naming a document of another dtype or shape than the first.

        Args:
            arrays: of one name, of documents that share a row.
            name: theirs.
            documents: the record key of each.
        """
        first = arrays[0]
        for document, array in zip(documents, arrays):
            if not alike(array, first):
                raise ValueError(
                    f"{self.describe(document)}: expected {name!r} as in {self.describe(documents[0])}, which is in "
                    f"the same row, {shown(first)}, got {shown(array)}"
                )

    def _sequences(self, record: Any, document: int) -> Part:
        found = {name: self._sequence(record, name, document) for one in self._features for name in one.names}
        for name in self._per_document:
            found[name] = document_value(record, name, document, self.describe)
        return found

    def _sequence(self, record: Any, name: str, document: int) -> NDArray[Any]:
        return feature_array(
            record,
            name,
            document,
            self.describe,
            bare=len(self._features) == 1,
            advice="give a source of arrays, or of dicts of arrays",
        )

    def expect(self, document: int, name: str, planned: int, got: int) -> None:
        """Raises ValueError naming a document that has another length than was planned."""
        if got != planned:
            raise ValueError(
                f"{self.describe(document)}: expected {planned} tokens in {name!r}, as planned, got {got}; "
                "measure and plan this source again"
            )

    def describe(self, document: int) -> str:
        """A document in an error: its record key, and its name where it has one."""
        name = namer_of(self._source)(document)
        return f"document {document}" + ("" if name is None else f" ({name})")
