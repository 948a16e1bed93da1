"""Where pieces lie in packed rows, and the leaves that say so: segment ids, positions, targets."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._order.permutation import Int64Array

Rows = npt.NDArray[Any]  # (rows, tokens of a row)

# Places that are filled at once: their int32 values, 128 KB, stay in the cache of a core.
_AT_ONCE = 1 << 15


class RowLayout:
    """Pieces side by side in rows of one length, the padding behind the last of each row.

    Args:
        lengths: tokens of each piece (n,), row by row.
        counts: pieces of each row (rows,), 1 or more.
        row: tokens of a row. ValueError where the pieces of a row have more.

    >>> layout = RowLayout(np.array([2, 1, 4]), np.array([2, 1]), 4)
    >>> out = np.empty((2, 4), np.int32)
    >>> layout.write_segment_ids(out)
    >>> out.tolist()
    [[1, 1, 2, 0], [1, 1, 1, 1]]
    >>> layout.write_positions(out)
    >>> out.tolist()
    [[0, 1, 0, 0], [0, 1, 2, 3]]
    """

    def __init__(self, lengths: Int64Array, counts: Int64Array, row: int) -> None:
        ends = np.cumsum(counts)
        used = np.add.reduceat(lengths, ends - counts)
        if used.max() > row:
            raise ValueError(f"lengths: expected at most {row} tokens in a row, got {used.max()}")
        self._lengths, self._row = lengths, row
        self._used: list[int] = used.tolist()
        self._padded: list[int] = np.flatnonzero(used < row).tolist()
        self._bounds: list[int] = [0, *ends.tolist()]  # row r has the pieces bounds[r] to bounds[r + 1]
        self._spans = lengths.copy()  # the places of each piece, with the padding behind it
        self._spans[ends - 1] += row - used
        self._rows = np.repeat(np.arange(len(counts)), counts)  # of each piece
        self._numbers = (
            np.arange(1, len(lengths) + 1) - (ends - counts)[self._rows]
        )  # of each piece in its row
        begins = np.cumsum(self._spans) - self._spans
        self._begins = begins - self._rows * row  # the place of each piece's first token in its row

    def write_tokens(self, out: Rows, pieces: Sequence[npt.NDArray[Any]], value: Any) -> None:
        """The pieces, and `value` for padding."""
        bounds = self._bounds
        for row, used in enumerate(self._used):
            np.concatenate(pieces[bounds[row] : bounds[row + 1]], out=out[row, :used])
        self._write_padding(out, value)

    def write_segment_ids(self, out: Rows) -> None:
        """The number of each token's piece in its row, from 1; 0 for padding."""
        numbers = self._numbers.astype(out.dtype)
        for rows, pieces in self._groups():
            part = out[rows]
            part[...] = np.repeat(numbers[pieces], self._spans[pieces]).reshape(part.shape)
        self._write_padding(out, 0)

    def write_positions(self, out: Rows) -> None:
        """The place of each token in its piece, from 0; 0 for padding."""
        begins, places = self._begins.astype(out.dtype), np.arange(self._row, dtype=out.dtype)
        for rows, pieces in self._groups():
            part = out[rows]
            np.subtract(places, np.repeat(begins[pieces], self._spans[pieces]).reshape(part.shape), out=part)
        self._write_padding(out, 0)

    def write_targets(self, out: Rows, tokens: Rows, value: Any) -> None:
        """The token after each in its piece; `value` at the last of a piece, and for padding."""
        out[:, :-1] = tokens[:, 1:]
        self._write_ends(out, value)
        self._write_padding(out, value)

    def write_target_segment_ids(self, out: Rows, segment_ids: Rows) -> None:
        """The segment ids of the targets: 0 at the last token of a piece, which has no target."""
        out[...] = segment_ids
        self._write_ends(out, 0)

    def _write_ends(self, out: Rows, value: Any) -> None:
        some = self._lengths > 0
        out[self._rows[some], (self._begins + self._lengths - 1)[some]] = value

    def _write_padding(self, out: Rows, value: Any) -> None:
        for row in self._padded:
            out[row, self._used[row] :] = value

    def _groups(self) -> Iterator[tuple[slice, slice]]:
        """Rows a few at a time, and their pieces."""
        step, count = max(1, _AT_ONCE // self._row), len(self._used)
        for first in range(0, count, step):
            last = min(first + step, count)
            yield slice(first, last), slice(self._bounds[first], self._bounds[last])
