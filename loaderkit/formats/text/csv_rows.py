r"""CSV and TSV: rows end at the newlines outside of quotes, found by counting quotes.

The rule is RFC 4180's. A value is in quotes or has none in it: a quote opens one only at a value's beginning, a quote
within is doubled, and behind the closing quote comes a delimiter or the row's end. A row ends in \n or \r\n. Python's
csv module reads files of this rule in the same way. What it takes beyond that is Malformed here, as rows can't be found
by counting quotes then: a quote within a value without quotes, text behind a closing quote, rows that end in \r alone,
a value that the file's end closes.
"""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._codecs.scan import Malformed, ReadAt, ShardScan
from loaderkit.formats._index.unpacked_text import scan_text

from .line_scanner import BOM, line_starts, newlines

_NEWLINE, _RETURN = 10, 13
_QUOTES = (
    "put the value in quotes and double the quotes in it, or give quotechar=None if no value is in quotes"
)
_RETURNS = "end each row by \\n or \\r\\n, and put values with other line ends in quotes"


@dataclass(frozen=True)
class CsvFormat:
    r"""Files of rows. The first one is the header and no record; an empty line is no row.

    Args:
        delimiter: one ASCII character.
        quotechar: one ASCII character; None where no value is in quotes.

    >>> data = b'id,text\n1,"two\nlines"\n\n2,b\n'
    >>> CsvFormat().scan(lambda at, length: data[at : at + length], len(data)).starts
    array([ 8, 23, 27], dtype=uint64)
    """

    delimiter: str = ","
    quotechar: str | None = '"'
    unit = 1

    def __post_init__(self) -> None:
        for name, character in (("delimiter", self.delimiter), ("quotechar", self.quotechar)):
            if name == "quotechar" and character is None:
                continue
            if not isinstance(character, str):
                raise TypeError(f"{name}: expected one character, got {character!r}")
            if len(character) != 1 or not character.isascii() or character in "\r\n":
                raise ValueError(f"{name}: expected one ASCII character that ends no line, got {character!r}")
        if self.delimiter == self.quotechar:
            raise ValueError(
                f"quotechar: expected another character than the delimiter, got {self.quotechar!r}"
            )

    @property
    def kind(self) -> str:
        """With both characters where they aren't the usual ones, because rows depend on them.

        >>> CsvFormat().kind, CsvFormat("\\t", None).kind
        ('csv', "csv '\\\\t' None")
        """
        usual = (self.delimiter, self.quotechar) == (",", '"')
        return "csv" if usual else f"csv {self.delimiter!r} {self.quotechar!r}"

    def scan(
        self, read: ReadAt, size: int, *, members: bool = True, keys: bool = False, checksums: bool = False
    ) -> ShardScan:
        """Where the rows lie that follow the header; Malformed where the file breaks the rule of quotes."""

        def starts(text: ReadAt, end: int | None) -> NDArray[np.uint64]:
            ends = _RowEnds(self)
            rows = line_starts(text, end, ends, empty_lines=False)
            ends.check_end(int(rows[-1]))
            return rows[1:] if len(rows) > 1 else rows

        return scan_text(read, size, starts, checksums=checksums)


