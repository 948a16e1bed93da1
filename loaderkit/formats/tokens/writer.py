"""Token files are written: the tokens of documents one behind the other, and where each begins."""

from array import array
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from loaderkit._base.block_checksums import BlockChecksums
from loaderkit.formats._writing.byte_file import ByteFile
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter

from .document_layout import token_file_head, token_file_rest


@dataclass(frozen=True, slots=True)
class TokenDocument:
    """A `RecordEncoder` for dicts with one leaf, integers in one dimension.

    >>> TokenDocument.of({"tokens": np.array([5, 6], np.uint16)}).encode({"tokens": np.array([70_000])}, 0)
    Traceback (most recent call last):
        ...
    ValueError: record['tokens']: expected an array of uint16 in one dimension, as the first record has, got ...
    """

    feature: str
    dtype: str

    @classmethod
    def of(cls, first: Any) -> Self:
        """The encoder for records like this one; TypeError where it isn't such a dict."""
        if type(first) is not dict or len(first) != 1:
            got = f"one of {[*first]}" if type(first) is dict else f"a {type(first).__name__}"
            raise TypeError(
                f"record: expected a dict of one array of integers, such as {{'tokens': ids}}, got {got}"
            )
        ((feature, tokens),) = first.items()
        if type(tokens) is not np.ndarray or tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise TypeError(
                f"record[{feature!r}]: expected an array of integers in one dimension, got {_shown(tokens)}; convert "
                "it by a Map: np.asarray(ids, np.uint16)"
            )
        if type(feature) is not str or not tokens.dtype.isnative:
            raise TypeError(
                f"record: expected a name and an array of this machine's byte order, got {feature!r} and "
                f"{tokens.dtype.str}; convert them by a Map"
            )
        return cls(feature, tokens.dtype.str)

    def encode(self, record: Any, number: int) -> bytes:
        """The tokens' bytes; ValueError where the record has another name, dtype or number of dimensions."""
        if type(record) is not dict or [*record] != [self.feature]:
            got = f"one of {[*record]}" if type(record) is dict else f"a {type(record).__name__}"
            raise ValueError(
                f"record: expected a dict of {self.feature!r}, as the first record is, got {got}"
            )
        tokens = record[self.feature]
        if type(tokens) is not np.ndarray or tokens.ndim != 1 or tokens.dtype.str != self.dtype:
            raise ValueError(
                f"record[{self.feature!r}]: expected an array of {np.dtype(self.dtype)} in one dimension, as the first "
                f"record has, got {_shown(tokens)}; give all one dtype that holds every token"
            )
        return tokens.tobytes()


class TokenShardWriter(ByteFile):
    """A `ShardWriter` of one file.

    Args:
        path: a new file.
        encoder: of its records.
    """

    def __init__(self, path: str, encoder: TokenDocument) -> None:
        self._feature, self._dtype = encoder.feature, np.dtype(encoder.dtype)
        self._offsets = array("q", [0])
        self._checksums = BlockChecksums()
        super().__init__(path)
        super().add(token_file_head(self._dtype, 0))
        self._begin = self.nbytes

    def add(self, encoded: bytes) -> None:
        """Appends a document, which may have no tokens."""
        super().add(encoded)
        self._checksums.update(encoded)
        self._offsets.append(self._offsets[-1] + len(encoded) // self._dtype.itemsize)
        self.nbytes += self._offsets.itemsize

    def close(self) -> None:
        """Ends the file, and writes the number of tokens to its head."""
        tokens = self._offsets[-1]
        offsets, end = np.frombuffer(self._offsets, np.int64), self._begin + tokens * self._dtype.itemsize
        self._file.write(token_file_rest(offsets, self._feature, end, self._dtype, self._checksums.values()))
        self._file.seek(0)
        self._file.write(token_file_head(self._dtype, tokens))
        super().close()


class TokensWriting:
    """Token files, which `lk.TokenDataSource(path)` reads.

    >>> TokensWriting().encoder({"tokens": np.array([1, 2], np.uint8)}).encode(
    ...     {"tokens": np.array([3], np.uint8)}, 0
    ... )
    b'\\x03'
    """

    name = extension = "tokens"
    libraries = ()

    def encoder(self, first: Any) -> RecordEncoder:
        """The encoder for documents of the first one's name and dtype."""
        return TokenDocument.of(first)

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new file."""
        assert isinstance(encoder, TokenDocument)
        return TokenShardWriter(path, encoder)


def _shown(value: Any) -> str:
    return (
        f"{value.dtype} of shape {value.shape}"
        if isinstance(value, np.ndarray)
        else f"a {type(value).__name__}"
    )
