"""Packed rows: where pieces lie in them, the leaves that say so, and what these are called."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from reprlib import repr as _short
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.permutation import Int64Array

Rows = npt.NDArray[Any]  # (rows, tokens of a row)

# Places that are filled at once: their numbers, mostly of 16 bits, stay in the cache of a core.
_AT_ONCE = 1 << 15
# Bytes that each leaf's place is a multiple of: a cache line.
_ALIGNMENT = 64


class RowLayout:
    """Pieces side by side in rows of one length, the padding behind the last of each row.

    Args:
        lengths: tokens of each piece (n,), row by row.
        counts: pieces of each row (rows,), 1 or more.
        row: tokens of a row. ValueError where the pieces of a row have more.
        goes_on: whether the target of a piece's last token is the document's next one (n,); None where none goes on.

    >>> layout = RowLayout(np.array([2, 1, 4]), np.array([2, 1]), 4)
    >>> out = np.empty((2, 4), np.int32)
    >>> layout.write_segment_ids(out)
    >>> out.tolist()
    [[1, 1, 2, 0], [1, 1, 1, 1]]
    >>> layout.write_positions(out)
    >>> out.tolist()
    [[0, 1, 0, 0], [0, 1, 2, 3]]
    """

    def __init__(
        self, lengths: Int64Array, counts: Int64Array, row: int, goes_on: npt.NDArray[np.bool_] | None = None
    ) -> None:
        ends = counts.cumsum()
        firsts = ends - counts
        used = np.add.reduceat(lengths, firsts)
        if used.max() > row:
            raise ValueError(f"lengths: expected at most {row} tokens in a row, got {used.max()}")
        self._lengths, self._row = lengths, row
        self._used: list[int] = used.tolist()
        self._padded: list[int] = np.flatnonzero(used < row).tolist()
        self._bounds: list[int] = [0, *ends.tolist()]  # row r has the pieces bounds[r] to bounds[r + 1]
        self._spans = lengths.copy()  # the places of each piece, with the padding behind it
        self._spans[ends - 1] += row - used
        self._rows = np.arange(len(counts)).repeat(counts)  # of each piece
        # numpy repeats values of 16 bits in a tenth of the time that it takes for those of 64.
        self._small = np.uint16 if max(row, len(lengths)) < 1 << 16 else np.uint32
        numbers = np.arange(1, len(lengths) + 1) - firsts[self._rows]
        self._numbers = numbers.astype(self._small)  # of each piece in its row
        begins = self._spans.cumsum() - self._spans
        self._begins = begins - self._rows * row  # the place of each piece's first token in its row
        self._going_on = goes_on

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(self._used)

    def without_nexts(self, pieces: Sequence[Rows]) -> tuple[Sequence[Rows], npt.NDArray[Any] | None]:
        """Values of pieces, and those behind the pieces that go on, which were read with them."""
        if self._going_on is None or not self._going_on.any():
            return pieces, None
        lengths = self._lengths.tolist()
        nexts = [pieces[place][lengths[place]] for place in np.flatnonzero(self._going_on).tolist()]
        return [piece[:length] for piece, length in zip(pieces, lengths)], np.array(nexts)

    def write_tokens(self, out: Rows, pieces: Sequence[npt.NDArray[Any]], value: Any) -> None:
        """The pieces, and `value` for padding."""
        bounds = self._bounds
        for row, used in enumerate(self._used):
            # Unsafe, as every value of a loss but 0 is True.
            np.concatenate(pieces[bounds[row] : bounds[row + 1]], out=out[row, :used], casting="unsafe")
        self._write_padding(out, value)

    def write_segment_ids(self, out: Rows) -> None:
        """The number of each token's piece in its row, from 1; 0 for padding."""
        self.write_by_piece(out, self._numbers)

    def write_by_piece(self, out: Rows, values: npt.NDArray[Any]) -> None:
        """The value of each token's piece, of (pieces,); 0 for padding."""
        for rows, numbers in self._repeated(values):
            out[rows] = numbers
        self._write_padding(out, 0)

    def write_positions(self, out: Rows) -> None:
        """The place of each token in its piece, from 0; 0 for padding."""
        places = np.arange(self._row, dtype=self._small)
        for rows, begins in self._repeated(self._begins.astype(self._small)):
            np.subtract(places, begins, out=out[rows])
        self._write_padding(out, 0)

    def write_targets(self, out: Rows, values: Rows, nexts: npt.NDArray[Any] | None, value: Any) -> None:
        """The value at the target of each token; `value` where there is none, and for padding.

        Args:
            out: to be filled; it may be `values`.
            values: at the tokens, and `value` for padding.
            nexts: behind the pieces that go on.
            value: see above.
        """
        out[:, :-1] = values[:, 1:]
        out[:, -1] = value
        if nexts is not None:
            out[self._ends_of(self._going_on)] = nexts
        self.write_ends(out, value)

    def write_ends(self, out: Rows, value: Any) -> None:
        """`value` at the tokens of pieces that have no target."""
        out[self._without_target] = value

    @cached_property
    def _without_target(self) -> tuple[Int64Array, Int64Array]:
        some = self._lengths > 0
        return self._ends_of(some if self._going_on is None else some & ~self._going_on)

    def _ends_of(self, some: Any) -> tuple[Int64Array, Int64Array]:
        return self._rows[some], (self._begins + self._lengths - 1)[some]

    def _write_padding(self, out: Rows, value: Any) -> None:
        for row in self._padded:
            out[row, self._used[row] :] = value

    def _repeated(self, values: npt.NDArray[Any]) -> Iterator[tuple[slice, Rows]]:
        """Rows a few at a time, with the value of each place's piece, also of the padding behind it."""
        step, count = max(1, _AT_ONCE // self._row), len(self._used)
        for first in range(0, count, step):
            last = min(first + step, count)
            pieces = slice(self._bounds[first], self._bounds[last])
            yield (
                slice(first, last),
                np.repeat(values[pieces], self._spans[pieces]).reshape(last - first, self._row),
            )


Leaves = Mapping[str, Rows]
Names = Mapping[str, str] | Literal["maxtext"] | None
Targets = Literal["document"] | bool


@dataclass(frozen=True, slots=True)
class FeatureLeaves:
    """The leaves of one feature by name.

    name: of the feature in a document. tokens, targets: (tokens, segment ids, positions). mask: None without. by_token,
    by_document: pairs of a leaf, and of the name in a document of what has a value for each token, or one in all.
    """

    name: str
    tokens: tuple[str, str, str]
    targets: tuple[str, str, str] | None
    mask: str | None
    by_token: tuple[tuple[str, str], ...]
    by_document: tuple[tuple[str, str], ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Every name, in the order of the row."""
        others = [leaf for leaf, _ in (*self.by_token, *self.by_document) if leaf != self.mask]
        return (*self.tokens, *(self.targets or ()), *(() if self.mask is None else (self.mask,)), *others)

    def empty(
        self, rows: int, row: int, like: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]
    ) -> dict[str, Rows]:
        """An array for each leaf of some rows.

        Args:
            rows, row: how many, and the tokens of each.
            like: by name in a document, the dtype of the values, and the shape of one.
        """
        read = {self.tokens[0]: self.name, **dict(self.by_token), **dict(self.by_document)}
        if self.targets is not None:
            read[self.targets[0]] = self.name
        shapes: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        places = [0]
        for leaf in self.all:
            dtype, shape = like[read[leaf]] if leaf in read else (np.dtype(np.int32), ())
            dtype, shape = np.dtype(np.bool_) if leaf == self.mask else dtype, (rows, row, *shape)
            shapes[leaf] = dtype, shape
            lines = -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT)
            places.append(places[-1] + lines * _ALIGNMENT)
        # One allocation: of several sizes glibc gives freed ones back to the system, which zeroes their pages anew:
        # half the time of a batch with targets.
        block = np.empty(places[-1], np.uint8)
        return {
            leaf: np.ndarray(shape, dtype, block, place)
            for (leaf, (dtype, shape)), place in zip(shapes.items(), places)
        }

    def write(self, layout: RowLayout, leaves: Leaves, values: Mapping[str, Any], pad: Any) -> None:
        """Fills all leaves.

        Args:
            layout: where the pieces lie.
            leaves: an array for each name.
            values: by name in a document, of each piece, row by row: the tokens, and what has a value for each, with
                one more where a piece goes on; of what has one for all, an array (pieces,).
            pad: value behind the tokens, and where there is no target.
        """
        tokens, segment_ids, positions = (leaves[name] for name in self.tokens)
        pieces, nexts = layout.without_nexts(values[self.name])
        layout.write_tokens(tokens, pieces, pad)
        layout.write_segment_ids(segment_ids)
        layout.write_positions(positions)
        counted = segment_ids
        if self.targets is not None:
            targets, counted, target_positions = (leaves[name] for name in self.targets)
            layout.write_targets(targets, tokens, nexts, pad)
            counted[...] = segment_ids
            layout.write_ends(counted, 0)
            target_positions[...] = positions
        if self.mask is not None:
            np.not_equal(counted, 0, out=leaves[self.mask])
        for leaf, name in self.by_token:
            pieces, nexts = layout.without_nexts(values[name])
            layout.write_tokens(leaves[leaf], pieces, 0)
            if self.targets is not None:
                layout.write_targets(leaves[leaf], leaves[leaf], nexts, 0)
        for leaf, name in self.by_document:
            layout.write_by_piece(leaves[leaf], values[name])
            if self.targets is not None:
                layout.write_ends(leaves[leaf], 0)


def row_leaves(
    features: Sequence[str],
    *,
    names: Names,
    mask: str | None,
    targets: Targets,
    loss: str | None,
    columns: Sequence[str],
    per_document: Sequence[str],
) -> tuple[FeatureLeaves, ...]:
    """The leaves of a packed row by feature, with Grain's names, MaxText's or the user's.

    Args:
        features: that are packed. With several the name of a feature and "_" stand before the names of its targets, its
            mask and its columns, in documents too; but for values of the document, in rows alone.
        names: None for Grain's names, "maxtext" for MaxText's, or the user's by Grain's. ValueError for a name that no
            leaf has, and for two leaves of one name.
        mask: name of the mask, None for none.
        targets: whether there are targets; "document" for those beyond the end of a piece, too.
        loss: name of the values that say where the mask is True; None for all targets.
        columns: names of further values of tokens.
        per_document: names of values of documents.

    >>> none = {"loss": None, "columns": (), "per_document": ()}
    >>> row_leaves(["text"], names=None, mask=None, targets=False, **none)[0].all
    ('text', 'text_segment_ids', 'text_positions')
    >>> row_leaves(["text"], names="maxtext", mask=None, targets=True, **none)[0].all[:4]
    ('inputs', 'inputs_segmentation', 'inputs_position', 'targets')
    """
    _check_chosen(names, mask, targets, loss, {"columns": columns, "per_document": per_document})
    several = len(features) > 1
    found: list[FeatureLeaves] = []
    known: list[str] = []
    for feature in features:
        before = f"{feature}_" if several else ""
        triples = []
        for own in (feature, f"{before}targets") if targets else (feature,):
            known += (own, f"{own}_segment_ids", f"{own}_positions")
            triples.append(_triple(own, names, shown="inputs" if own == feature and not several else own))
        named_mask = None if mask is None else before + mask
        by_token = [(before + column, before + column) for column in columns]
        if loss is not None and named_mask is not None:
            by_token.insert(0, (named_mask, before + loss))
        by_document = tuple((before + name, name) for name in per_document)
        of_targets = triples[1] if targets else None
        found.append(FeatureLeaves(feature, triples[0], of_targets, named_mask, tuple(by_token), by_document))
    if isinstance(names, Mapping) and (strange := [name for name in names if name not in known]):
        raise ValueError(f"names: expected some of {known}, got {_short(strange[0])}")
    every = [name for leaves in found for name in leaves.all]
    if len({*every}) < len(every):
        twice = next(name for name in every if every.count(name) > 1)
        raise ValueError(
            f"names: expected another name for each leaf, got {twice!r} for two; give names={{...}}"
        )
    return tuple(found)


def _triple(own: str, names: Names, *, shown: str) -> tuple[str, str, str]:
    if names == "maxtext":
        return shown, f"{shown}_segmentation", f"{shown}_position"
    ids, positions = f"{own}_segment_ids", f"{own}_positions"
    given = names or {}
    return given.get(own, own), given.get(ids, ids), given.get(positions, positions)


def _check_chosen(names: Any, mask: Any, targets: Any, loss: Any, lists: Mapping[str, Any]) -> None:
    if names not in (None, "maxtext") and not isinstance(names, Mapping):
        raise TypeError(f"names: expected 'maxtext', a mapping of names or None, got {_short(names)}")
    if targets not in (True, False, "document"):
        raise ValueError(f"targets: expected True, False or 'document', got {_short(targets)}")
    for argument, value, wanted in (
        ("mask", mask, "the mask"),
        ("loss", loss, "what says where the loss counts"),
    ):
        if not isinstance(value, str | None):
            raise TypeError(f"{argument}: expected the name of {wanted} or None, got {_short(value)}")
    if loss is not None and mask is None:
        raise ValueError(f"mask: expected a name for the leaf of loss={loss!r}, got None; write mask='mask'")
    for argument, values in lists.items():
        if isinstance(values, str) or not all(isinstance(value, str) for value in values):
            raise TypeError(f"{argument}: expected a list of names, got {_short(values)}")


def feature_array(
    document: Any, name: str, place: int, describe: Callable[[int], str], *, bare: bool, advice: str
) -> npt.NDArray[Any]:
    """The array (tokens, ...) of a feature.

    Args:
        document: a dict of arrays by feature, or one array.
        name: of the feature.
        place: of the document.
        describe: names a document in an error, by its place.
        bare: whether a document may be the array itself.
        advice: what to do where there is no array; the end of the error's text.

    Raises ValueError for a dict without the feature, TypeError for what is no array of numbers.

    >>> feature_array({"tokens": [1, 2]}, "tokens", 0, "document {}".format, bare=True, advice="")
    array([1, 2])
    """
    values = document
    if isinstance(document, Mapping):
        if name not in document:
            raise ValueError(
                f"feature: expected one of {list(document)}, which {describe(place)} has, got {name!r}; "
                f"write feature={next(iter(document), name)!r}"
            )
        values = document[name]
    array = np.asarray(values)
    if array.ndim == 0 or array.dtype.hasobject or (values is document and not bare):
        raise TypeError(
            f"{describe(place)}: expected an array (tokens, ...) for {name!r}, got {_short(values)}; {advice}"
        )
    return array


def document_value(document: Any, name: str, place: int, describe: Callable[[int], str]) -> npt.NDArray[Any]:
    """A number of a document, as an array without axes; ValueError where it isn't there or isn't a number.

    Args:
        document: a dict.
        name: of the value.
        place, describe: as `feature_array` takes them.

    >>> document_value({"source": 3}, "source", 0, "document {}".format)
    array(3)
    """
    value = document.get(name) if isinstance(document, Mapping) else None
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "iufb":
        raise ValueError(f"{describe(place)}: expected a number in {name!r}, got {_short(value)}")
    return number


def alike(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Whether two arrays have one dtype, and one shape but for the number of tokens.

    >>> alike(np.zeros(3), np.zeros(5)), alike(np.zeros(3), np.zeros((3, 2)))
    (True, False)
    """
    return one.dtype == other.dtype and one.shape[1:] == other.shape[1:]


def shown(array: npt.NDArray[Any]) -> str:
    """The dtype of an array, and its shape but for the number of tokens, for errors.

    >>> shown(np.zeros((5, 2), np.uint8))
    'uint8 of shape (tokens, 2)'
    """
    return f"{array.dtype} of shape {('tokens', *array.shape[1:])}".replace("'", "")
