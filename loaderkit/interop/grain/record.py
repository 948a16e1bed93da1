"""A record on its way through Grain's operations: the data, and what the sampler said of it."""

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(slots=True)
class RecordMetadata:
    """Which record an index reads, and the generator of its random operations.

    >>> print(RecordMetadata(index=0, record_key=3))
    RecordMetadata(index=0, record_key=3, rng=None)
    """

    index: int
    record_key: int | None = None
    rng: np.random.Generator | None = None

    def remove_record_key(self) -> "RecordMetadata":
        """The same without a record_key.

        >>> RecordMetadata(index=0, record_key=3).remove_record_key().record_key
        """
        return self if self.record_key is None else replace(self, record_key=None)

    def __str__(self) -> str:
        return f"RecordMetadata(index={self.index}, record_key={self.record_key}, rng={self.rng})"


@dataclass(slots=True)
class Record(Generic[T]):
    """Metadata and data of an element, as the legacy operations take and give them.

    >>> Record(RecordMetadata(0), "data").data
    'data'
    """

    metadata: RecordMetadata
    data: T


def is_record(value: Any) -> bool:
    """Whether something has what a Record has."""
    return hasattr(value, "metadata") and hasattr(value, "data")
