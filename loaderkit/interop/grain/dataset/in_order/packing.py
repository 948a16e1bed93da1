"""FirstFit and BestFit packing: documents in the order in which they come, each into one of `num_packing_bins` bins.

The first document that no bin has room for ends the window: its bins become rows, and a new window begins with the
document. A document is copied when it is placed; segment ids and positions are made for a whole window at once.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.numbers import at_least
from loaderkit._order.permutation import Int64Array

from .bins import BestFit, FirstFit
from .step import GroupIterator, Step

# Cells that are filled together: what is made on the way, 128 KB, stays in the cache of a core. Of 2**12 to 2**18 the
# fastest; all cells of a window at once took 1.6 times as long for a document, most of it for new pages.
_AT_ONCE = 1 << 15
Rows = dict[str, Any]  # by name an array (rows, tokens, ...), or a list of a list for each row


class _Feature(NamedTuple):
    """One packed feature: cells of a row, the cells that a document takes are a multiple of the alignment, padding."""

    name: str
    cells: int
    alignment: int
    padding: Any

    def empty(self, bins: int, value: Any) -> NDArray[Any]:
        """Rows of padding (bins, cells, ...), of the dtype and shape that a document's value has."""
        if np.ndim(value) and not isinstance(value, np.ndarray):
            raise TypeError(f"{self.name!r}: expected an array or a number, got {value!r:.80}")
        dtype = np.int64 if isinstance(value, int) else np.asarray(value).dtype
        shape = (bins, self.cells, *np.shape(value)[1:])
        return np.zeros(shape, dtype) if self.padding is None else np.full(shape, self.padding, dtype)


