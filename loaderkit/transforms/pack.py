"""Rows of tokens packed of documents as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as _short
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import at_least
from loaderkit._base.system.packed_tokens import packed as packed_tokens
from loaderkit._order.packing.block import How, Rules, WindowRows, checked_rules, window_rows
from loaderkit._order.packing.leaves import (
    FeatureLeaves,
    Leaves,
    Names,
    RowLayout,
    Rows,
    Targets,
    alike,
    document_value,
    feature_array,
    row_leaves,
    shown,
)
from loaderkit._order.packing.pieces import Long

from .base import Window

# Which leaves there are, and what they hold.
_CHOSEN = ("names", "mask", "targets", "loss", "columns", "per_document")


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
        mask, targets, loss, columns, per_document: as `lk.PackedDataSource` takes them; what they name are values of an
            element.
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
    targets: Targets = False
    loss: str | None = None
    columns: tuple[str, ...] = ()
    per_document: tuple[str, ...] = ()
    pad: int = 0

    @former_arguments(removed_in="0.3.0", by_place=["window", "how", "feature", "long"])
    @refusing_foreign_arguments
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
        targets: Targets = False,
        loss: str | None = None,
        columns: Sequence[str] = (),
        per_document: Sequence[str] = (),
        pad: int = 0,
    ) -> None:
        features = _checked_features(length, feature)
        chosen: dict[str, Any] = {"names": names, "mask": mask, "targets": targets, "loss": loss}
        chosen |= {"columns": columns, "per_document": per_document}
        if features is not None or not isinstance(names, Mapping):
            row_leaves(features or ("tokens",), **chosen)
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
            **{**chosen, "columns": tuple(columns), "per_document": tuple(per_document)},
            pad=at_least("pad", pad, -(1 << 63), below=1 << 64),
        )

    def window(self, elements: list[Any]) -> list[dict[str, npt.NDArray[Any]]]:
        """The rows of some documents."""
        names = _checked_features(self.length, self.feature) or (self._only_feature(elements[0]),)
        features = row_leaves(names, **{name: getattr(self, name) for name in _CHOSEN})
        columns = {
            name: _column(elements, name, bare=len(names) == 1)
            for one in features
            for name in (one.name, *(column for _, column in one.by_token))
        }
        for one in features:
            for _, name in one.by_token:
                _check_values(columns[one.name], columns[name], name)
        each = [*enumerate(elements)]
        numbers = {
            name: np.array([document_value(one, name, place, _described) for place, one in each])
            for name in self.per_document
        }
        # Of elements and features.
        lengths = np.array([list(map(len, columns[name])) for name in names], np.int64).T
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
        for number, one in enumerate(features):
            leaves |= self._leaves(one, columns, numbers, rows, lengths[:, number], number, row[number])
        return [dict(zip(leaves, values)) for values in zip(*leaves.values())]

    def _leaves(
        self,
        feature: FeatureLeaves,
        columns: Mapping[str, list[Rows]],
        numbers: Mapping[str, npt.NDArray[Any]],
        rows: WindowRows,
        whole: npt.NDArray[np.int64],
        number: int,
        row: int,
    ) -> Leaves:
        """The leaves (rows, tokens of a row, ...) of one feature."""
        starts, lengths = rows.starts[:, number], rows.lengths[:, number]
        ends, goes_on = starts + lengths, None
        if self.targets == "document":
            goes_on = (lengths > 0) & (ends < whole[rows.documents])
            ends += goes_on
        where = [*zip(rows.documents.tolist(), starts.tolist(), ends.tolist())]
        read = (feature.name, *(name for _, name in feature.by_token))
        values: dict[str, Any] = {
            name: [columns[name][document][start:end] for document, start, end in where] for name in read
        }
        values |= {name: each[rows.documents] for name, each in numbers.items()}
        first = columns[feature.name][0]
        try:
            pad = np.array(self.pad, first.dtype)
        except OverflowError:
            raise ValueError(
                f"pad: expected a number of {first.dtype}, as the tokens are, got {self.pad}"
            ) from None
        like = {name: (each[0].dtype, each[0].shape[1:]) for name, each in columns.items()}
        like |= {name: (each.dtype, ()) for name, each in numbers.items()}
        leaves = feature.empty(len(rows.counts), row, like)
        layout = RowLayout(lengths, rows.counts, row, goes_on)
        packed_tokens.add(layout.tokens, len(rows.counts) * row)
        feature.write(layout, leaves, values, pad)
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

    def _only_feature(self, element: Any) -> str:
        if not isinstance(element, Mapping) or "tokens" in element:
            return "tokens"
        others = {self.loss, *self.columns, *self.per_document}
        names = [name for name in element if name not in others]
        if len(names) != 1:
            name = next(iter(element), "tokens")
            raise ValueError(
                f"feature: expected a name where elements have several values, got None and {list(element)}; write "
                f"feature={name!r}"
            )
        return str(names[0])

    def _identity(self) -> dict[str, Any]:
        length = dict(self.length) if isinstance(self.length, Mapping) else self.length
        return {"op": "Pack", "length": length, "window": self.size, "how": self.how, "long": self.long}

    def __repr__(self) -> str:
        feature = "" if self.feature is None else f", feature={self.feature!r}"
        given = [(name, getattr(self, name)) for name in (*_CHOSEN, "pad")]
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


def _check_values(tokens: list[Rows], values: list[Rows], name: str) -> None:
    for place, (one, other) in enumerate(zip(tokens, values)):
        if len(one) != len(other):
            raise ValueError(
                f"{_described(place)}: expected {len(one)} values in {name!r}, one for each token, got {len(other)}"
            )


def _column(elements: list[Any], name: str, *, bare: bool) -> list[npt.NDArray[Any]]:
    """The arrays of a feature, all of one dtype and of one shape but for their tokens."""
    column: list[npt.NDArray[Any]] = []
    for place, element in enumerate(elements):
        array = feature_array(
            element, name, place, _described, bare=bare, advice="make it one in a Map before Pack"
        )
        if column and not alike(array, column[0]):
            raise ValueError(
                f"{_described(place)}: expected {name!r} as in the first, {shown(column[0])}, got "
                f"{shown(array)}"
            )
        column.append(array)
    return column


def _described(place: int) -> str:
    return f"element {place} of the window"
