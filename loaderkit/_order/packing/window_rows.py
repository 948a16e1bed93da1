"""Rows of a few documents that are at hand."""

from typing import NamedTuple

import numpy as np

from loaderkit._order.permutation import Int64Array

from .best_fit import best_fit
from .block import Rules
from .concat import concat_then_split
from .first_fit import first_fit
from .pieces import cut


class WindowRows(NamedTuple):
    """The pieces of rows, row by row.

    documents: (n,) int64 places in the given lengths. starts, lengths: (n, features) int64, each piece's first token in
    its document, and its tokens. counts: (rows,) int64, pieces of each row.
    """

    documents: Int64Array
    starts: Int64Array
    lengths: Int64Array
    counts: Int64Array


def window_rows(lengths: Int64Array, rules: Rules) -> WindowRows:
    """Packs documents; rows, and the pieces of each, are in the order of their first documents.

    lengths: (n, features) int64, 0 or more.

    >>> rows = window_rows(np.array([[2], [6], [3]]), Rules((4,), "best_fit", "split"))
    >>> (
    ...     rows.documents.tolist(),
    ...     rows.starts.ravel().tolist(),
    ...     rows.lengths.ravel().tolist(),
    ...     rows.counts.tolist(),
    ... )
    ([0, 1, 1, 2], [0, 4, 0, 0], [2, 2, 4, 3], [2, 1, 1])
    """
    row = np.array(rules.row, np.int64)
    if rules.how == "concat_then_split":
        documents, starts, needs, rows = _concatenated(lengths, row, rules)
    else:
        documents, numbers, needs = cut(lengths, row, rules.long)
        starts = numbers[:, np.newaxis] * row
        if not len(documents):
            rows = documents
        elif rules.how == "first_fit":
            rows = first_fit(needs, row)
        else:
            order, chosen = best_fit(needs[:, 0], int(row[0]))
            rows = np.empty_like(chosen)
            rows[order] = chosen
    _, firsts, inverse = np.unique(rows, return_index=True, return_inverse=True)
    places = np.empty_like(firsts)
    places[np.argsort(firsts)] = np.arange(len(firsts))
    rows = places[inverse]
    by_row = np.argsort(rows, kind="stable")
    return WindowRows(documents[by_row], starts[by_row], needs[by_row], np.bincount(rows))


def _concatenated(
    lengths: Int64Array, row: Int64Array, rules: Rules
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    kept = lengths[:, 0]
    if rules.long == "truncate":
        kept = np.minimum(kept, row)
    elif rules.long == "drop":
        kept = np.where(kept > row, 0, kept)
    if not kept.any():
        nothing = np.empty(0, np.int64)
        return nothing, nothing[:, np.newaxis], nothing[:, np.newaxis], nothing
    documents, numbers, rows, shifts = concat_then_split(kept, int(row[0]))
    starts = np.where(numbers > 0, numbers * row - shifts[rows], 0)
    is_last = np.diff(documents, append=-1) != 0
    ends = np.where(is_last, kept[documents], np.roll(starts, -1))
    return documents, starts[:, np.newaxis], (ends - starts)[:, np.newaxis], rows
