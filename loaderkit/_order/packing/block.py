"""The plan of one block of documents, as the words that a plan file holds.

A block is planned from its documents' lengths alone, so any process makes the same bytes. They are uint32 words:

    frame    18 words: 7 int64, the counts of `Frame`, and 16 bytes of the sha256 of these and what follows
    firsts   rows + 1 words: the number of each row's first piece; the last is the number of pieces
    shifts   with "concat_then_split" a word for each row, see `ConcatRows`
    pieces   a word each, row by row: the document's place in the block, and << 16 the piece's number in it

Rows are in a keyed order: those that the planners fill last have the most room left.
"""

import hashlib
from reprlib import repr as _short
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from loaderkit._order.permutation import Int64Array, Permutation

from .best_fit import best_fit
from .first_fit import first_fit
from .pieces import Long, concat_then_split, cut

UInt32Array = npt.NDArray[np.uint32]
How = Literal["best_fit", "first_fit", "concat_then_split"]

_Number = TypeVar("_Number", int, Int64Array)

FRAME_WORDS = 18
COUNTS = 7  # int64 at the beginning of a frame
_DIGEST_BYTES = 16
MOST_DOCUMENTS = 1 << 16  # of a block: places are 16 bits
MOST_PIECES = 1 << 16  # of a document: numbers are 16 bits
_PLACE_BITS = 16
_PLACE_MASK = np.uint32((1 << _PLACE_BITS) - 1)


class Rules(NamedTuple):
    """How documents become rows.

    row: for each feature the tokens of a row. how: the planner; "best_fit" and "concat_then_split" take one feature.
    long: of documents longer than a row.
    """

    row: tuple[int, ...]
    how: How
    long: Long


def checked_rules(row: tuple[int, ...], how: Any, long: Any) -> Rules:
    """Rules of a user's arguments; ValueError for one that isn't known, or not for features of different lengths.

    Args:
        row: for each feature that has a length of its own the tokens of a row.
        how, long: as Rules has them.

    >>> checked_rules((4,), "best_fit", "split").how
    'best_fit'
    """
    for name, value, known in (("how", how, get_args(How)), ("long", long, get_args(Long))):
        if value not in known:
            raise ValueError(f"{name}: expected one of {', '.join(map(repr, known))}, got {_short(value)}")
    if len(row) > 1 and how != "first_fit":
        raise ValueError(
            f'how: expected "first_fit" for features of different lengths, got {how!r}, which packs one feature'
        )
    return Rules(row, how, long)


class Frame(NamedTuple):
    """What the head of a block says; tokens are counted over all features.

    rows, pieces, tokens: in the block's rows. empty_documents: have no tokens. long_documents: are longer than a row.
    tokens_left_out: of documents truncated or dropped. tokens_read: of its whole document, summed over the pieces.
    digest: 16 bytes, of the block without them.
    """

    rows: int
    pieces: int
    tokens: int
    empty_documents: int
    long_documents: int
    tokens_left_out: int
    tokens_read: int
    digest: bytes

    def pack(self) -> bytes:
        """The frame's 72 bytes, little-endian."""
        return self.packed_counts() + self.digest

    def packed_counts(self) -> bytes:
        """The bytes of the counts alone."""
        return np.array(self[:COUNTS], "<i8").tobytes()

    def sealed(self, body: bytes | memoryview) -> "Frame":
        """The frame with the digest of its counts and of the words behind it."""
        digest = hashlib.sha256(self.packed_counts())
        digest.update(body)
        return self._replace(digest=digest.digest()[:_DIGEST_BYTES])

    @classmethod
    def unpack(cls, packed: bytes) -> "Frame":
        """The frame that 72 bytes hold.

        >>> frame = Frame(1, 2, 3, 0, 0, 0, 3, bytes(16))
        >>> Frame.unpack(frame.pack()) == frame
        True
        """
        rows, pieces, tokens, empty, long, left_out, read = np.frombuffer(packed, "<i8", COUNTS).tolist()
        return cls(rows, pieces, tokens, empty, long, left_out, read, packed[8 * COUNTS :])


