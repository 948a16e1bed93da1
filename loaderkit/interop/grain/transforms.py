"""What Grain's DataLoader does to elements: base classes to derive from, and Batch.

A class derived from the real Grain's bases works as well.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np


class Map(abc.ABC):
    """One element in, one out.

    >>> class Double(Map):
    ...     def map(self, element):
    ...         return 2 * element
    >>> Double().map(4)
    8
    """

    @abc.abstractmethod
    def map(self, element: Any) -> Any:
        """The element that takes this one's place."""


class RandomMap(abc.ABC):
    """As Map, with the generator of the element's record, from which its RandomMaps draw in turn.

    >>> class Noise(RandomMap):
    ...     def random_map(self, element, rng):
    ...         return element + rng.random()
    >>> 4 <= Noise().random_map(4, np.random.default_rng(0)) < 5
    True
    """

    @abc.abstractmethod
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element that takes this one's place."""


class TfRandomMap(abc.ABC):
    """As RandomMap, with another name for its method."""

    @abc.abstractmethod
    def np_random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element that takes this one's place."""


class MapWithIndex(abc.ABC):
    """As Map, with an index; a DataLoader has none to give, and refuses it when iteration starts."""

    @abc.abstractmethod
    def map_with_index(self, index: int, element: Any) -> Any:
        """The element that takes this one's place."""


class Filter(abc.ABC):
    """Keeps the elements for which `filter` is true.

    >>> class Even(Filter):
    ...     def filter(self, element):
    ...         return element % 2 == 0
    >>> Even().filter(3)
    False
    """

    @abc.abstractmethod
    def filter(self, element: Any) -> bool:
        """Whether the element stays."""


class FlatMap(abc.ABC):
    """One element in, any number out; a RandomMap after it gets None for a generator, as in Grain.

    Attributes:
        max_fan_out: the most elements that one becomes. A DataLoader doesn't check it.
    """

    max_fan_out: int

    @abc.abstractmethod
    def flat_map(self, element: Any) -> Sequence[Any]:
        """The elements that take this one's place."""


@dataclass(frozen=True)
class Batch:
    """Consecutive elements of one layout worker, stacked leaf by leaf.

    Args:
        batch_size: rows; the DataLoader refuses one below 1.
        drop_remainder: whether a last, smaller batch is left out.
        batch_fn: takes the list of rows and gives the batch, instead of stacking.

    >>> Batch(2)
    Batch(batch_size=2, drop_remainder=False, batch_fn=None)
    """

    batch_size: int
    drop_remainder: bool = False
    batch_fn: Callable[[Sequence[Any]], Any] | None = None


class DatasetSelectionMap(abc.ABC):
    """Which data set, and which record of it, each index reads."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def __getitem__(self, index: int) -> tuple[int, int]:
        """The number of a data set and the index in it."""


Transformation = Union[Batch, Map, RandomMap, TfRandomMap, Filter, FlatMap, MapWithIndex]  # noqa: UP007
Transformations = Sequence[Transformation]