class _Window:
    """The rows of one window, which documents are put into.

    Args:
        node: the step.
        first: a document, which says the dtypes and the shapes.
    """

    def __init__(self, node: "PackIterDataset", first: Mapping[str, Any]) -> None:
        self._node, self._features = node, node._features
        self._put_in_bin = node._bins(node._size, [each.cells for each in self._features], node._most).put
        # Of each feature: its name, the rows, the first free cell of each, each document's first cell and length.
        self._columns = [
            (each.name, each.empty(node._size, first[each.name]), [0] * node._size, list[int](), list[int]())
            for each in self._features
        ]
        self._rows: list[int] = []  # of each document
        self._lists: dict[str, list[list[Any]]] = {
            name: [[] for _ in range(node._size)] for name in node._listed
        }

    def put(self, document: Mapping[str, Any]) -> bool:
        """Whether a bin takes the document; ValueError for one that an empty bin has no room for."""
        values = [document[feature.name] for feature in self._features]
        needs = [len(value) if getattr(value, "ndim", 0) else 1 for value in values]
        takes = needs
        if self._node._aligns:
            takes = [-(-need // each.alignment) * each.alignment for need, each in zip(needs, self._features)]
        row = self._put_in_bin(needs, takes)
        if row is None:
            self._check_short(needs)
            return False
        self._rows.append(row)
        for (_, rows, free, begun, lengths), value, need, taken in zip(self._columns, values, needs, takes):
            start = free[row]
            rows[row, start : start + need] = value
            begun.append(start)
            lengths.append(need)
            free[row] = start + taken
        for name, lists in self._lists.items():
            lists[row].append(document[name])
        return True

    def _check_short(self, needs: Sequence[int]) -> None:
        for feature, need in zip(self._features, needs):
            if need > feature.cells:
                raise ValueError(
                    f"{feature.name!r}: expected at most {feature.cells} tokens, as length_struct says, got {need}; "
                    "truncate it before it is packed"
                )

    def rows(self) -> Rows:
        """The leaves of the rows, in the order of their names."""
        rows = np.array(self._rows)
        count = int(rows.max()) + 1
        order = np.argsort(rows, kind="stable")
        found: dict[str, Any] = {name: lists[:count] for name, lists in self._lists.items()}
        for name, values, _, begun, lengths in self._columns:
            found[name] = values[:count]
            if name not in self._node._meta:
                begins, counts = np.array(begun)[order], np.array(lengths)[order]
                found[f"{name}_segment_ids"], found[f"{name}_positions"] = _described(
                    rows[order], begins, counts, (count, values.shape[1])
                )
        return {name: found[name] for name in sorted(found)}


def _described(
    rows: Int64Array, begun: Int64Array, lengths: Int64Array, shape: tuple[int, int]
) -> NDArray[np.int32]:
    """The segment ids and positions of all cells (2, rows, cells); both are 0 where no document is.

    rows: (n,) of the documents, in order. begun: (n,) the first cell of each. lengths: (n,). shape: (rows, cells).

    >>> _described(np.array([0, 0, 1]), np.array([0, 2, 0]), np.array([2, 1, 3]), (2, 4)).tolist()
    [[[1, 1, 2, 0], [1, 1, 1, 0]], [[0, 1, 0, 0], [0, 1, 2, 0]]]
    """
    count, cells = shape
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))  # the first document of each row
    numbers = np.arange(1, len(rows) + 1) - firsts[rows]
    bounds = [*firsts.tolist(), len(rows)]
    out = np.empty((2, count, cells), np.int32)
    step = max(1, _AT_ONCE // cells)
    places = np.arange(step * cells, dtype=np.int32)
    for first in range(0, count, step):
        segment_ids, positions = out[:, first : first + step].reshape(2, -1)
        some = slice(bounds[first], bounds[min(first + step, count)])
        begins = begun[some] + (rows[some] - first) * cells
        # A document's cells, and those behind it that have none.
        spans = np.diff(begins, append=len(positions))
        runs = np.stack([lengths[some], spans - lengths[some]], axis=1).ravel()
        ids = np.zeros(len(runs), np.int32)
        ids[::2] = numbers[some]
        segment_ids[:] = np.repeat(ids, runs)
        np.subtract(places[: len(positions)], np.repeat(begins.astype(np.int32), spans), out=positions)
        positions *= segment_ids > 0
    return out


class _PackIterator(GroupIterator):
    _numbers: ClassVar = {"_given": "next_row", "_counted": "counter"}
    _counted = 0  # rows of all windows

    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(node, *parents)
        # A state takes as long as some documents: one is made for each window.
        self._parent_mark = getattr(self._parent, "_mark", self._parent.get_state)
        self._parent_state_at = getattr(self._parent, "_state_at", lambda mark: mark)

    def _forget(self) -> None:
        self._filling: _Window | None = None  # which documents are put into
        # Of a whole window's rows, by name; none where it isn't made.
        self._leaves: list[tuple[str, Any]] = []
        self._order: Sequence[int] = ()  # in which its rows are given
        self._after = self._before  # the state after the last document of the whole window

    def __next__(self) -> dict[str, Any]:
        if not self._leaves:
            self._make()
        row = self._order[self._given]
        found = {name: leaf[row] for name, leaf in self._leaves}
        self._given += 1
        self._counted += 1
        if self._given >= len(self._order):
            self._before, self._given, self._leaves = self._after, 0, []
        return found

    def _make(self) -> None:
        """Reads documents up to the first that the window has no room for, which the next window begins with."""
        parent, node = self._parent, self._node
        following: _Window | None = None
        while True:
            mark = self._parent_mark()
            try:
                document = next(parent)
            except StopIteration:
                if self._filling is None:
                    raise
                break
            if self._filling is None:
                self._filling = _Window(node, document)
            if not self._filling.put(document):
                following = _Window(node, document)
                following.put(document)
                break
        rows = self._filling.rows()
        self._after, self._filling = self._parent_state_at(mark), following
        self._leaves = [*rows.items()]
        self._order = self._shuffled(rows) if node._shuffle else range(len(self._leaves[0][1]))

    def _shuffled(self, rows: Rows) -> Sequence[int]:
        count = len(self._leaves[0][1])
        order: list[int] = (
            np.random.default_rng(self._node._seed + self._counted - self._given)
            .permuted(range(count))
            .tolist()
        )
        if (name := self._node._group_by) is None:
            return order
        means = [_mean_of_different(row) for row in rows[name]]
        return sorted(range(count), key=lambda row: (means[row], order[row]))


def _mean_of_different(row: NDArray[Any]) -> float:
    """The mean of a row's different values that aren't 0; 0 where all are."""
    different = np.unique(row)
    count = np.count_nonzero(different)
    return float(np.sum(different) / count) if count else 0.0


class PackIterDataset(Step):
    """What FirstFitPackIterDataset, which describes the arguments, and BestFitPackIterDataset have in common."""

    _iterator = _PackIterator
    _bins: ClassVar[type[FirstFit] | type[BestFit]]

    def __init__(
        self,
        parent: Any,
        *,
        length_struct: Any,
        num_packing_bins: int,
        seed: int = 0,
        shuffle_bins: bool = True,
        shuffle_bins_group_by_feature: str | None = None,
        meta_features: Sequence[str] = (),
        pack_alignment_struct: Any = None,
        padding_struct: Any = None,
        max_sequences_per_bin: int | None = None,
    ) -> None:
        super().__init__(parent)
        if not isinstance(length_struct, Mapping):
            raise TypeError(
                f"length_struct: expected tokens by feature, in a dict, got {length_struct!r:.80}"
            )
        self._features = [
            _Feature(
                name,
                at_least(f"length_struct[{name!r}]", length_struct[name], 1),
                1 if pack_alignment_struct is None else pack_alignment_struct[name],
                None if padding_struct is None else padding_struct[name],
            )
            for name in sorted(length_struct)
        ]
        self._aligns = any(feature.alignment != 1 for feature in self._features)
        self._size = at_least("num_packing_bins", num_packing_bins, 1)
        self._seed, self._shuffle, self._group_by = seed, shuffle_bins, shuffle_bins_group_by_feature
        self._meta = frozenset(meta_features)
        self._listed = [name for name in meta_features if name not in length_struct]
        self._most = max_sequences_per_bin
        if max_sequences_per_bin is not None:
            at_least("max_sequences_per_bin", max_sequences_per_bin, 1)


class FirstFitPackIterDataset(PackIterDataset):
    """Rows of documents, each put into the first that has room for it.

    Args:
        parent: the data set before, of documents: dicts of arrays (tokens, ...), or of numbers, which are one token.
        length_struct: for each packed feature the tokens of a row.
        num_packing_bins: rows of a window.
        seed: of the order of a window's rows.
        shuffle_bins: whether they are shuffled.
        shuffle_bins_group_by_feature: rows go by the mean of the different values that this feature has in each.
        meta_features: features without segment ids and positions; of those that length_struct lacks, a row has a list
            of its documents' values.
        pack_alignment_struct: for each feature, the number that each document's first place is a multiple of.
        padding_struct: for each feature the value of padding; None for 0.
        max_sequences_per_bin: the most documents of a row.
    """

    _bins = FirstFit


class BestFitPackIterDataset(PackIterDataset):
    """Rows of documents, each put into the fullest that has room for it.

    Args:
        parent, length_struct, num_packing_bins, meta_features: as FirstFitPackIterDataset has them.
        seed, shuffle_bins, shuffle_bins_group_by_feature: of the order of a window's rows.
        pack_alignment_struct, padding_struct, max_sequences_per_bin: of a row.
    """

    _bins = BestFit
