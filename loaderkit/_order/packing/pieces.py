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
