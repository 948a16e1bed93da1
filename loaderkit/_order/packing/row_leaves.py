"""The leaves of a packed row: what they are called, and what is in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as _short
from typing import Any, Literal

import numpy as np

from .row_layout import RowLayout, Rows

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
