"""An opened packing plan."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderkit._order.permutation import Int64Array
from loaderkit._packing.block import FRAME_WORDS, UInt32Array, body_words, unpack_pieces
from loaderkit.samplers.protocol import Sampler, record_keys_of
from loaderkit.sources.arrays import ArrayDataSource

from .plan_file import PlanSettings


class RowPieces(NamedTuple):
    """The pieces of some rows, row by row.

    documents: (n,) int64 record keys. starts, lengths: (n,) int64, each piece's first token in its document and its
    tokens; (n, features) where features have lengths of their own. counts: (rows,) int64 pieces of each row.
    """

    documents: Int64Array
    starts: Int64Array
    lengths: Int64Array
    counts: Int64Array


class PackPlan:
    """Which tokens of which documents make each row; `lk.plan_packing` makes it and `lk.PackedDataSource` reads it.

    `len(plan)` is the number of rows. Pickled for a worker it is the names of mapped files, or shared memory.

    Attributes:
        length: tokens of a row; by feature where features have lengths of their own.
        features: names of such features, else None.
        num_documents: documents that were packed.
        num_tokens: tokens in the rows, of all features.
        fill: share of the rows' places that hold a token.
        empty_documents: documents without tokens, which are in no row.
        long_documents: documents longer than a row, which `long` was for.
        tokens_left_out: tokens in no row, of documents that `long` truncated or dropped.
        measured_source: fingerprint of the source that the lengths were measured of; None where they were an array.

    >>> import loaderkit as lk
    >>> plan = lk.plan_packing([3, 2, 1, 0], 4)
    >>> plan
    PackPlan(2 rows of 4 tokens, 4 documents, fill 0.750, how='best_fit', long='split', 1 empty document in no row)
    >>> plan.rows([0, 1]).counts.sum()
    np.int64(3)
    """

    def __init__(
        self,
        settings: PlanSettings,
        words: UInt32Array,
        frames: bytes,
        lengths: ArrayDataSource,
        order: Sampler | None,
    ) -> None:
        self._settings, self._lengths, self._order = settings, lengths, order
        self._words = ArrayDataSource(words)
        self._digest = settings.digest(frames).hex()[:32]
        counts = np.frombuffer(frames, "<i8").reshape(settings.blocks, -1).T[:6].astype(np.int64)
        rows, pieces, tokens, empty, long, left_out = counts
        sizes = FRAME_WORDS + body_words(rows, pieces, settings.rules.how)
        self._first_rows = np.concatenate([[0], np.cumsum(rows)])
        self._first_words = np.concatenate([[0], np.cumsum(sizes)])
        rules, features = settings.rules, settings.features
        self.measured_source: dict[str, Any] | None = None
        self.features = features
        self.length = rules.row[0] if features is None else dict(zip(features, rules.row, strict=True))
        self.num_documents = settings.documents
        self.num_tokens = int(tokens.sum())
        self.empty_documents = int(empty.sum())
        self.long_documents = int(long.sum())
        self.tokens_left_out = int(left_out.sum())

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    @property
    def fill(self) -> float:
        """The share of the rows' places that hold a token."""
        return self.num_tokens / (len(self) * sum(self._settings.rules.row))

    def rows(self, keys: npt.ArrayLike) -> RowPieces:
        """The pieces of many rows at once.

        Args:
            keys: (n,) ints, numbers of rows; IndexError naming the first that is out of range.

        >>> import loaderkit as lk
        >>> pieces = lk.plan_packing([3, 9], 4).rows([0, 1, 2])
        >>> sorted(zip(pieces.documents.tolist(), pieces.starts.tolist(), pieces.lengths.tolist()))
        [(0, 0, 3), (1, 0, 4), (1, 4, 4), (1, 8, 1)]
        """
        wanted = self._checked(keys)
        blocks = np.searchsorted(self._first_rows, wanted, side="right") - 1
        rows_before = self._first_rows[blocks]
        num_rows = self._first_rows[blocks + 1] - rows_before
        firsts = self._first_words[blocks] + FRAME_WORDS
        at = firsts + (wanted - rows_before)
        first, end = self._words.take(np.concatenate([at, at + 1])).astype(np.int64).reshape(2, -1)
        counts = end - first
        concat = self._settings.rules.how == "concat_then_split"
        begins = firsts + num_rows * (2 if concat else 1) + 1 + first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        words = self._words.take(np.repeat(begins - (ends - counts), counts) + np.arange(total))
        places, numbers = unpack_pieces(words)
        places += np.repeat(blocks * self._settings.block, counts)
        documents = places if self._order is None else record_keys_of(self._order, places)
        row = np.array(self._settings.rules.row, np.int64)
        starts = numbers[:, np.newaxis] * row
        lengths = self._planned(documents)
        if concat:
            shifts = self._words.take(at + num_rows + 1).astype(np.int64)
            starts -= np.where(numbers > 0, np.repeat(shifts, counts), 0)[:, np.newaxis]
            # Only a row's last piece ends at the end of the row, where its document may not end.
            lengths -= starts
            before = np.cumsum(lengths[:, 0]) - lengths[:, 0]
            heads = np.repeat(before[ends - counts], counts)
            np.minimum(lengths, (row[0] - (before - heads))[:, np.newaxis], out=lengths)
        else:
            np.clip(lengths - starts, 0, row, out=lengths)
        if self.features is None:
            starts, lengths = starts[:, 0], lengths[:, 0]
        return RowPieces(documents, starts, lengths, counts)

    def document_lengths(self, documents: npt.ArrayLike) -> Int64Array:
        """The lengths that documents were planned with: (n,) record keys in, (n,) or (n, features) int64 out.

        >>> import loaderkit as lk
        >>> lk.plan_packing([3, 9], 4).document_lengths([1])
        array([9])
        """
        lengths = self._taken(documents)
        return lengths[:, 0] if self.features is None else lengths

    def fingerprint(self) -> dict[str, Any]:
        """What identifies the plan: its digest, equal for equal lengths and arguments.

        >>> import loaderkit as lk
        >>> lk.plan_packing([3, 9], 4).fingerprint()["rows"]
        3
        """
        return {"type": "PackPlan", "rows": len(self), "digest": f"sha256:{self._digest}"}

    def _planned(self, documents: Int64Array) -> Int64Array:
        lengths = self._taken(documents)
        if self._settings.rules.long == "truncate":
            np.minimum(lengths, self._settings.rules.row, out=lengths)
        return lengths

    def _taken(self, documents: npt.ArrayLike) -> Int64Array:
        columns = self._lengths.take(documents)
        return np.stack([np.asarray(column, np.int64) for column in columns], axis=-1)

    def _checked(self, keys: npt.ArrayLike) -> Int64Array:
        wanted = np.asarray(keys)
        if wanted.size == 0:
            return np.empty(0, np.int64)
        if wanted.dtype.kind not in "iu" or wanted.ndim != 1:
            raise TypeError(f"keys: expected ints of shape (n,), got {wanted.dtype} of shape {wanted.shape}")
        if wanted.min() < 0 or wanted.max() >= len(self):
            bad = wanted[(wanted < 0) | (wanted >= len(self))][0]
            raise IndexError(f"keys: expected rows from 0 to {len(self) - 1}, got {bad}, of {self!r}")
        return wanted.astype(np.int64, copy=False)

    def __repr__(self) -> str:
        rules, notes = self._settings.rules, ""
        if self.tokens_left_out:
            notes += f", {self.tokens_left_out} tokens left out"
        if self.empty_documents:
            plural = "" if self.empty_documents == 1 else "s"
            notes += f", {self.empty_documents} empty document{plural} in no row"
        return (
            f"PackPlan({len(self)} rows of {self.length} tokens, {self.num_documents} documents, fill {self.fill:.3f}, "
            f"how={rules.how!r}, long={rules.long!r}{notes})"
        )
