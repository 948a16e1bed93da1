"""Token files are written: the tokens of documents one behind the other, and where each begins."""

import os
from array import array
from collections.abc import Iterable
from tempfile import TemporaryFile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import BlockChecksums
from loaderkit._base.structure import dict_advice
from loaderkit._base.system.dataclasses import dataclass
from loaderkit.formats._writing.byte_file import ByteFile
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter

from .document_layout import ALIGNED, ColumnPlace, token_file_head, token_file_rest

_COPIED_AT_ONCE = 1 << 20  # bytes


TOKENS = "tokens"  # the tokens' name in a record of several values


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """A column as the first record has it: name, per and dtype are those of a `ColumnPlace`."""

    name: str
    per: str
    dtype: str

    @classmethod
    def of(cls, name: Any, value: Any, tokens: int) -> Self:
        """The column of a value; TypeError for what is no array of a value a token, number or text."""
        if type(value) is str:
            return cls(name, "text", "|u1")
        array = value if type(value) is np.ndarray else np.asarray(value)
        if array.ndim > 1 or (array.ndim and type(value) is not np.ndarray) or array.dtype.kind not in "iufb":
            raise TypeError(
                f"record[{name!r}]: expected an array with a value for each token, a number or a text, got "
                f"{_shown(value)}; convert it by a Map, or leave it out"
            )
        column = cls(name, "token" if array.ndim else "number", array.dtype.str)
        column.encode(value, tokens)
        return column

    def encode(self, value: Any, tokens: int) -> bytes:
        """The value's bytes; ValueError where it isn't like the first record's, or has not a value for each token."""
        if self.per == "text":
            if type(value) is str:
                return value.encode()
            raise self._other("a text", value)
        if self.per == "token":
            if type(value) is not np.ndarray or value.ndim != 1 or value.dtype.str != self.dtype:
                raise self._other(f"an array of {np.dtype(self.dtype)}", value)
            if len(value) != tokens:
                raise ValueError(
                    f"record[{self.name!r}]: expected {tokens} values, one for each token, got {len(value)}"
                )
            return value.tobytes()
        given = np.asarray(value)
        if given.ndim == 0 and given.dtype.kind in "iufb":
            with np.errstate(all="ignore"):
                number = given.astype(self.dtype)
            # As Python's numbers, which are compared without rounding.
            kept, told = (number.item(), given.item())
            if (type(kept) is bool) == (type(told) is bool) and (kept == told or kept != kept):
                return number.tobytes()
        raise self._other(f"a number that {np.dtype(self.dtype)} holds", value)

    def _other(self, wanted: str, value: Any) -> ValueError:
        got = _shown(value) if type(value) is not int else str(value)
        return ValueError(f"record[{self.name!r}]: expected {wanted}, as the first record has, got {got}")


@dataclass(frozen=True, slots=True)
class TokenDocument:
    """A `RecordEncoder` for dicts of an array of integers in one dimension, and of columns beside it.

    >>> TokenDocument.of({"tokens": np.array([5, 6], np.uint16)}).encode({"tokens": np.array([70_000])}, 0)
    Traceback (most recent call last):
        ...
    ValueError: record['tokens']: expected an array of uint16 in one dimension, as the first record has, got ...
    """

    feature: str
    dtype: str
    columns: tuple[WrittenColumn, ...] = ()

    @classmethod
    def of(cls, first: Any) -> Self:
        """The encoder for records like this one; TypeError where it isn't such a dict."""
        if type(first) is not dict or not first or (len(first) > 1 and TOKENS not in first):
            other = f"a {type(first).__name__}; {dict_advice(first)}"
            got = f"one of {[*first]}" if type(first) is dict else other
            raise TypeError(
                "record: expected a dict of one array of integers, such as {'tokens': ids}, which has this name where "
                f"other values are beside it, got {got}"
            )
        feature = TOKENS if len(first) > 1 else next(iter(first))
        tokens = first[feature]
        if type(tokens) is not np.ndarray or tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise TypeError(
                f"record[{feature!r}]: expected an array of integers in one dimension, got {_shown(tokens)}; convert "
                "it by a Map: np.asarray(ids, np.uint16)"
            )
        others = [each for each in first.values() if type(each) is np.ndarray]
        if not all(type(name) is str for name in first) or not all(each.dtype.isnative for each in others):
            raise TypeError(
                f"record: expected a name and an array of this machine's byte order, got {feature!r} and "
                f"{tokens.dtype.str}; convert them by a Map"
            )
        columns = [WrittenColumn.of(*item, len(tokens)) for item in first.items() if item[0] != feature]
        return cls(feature, tokens.dtype.str, tuple(columns))

    def encode(self, record: Any, number: int) -> bytes | list[bytes]:
        """The bytes of the tokens, and of each column; ValueError where the record isn't like the first one."""
        names = [self.feature, *(column.name for column in self.columns)]
        if type(record) is not dict or {*record} != {*names}:
            got = f"one of {[*record]}" if type(record) is dict else f"a {type(record).__name__}"
            wanted = repr(self.feature) if not self.columns else ", ".join(map(repr, names))
            raise ValueError(f"record: expected a dict of {wanted}, as the first record is, got {got}")
        tokens = record[self.feature]
        if type(tokens) is not np.ndarray or tokens.ndim != 1 or tokens.dtype.str != self.dtype:
            raise ValueError(
                f"record[{self.feature!r}]: expected an array of {np.dtype(self.dtype)} in one dimension, as the first "
                f"record has, got {_shown(tokens)}; give all one dtype that holds every token"
            )
        if not self.columns:
            return tokens.tobytes()
        return [tokens.tobytes(), *(one.encode(record[one.name], len(tokens)) for one in self.columns)]