class _RowEnds:
    """The newlines outside of quotes, window by window, with the checks of the rule."""

    def __init__(self, format_: CsvFormat) -> None:
        self._delimiter = ord(format_.delimiter)
        self._quote = None if format_.quotechar is None else ord(format_.quotechar)
        self._inside = False  # whether the window begins in quotes
        self._before = _NEWLINE  # the byte before the window
        self._opened = 0  # where the last value in quotes begins

    def __call__(self, window: bytes, at: int) -> NDArray[np.int64]:
        """The offsets behind the ends of rows; Malformed at the first byte that breaks the rule."""
        if not at and window.startswith(BOM):
            window, at = window[len(BOM) :], len(BOM)
        ends = newlines(window, at)
        if not window:
            return ends
        data = np.frombuffer(window, np.uint8)
        quotes = np.flatnonzero(data == self._quote) if self._quote is not None else ends[:0]
        problems = [*self._wrong_quotes(data, quotes, at), *self._wrong_returns(window, data, quotes, at)]
        if problems:  # what is behind the first of them was counted from a wrong quote
            raise min(problems, key=lambda problem: problem.offset)
        if self._inside or len(quotes):
            ends = ends[~self._are_inside(ends - (at + 1), quotes)]
            opening = quotes[self._inside :: 2]
            self._opened = at + int(opening[-1]) if len(opening) else self._opened
        self._inside ^= bool(len(quotes) % 2)
        self._before = window[-1]
        return ends

    def check_end(self, size: int) -> None:
        """Malformed where the file ends in quotes."""
        if self._inside:
            problem = "expected the quote that closes this value, got the end of the file"
            raise Malformed(self._opened, problem, _QUOTES)
        if self._before == _RETURN:
            raise _lone_return(size - 1)

    def _are_inside(self, places: NDArray[np.int64], quotes: NDArray[np.int64]) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = (np.searchsorted(quotes, places) + self._inside) % 2 == 1
        return inside

    def _wrong_quotes(
        self, data: NDArray[np.uint8], quotes: NDArray[np.int64], at: int
    ) -> Iterator[Malformed]:
        """The first quote that opens within a value, the first byte behind a closing one that may not be there."""
        opening, closing = quotes[self._inside :: 2], quotes[not self._inside :: 2]
        before = data[opening - 1]
        if len(opening) and not opening[0]:
            before[0] = self._before
        # A quote in front of an opening one is the first of a doubled quote.
        wrong = (before != self._delimiter) & (before != _NEWLINE) & (before != self._quote)
        if wrong.any():
            place = at + int(opening[wrong.argmax()])
            yield Malformed(place, "expected a value without quotes, got a quote in it", _QUOTES)
        behind = closing + 1
        behind = behind[behind < len(data)]  # the next window checks its first byte
        if self._before == self._quote and not self._inside:
            behind = np.concatenate(([0], behind))
        after = data[behind]
        wrong = (after != self._delimiter) & (after != _NEWLINE) & (after != _RETURN) & (after != self._quote)
        if wrong.any():
            place = int(behind[wrong.argmax()])
            got = bytes(data[place : place + 1])
            problem = f"expected a delimiter or the end of the row behind the quote that closes a value, got {got!r}"
            yield Malformed(at + place, problem, _QUOTES)

    def _wrong_returns(
        self, window: bytes, data: NDArray[np.uint8], quotes: NDArray[np.int64], at: int
    ) -> Iterator[Malformed]:
        r"""The first \r outside of quotes that is not in front of a \n."""
        if self._before == _RETURN and not self._inside and window[0] != _NEWLINE:
            yield _lone_return(at - 1)
        if b"\r" in window:
            returns = np.flatnonzero(data == _RETURN)
            returns = returns[~self._are_inside(returns, quotes)]
            returns = returns[returns < len(data) - 1]  # the next window checks what is behind the last byte
            wrong = data[returns + 1] != _NEWLINE
            if wrong.any():
                yield _lone_return(at + int(returns[wrong.argmax()]))


def _lone_return(at: int) -> Malformed:
    return Malformed(at, "expected \\r\\n outside of quotes, got \\r alone", _RETURNS)


class RowParser:
    r"""Gives the values of rows.

    >>> RowParser(CsvFormat()).values('1,"a ""b"" c",\r\n')
    ['1', 'a "b" c', '']
    """

    def __init__(self, format_: CsvFormat) -> None:
        self._delimiter, self._quote = format_.delimiter, format_.quotechar
        if self._quote is not None:
            quote, delimiter = re.escape(self._quote), re.escape(self._delimiter)
            # Without backtracking: each value is read in one way.
            quoted = f"{quote}([^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+){quote}"
            value = rf"(?:{quoted}|([^{delimiter}{quote}\r\n]*+)){delimiter}"
            self._value, self._row = re.compile(value), re.compile(f"(?:{value})*+")

    def values(self, text: str) -> list[str]:
        """The values of one row.

        Args:
            text: of the row, perhaps with its end and empty lines behind; ValueError where it breaks the rule.
        """
        row = text.rstrip("\r\n")
        if self._quote is None or self._quote not in row:
            if "\n" in row or "\r" in row:
                raise ValueError("expected one row, got several")
            return row.split(self._delimiter)
        row += self._delimiter
        if not self._row.fullmatch(row):
            raise ValueError("expected a row with its quotes closed and doubled")
        twice, once = self._quote * 2, self._quote
        return [
            (quoted.replace(twice, once) if twice in quoted else quoted) if quoted else plain
            for quoted, plain in self._value.findall(row)
        ]
