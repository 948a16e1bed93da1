"""Megatron's pair of files is written: PREFIX.idx, and PREFIX.bin with the tokens."""

from array import array
from typing import Any

import numpy as np

from loaderkit.formats._writing.byte_file import ByteFile, new_file
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter

from .megatron import CODES, megatron_head
from .writer import TokenDocument

_MOST_TOKENS = (1 << 31) - 1  # of a document


class MegatronShardWriter(ByteFile):
    """A `ShardWriter` of two files: the index, and the tokens at the same path with ".bin" behind it.

    Args:
        path: of the index, a new file.
        dtype: of the tokens.
    """

    def __init__(self, path: str, dtype: str) -> None:
        self._path, self._dtype = path, np.dtype(dtype)
        self._lengths = array("i")
        super().__init__(f"{path}.bin")

    def add(self, encoded: bytes) -> None:
        """Appends a document, which may have no tokens."""
        if (tokens := len(encoded) // self._dtype.itemsize) > _MOST_TOKENS:
            raise ValueError(f"record: expected at most {_MOST_TOKENS:,} tokens, got {tokens:,}; cut it")
        super().add(encoded)
        self._lengths.append(tokens)

    def close(self) -> None:
        """Ends the files."""
        super().close()
        lengths = np.frombuffer(self._lengths, np.int32).astype("<i4")
        begins = (np.cumsum(lengths, dtype=np.int64) - lengths) * self._dtype.itemsize
        with new_file(self._path) as file:
            file.write(megatron_head(self._dtype, len(lengths)))
            for table in (lengths, begins.astype("<i8"), np.arange(len(lengths) + 1, dtype="<i8")):
                file.write(table.tobytes())


class MegatronWriting:
    """Megatron's files, a sequence a document, which `lk.TokenDataSource.from_megatron` reads.

    >>> MegatronWriting().encoder({"tokens": np.array([1], np.uint32)})
    Traceback (most recent call last):
        ...
    TypeError: record: expected tokens of uint8, int8, int16, int32, int64 or uint16, got uint32; ...
    """

    name, extension = "megatron", "idx"
    libraries = ()

    def encoder(self, first: Any) -> RecordEncoder:
        """The encoder for documents of the first one's dtype; TypeError for one that Megatron's files can't have."""
        document = TokenDocument.of(first)
        if document.columns:
            raise TypeError(f"record: expected tokens alone, got {[*first]}; leave the others out by a Map")
        if (dtype := np.dtype(document.dtype)).newbyteorder("<").str not in CODES:
            *names, last = (np.dtype(each).name for each in CODES)
            raise TypeError(
                f"record: expected tokens of {', '.join(names)} or {last}, got {dtype.name}; convert them by a Map"
            )
        return document

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of two new files."""
        assert isinstance(encoder, TokenDocument)
        return MegatronShardWriter(path, encoder.dtype)