def plan_block(lengths: Int64Array, rules: Rules, key: int) -> UInt32Array:
    """The words of a block.

    lengths: (n, features) int64, 0 or more, n at most 65,536; no document has more than 65,536 pieces. key: 64 bits
    that choose the order of the rows.

    >>> words = plan_block(np.array([[3], [2], [1]]), Rules((4,), "best_fit", "split"), key=0)
    >>> Frame.unpack(words[:FRAME_WORDS].tobytes())[:3]
    (2, 3, 6)
    """
    row = np.array(rules.row, np.int64)
    is_long = (lengths > row).any(axis=1)
    if rules.how == "concat_then_split":
        kept = _kept(lengths, row, rules.long)
        documents, numbers, rows, shifts = concat_then_split(kept, int(row[0]))
        tokens = int(kept.sum())
    else:
        documents, numbers, needs = cut(lengths, row, rules.long)
        shifts = np.empty(0, np.int64)
        tokens = int(needs.sum())
        if rules.how == "best_fit":
            order, rows = best_fit(needs[:, 0], int(row[0]))
            documents, numbers = documents[order], numbers[order]
        else:
            rows = first_fit(needs, row)
    count = int(rows.max()) + 1 if len(rows) else 0
    if count:
        moved = Permutation(count, key)(np.arange(count))  # where each row goes
        rows = moved[rows]
        if len(shifts):
            shifts[moved] = shifts.copy()
    by_row = np.argsort(rows, kind="stable")
    firsts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=count), out=firsts[1:])
    pieces = (documents | numbers << _PLACE_BITS)[by_row]
    body = np.concatenate([firsts, shifts, pieces]).astype("<u4")
    frame = Frame(
        rows=count,
        pieces=len(pieces),
        tokens=tokens,
        empty_documents=int(np.count_nonzero(~lengths.any(axis=1))),
        long_documents=int(np.count_nonzero(is_long)),
        tokens_left_out=int(lengths.sum()) - tokens,
        tokens_read=int(lengths[documents].sum()),
        digest=b"",
    )
    return np.concatenate([np.frombuffer(frame.sealed(body.data).pack(), "<u4"), body])


def _kept(lengths: Int64Array, row: Int64Array, long: Long) -> Int64Array:
    """Tokens of each document that are concatenated, of the one feature; (n,) int64."""
    kept = lengths[:, 0]
    if long == "truncate":
        return np.minimum(kept, row)
    return np.where(kept > row, 0, kept) if long == "drop" else kept


def body_words(rows: _Number, pieces: _Number, how: How) -> _Number:
    """How many words stand behind the frame of a block with so many rows and pieces; ints, or (n,) int64.

    >>> body_words(1, 2, "first_fit"), body_words(1, 2, "concat_then_split")
    (4, 5)
    """
    return rows + 1 + pieces + (rows if how == "concat_then_split" else 0)


def unpack_pieces(words: UInt32Array) -> tuple[Int64Array, Int64Array]:
    """The places and the numbers of pieces: (n,) uint32 in, two of (n,) int64 out.

    >>> unpack_pieces(np.array([5, 7 + (2 << 16)], np.uint32))
    (array([5, 7]), array([0, 2]))
    """
    return (words & _PLACE_MASK).astype(np.int64), (words >> _PLACE_BITS).astype(np.int64)


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
    kept = _kept(lengths, row, rules.long)
    if not kept.any():
        nothing = np.empty(0, np.int64)
        return nothing, nothing[:, np.newaxis], nothing[:, np.newaxis], nothing
    documents, numbers, rows, shifts = concat_then_split(kept, int(row[0]))
    starts = np.where(numbers > 0, numbers * row - shifts[rows], 0)
    is_last = np.diff(documents, append=-1) != 0
    ends = np.where(is_last, kept[documents], np.roll(starts, -1))
    return documents, starts[:, np.newaxis], (ends - starts)[:, np.newaxis], rows
