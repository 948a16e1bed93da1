"""Documents cut into pieces that fit in a row.

A *piece* is some consecutive tokens of one document: the document's place, the piece's number in it, its tokens. Piece
k of a document begins at its token `k * row`, in each feature by itself. An empty document has no piece.
"""

from typing import Literal, NamedTuple

import numpy as np

from loaderkit._order.permutation import Int64Array

# What becomes of a document that is longer than a row; "raise" is checked before anything is planned.
Long = Literal["split", "truncate", "drop", "raise"]


class Pieces(NamedTuple):
    """Pieces in the order of their documents.

    documents: (n,) int64 places in the given lengths. numbers: (n,) int64, each piece's place in its document. tokens:
    (n, features) int64.
    """

    documents: Int64Array
    numbers: Int64Array
    tokens: Int64Array


def cut(lengths: Int64Array, row: Int64Array, long: Long) -> Pieces:
    """The pieces of documents, in order.

    lengths: (n, features) int64, 0 or more. row: (features,) int64, the length of a row. long: of documents that are
    longer than a row in any feature, "split" gives all pieces, "truncate" the first, "drop" none.

    >>> cut(np.array([[3], [0], [9]]), np.array([4]), "split").tokens.ravel().tolist()
    [3, 4, 4, 1]
    >>> cut(np.array([[3], [0], [9]]), np.array([4]), "drop").documents.tolist()
    [0]
    """
    counts = (-(-lengths // row)).max(axis=1)
    if long == "truncate":
        np.minimum(counts, 1, out=counts)
    elif long == "drop":
        counts[counts > 1] = 0
    documents = np.repeat(np.arange(len(lengths)), counts)
    numbers = np.arange(len(documents)) - np.repeat(np.cumsum(counts) - counts, counts)
    tokens = np.clip(lengths[documents] - numbers[:, np.newaxis] * row, 0, row)
    return Pieces(documents, numbers, tokens)


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
    # Each row's first piece, the only one that may begin earlier.
    heads = np.flatnonzero(np.diff(rows, prepend=-1))
    shifts = np.where(numbers[heads] > 0, begins[documents[heads]] % row, 0)
    return ConcatRows(documents, numbers, rows, shifts)