class TokenShardWriter(ByteFile):
    """A `ShardWriter` of one file.

    Args:
        path: a new file. The values of each column lie in a file beside it without a name until it is closed.
        encoder: of its records.
    """

    def __init__(self, path: str, encoder: TokenDocument) -> None:
        self._feature, self._dtype = encoder.feature, np.dtype(encoder.dtype)
        self._offsets = array("q", [0])
        self._checksums = BlockChecksums()
        folder = os.path.dirname(path)
        files = [TemporaryFile(dir=folder) for _ in encoder.columns]  # noqa: SIM115 - closed with this one
        self._columns = [(column, file, array("q", [0])) for column, file in zip(encoder.columns, files)]
        super().__init__(path)
        super().add(token_file_head(self._dtype, 0))
        self._begin = self.nbytes

    def add(self, encoded: bytes | list[bytes]) -> None:
        """Appends a document, which may have no tokens."""
        tokens, *values = [encoded] if isinstance(encoded, bytes) else encoded
        super().add(tokens)
        self._checksums.update(tokens)
        self._offsets.append(self._offsets[-1] + len(tokens) // self._dtype.itemsize)
        self.nbytes += self._offsets.itemsize
        for (column, file, ends), value in zip(self._columns, values):
            file.write(value)
            ends.append(ends[-1] + len(value))
            self.nbytes += len(value) + (ends.itemsize if column.per == "text" else 0)

    def close(self) -> None:
        """Ends the file, and writes the number of tokens to its head."""
        tokens = self._offsets[-1]
        offsets, end = np.frombuffer(self._offsets, np.int64), self._begin + tokens * self._dtype.itemsize
        places: list[ColumnPlace] = []
        checksums: list[NDArray[np.uint32]] = []
        for column, file, ends in self._columns:
            count = ends[-1] // np.dtype(column.dtype).itemsize
            file.seek(0)
            parts = iter(lambda: file.read(_COPIED_AT_ONCE), b"")  # noqa: B023 - read here
            begin, end = self._append(end, np.dtype(column.dtype), count, parts, checksums)
            places_of = None
            if column.per == "text":
                table = np.frombuffer(ends, np.int64)
                places_of, end = self._append(end, table.dtype, len(table), [table.tobytes()], checksums)
            places.append(ColumnPlace(column.name, column.per, column.dtype, begin, count, places_of))
            file.close()
        of_columns = np.concatenate(checksums) if checksums else None
        told = self._dtype, self._checksums.values(), places, of_columns
        self._file.write(token_file_rest(offsets, self._feature, end, *told))
        self._file.seek(0)
        self._file.write(token_file_head(self._dtype, tokens))
        super().close()

    def _append(
        self,
        end: int,
        dtype: np.dtype[Any],
        count: int,
        parts: Iterable[bytes],
        checksums: list[NDArray[np.uint32]],
    ) -> tuple[int, int]:
        """Writes an array behind the bytes so far; the byte of its first value, and the end."""
        head = bytes(-end % ALIGNED) + token_file_head(dtype, count)
        self._file.write(head)
        sums = BlockChecksums()
        for part in parts:
            self._file.write(part)
            sums.update(part)
        checksums.append(sums.values())
        begin = end + len(head)
        return begin, begin + count * dtype.itemsize

    def abandon(self) -> None:
        """Closes the files, and forgets what isn't on the disk."""
        super().abandon()
        for _, file, _ in self._columns:
            file.close()


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
    is_array = isinstance(value, np.ndarray)
    return f"{value.dtype} of shape {value.shape}" if is_array else f"a {type(value).__name__}"
