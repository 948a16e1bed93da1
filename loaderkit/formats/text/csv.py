"""Rows of CSV and TSV files."""

from __future__ import annotations

import os
from bisect import bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from reprlib import repr as _short
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._source.optional import ColumnsDifferError, lacking
from loaderkit._storage.range_reader import read_range
from loaderkit.errors import DataFormatError
from loaderkit.formats._index.check import shard_changed

from .csv_rows import CsvFormat, RowParser
from .csv_types import ColumnType, column_types
from .line_scanner import BOM
from .source import TextDataSource, check_encoding

if TYPE_CHECKING:
    from loaderkit._storage.cache.settings import Cache

_INFERRED_ROWS = 1000
# Read at most to count the lines in front of a value that an error names: 20 ms of a local file.
_COUNTED_BYTES, _COUNTED_AT_ONCE = 64 << 20, 1 << 20


class CsvDataSource(TextDataSource):
    r"""Rows of CSV files, each a dict of column -> value, in the order of the files: texts (str), or what `types` says.

    The first row of each file names the columns, and all files have the same. A value may be in quotes, with
    delimiters, newlines and doubled quotes in it; a file with a quote in a value without quotes is refused. A row ends
    in \n or \r\n. An empty line is no row. Files may be compressed by zstd or gzip.

    Args:
        paths: names of files: paths or addresses, patterns, braces ("part-{000..146}.csv"), "part@64.csv", parts as
            "part.csv[0:100]", a sequence of these; or a function that gives them, called again where links expire.
        delimiter: between values; "\t" for TSV.
        columns: the names of those that a record has, in this order; None for all.
        types: of columns, as {"age": float, "day": "datetime64[D]"}: float, int, bool, str or a dtype of numbers or of
            datetime64 in D, s, ms, us, ns. Values are numpy scalars, as those of tables are; other columns are texts.
            "infer" finds int64, float64, bool, datetime64 of D, s or ns for columns in which all values of the first
            1,000 rows are of it; numbers with leading zeros stay texts.
        missing: the texts that stand for no value in columns with a type, such as ["", "NA"], or these by column, also
            for texts: {"name": "?"}. Such a value is None, as a null of a table is.
        quotechar: around values; None where no value is in quotes.
        encoding: one that writes a newline as one byte, as UTF-8 does and UTF-16 doesn't.
        cache: keeps on the disk what is read from a server.
        index: the index's name; without one it is found beside the files or in the user's cache folder, and made at
            first use for local files.
        storage_options: of the server: credentials, endpoint.

    Raises DataFormatError that names file, record and offset for a row that has another number of values, or isn't text
    in this encoding, and also line and column for a value that isn't of its column's type; and one that names both
    files where their columns differ.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open(folder.name + "/train.csv", "w") as file:
    ...     _ = file.write('id,text,label\n1,"two\nlines",cat\n2,"a ""b"" c",dog\n')
    >>> with CsvDataSource(folder.name + "/train.csv") as source:
    ...     len(source), source[0]
    (2, {'id': '1', 'text': 'two\nlines', 'label': 'cat'})
    >>> with CsvDataSource(folder.name + "/train.csv", columns=["label", "text"]) as source:
    ...     source.__getitems__([-1])
    [{'label': 'dog', 'text': 'a "b" c'}]
    >>> with CsvDataSource(
    ...     folder.name + "/train.csv", types={"id": "int32"}, missing={"label": "cat"}
    ... ) as source:
    ...     source[0]
    {'id': np.int32(1), 'text': 'two\nlines', 'label': None}
    >>> folder.cleanup()
    """

    @former_arguments(removed_in="0.3.0", by_place=["delimiter", "columns"])
    @refusing_foreign_arguments
    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[Any] | Callable[[], Any],
        *,
        delimiter: str = ",",
        columns: Sequence[str] | None = None,
        types: Mapping[str, Any] | Literal["infer"] | None = None,
        missing: str | Sequence[str] | Mapping[str, str | Sequence[str]] = "",
        quotechar: str | None = '"',
        encoding: str = "utf-8",
        cache: Cache | None = None,
        index: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._encoding = check_encoding(encoding)
        format_ = CsvFormat(delimiter, quotechar)
        self._parser = RowParser(format_)
        super().__init__(paths, format=format_, index=index, cache=cache, storage_options=storage_options)
        counts = np.diff(self._index.shard_ends, prepend=0)
        self._first = int((counts > 0).argmax())
        (self._header,) = self._read_headers(np.array([self._first]))
        self._expected = f"a row of {len(self._header)} values"
        self._checked_headers = counts == 0  # those whose columns are known, or don't matter
        self._checked_headers[self._first] = True
        self._chosen = None if columns is None else self._choose(columns)
        self._lines: dict[int, list[tuple[int, int]]] = {}  # of files: places, and the newlines before each
        self._types: dict[str, ColumnType] = {}
        found = column_types(types, missing, self._header, self._first_rows)
        self._types = {name: found[name] for name in self.columns if name in found}

    @property
    def columns(self) -> list[str]:
        """The names of a record's columns, in order."""
        return self._header if self._chosen is None else [name for name, _ in self._chosen]

    def _choose(self, columns: Any) -> list[tuple[str, int]]:
        """The chosen columns, each with its place in a row."""
        if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
            raise TypeError(f"columns: expected a list of names, got {columns!r}")
        places = {name: place for place, name in enumerate(self._header)}
        if missing := [name for name in columns if name not in places]:
            raise ValueError(f"columns: expected some of {self._header}, got {missing}")
        return [(name, places[name]) for name in dict.fromkeys(columns)]

    def _read_headers(self, shards: NDArray[np.int64]) -> list[list[str]]:
        """The names of the columns of files, read together; [] for an empty file."""
        last = self._index.shard_ends[shards] - 1
        firsts = np.where(shards > 0, self._index.shard_ends[shards - 1], 0)
        if (firsts > last).any():  # without records: none of these but the first one's header is asked for
            ends = self._index.starts_of(int(shards[0]))[:1]
        else:
            _, ends, _ = self._index.locate(firsts)
        found = self._ranges.read(shards, np.zeros(len(shards), np.int64), ends)
        return [self._header_of(shard, bytes(data)) for shard, data in zip(shards.tolist(), found)]

    def _header_of(self, shard: int, data: bytes) -> list[str]:
        file = self._ranges.names[shard]
        first, stop = self._index.records_of(shard)
        if first < stop and not data.endswith(b"\n"):
            raise shard_changed(file, len(data), "the header doesn't end where it did")
        try:
            text = str(data.removeprefix(BOM).lstrip(b"\r\n"), self._encoding)
            header = self._parser.values(text) if text else []
        except ValueError as error:
            expected = f"the columns' names in {self._encoding}"
            raise _wrong_header(file, expected, f"{data[:200]!r} ({error})") from error
        if len(set(header)) < len(header):
            twice = next(name for place, name in enumerate(header) if name in header[:place])
            raise _wrong_header(file, "a name for each column", f"{twice!r} twice")
        return header

    def _check_headers(self, shards: NDArray[np.int64]) -> None:
        """Reads the headers of files of which no record was read before."""
        unknown = np.unique(shards[~self._checked_headers[shards]])
        if not len(unknown):
            return
        for shard, header in zip(unknown.tolist(), self._read_headers(unknown)):
            if header != self._header:
                names = self._ranges.names
                expected = f"the columns of {names[self._first]}, {self._header}"
                advice = "make a source of each and join them with ConcatDataSource"
                raise _wrong_header(names[shard], expected, f"{header}; {advice}")
            self._checked_headers[shard] = True

    def _first_rows(self) -> list[dict[str, str]]:
        return self._read(np.arange(min(_INFERRED_ROWS, len(self._index))))

    def _decode(self, keys: NDArray[np.int64], spans: Sequence[bytes | memoryview]) -> list[Any]:
        self._check_headers(self._index.shard_ends.searchsorted(keys, "right"))
        rows = super()._decode(keys, spans)
        try:
            typed = {name: kind.values([row[name] for row in rows]) for name, kind in self._types.items()}
        except (ValueError, OverflowError) as error:
            raise self._misfit(keys, rows) from error
        for name, values in typed.items():
            for row, value in zip(rows, values):
                row[name] = value
        return rows

    def _misfit(self, keys: NDArray[np.int64], rows: Sequence[dict[str, str]]) -> DataFormatError:
        """The error for the first value that isn't of its column's type."""
        key, name, text = next(
            (key, name, row[name])
            for key, row in zip(keys.tolist(), rows)
            for name, kind in self._types.items()
            if not kind.fits(row[name])
        )
        place = self._record_place(key)
        line = "" if (number := self._line_in_file(key, name)) is None else f", line {number}"
        return DataFormatError(
            f"{place.byte(0)}{line}, column {name!r}: expected {self._types[name]}, got {_short(text)}; correct it, or "
            f"give types={{{name!r}: str}}, or missing=[{_short(text)}] where it stands for no value"
        )

    def _line_in_file(self, key: int, name: str) -> int | None:
        """The line of the file in which a value begins; None where too much would have to be read for it."""
        place = self._record_place(key)
        shard = int(self._index.shard_ends.searchsorted(key, "right"))
        known = self._lines.setdefault(shard, [(0, 0)])
        at, lines = known[bisect_right(known, (place.begin, 1 << 62)) - 1]
        if place.begin - at > _COUNTED_BYTES:
            return None
        try:
            while at < place.begin:
                end = min(at + _COUNTED_AT_ONCE, place.begin)
                lines += bytes(read_range(self._ranges, shard, at, end)).count(b"\n")
                at = end
            (span,) = self._spans.read(np.array([key]))
        except OSError:  # the value is the error that is told
            return None
        insort(known, (at, lines))
        values = self._parser.values(self._with_ends(key, str(span, self._encoding))[1:])
        return lines + 1 + sum(value.count("\n") for value in values[: self._header.index(name)])

    @property
    def take(self) -> Callable[..., Any]:
        """`take(record_keys, out=None)` gives many records as columns, an array (n,) each.

        It is there where all columns are numbers, bools or dates; else an AttributeError. A missing value among these
        records is a ColumnsDifferError that names it; the records can be read still.
        """
        kinds = [self._types.get(name) for name in self.columns]
        if not kinds or any(kind is None or kind.dtype is None for kind in kinds):
            raise lacking(self, "take", needs="types= of numbers or dates for all columns")
        return self._take

    def _take(self, record_keys: ArrayLike, out: list[NDArray[Any]] | None = None) -> dict[str, NDArray[Any]]:
        rows, taken = self.__getitems__(record_keys), {}
        for place, name in enumerate(self.columns):
            values = [row[name] for row in rows]
            if None in values:
                key = int(np.asarray(record_keys)[values.index(None)])
                raise ColumnsDifferError(
                    f"{self.name(key)}: expected a value in the column {name!r}, got a missing one; put another in its "
                    "place by an operation on records"
                )
            array = np.array(values, self._types[name].dtype)
            if out is not None:
                out[place][...] = array
            taken[name] = array if out is None else out[place]
        return taken

    _line = "row"

    def _record(self, text: str) -> dict[str, str]:
        if text[-1] != "\n":
            raise ValueError("its end is missing")
        values = self._parser.values(text[1:])
        if len(values) != len(self._header):
            raise ValueError(f"it has {len(values)}")
        if self._chosen is None:
            return dict(zip(self._header, values))
        return {name: values[place] for name, place in self._chosen}

    def _holds_more(self, text: str) -> bool:
        try:
            self._parser.values(text[1:])
        except ValueError:  # the scan found that quotes are closed, and rows end outside of them
            return True
        return False

    def fingerprint(self) -> dict[str, Any]:
        """The data's identity, without times, folders and addresses, the chosen columns, their types, the encoding."""
        told = super().fingerprint()
        if self._types:
            told["types"] = {name: str(kind) for name, kind in self._types.items()}
            told["missing"] = {name: sorted(kind.missing) for name, kind in self._types.items()}
        return told if self._chosen is None else {**told, "columns": self.columns}


def _wrong_header(file: str, expected: str, got: str) -> DataFormatError:
    return DataFormatError(f"{file}: at byte 0, in the header: expected {expected}, got {got}")
