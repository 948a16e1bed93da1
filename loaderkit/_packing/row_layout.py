"""Where pieces lie in packed rows, and the leaves that say so: segment ids, positions, targets, masks."""

from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._order.permutation import Int64Array

Rows = npt.NDArray[Any]  # (rows, tokens of a row), C-contiguous


class RowLayout:
    """Pieces side by side in rows of one length, the padding behind the last of each row.

    Args:
        lengths: tokens of each piece (n,), row by row.
        counts: pieces of each row (rows,), 1 or more.
        row: tokens of a row. ValueError where the pieces of a row have more.

    spans: places that each piece takes (n,): its tokens, of a row's last piece with the padding behind it.
    used: tokens of each row (rows,).

    >>> layout = RowLayout(np.array([2, 1, 4]), np.array([2, 1]), 4)
    >>> layout.spans, layout.used
    (array([2, 2, 4]), array([3, 4]))
    >>> out = np.empty((2, 4), np.int32)
    >>> layout.write_segment_ids(out)
    >>> out.tolist()
    [[1, 1, 2, 0], [1, 1, 1, 1]]
    >>> layout.write_positions(out)
    >>> out.tolist()
    [[0, 1, 0, 0], [0, 1, 2, 3]]
    """

    def __init__(self, lengths: Int64Array, counts: Int64Array, row: int) -> None:
        self._counts, self._row = counts, row
        ends = np.cumsum(counts)
        self.used: Int64Array = np.add.reduceat(lengths, ends - counts)
        if self.used.max() > row:
            raise ValueError(f"lengths: expected at most {row} tokens in a row, got {self.used.max()}")
        self.spans = lengths.copy()
        self.spans[ends - 1] += row - self.used
        self._begins = (
            np.cumsum(self.spans) - self.spans
        )  # the place of each piece's first token, over all rows
        self._last_tokens = (self._begins + lengths - 1)[lengths > 0]
        self._padded = np.flatnonzero(self.used < row).tolist()
        self._fills: list[int] = self.used.tolist()

    def write_segment_ids(self, out: Rows) -> None:
        """The number of each token's piece in its row, from 1; 0 for padding."""
        firsts = np.cumsum(self._counts) - self._counts
        numbers = np.arange(1, len(self.spans) + 1) - np.repeat(firsts, self._counts)
        out.reshape(-1)[...] = np.repeat(numbers.astype(out.dtype), self.spans)
        self.write_padding(out, 0)

    def write_positions(self, out: Rows) -> None:
        """The place of each token in its piece, from 0; 0 for padding."""
        flat = out.reshape(-1)
        np.subtract(
            np.arange(flat.size, dtype=out.dtype),
            np.repeat(self._begins.astype(out.dtype), self.spans),
            out=flat,
        )
        self.write_padding(out, 0)

    def write_padding(self, out: Rows, value: Any) -> None:
        """Replaces what stands behind the last piece of each row."""
        for row in self._padded:
            out[row, self._fills[row] :] = value

    def write_targets(self, out: Rows, tokens: Rows, value: Any) -> None:
        """The token after each in its piece; `value` at the last of a piece, and for padding."""
        flat = out.reshape(-1)
        flat[:-1] = tokens.reshape(-1)[1:]
        self._end_pieces(flat, value)
        self.write_padding(out, value)

    def write_target_segment_ids(self, out: Rows, segment_ids: Rows) -> None:
        """The segment ids of the targets: 0 at the last token of a piece, which has no target."""
        out[...] = segment_ids
        self._end_pieces(out.reshape(-1), 0)

    def _end_pieces(self, flat: npt.NDArray[Any], value: Any) -> None:
        flat[self._last_tokens] = value
