"""An opened packing plan."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderkit._base.block_checksums import damaged
from loaderkit._base.canonical_json import canonical
from loaderkit._order.matches import among, matches
from loaderkit._order.mixing import fold
from loaderkit._order.packing.block import (
    COUNTS,
    FRAME_WORDS,
    Frame,
    Rules,
    UInt32Array,
    body_words,
    unpack_pieces,
)
from loaderkit._order.permutation import Int64Array
from loaderkit._source.record_key import check_keys
from loaderkit.samplers.optional import indices_of, within
from loaderkit.samplers.protocol import Sampler, record_keys_of
from loaderkit.sources.shared_arrays import SharedColumns

# Another one for a change of the planners that changes a byte; earlier ones can still be asked for.
ALGORITHM = 2
_ROWS = 1 << 63  # no epoch is as large
ADVICE = "delete it to plan again"


@dataclasses.dataclass(frozen=True, slots=True)
class PlanSettings:
    """What decides every byte of a plan.

    Args:
        documents: how many are packed, in their order.
        features: names of features with lengths of their own; None for one without a name.
        rules: how documents become rows.
        block: documents of a block.
        seed: of the order of a block's rows.
        lengths: digests of the lengths of each feature.
        order: digest of the order's fingerprint; None for the order of the lengths.
        excluded: number of the documents that are left out, how many of these have tokens, and a digest of their keys.
        algorithm: 1 to ALGORITHM.
    """

    documents: int
    features: tuple[str, ...] | None
    rules: Rules
    block: int
    seed: int
    lengths: tuple[str, ...]
    order: str | None
    excluded: tuple[int, int, str] | None = None
    algorithm: int = ALGORITHM

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.documents // self.block)

    def key_of(self, number: int) -> int:
        """The key of the order of a block's rows; no shuffle has it, while that of algorithm 1 was one of a shuffle."""
        return fold(self.seed, number) if self.algorithm == 1 else fold(self.seed, _ROWS, number)

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON values, with the names that `plan_packing` gives them."""
        return {
            "algorithm": self.algorithm,
            "documents": self.documents,
            "features": None if self.features is None else list(self.features),
            "length": list(self.rules.row),
            "how": self.rules.how,
            "long": self.rules.long,
            "block": self.block,
            "seed": str(self.seed),  # many JSON readers round integers above 53 bits
            "lengths": list(self.lengths),
            "order": self.order,
            **({} if self.excluded is None else {"exclude": self.excluded[2]}),
        }

    def digest(self, frames: bytes) -> bytes:
        """The sha256 of a whole plan, from the frames of its blocks."""
        return digest_of_plan(self.as_json(), frames)


def digest_of_plan(settings: dict[str, Any], frames: bytes) -> bytes:
    """`PlanSettings.digest` of settings as JSON values."""
    return hashlib.sha256(canonical(settings).encode() + frames).digest()


class RowPieces(NamedTuple):
    """The pieces of some rows, row by row.

    Attributes:
        documents: (n,) int64 record keys.
        starts, lengths: (n,) int64, each piece's first token in its document and its tokens; (n, features) where
            features have lengths of their own.
        counts: (rows,) int64 pieces of each row.
    """

    documents: Int64Array
    starts: Int64Array
    lengths: Int64Array
    counts: Int64Array

    def without(self, documents: Int64Array) -> RowPieces:
        """The pieces that aren't of some documents; a row with nothing left keeps its first one, without tokens.

        Args:
            documents: (m,) int64 record keys, ascending.

        >>> pieces = RowPieces(*map(np.array, ([7, 3, 3], [0, 0, 4], [2, 4, 1], [2, 1])))
        >>> [values.tolist() for values in pieces.without(np.array([3]))]
        [[7, 3], [0, 4], [2, 0], [1, 1]]
        """
        kept = ~among(self.documents, documents)
        if kept.all():
            return self
        ends = self.counts.cumsum()
        left = np.add.reduceat(kept, ends - self.counts, dtype=np.int64)
        empty = (ends - self.counts)[left == 0]
        kept[empty] = True
        lengths = self.lengths.copy()
        lengths[empty] = 0
        return RowPieces(self.documents[kept], self.starts[kept], lengths[kept], np.maximum(left, 1))


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
        read_factor: tokens read for each one in a row, where a source reads the whole document for each of its pieces.
        block_rows: rows of the median block; the rows of a block are of documents that stand together.
        epoch_lengths: None, as the rows are for all epochs; `EpochPlans` has the rows of each.
        excluded_documents: those that the plan was told to leave out.
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
        lengths: SharedColumns,
        order: Sampler | None,
        path: str | None = None,
    ) -> None:
        self._settings, self._lengths, self._order = settings, lengths, order
        self._words = SharedColumns([words])
        self._digest = settings.digest(frames).hex()[:32]
        table = np.frombuffer(frames, "<i8").reshape(settings.blocks, -1)
        counts = table.T[:COUNTS].astype(np.int64)
        # A block of a file is compared with its digest before its first use.
        self._path, self._offset = path, getattr(words, "offset", 0)
        self._digests = table[:, COUNTS:].copy()
        self._good = np.full(settings.blocks, path is None)
        self._all_good = path is None
        rows, pieces, tokens, empty, long, left_out, read = counts
        sizes = FRAME_WORDS + body_words(rows, pieces, settings.rules.how)
        self._num_rows = rows
        self._first_rows = np.concatenate([[0], np.cumsum(rows)])
        self._first_words = np.concatenate([[0], np.cumsum(sizes)])
        rules, features = settings.rules, settings.features
        self.measured_source: dict[str, Any] | None = None
        self.features = features
        self.length = rules.row[0] if features is None else dict(zip(features, rules.row, strict=True))
        self.num_documents = settings.documents
        self.num_tokens = int(tokens.sum())
        self.epoch_lengths = None
        self.excluded_documents, without_tokens, _ = settings.excluded or (0, 0, "")
        self.empty_documents = int(empty.sum()) - without_tokens  # they were planned as if they were empty
        self.long_documents = int(long.sum())
        self.tokens_left_out = int(left_out.sum())
        self.block_rows = int(np.median(rows[rows > 0])) if rows.any() else 0
        self.read_factor = int(read.sum()) / max(1, self.num_tokens)

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
        wanted = check_keys(keys, len(self), self)
        self._words.check()
        self._lengths.check()
        rules, (words,) = self._settings.rules, self._words.arrays
        blocks = self._first_rows.searchsorted(wanted, "right") - 1
        if not self._all_good and not self._good[blocks].all():
            self._check_blocks(np.unique(blocks))
        row_in_block = wanted - self._first_rows[blocks]
        num_rows = self._num_rows[blocks]
        firsts = self._first_words[blocks] + FRAME_WORDS
        at = firsts + row_in_block
        first = words[at].astype(np.int64)
        counts = words[at + 1] - first
        ends = counts.cumsum()
        before = ends - counts  # pieces of earlier rows
        concat = rules.how == "concat_then_split"
        begins = firsts + num_rows + 1 + first
        if concat:
            begins += num_rows
        total = int(counts.sum())
        places, numbers = unpack_pieces(words[(begins - before).repeat(counts) + np.arange(total)])
        places += (blocks * self._settings.block).repeat(counts)
        documents = places if self._order is None else record_keys_of(self._order, places)
        planned = [lengths[documents].astype(np.int64) for lengths in self._lengths.arrays]
        if rules.long == "truncate":
            planned = [np.minimum(lengths, row) for lengths, row in zip(planned, rules.row, strict=True)]
        if concat:
            shifts = words[at + num_rows + 1].astype(np.int64).repeat(counts)
            starts = [numbers * rules.row[0] - np.where(numbers > 0, shifts, 0)]
            # Only a row's last piece ends with the row, where its document may go on.
            lengths = planned[0] - starts[0]
            earlier = lengths.cumsum() - lengths
            tokens = [np.minimum(lengths, rules.row[0] - earlier + earlier[before].repeat(counts))]
        else:
            starts = [numbers * row for row in rules.row]
            parts = zip(planned, starts, rules.row, strict=True)
            tokens = [np.minimum(np.maximum(lengths - start, 0), row) for lengths, start, row in parts]
        return RowPieces(documents, self._by_feature(starts), self._by_feature(tokens), counts)

    def rows_of(self, documents: npt.ArrayLike) -> tuple[Int64Array, Int64Array]:
        """The rows with pieces of documents: of each piece the place of its document in `documents`, and its row.

        Only the blocks of these documents are decoded, once each; (m,) int64 each, row by row.

        Args:
            documents: (n,) ints, record keys; one that the plan doesn't have, or that has no piece, has no row.

        >>> import loaderkit as lk
        >>> plan = lk.plan_packing([3, 9, 4], 4)
        >>> which, rows = plan.rows_of([2, 1])
        >>> which.tolist().count(1), sorted(rows.tolist()) == sorted(set(rows.tolist()))
        (3, True)
        """
        which, places = self._places_of(np.asarray(documents, np.int64))
        self._words.check()
        (words,), size = self._words.arrays, self._settings.block
        blocks = places // size
        wanted = np.unique(blocks)
        if not self._all_good:
            self._check_blocks(wanted)
        ends = np.searchsorted(blocks, wanted, "right").tolist()
        found = [np.empty((2, 0), np.int64)]
        for block, begin, end in zip(wanted.tolist(), [0, *ends], ends):
            if not (count := int(self._num_rows[block])):
                continue
            first, last = self._first_words[block : block + 2].tolist()
            firsts = words[first + FRAME_WORDS :][: count + 1].astype(np.int64)  # of each row its first piece
            pieces, _ = unpack_pieces(words[last - int(firsts[-1]) : last])
            inside, there = places[begin:end] - block * size, np.zeros(size, np.bool_)
            there[inside] = True
            at = np.flatnonzero(there[pieces])  # few, so that only these are searched
            some, of = matches(inside, pieces[at])
            rows = firsts.searchsorted(at[of], "right") - 1 + self._first_rows[block]
            found.append(np.stack([which[begin:end][some], rows]))
        whole = np.concatenate(found, axis=1)
        return whole[0], whole[1]

    def _places_of(self, documents: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Which documents were packed, and their places in the order in which they were, ascending."""
        if self._order is not None:
            return indices_of(self._order, documents, 0, self.num_documents)
        return within(np.arange(documents.size), documents, 0, self.num_documents)

    def document_lengths(self, documents: npt.ArrayLike) -> Int64Array:
        """The lengths that documents were planned with, (n,) or (n, features) int64.

        Args:
            documents: record keys, (n,) ints.

        >>> import loaderkit as lk
        >>> lk.plan_packing([3, 9], 4).document_lengths([1])
        array([9])
        """
        keys = np.asarray(documents)
        self._lengths.check()
        return self._by_feature([lengths[keys].astype(np.int64) for lengths in self._lengths.arrays])

    def fingerprint(self) -> dict[str, Any]:
        """What identifies the plan: its digest, equal for equal lengths and arguments.

        >>> import loaderkit as lk
        >>> lk.plan_packing([3, 9], 4).fingerprint()["rows"]
        3
        """
        return {"type": "PackPlan", "rows": len(self), "digest": f"sha256:{self._digest}"}

    def _check_blocks(self, blocks: Int64Array) -> None:
        (words,) = self._words.arrays
        for block in blocks[~self._good[blocks]].tolist():
            begin, end = self._first_words[block : block + 2].tolist()
            data = words[begin:end].tobytes()
            found = Frame.unpack(data[: 4 * FRAME_WORDS])
            if (
                found.sealed(data[4 * FRAME_WORDS :]) != found
                or found.digest != self._digests[block].tobytes()
            ):
                assert self._path is not None
                raise damaged(self._path, self._offset + 4 * begin, self._offset + 4 * end, ADVICE)
            self._good[block] = True
        self._all_good = bool(self._good.all())

    def _by_feature(self, columns: list[Int64Array]) -> Int64Array:
        return columns[0] if self.features is None else np.stack(columns, axis=-1)

    def __repr__(self) -> str:
        rules, notes = self._settings.rules, ""
        if self.tokens_left_out:
            notes += f", {self.tokens_left_out} tokens left out"
        if self.excluded_documents:
            notes += f", {self.excluded_documents} excluded"
        if self.empty_documents:
            plural = "" if self.empty_documents == 1 else "s"
            notes += f", {self.empty_documents} empty document{plural} in no row"
        return (
            f"PackPlan({len(self)} rows of {self.length} tokens, {self.num_documents} documents, fill {self.fill:.3f}, "
            f"how={rules.how!r}, long={rules.long!r}{notes})"
        )
