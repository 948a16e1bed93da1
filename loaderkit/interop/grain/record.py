"""A record on its way through Grain's operations: the data, and what the sampler said of it."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from loaderkit._order.metadata import RecordMetadata

__all__ = ["Record", "RecordMetadata"]

T = TypeVar("T")


@dataclass(slots=True)
class Record(Generic[T]):
    """Metadata and data of an element, as the legacy operations take and give them.

    >>> Record(RecordMetadata(0), "data").data
    'data'
    """

    metadata: RecordMetadata
    data: T


def is_record(value: Any) -> bool:
    """Whether an object has metadata and data, as a Record has."""
    return hasattr(value, "metadata") and hasattr(value, "data")
