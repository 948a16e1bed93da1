"""Packed rows as a source: record k is row k of a packing plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from reprlib import repr as _short
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.numbers import at_least
from loaderkit._base.system.packed_tokens import packed
from loaderkit._order.array_digest import digest_of
from loaderkit._order.packing.leaves import FeatureLeaves, Names, RowLayout, Targets, alike, row_leaves
from loaderkit._order.permutation import Int64Array
from loaderkit._source.content import sampled_keys
from loaderkit._source.fingerprint import fingerprint_of, same_where_known
from loaderkit._source.optional import CallAdvice, has_tokens, lacking, only_where
from loaderkit._source.origins import Origins, OriginsBelow, origins_of, records_with
from loaderkit._source.protocol import holds_own_objects
from loaderkit._source.record_key import check_key, check_keys, short_repr
from loaderkit.sources.checked import require_methods
from loaderkit.sources.has_card import HasCard
from loaderkit.sources.shared_arrays import SharedColumns
from loaderkit.sources.sliced import sliced

from .documents import DocumentReader, PackedFeature
from .epoch_plans import EpochPlans
from .pack_plan import PackPlan, RowPieces

_CHECKED_DOCUMENTS = 1024  # of a token source, when the source is made; each is compared when it is read, too
_SHOWN = 8  # documents in a row's name


class PackedDataSource(CallAdvice, OriginsBelow, HasCard):
    """Rows of a packing plan: record k is `{f: (T,), f_segment_ids: (T,), f_positions: (T,)}`, T tokens.

    Segment ids (int32) number the documents of a row from 1, positions (int32) the tokens of each from 0; padding has
    `pad`, 0 and 0. A row is a record like any other: it can be shuffled, sharded, mixed and resumed.

    Args:
        source: the documents: a `TokenDataSource`, whose tokens are written straight into batches, or any source of
            arrays (tokens, ...) or of dicts of them. Each document is read once for the rows that are read together.
        plan: what `lk.plan_packing` made of the lengths of these documents. ValueError where it was of others; a
            document that has another length when it is read is a ValueError that names it.
        feature: name of the tokens in a document, or several names of arrays of one length. If not given, that of the
            TokenDataSource, those of the plan, or "tokens".
        names: None for the names above, which are Grain's; "maxtext" for inputs, inputs_segmentation, inputs_position,
            and targets likewise; or a mapping from the names above to others.
        mask: name of a leaf (T,) bool: True where the loss counts. That is at tokens that have a target, without
            `targets` at all tokens; with `loss` at those of them where it isn't 0.
        targets: adds `targets`, `targets_segment_ids` and `targets_positions`: the next token of the same piece. The
            last of a piece has none: `pad`, with segment id 0. "document": the last of a piece has the document's next
            token as its target, where the document was cut there.
        loss: name of an array in a document with a value for each token, 0 or False where the loss doesn't count.
        columns: names of further arrays in a document with a value for each token: a leaf (T,) of the same name each.
        per_document: names of numbers of a document: a leaf (T,) of the same name each.
            A leaf of `loss`, `columns` and `per_document` has at each token the value at the token's *target*, without
            `targets` at the token itself; 0 where there is none.
        pad: token of padding.
        max_read_factor: how many tokens may be read for each in a row, in the mean of the plan; ValueError where there
            are more. A source reads a split document for each of its pieces, unless it has `read_range(record_key,
            start, stop)`, which gives the record with these tokens alone.

    >>> import loaderkit as lk
    >>> tokens = lk.TokenDataSource(np.arange(10, 20), [0, 3, 8, 10])
    >>> rows = lk.PackedDataSource(tokens, lk.plan_packing(tokens.lengths, 6))
    >>> for row in sorted(rows, key=lambda row: row["tokens"][0]):
    ...     print(row["tokens"], row["tokens_segment_ids"], row["tokens_positions"])
    [10 11 12 18 19  0] [1 1 1 2 2 0] [0 1 2 0 1 0]
    [13 14 15 16 17  0] [1 1 1 1 1 0] [0 1 2 3 4 0]
    """

    def __init__(
        self,
        source: Any,
        plan: PackPlan | EpochPlans,
        *,
        feature: str | Sequence[str] | None = None,
        names: Names = None,
        mask: str | None = None,
        targets: Targets = False,
        loss: str | None = None,
        columns: Sequence[str] = (),
        per_document: Sequence[str] = (),
        pad: int = 0,
        max_read_factor: float = 4.0,
    ) -> None:
        source = require_methods(source, argument="source")
        if not all(hasattr(plan, name) for name in ("rows", "document_lengths", "fingerprint")):
            raise TypeError(
                f"plan: expected what lk.plan_packing gives, got {_short(plan)}; write lk.plan_packing(lengths, length)"
            )
        self._source, self._plan, self._pad = source, plan, pad
        self._excluded: SharedColumns | None = None  # documents that rows lack, ascending
        named = _features_of(source, plan, feature)
        given: dict[str, Any] = {"targets": targets, "loss": loss}
        given |= {"columns": columns, "per_document": per_document}
        leaves = row_leaves(named, names=names, mask=mask, **given)
        self._features = tuple(_packed(plan, each) for each in leaves)
        self._leaves = tuple(name for each in leaves for name in each.all)
        self._documents = DocumentReader(source, self._features, across=targets == "document")
        told = {**given, "columns": [*columns], "per_document": [*per_document]}
        self._told = {name: value for name, value in told.items() if value and value is not True}
        self._tokens: Any = None
        if has_tokens(source):
            known = getattr(source, "columns", None)
            _check_columns(known, leaves[0])
            self._tokens = source if known is not None or not (columns or loss or per_document) else None
        if self._tokens is not None:
            limits = np.iinfo(self._tokens.dtype)
            at_least("pad", pad, int(limits.min), below=int(limits.max) + 1)
        self._check_plan()
        self._check_reads(max_read_factor)

    def _check_reads(self, most: float) -> None:
        in_parts = self._documents.reads_parts and self._plan.features is None
        if not in_parts and not holds_own_objects(self._source) and self._plan.read_factor > most:
            raise ValueError(
                f"max_read_factor: expected a plan that reads at most {most} tokens for each in a row, got "
                f"{self._plan.read_factor:.1f}, as split documents are read for each piece; give the source "
                "read_range, plan with long='truncate' or longer rows, or set a higher limit"
            )

    def _check_plan(self) -> None:
        measured = self._plan.measured_source
        if measured is not None and not same_where_known(measured, fingerprint_of(self._source)):
            raise ValueError(
                f"plan: expected one of lengths of {short_repr(self._source)}, got one of another source's: "
                f"{_short(measured)}; measure and plan this source"
            )
        if self._plan.num_documents > len(self._source):
            raise ValueError(
                f"plan: expected one of at most {len(self._source)} documents, got {self._plan!r}; plan this source"
            )
        if self._tokens is not None:
            some = np.array(sampled_keys(len(self._source), most=_CHECKED_DOCUMENTS))
            begins, ends = self._tokens.bounds(some)
            try:
                self._check_lengths(some, ends - begins)
            except IndexError as error:
                raise ValueError(
                    f"plan: expected one of lengths of {short_repr(self._source)}, got fewer lengths; plan this source"
                ) from error

    def __len__(self) -> int:
        return len(self._plan)

    @sliced
    def __getitem__(self, key: int) -> dict[str, NDArray[Any]]:
        return self.__getitems__([key])[0]

    def __getitems__(self, record_keys: ArrayLike) -> list[dict[str, NDArray[Any]]]:
        keys = check_keys(record_keys, len(self), self)
        if not len(keys):
            return []
        if self._tokens is None:
            return self._read(keys)
        columns = self.take(keys)
        return [dict(zip(columns, rows)) for rows in zip(*columns.values())]

    @only_where(lambda self: self._require_tokens("take"))
    def take(self, record_keys: ArrayLike, out: list[NDArray[Any]] | None = None) -> dict[str, NDArray[Any]]:
        """Many rows as columns (n, T); only where the source is a TokenDataSource, else an AttributeError.

        Args:
            record_keys: integers (n,).
            out: an array (n, T) for each leaf of a row, in their order, to be filled.
        """
        source, (feature,) = self._tokens, self._features
        leaves = feature.leaves
        keys = check_keys(record_keys, len(self), self)
        if out is None:
            known = {name: (dtype, ()) for name, (_, dtype) in getattr(source, "columns", {}).items()}
            columns = leaves.empty(len(keys), feature.row, {**known, feature.name: (source.dtype, ())})
        else:
            columns = dict(zip(self._leaves, out, strict=True))
        if not len(keys):
            return columns
        pieces = self._pieces(keys)
        documents, starts, lengths = pieces.documents, feature.of(pieces.starts), feature.of(pieces.lengths)
        begins, ends = source.bounds(documents)
        self._check_lengths(documents, ends - begins)
        goes_on = self._documents.goes_on(feature, pieces, ends - begins)
        layout = RowLayout(lengths, pieces.counts, feature.row, goes_on)
        packed.add(layout.tokens, len(keys) * feature.row)
        begins += starts
        ends = begins + lengths if goes_on is None else begins + lengths + goes_on
        values = {name: source.slices(begins, ends, name) for _, name in leaves.by_token}
        values |= {name: source.document_column(name, documents) for _, name in leaves.by_document}
        values[feature.name] = source.slices(begins, ends)
        leaves.write(layout, columns, values, self._pad)
        return columns

    def _require_tokens(self, name: str) -> None:
        if self._tokens is None:
            raise lacking(self, name, needs="a TokenDataSource")

    def _read(self, keys: Int64Array) -> list[dict[str, NDArray[Any]]]:
        """Rows of any source; those of tokens may differ in dtype."""
        pieces = self._pieces(keys)
        planned = self._plan.document_lengths(pieces.documents)
        parts = self._documents.pieces(pieces, planned)
        documents = pieces.documents.tolist()
        columns: dict[str, NDArray[Any]] = {}
        for feature in self._features:
            numbers = [name for _, name in feature.leaves.by_document]
            values: dict[str, Any] = {
                name: [part[name] for part in parts] for name in (*feature.names, *numbers)
            }
            if not all(alike(array, arrays[0]) for arrays in values.values() for array in arrays):
                if len(keys) > 1:  # a row has its values' dtype, whichever rows are read with it
                    return [row for key in keys for row in self._read(key[np.newaxis])]
                for name in feature.names:
                    self._documents.check_alike(values[name], name, documents)
            values |= {name: np.array(values[name]) for name in numbers}
            like = {name: (arrays[0].dtype, arrays[0].shape[1:]) for name, arrays in values.items()}
            leaves = feature.leaves.empty(len(keys), feature.row, like)
            goes_on = self._documents.goes_on(feature, pieces, planned)
            layout = RowLayout(feature.of(pieces.lengths), pieces.counts, feature.row, goes_on)
            packed.add(layout.tokens, len(keys) * feature.row)
            feature.leaves.write(
                layout, leaves, values, self._pad_of(feature, values[feature.name][0], documents[0])
            )
            columns |= leaves
        return [dict(zip(columns, rows)) for rows in zip(*columns.values())]

    def _pad_of(self, feature: PackedFeature, tokens: NDArray[Any], document: int) -> NDArray[Any]:
        try:
            return np.array(self._pad, tokens.dtype)  # numpy 2.0 wraps where it fills
        except OverflowError:
            raise ValueError(
                f"pad: expected a number of {tokens.dtype}, as {feature.name!r} of "
                f"{self._documents.describe(document)} is, got {self._pad}"
            ) from None

    def _pieces(self, keys: ArrayLike) -> RowPieces:
        pieces = self._plan.rows(keys)
        return pieces if self._excluded is None else pieces.without(self._excluded.arrays[0])

    @property
    def epoch_lengths(self) -> tuple[int, ...] | None:
        """How many rows are of each epoch, one after the other; None where one plan is for all."""
        return self._plan.epoch_lengths

    @property
    def documents(self) -> Any:
        """The source of the documents."""
        return self._source

    def rows_excluded(self, documents: ArrayLike) -> tuple[Int64Array, Int64Array]:
        """The rows with nothing left, and those that lose a piece, where documents are left out; ascending.

        Args:
            documents: (n,) ints, record keys of the documents; IndexError for one that isn't there.
        """
        keys = np.unique(check_keys(documents, len(self._source), self._source))
        rows, lost = np.unique(self._plan.rows_of(keys)[1], return_counts=True)
        whole = lost == self._plan.rows(rows).counts
        return rows[whole], rows[~whole]

    def excluding(self, documents: ArrayLike) -> PackedDataSource:
        """The same rows without the pieces of some documents: the others move up, the rest is padding.

        Args:
            documents: (n,) ints, record keys of the documents; IndexError for one that isn't there.
        """
        made = copy(self)
        keys = np.unique(check_keys(documents, len(self._source), self._source))
        if self._excluded is not None:
            keys = np.union1d(self._excluded.arrays[0], keys)
        made._excluded = SharedColumns([keys])
        return made

    def _check_lengths(self, documents: Int64Array, lengths: Int64Array) -> None:
        (feature,) = self._features
        planned = feature.of(self._plan.document_lengths(documents))
        if (differ := lengths != planned).any():
            wrong = int(differ.argmax())
            self._documents.expect(
                int(documents[wrong]), feature.name, int(planned[wrong]), int(lengths[wrong])
            )

    @property
    def feature(self) -> str:
        """The name of the tokens, or of the first feature, in a document."""
        return self._features[0].name

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the tokens; only where the source is of tokens, else an AttributeError."""
        self._require_tokens("dtype")
        found: np.dtype[Any] = self._tokens.dtype
        return found

    @property
    def chunk_records(self) -> int:
        """Consecutive rows that are of the same documents: those of the plan's median block."""
        return self._plan.block_rows

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the tokens of a chunk, for `ChunkSampler.over`; only where the source is a TokenDataSource."""
        self._require_tokens("chunk_bytes")
        return int(self.chunk_records * self._features[0].row * self._tokens.dtype.itemsize)

    def name(self, record_key: SupportsIndex) -> str:
        """The documents of a row, such as "documents 3, 17".

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        documents = self._pieces([check_key(record_key, len(self), self)]).documents.tolist()
        more = ", ..." if len(documents) > _SHOWN else ""
        return f"documents {', '.join(map(str, documents[:_SHOWN]))}{more}"

    def origins(self, record_keys: ArrayLike) -> Origins:
        """The pieces of rows, as `_source/origins.py` says them; their tokens are those of the first feature.

        Args:
            record_keys: integers (n,); IndexError naming the first that is out of range.
        """
        pieces = self._pieces(check_keys(record_keys, len(self), self))
        below = origins_of(self._source, pieces.documents)
        feature = self._features[0]
        starts, lengths = feature.of(pieces.starts)[below.which], feature.of(pieces.lengths)[below.which]
        rows = np.arange(len(pieces.counts)).repeat(pieces.counts)
        return below.of_rows(rows)._replace(starts=starts, stops=starts + lengths)

    def records_with(self, documents: Int64Array, corpus: str | None) -> tuple[Int64Array, Int64Array]:
        """Which of some documents have pieces in rows, and these rows, (m,) int64 each.

        Args:
            documents: keys of documents, (n,) int64.
            corpus: the name of theirs, None where there is one.
        """
        which, below = records_with(self._source, documents, corpus)
        some, rows = self._plan.rows_of(below)
        return which[some], rows

    def fingerprint(self) -> dict[str, Any]:
        """The plan's and the source's fingerprint, and what the leaves are."""
        return {
            "type": "PackedDataSource",
            # Without the number of all rows where each epoch has a plan: each is compared by itself.
            **({"records": len(self)} if self.epoch_lengths is None else {}),
            "features": [feature.name for feature in self._features],
            "leaves": list(self._leaves),
            "pad": self._pad,
            **self._told,
            "plan": self._plan.fingerprint(),
            "source": fingerprint_of(self._source),
            **({} if self._excluded is None else {"excluded": digest_of(self._excluded.arrays[0])}),
        }

    def __repr__(self) -> str:
        return f"PackedDataSource({short_repr(self._source)}, {self._plan!r})"


