"""What a source over another one says of how it is read."""

from typing import Any

from .optional import advised_bytes, advised_calls, advised_chunk, lacking


class SourceAdvice:
    """A base class: each record is read by one of the source below, in the same order, so its advice holds here."""

    _source: Any

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay, as the source says; 0 where it doesn't."""
        return advised_calls(self._source)

    @property
    def chunk_records(self) -> int:
        """Consecutive records that are read together; only where the source says it, else an AttributeError."""
        chunk = advised_chunk(self._source)
        if chunk is None:
            raise lacking(self, "chunk_records", needs="a source with `chunk_records`")
        return chunk

    @property
    def chunk_bytes(self) -> int:
        """Bytes that are read for so many records, as the source says; only where it does, else an AttributeError."""
        nbytes = advised_bytes(self._source)
        if nbytes is None:
            raise lacking(self, "chunk_bytes", needs="a source with `chunk_bytes`")
        return nbytes
