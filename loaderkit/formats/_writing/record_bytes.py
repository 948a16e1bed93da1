"""The encoder of formats whose records are bytes."""

from dataclasses import dataclass
from typing import Any, Self

from loaderkit._codecs.record_codec import encode_record


@dataclass(frozen=True, slots=True)
class RecordBytes:
    """A `RecordEncoder` whose records are all bytes, or all dicts.

    >>> RecordBytes.of(b"").encode({"label": 3}, 0)
    Traceback (most recent call last):
        ...
    ValueError: expected bytes as the first record is, got dict
    """

    kind: type

    @classmethod
    def of(cls, first: Any) -> Self:
        """The encoder for records like this one; TypeError where it is neither bytes nor a dict."""
        if type(first) not in (bytes, dict):
            raise TypeError(f"record: expected bytes or a dict, got {type(first).__name__}")
        return cls(type(first))

    def encode(self, record: Any, number: int) -> bytes:
        """The record as bytes that say how to bring it back."""
        if type(record) is not self.kind:
            raise ValueError(
                f"expected {self.kind.__name__} as the first record is, got {type(record).__name__}"
            )
        return encode_record(record)
