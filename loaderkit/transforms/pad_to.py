"""Leaves of different lengths made one length, by values behind them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.numbers import at_least, true_or_false

from .base import Map
from .leaf import Place, array_at, leaf_key, with_new, with_value


@former_arguments(removed_in="0.3.0", by_place=["mask", "value", "truncate"])
@dataclass(frozen=True)
class PadTo(Map):
    """One leaf of each element, an array, padded along its first axis to one length: batches have one shape.

    Args:
        length: 0 or more.
        key: of the leaf, an array (n, ...): a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the array.
        mask: as key, of a new leaf, bool (length,): which are the array's own. None for none. A dict gets the key, a
            tuple or list the position behind its last; a field has to be there, with None.
        value: what is put behind, cast to the array's dtype.
        truncate: True cuts a longer array off; else that is a ValueError.

    >>> PadTo(4, "tokens", mask="mask").map({"tokens": np.array([7, 8])})
    {'tokens': array([7, 8, 0, 0]), 'mask': array([ True,  True, False, False])}
    >>> PadTo(3, 0, mask=2).map((np.array([7, 8]), "label"))
    (array([7, 8, 0]), 'label', array([ True,  True, False]))
    >>> PadTo(1, "tokens").map({"tokens": np.array([7, 8])})
    Traceback (most recent call last):
    ValueError: leaf 'tokens': expected a length of at most 1, got 2; give truncate=True or a greater length
    """

    length: int
    key: Place
    _: KW_ONLY
    mask: Place = None
    value: Any = 0
    truncate: bool = False

    def __post_init__(self) -> None:
        self._set(length=at_least("length", self.length, 0))
        leaf_key("key", self.key)
        leaf_key("mask", self.mask)
        true_or_false("truncate", self.truncate)

    def map(self, element: Any) -> Any:
        """The element with the leaf padded."""
        leaf = array_at(element, self.key)
        if len(leaf) > self.length and not self.truncate:
            raise ValueError(
                f"leaf {self.key!r}: expected a length of at most {self.length}, got {len(leaf)}; give truncate=True "
                "or a greater length"
            )
        padded, own = padded_to(self.length, leaf[: self.length], self.value)
        element = with_value(element, self.key, padded)
        return element if self.mask is None else with_new("mask", element, self.mask, own)


def padded_to(length: int, leaf: np.ndarray, value: Any) -> tuple[np.ndarray, np.ndarray]:
    """A leaf padded to a length, which it doesn't exceed, and which are its own: bool (length,).

    >>> padded_to(2, np.ones(1), 5)
    (array([1., 5.]), array([ True, False]))
    """
    out = np.empty((length, *leaf.shape[1:]), leaf.dtype)
    out[: len(leaf)] = leaf
    out[len(leaf) :] = value
    return out, np.arange(length) < len(leaf)
