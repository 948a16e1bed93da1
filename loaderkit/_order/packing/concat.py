"""Documents one after another, cut where a row is full."""

from typing import NamedTuple

import numpy as np

from loaderkit._order.permutation import Int64Array


class ConcatRows(NamedTuple):
    """The pieces of documents that are concatenated and cut every `row` tokens.

    documents, numbers, rows: (n,) int64, of each piece its document, its place in it and its row. shifts: (rows,)
    int64; piece k > 0 of a document begins at its token `k * row - shift`, with the shift of the piece's row.
    """

    documents: Int64Array
    numbers: Int64Array
    rows: Int64Array
    shifts: Int64Array


def concat_then_split(lengths: Int64Array, row: int) -> ConcatRows:
    """Rows of `row` tokens each, but the last.

    lengths: (n,) int64, 0 or more, one above 0 at least. row: tokens that a row holds.

    >>> cut = concat_then_split(np.array([3, 0, 6]), 4)
    >>> cut.documents.tolist(), cut.numbers.tolist(), cut.rows.tolist(), cut.shifts.tolist()
    ([0, 2, 2, 2], [0, 0, 1, 2], [0, 0, 1, 2], [0, 3, 3])
    """
    ends = np.cumsum(lengths)
    begins = ends - lengths
    first = begins // row
    counts = np.where(lengths > 0, (ends - 1) // row - first + 1, 0)
    documents = np.repeat(np.arange(len(lengths)), counts)
    numbers = np.arange(len(documents)) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = first[documents] + numbers
    heads = np.flatnonzero(
        np.diff(rows, prepend=-1)
    )  # each row's first piece, the only one that may begin earlier
    shifts = np.where(numbers[heads] > 0, begins[documents[heads]] % row, 0)
    return ConcatRows(documents, numbers, rows, shifts)
