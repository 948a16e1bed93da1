"""Mixture orders: which component each place of an endless order reads, and which of its records.

    place    counted from 0 in the order
    ordinal  counted from 0 among the records of one component

An order is a function of the place. After any prefix a component was read as 0..c-1.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import at_least

from .fair_table import Int32Array, Int64Array
from .shares import integer_weights
from .shuffled_order import ShuffledOrder
from .table_order import LEAST_SHARE, TableOrder, TablePlan, plan_of

IntpArray = npt.NDArray[np.intp]

_ORDERS = 16  # that are kept: 768 KiB each, with 10,000 components up to 40 MiB


class MixtureOrder(Protocol):
    """An endless order of components by weight.

    names: components of positive weight, sorted, so that the order in which weights are given changes no stream.
    weights: the effective share of each name: exact, positive, with sum 1.
    """

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def weights(self) -> Mapping[str, Fraction]: ...

    def of(self, places: Int64Array) -> tuple[Int32Array | IntpArray, Int64Array]:
        """The component, as its place in `names`, and the ordinal of each place, 0 to 2**62."""
        ...

    def counts(self, place: int) -> Int64Array:
        """How many records of each name, (len(names),), the first `place` places read."""
        ...

    def places_of(self, component: int, ordinals: Int64Array) -> Int64Array:
        """The places that read these ordinals, 0 to 2**62, of a component; 2**62 for a place beyond it."""
        ...


def order_of(weights: Mapping[str, Fraction], *, most_slots: int = 65_536) -> MixtureOrder:
    """The even order of some weights; the same object for the same ratio while it is kept.

    weights: {name: positive weight}. most_slots: of one table, 256 or more. Weights whose smallest integers have a sum
    of at most this are exact; others are rounded to that many slots, by at most one slot each. Components with less
    than 1/256 are gathered: in groups that have slots together, and where less than 1/256 is left, in a tail that has
    every m-th place.

    Against the effective weights of the order, |count - n * weight| < 1 for each component and the first n places, for
    every n: where the weights are exact, where they are rounded to one table, and where there is also one tail. A
    member of a group has less than 1 + u * d, where u is its share of the group and d the bound of the group's own
    count: 1 for a group in the first table, below 1.01 for one in another group or in the tail. A member of a tail that
    has a tail itself has less than 1 + u * 1.01. So all stay below 2.01, and below 2 where groups have no groups.

    Raises ValueError where a component's share is below 2**-62.

    >>> order = order_of({"code": Fraction(3, 10), "web": Fraction(7, 10)})
    >>> components, ordinals = order.of(np.arange(10))
    >>> components.tolist(), ordinals.tolist()
    ([1, 0, 1, 1, 0, 1, 1, 0, 1, 1], [0, 0, 1, 2, 1, 3, 4, 2, 5, 6])
    """
    at_least("most_slots", most_slots, LEAST_SHARE)
    if not weights:
        raise ValueError("weights: expected a component or more, got none; give one a weight of 1")
    for name, weight in weights.items():
        if weight.numerator <= 0:
            raise ValueError(f"weights[{name!r}]: expected a positive weight, got {weight}; leave it out")
    integers = integer_weights(weights)
    return _order_of(tuple(sorted(integers.items())), most_slots)


@lru_cache(_ORDERS)
def _order_of(weights: tuple[tuple[str, int], ...], most_slots: int) -> TableOrder:
    return TableOrder.planned(tuple(name for name, _ in weights), plan_of(dict(weights), most_slots))


def pattern_order(pattern: Sequence[str]) -> MixtureOrder:
    """The order that repeats a pattern of names.

    >>> order = pattern_order(["web", "web", "code"])
    >>> [order.names[component] for component in order.of(np.arange(4))[0]]
    ['web', 'web', 'code', 'web']
    """
    if not pattern:
        raise ValueError("pattern: expected a name or more, got none; write one such as ['a', 'a', 'b']")
    names = tuple(sorted(set(pattern)))
    places = {name: place for place, name in enumerate(names)}
    slots = np.fromiter((places[name] for name in pattern), np.int32, len(pattern))
    return TableOrder.planned(names, TablePlan(names, slots))


def shuffled(order: MixtureOrder, key: int) -> MixtureOrder:
    """An order with the same components in each block of 2,048 places, in an order that the key and the block choose.

    Ordinals ascend inside a block too. Bounds of the counts hold at the ends of blocks. key: an int in [0, 2**64).

    >>> even = order_of({"code": Fraction(1), "web": Fraction(1)})
    >>> components, ordinals = shuffled(even, 5).of(np.arange(2048))
    >>> np.bincount(components).tolist(), ordinals[components == 1].tolist() == list(range(1024))
    ([1024, 1024], True)
    """
    return ShuffledOrder(order, at_least("key", key, 0, below=1 << 64))
