"""What the sources of text share: the encoding."""

import codecs
from collections.abc import Sequence
from reprlib import repr as _short
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit.errors import DataFormatError

from .indexed import IndexedDataSource
from .record_place import record_place


def check_encoding(encoding: Any) -> str:
    r"""The codec's name; ValueError for one that has no text, or in which \n isn't the byte of ASCII's.

    Args:
        encoding: as Python names it.

    >>> check_encoding("UTF8"), check_encoding("latin1")
    ('utf-8', 'iso8859-1')
    """
    if not isinstance(encoding, str):
        raise TypeError(f"encoding: expected a name such as 'utf-8', got {encoding!r}")
    try:
        name = codecs.lookup(encoding).name
        ends = "\n".encode(name)
    except LookupError:
        raise ValueError(f"encoding: expected one that Python knows, got {encoding!r}") from None
    if name == "utf-8-sig":  # a byte order mark is left out anyway
        return "utf-8"
    if ends != b"\n":
        raise ValueError(f"encoding: expected one that writes a newline as one byte, got {encoding!r}")
    return name


class TextDataSource(IndexedDataSource):
    """The records of text files; a subclass says what a record of a text is."""

    _encoding = "utf-8"

    @property
    def _advice(self) -> str:
        """What the user may do about a text that isn't what is expected."""
        return ""

    @property
    def _expected(self) -> str:
        """What a record is, for errors."""
        raise NotImplementedError

    def _record(self, text: str) -> Any:
        """The record of a text; ValueError for one that isn't a record, with the wrong character's place as `pos`."""
        raise NotImplementedError

    def _decode(self, keys: NDArray[np.int64], spans: Sequence[bytes | memoryview]) -> list[Any]:
        record, encoding = self._record, self._encoding
        try:
            return [record(str(span, encoding)) for span in spans]
        except (ValueError, RecursionError):
            for key, span in zip(keys.tolist(), spans):
                self._check(key, bytes(span))
            raise

    def _check(self, key: int, span: bytes) -> None:
        """Raises the error that names the record, if it is this one."""
        try:
            text = str(span, self._encoding)
        except UnicodeDecodeError as error:
            wrong = span[error.start : error.end]
            place = record_place(self._index, self._ranges, key)
            problem = f"expected text in {self._encoding}, got {wrong!r} ({error.reason})"
            raise DataFormatError(place.says(problem, error.start)) from error
        try:
            self._record(text)
        except (ValueError, RecursionError) as error:
            before = text[: getattr(error, "pos", 0)].encode(self._encoding)
            place = record_place(self._index, self._ranges, key)
            problem = f"expected {self._expected}, got {_short(text)} ({error}){self._advice}"
            raise DataFormatError(place.says(problem, len(before))) from error
