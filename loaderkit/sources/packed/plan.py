"""What a packing plan says of rows, as far as sources read rows by it."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]


class PlannedPieces(Protocol):
    """The pieces of some rows, row by row: documents, first tokens and tokens (n,), and pieces of each row (rows,).

    Starts and lengths are (n, features) where features have lengths of their own.
    """

    @property
    def documents(self) -> IntArray: ...
    @property
    def starts(self) -> IntArray: ...
    @property
    def lengths(self) -> IntArray: ...
    @property
    def counts(self) -> IntArray: ...


class PlannedRows(Protocol):
    """A plan of `lk.plan_packing`; `PackPlan` describes the attributes."""

    @property
    def length(self) -> int | dict[str, int]: ...
    @property
    def features(self) -> tuple[str, ...] | None: ...
    @property
    def num_documents(self) -> int: ...
    @property
    def measured_source(self) -> dict[str, Any] | None: ...
    @property
    def read_factor(self) -> float: ...
    @property
    def block_rows(self) -> int: ...
    def __len__(self) -> int: ...
    def rows(self, keys: ArrayLike, /) -> PlannedPieces: ...
    def document_lengths(self, documents: ArrayLike, /) -> IntArray: ...
    def fingerprint(self) -> dict[str, Any]: ...


class PackedFeature(NamedTuple):
    """A feature that is packed.

    name: of its array in documents. row: tokens of a row. column: of the plan's starts and lengths, None where there is
    one for all features.
    """

    name: str
    row: int
    column: int | None

    def of(self, values: IntArray) -> IntArray:
        """The feature's own of the plan's starts or lengths (n,)."""
        return values if self.column is None else values[:, self.column]
