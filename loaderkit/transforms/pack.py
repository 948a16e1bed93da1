"""Rows of tokens packed of documents as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as _short
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.numbers import at_least
from loaderkit._base.system.packed_tokens import packed as packed_tokens
from loaderkit._order.packing.block import How, Rules, WindowRows, checked_rules, window_rows
from loaderkit._order.packing.pieces import Long
from loaderkit._order.packing.row_leaves import (
    Leaves,
    Names,
    RowLayout,
    RowLeaves,
    Rows,
    feature_array,
    row_leaves,
    shown,
)

from .base import Window


@dataclass(frozen=True, init=False, repr=False)
class Pack(Window):
    """Packs each window of documents into rows of `length` tokens: {f, f_segment_ids, f_positions}.

    Segment ids (int32) number the documents of a row from 1, positions (int32) the tokens of each from 0; padding has
    `pad`, 0 and 0. Every token is in one row; no document goes on in the next window. An empty document is in no row.
    Where lengths are known beforehand, `lk.plan_packing` fills rows better, and its rows can be shuffled and counted.

    Args:
        length: tokens of a row; for several features a mapping of them by feature.
        window: documents that are packed together. More fill rows better; a resumed stream reads up to so many again.
        how: "best_fit" puts long pieces first, each into the row with the least room that it fits in. "first_fit" takes
            the documents in order, each for the first row with room in every feature; only it takes features of
            different lengths. "concat_then_split" joins a window's documents and cuts them every `length` tokens.
        feature: name of the tokens (tokens, ...) in an element, or several names of arrays of one length. If not given,
            those of `length`, "tokens", or an element's only array. Other values of an element are left out.
        long: what becomes of a document longer than a row. "split": as many pieces as it needs. "truncate": its first
            tokens. "drop": it is left out. "raise": a ValueError.
        names: None for the names above, which are Grain's; "maxtext" for inputs, inputs_segmentation, inputs_position,
            and targets likewise; or a mapping from the names above to others.
        mask: name of a leaf (T,) bool: True where the loss counts. That is at tokens that have a target, without
            `targets` at all tokens.
        targets: adds `targets`, `targets_segment_ids` and `targets_positions`: the next token of the same piece. The
            last of a piece has none: `pad`, with segment id 0.
        pad: token of padding. ValueError in a window where the tokens' dtype doesn't hold it.

    >>> for row in Pack(4, window=3).window([np.array([1, 2]), np.array([3, 4, 5]), np.array([6, 7])]):
    ...     print(row["tokens"], row["tokens_segment_ids"], row["tokens_positions"])
    [1 2 6 7] [1 1 2 2] [0 1 0 1]
    [3 4 5 0] [1 1 1 0] [0 1 2 0]
    """

    makes_new_rows = True
    length: int | Mapping[str, int]
    size: int
    how: How
    feature: str | tuple[str, ...] | None
    long: Long
    names: Names = None
    mask: str | None = None
    targets: bool = False
    pad: int = 0

    @former_arguments(removed_in="0.3.0", by_place=["window", "how", "feature", "long"])
    def __init__(
        self,
        length: int | Mapping[str, int],
        *,
        window: int = 1024,
        how: Literal["best_fit", "first_fit", "concat_then_split"] = "best_fit",
        feature: str | Sequence[str] | None = None,
        long: Literal["split", "truncate", "drop", "raise"] = "split",
        names: Names = None,
        mask: str | None = None,
        targets: bool = False,
        pad: int = 0,
    ) -> None:
        features = _checked_features(length, feature)
        if features is not None or not isinstance(names, Mapping):
            row_leaves(features or ("tokens",), names, mask, targets=bool(targets))
        if isinstance(length, Mapping):
            length = {name: _row(f"length[{name!r}]", length[name]) for name in features or ()}
        else:
            length = _row("length", length)
        checked_rules(tuple(length.values()) if isinstance(length, Mapping) else (length,), how, long)
        self._set(
            length=length,
            size=at_least("window", window, 1),
            how=how,
            feature=feature if feature is None or isinstance(feature, str) else features,
            long=long,
            names=names,
            mask=mask,
            targets=bool(targets),
            pad=at_least("pad", pad, -(1 << 63), below=1 << 64),
        )

    def window(self, elements: list[Any]) -> list[dict[str, npt.NDArray[Any]]]:
        """The rows of some documents."""
        names = _checked_features(self.length, self.feature) or (_only_feature(elements[0]),)
        packed = row_leaves(names, self.names, self.mask, targets=self.targets)
        columns = [_column(elements, name, bare=len(names) == 1) for name in names]
        lengths = np.array([list(map(len, column)) for column in columns], np.int64).T  # (elements, features)
        if isinstance(self.length, Mapping):
            row = tuple(self.length[name] for name in names)
        else:
            row = (self.length,) * len(names)
            self._check_equal(lengths, names)
        if self.long == "raise":
            self._check_short(lengths, names, row)
        rows = window_rows(lengths, Rules(row, self.how, self.long))
        if not len(rows.counts):
            return []
        leaves: dict[str, npt.NDArray[Any]] = {}
        for number, column in enumerate(columns):
            leaves |= self._leaves(packed, number, column, rows, row[number])
        return [dict(zip(leaves, values)) for values in zip(*leaves.values())]

    def _leaves(
        self, packed: RowLeaves, number: int, column: list[Rows], rows: WindowRows, row: int
    ) -> Leaves:
        """The leaves (rows, tokens of a row, ...) of one feature."""
        first, starts, lengths = column[0], rows.starts[:, number], rows.lengths[:, number]
        where = zip(rows.documents.tolist(), starts.tolist(), (starts + lengths).tolist())
        pieces = [column[document][start:end] for document, start, end in where]
        try:
            pad = np.array(self.pad, first.dtype)
        except OverflowError:
            raise ValueError(
                f"pad: expected a number of {first.dtype}, as the tokens are, got {self.pad}"
            ) from None
        shape = (len(rows.counts), row, *first.shape[1:])
        leaves = {name: packed.empty(name, shape, first.dtype) for name in packed.of_feature(number)}
        layout = RowLayout(lengths, rows.counts, row)
        packed_tokens.add(layout.tokens, len(rows.counts) * row)
        packed.write(number, layout, leaves, pieces, pad)
        return leaves

    def _check_equal(self, lengths: npt.NDArray[np.int64], names: Sequence[str]) -> None:
        differs = (lengths != lengths[:, :1]).any(axis=1)
        if differs.any():
            place = int(differs.argmax())
            got = dict(zip(names, lengths[place].tolist()))
            raise ValueError(
                f"element {place} of the window: expected features of one length, got {got}; for different ones write "
                f'Pack(length={{name: tokens, ...}}, how="first_fit")'
            )

    def _check_short(
        self, lengths: npt.NDArray[np.int64], names: Sequence[str], row: tuple[int, ...]
    ) -> None:
        is_long = lengths > np.array(row)
        if is_long.any():
            place, number = np.argwhere(is_long)[0].tolist()
            raise ValueError(
                f"element {place} of the window: expected at most {row[number]} tokens in {names[number]!r}, got "
                f'{lengths[place, number]}; write long="split", "truncate" or "drop"'
            )

    def _identity(self) -> dict[str, Any]:
        length = dict(self.length) if isinstance(self.length, Mapping) else self.length
        return {"op": "Pack", "length": length, "window": self.size, "how": self.how, "long": self.long}

    def __repr__(self) -> str:
        feature = "" if self.feature is None else f", feature={self.feature!r}"
        given = [(name, getattr(self, name)) for name in ("names", "mask", "targets", "pad")]
        more = "".join(f", {name}={value!r}" for name, value in given if value != getattr(Pack, name))
        return f"Pack({self.length}, window={self.size}, how={self.how!r}{feature}, long={self.long!r}{more})"


def _row(name: str, value: Any) -> int:
    return at_least(name, value, 1, below=1 << 31, advice="give the tokens of a row")


def _checked_features(length: Any, feature: Any) -> tuple[str, ...] | None:
    """The names of the features; None where the first element says it."""
    of_length = tuple(length) if isinstance(length, Mapping) else None
    names = (feature,) if isinstance(feature, str) else of_length if feature is None else tuple(feature)
    if names is None:
        return None
    if not names or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise ValueError(f"feature: expected a name, or different names, got {_short(feature or length)}")
    if of_length is not None and {*of_length} != {*names}:
        raise ValueError(f"feature: expected {list(of_length)}, which `length` has, got {list(names)}")
    return names


def _only_feature(element: Any) -> str:
    if not isinstance(element, Mapping) or "tokens" in element:
        return "tokens"
    if len(element) != 1:
        name = next(iter(element), "tokens")
        raise ValueError(
            f"feature: expected a name where elements have several values, got None and {list(element)}; write "
            f"feature={name!r}"
        )
    return str(next(iter(element)))


def _column(elements: list[Any], name: str, *, bare: bool) -> list[npt.NDArray[Any]]:
    """The arrays of a feature, all of one dtype and of one shape but for their tokens."""
    column: list[npt.NDArray[Any]] = []
    for place, element in enumerate(elements):
        array = feature_array(
            element, name, place, _described, bare=bare, advice="make it one in a Map before Pack"
        )
        if column and (array.dtype != column[0].dtype or array.shape[1:] != column[0].shape[1:]):
            raise ValueError(
                f"{_described(place)}: expected {name!r} as in the first, {shown(column[0])}, got "
                f"{shown(array)}"
            )
        column.append(array)
    return column


def _described(place: int) -> str:
    return f"element {place} of the window"