def _features_of(
    source: Any, plan: PackPlan | EpochPlans, given: str | Sequence[str] | None
) -> tuple[str, ...]:
    own = (source.feature,) if has_tokens(source) else None
    names: Sequence[str] = plan.features or own or ("tokens",)
    if given is not None:
        names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise ValueError(f"feature: expected a name, or different names, got {_short(given)}")
    for known, what in ((plan.features, "the plan"), (own, "the source")):
        if known is not None and {*names} != {*known}:
            raise ValueError(f"feature: expected {list(known)}, which {what} has, got {list(names)}")
    return tuple(names)


def _packed(plan: PackPlan | EpochPlans, leaves: FeatureLeaves) -> PackedFeature:
    if plan.features is None:
        assert isinstance(plan.length, int)
        return PackedFeature(leaves, plan.length, None)
    assert isinstance(plan.length, dict)
    return PackedFeature(leaves, plan.length[leaves.name], plan.features.index(leaves.name))


def _check_columns(known: Mapping[str, tuple[str, Any]] | None, leaves: FeatureLeaves) -> None:
    """ValueError for a column that a source of tokens lacks, or has in another way."""
    if known is None:
        return
    wanted = [(name, "token", "loss, columns") for _, name in leaves.by_token]
    wanted += [(name, "number", "per_document") for _, name in leaves.by_document]
    for name, per, argument in wanted:
        having = [each for each, (kind, _) in known.items() if kind == per]
        if name not in having:
            what = "a value for each token" if per == "token" else "a number for each document"
            raise ValueError(
                f"{argument}: expected names of {what}, which the source has: {having}, got {name!r}"
            )
