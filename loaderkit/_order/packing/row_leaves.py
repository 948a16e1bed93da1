"""Packed rows: where pieces lie in them, the leaves that say so, and what these are called."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as _short
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from loaderkit._order.permutation import Int64Array

Rows = npt.NDArray[Any]  # (rows, tokens of a row)

# Places that are filled at once: their int32 values, 128 KB, stay in the cache of a core.
_AT_ONCE = 1 << 15


class RowLayout:
    """Pieces side by side in rows of one length, the padding behind the last of each row.

    Args:
        lengths: tokens of each piece (n,), row by row.
        counts: pieces of each row (rows,), 1 or more.
        row: tokens of a row. ValueError where the pieces of a row have more.

    >>> layout = RowLayout(np.array([2, 1, 4]), np.array([2, 1]), 4)
    >>> out = np.empty((2, 4), np.int32)
    >>> layout.write_segment_ids(out)
    >>> out.tolist()
    [[1, 1, 2, 0], [1, 1, 1, 1]]
    >>> layout.write_positions(out)
    >>> out.tolist()
    [[0, 1, 0, 0], [0, 1, 2, 3]]
    """

    def __init__(self, lengths: Int64Array, counts: Int64Array, row: int) -> None:
        ends = np.cumsum(counts)
        used = np.add.reduceat(lengths, ends - counts)
        if used.max() > row:
            raise ValueError(f"lengths: expected at most {row} tokens in a row, got {used.max()}")
        self._lengths, self._row = lengths, row
        self._used: list[int] = used.tolist()
        self._padded: list[int] = np.flatnonzero(used < row).tolist()
        self._bounds: list[int] = [0, *ends.tolist()]  # row r has the pieces bounds[r] to bounds[r + 1]
        self._spans = lengths.copy()  # the places of each piece, with the padding behind it
        self._spans[ends - 1] += row - used
        self._rows = np.repeat(np.arange(len(counts)), counts)  # of each piece
        self._numbers = (
            np.arange(1, len(lengths) + 1) - (ends - counts)[self._rows]
        )  # of each piece in its row
        begins = np.cumsum(self._spans) - self._spans
        self._begins = begins - self._rows * row  # the place of each piece's first token in its row

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(self._used)

    def write_tokens(self, out: Rows, pieces: Sequence[npt.NDArray[Any]], value: Any) -> None:
        """The pieces, and `value` for padding."""
        bounds = self._bounds
        for row, used in enumerate(self._used):
            np.concatenate(pieces[bounds[row] : bounds[row + 1]], out=out[row, :used])
        self._write_padding(out, value)

    def write_segment_ids(self, out: Rows) -> None:
        """The number of each token's piece in its row, from 1; 0 for padding."""
        numbers = self._numbers.astype(out.dtype)
        for rows, pieces in self._groups():
            part = out[rows]
            part[...] = np.repeat(numbers[pieces], self._spans[pieces]).reshape(part.shape)
        self._write_padding(out, 0)

    def write_positions(self, out: Rows) -> None:
        """The place of each token in its piece, from 0; 0 for padding."""
        begins, places = self._begins.astype(out.dtype), np.arange(self._row, dtype=out.dtype)
        for rows, pieces in self._groups():
            part = out[rows]
            np.subtract(places, np.repeat(begins[pieces], self._spans[pieces]).reshape(part.shape), out=part)
        self._write_padding(out, 0)

    def write_targets(self, out: Rows, tokens: Rows, value: Any) -> None:
        """The token after each in its piece; `value` at the last of a piece, and for padding."""
        out[:, :-1] = tokens[:, 1:]
        self._write_ends(out, value)
        self._write_padding(out, value)

    def write_target_segment_ids(self, out: Rows, segment_ids: Rows) -> None:
        """The segment ids of the targets: 0 at the last token of a piece, which has no target."""
        out[...] = segment_ids
        self._write_ends(out, 0)

    def _write_ends(self, out: Rows, value: Any) -> None:
        some = self._lengths > 0
        out[self._rows[some], (self._begins + self._lengths - 1)[some]] = value

    def _write_padding(self, out: Rows, value: Any) -> None:
        for row in self._padded:
            out[row, self._used[row] :] = value

    def _groups(self) -> Iterator[tuple[slice, slice]]:
        """Rows a few at a time, and their pieces."""
        step, count = max(1, _AT_ONCE // self._row), len(self._used)
        for first in range(0, count, step):
            last = min(first + step, count)
            yield slice(first, last), slice(self._bounds[first], self._bounds[last])


Leaves = Mapping[str, Rows]
Names = Mapping[str, str] | Literal["maxtext"] | None


@dataclass(frozen=True, slots=True)
class RowLeaves:
    """The leaves of a packed row by name, in the order of the row.

    Args:
        features: (tokens, segment ids, positions) of each feature.
        targets: (tokens, segment ids, positions) of the targets; None without.
        mask: of the mask; None without.
    """

    features: tuple[tuple[str, str, str], ...]
    targets: tuple[str, str, str] | None
    mask: str | None

    @property
    def all(self) -> tuple[str, ...]:
        """Every name, in the order of the row."""
        names = self.of_feature(0)
        return names + tuple(name for triple in self.features[1:] for name in triple)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The leaves of tokens."""
        triples = (*self.features, *(() if self.targets is None else (self.targets,)))
        return tuple(triple[0] for triple in triples)

    def of_feature(self, number: int) -> tuple[str, ...]:
        """The leaves that one feature gives; targets and mask are of the only one."""
        rest = (self.targets or ()) + (() if self.mask is None else (self.mask,))
        return self.features[number] + (rest if number == 0 else ())

    def empty(self, name: str, shape: tuple[int, ...], tokens: np.dtype[Any]) -> Rows:
        """An array for a leaf of some rows.

        Args:
            name: of the leaf.
            shape: (rows, tokens of a row, ...) of the tokens; the other leaves have the first two.
            tokens: dtype of the tokens.
        """
        if name in self.tokens:
            return np.empty(shape, tokens)
        return np.empty(shape[:2], np.bool_ if name == self.mask else np.int32)

    def write(self, number: int, layout: RowLayout, leaves: Leaves, pieces: Sequence[Rows], pad: Any) -> None:
        """Fills all leaves of one feature.

        Args:
            number: of the feature.
            layout: where its pieces lie.
            leaves: an array for each name of the feature.
            pieces: the tokens, row by row.
            pad: value behind them, and where there is no target.
        """
        tokens = leaves[self.features[number][0]]
        layout.write_tokens(tokens, pieces, pad)
        self.write_others(number, layout, leaves)
        if self.targets is not None:
            layout.write_targets(leaves[self.targets[0]], tokens, pad)

    def write_others(self, number: int, layout: RowLayout, leaves: Leaves) -> None:
        """Fills what doesn't depend on tokens: segment ids and positions of a feature and its targets, and the mask."""
        _, segment_ids, positions = self.features[number]
        layout.write_segment_ids(leaves[segment_ids])
        layout.write_positions(leaves[positions])
        counted = leaves[segment_ids]
        if self.targets is not None:
            _, target_ids, target_positions = self.targets
            counted = leaves[target_ids]
            layout.write_target_segment_ids(counted, leaves[segment_ids])
            leaves[target_positions][...] = leaves[positions]
        if self.mask is not None:
            np.not_equal(counted, 0, out=leaves[self.mask])


def row_leaves(features: Sequence[str], names: Names, mask: str | None, *, targets: bool) -> RowLeaves:
    """The leaves of a packed row, with Grain's names, MaxText's or the user's.

    Args:
        features: that are packed.
        names: None for Grain's names, "maxtext" for MaxText's, or the user's by Grain's. ValueError for a name that no
            leaf has, and for two leaves of one name.
        mask: name of the mask, None for none.
        targets: whether there are targets.

    >>> row_leaves(["text"], None, None, targets=False).all
    ('text', 'text_segment_ids', 'text_positions')
    >>> row_leaves(["text"], "maxtext", None, targets=True).all[:4]
    ('inputs', 'inputs_segmentation', 'inputs_position', 'targets')
    """
    if (targets or mask is not None) and len(features) > 1:
        argument = "targets" if targets else "mask"
        raise ValueError(
            f"{argument}: expected one feature, got {list(features)}; pack the others by themselves"
        )
    if mask is not None and not isinstance(mask, str):
        raise TypeError(f"mask: expected the name of the mask or None, got {_short(mask)}")
    own = [*features, *(["targets"] if targets else [])]
    triples = [(one, f"{one}_segment_ids", f"{one}_positions") for one in own]
    if names == "maxtext":
        shown = ["inputs", *own[1:]] if len(features) == 1 else own
        triples = [(one, f"{one}_segmentation", f"{one}_position") for one in shown]
    elif isinstance(names, Mapping):
        known = [name for triple in triples for name in triple]
        if strange := [name for name in names if name not in known]:
            raise ValueError(f"names: expected some of {known}, got {_short(strange[0])}")
        given = names.get
        triples = [(given(one, one), given(ids, ids), given(at, at)) for one, ids, at in triples]
    elif names is not None:
        raise TypeError(f"names: expected 'maxtext', a mapping of names or None, got {_short(names)}")
    found = RowLeaves(tuple(triples[: len(features)]), triples[-1] if targets else None, mask)
    if len({*found.all}) < len(found.all):
        twice = next(name for name in found.all if found.all.count(name) > 1)
        raise ValueError(
            f"names: expected another name for each leaf, got {twice!r} for two; give names={{...}}"
        )
    return found


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


def shown(array: npt.NDArray[Any]) -> str:
    """The dtype of an array, and its shape but for the number of tokens, for errors.

    >>> shown(np.zeros((5, 2), np.uint8))
    'uint8 of shape (tokens, 2)'
    """
    return f"{array.dtype} of shape {('tokens', *array.shape[1:])}".replace("'", "")
