"""Reads the pieces of packed rows from any source of documents."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loaderkit._order.packing.row_leaves import feature_array, shown
from loaderkit._order.permutation import Int64Array
from loaderkit._source.naming import namer_of
from loaderkit._source.protocol import read_records

from .pack_plan import RowPieces

Part = dict[str, NDArray[Any]]  # an array (tokens, ...) for each feature


class PackedFeature(NamedTuple):
    """A feature that is packed.

    name: of its array in documents. row: tokens of a row. column: of the plan's starts and lengths, None where there is
    one for all features.
    """

    name: str
    row: int
    column: int | None

    def of(self, values: Int64Array) -> Int64Array:
        """The feature's own of the plan's starts or lengths (n,)."""
        return values if self.column is None else values[:, self.column]


class DocumentReader:
    """Documents of a source, and parts of them, compared with the lengths that were planned.

    Args:
        source: any source of arrays (tokens, ...) or of dicts of them.
        features: that are read; a source of bare arrays has one.
    """

    def __init__(self, source: Any, features: Sequence[PackedFeature]) -> None:
        self._source, self._features = source, features

    @property
    def reads_parts(self) -> bool:
        """Whether the source reads parts of documents."""
        return callable(getattr(self._source, "read_range", None))

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
            if parted[number]:
                start, length = starts[0][number], lengths[0][number]
                part = self._sequences(self._source.read_range(document, start, start + length), document)
                for feature in self._features:
                    self.expect(document, feature, length, len(part[feature.name]))
                found.append(part)
                continue
            record, part = records[document], {}
            for place, feature in enumerate(self._features):
                tokens = record[feature.name]
                self.expect(document, feature, expected[place][number], len(tokens))
                start = starts[place][number]
                part[feature.name] = tokens[start : start + lengths[place][number]]
            found.append(part)
        return found

    def token_rows(
        self, feature: PackedFeature, pieces: RowPieces, parts: Sequence[Part], pad: Any
    ) -> Iterator[NDArray[Any]]:
        """The rows of one feature (tokens of a row, ...), each of the dtype of its documents.

        Args:
            feature: one of the features.
            pieces: of the rows.
            parts: what `pieces` gave for them. ValueError naming a document of another dtype or shape than the first of
                its row.
            pad: value behind the last piece.
        """
        documents: list[int] = pieces.documents.tolist()
        number = 0
        for count in pieces.counts.tolist():
            arrays = [part[feature.name] for part in parts[number : number + count]]
            first = arrays[0]
            try:
                # np.full itself wraps in numpy 2.0.
                row = np.full((feature.row, *first.shape[1:]), np.array(pad, first.dtype))
            except OverflowError:
                raise ValueError(
                    f"pad: expected a number of {first.dtype}, as {feature.name!r} of "
                    f"{self._describe(documents[number])} is, got {pad}"
                ) from None
            place = 0
            for document, array in zip(documents[number : number + count], arrays):
                if array.dtype != first.dtype or array.shape[1:] != first.shape[1:]:
                    raise ValueError(
                        f"{self._describe(document)}: expected {feature.name!r} as in "
                        f"{self._describe(documents[number])}, which is in the same row, {shown(first)}, got "
                        f"{shown(array)}"
                    )
                row[place : place + len(array)] = array
                place += len(array)
            number += count
            yield row

    def _sequences(self, record: Any, document: int) -> Part:
        return {feature.name: self._sequence(record, feature.name, document) for feature in self._features}

    def _sequence(self, record: Any, name: str, document: int) -> NDArray[Any]:
        return feature_array(
            record,
            name,
            document,
            self._describe,
            bare=len(self._features) == 1,
            advice="give a source of arrays, or of dicts of arrays",
        )

    def expect(self, document: int, feature: PackedFeature, planned: int, got: int) -> None:
        """Raises ValueError naming a document that has another length than was planned."""
        if got != planned:
            raise ValueError(
                f"{self._describe(document)}: expected {planned} tokens in {feature.name!r}, as planned, got {got}; "
                "measure and plan this source again"
            )

    def _describe(self, document: int) -> str:
        name = namer_of(self._source)(document)
        return f"document {document}" + ("" if name is None else f" ({name})")
