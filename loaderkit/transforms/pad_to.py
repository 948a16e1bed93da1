"""Leaves of different lengths made one length, by values behind them."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.numbers import at_least, true_or_false

from .base import Map
from .named_leaf import array_at, name_of_leaf


@former_arguments(removed_in="0.3.0", by_place=["mask", "value", "truncate"])
@dataclass(frozen=True)
class PadTo(Map):
    """One leaf of each element, an array, padded along its first axis to one length: batches have one shape.

    Args:
        length: 0 or more.
        key: of the leaf, an array (n, ...), in the element, a dict.
        mask: the name of a new leaf, bool (length,): which are the array's own. None for none.
        value: what is put behind, cast to the array's dtype.
        truncate: True cuts a longer array off; else that is a ValueError.

    >>> PadTo(4, "tokens", mask="mask").map({"tokens": np.array([7, 8])})
    {'tokens': array([7, 8, 0, 0]), 'mask': array([ True,  True, False, False])}
    >>> PadTo(1, "tokens").map({"tokens": np.array([7, 8])})
    Traceback (most recent call last):
    ValueError: leaf 'tokens': expected a length of at most 1, got 2; give truncate=True or a greater length
    """

    length: int
    key: str
    _: KW_ONLY
    mask: str | None = None
    value: Any = 0
    truncate: bool = False

    def __post_init__(self) -> None:
        self._set(length=at_least("length", self.length, 0))
        name_of_leaf("key", self.key)
        if self.mask is not None:
            name_of_leaf("mask", self.mask)
        true_or_false("truncate", self.truncate)

    def map(self, element: Any) -> Any:
        """The element with the leaf padded."""
        leaf = array_at(element, self.key)
        if len(leaf) > self.length and not self.truncate:
            raise ValueError(
                f"leaf {self.key!r}: expected a length of at most {self.length}, got {len(leaf)}; give truncate=True "
                "or a greater length"
            )
        leaf = leaf[: self.length]
        return with_padding(element, self.key, leaf, self.length, self.value, self.mask)


def with_padding(
    element: dict[str, Any], key: str, leaf: np.ndarray, length: int, value: Any, mask: str | None
) -> dict[str, Any]:
    """The element with a leaf padded to a length, which it doesn't exceed, and its mask.

    >>> with_padding({"x": np.ones(1)}, "x", np.ones(1), 2, 5, None)
    {'x': array([1., 5.])}
    """
    out = np.empty((length, *leaf.shape[1:]), leaf.dtype)
    out[: len(leaf)] = leaf
    out[len(leaf) :] = value
    made = {**element, key: out}
    if mask is not None:
        if mask in element:
            raise ValueError(
                f"mask: expected the name of a new leaf, got {mask!r}, which the element has; give another name"
            )
        made[mask] = np.arange(length) < len(leaf)
    return made
