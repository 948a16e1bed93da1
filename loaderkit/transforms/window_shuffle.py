"""A shuffle of what has been decoded, window by window."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least

from .base import Window


@dataclass(frozen=True, init=False, repr=False)
class WindowShuffle(Window):
    """Permutes the elements of each window of consecutive elements.

    The order depends on the sampler's seed, the place of the operation and where the window begins: it is the same for
    any number of workers, and for any number of hosts with the same `logical_streams`. A sampler with `shuffle=True`
    mixes the whole data set and costs nothing; this is for elements that a FlatMap or a Window made of one record.

    Args:
        size: elements of a window.

    >>> WindowShuffle(4).window(["a", "b", "c", "d"], np.random.default_rng(0))
    ['c', 'a', 'b', 'd']
    """

    size: int
    _draws = True

    def __init__(self, size: int) -> None:
        self._set(size=at_least("size", size, 1))

    def window(  # type: ignore[override]  # a Window that draws gets its generator
        self, elements: list[Any], rng: np.random.Generator
    ) -> list[Any]:
        """The elements in another order."""
        return [elements[place] for place in rng.permutation(len(elements)).tolist()]

    def _identity(self) -> dict[str, Any]:
        return {"op": "WindowShuffle", "size": self.size}

    def __repr__(self) -> str:
        return f"WindowShuffle({self.size})"
