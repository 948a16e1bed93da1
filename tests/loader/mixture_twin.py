"""A mixture said slowly: a list of stages, a count for each component, one index at a time; and loaders of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import loaderkit as lk
from loaderkit._order.mixture.order import order_of

LENGTHS = {"web": 30, "code": 40, "books": 50}
OFFSETS = {"web": 0, "code": 30, "books": 70}
Weights = Mapping[str, float]


def components(names: Sequence[str] = tuple(LENGTHS)) -> dict[str, lk.samplers.Sampler]:
    """The samplers of the components, endless, each with a shuffle of its own."""
    return {name: lk.IndexSampler(LENGTHS[name], shuffle=True, seed=LENGTHS[name]) for name in names}


def mixture(weights: Any, **how: Any) -> lk.samplers.MixedSampler:
    """The mixture of all components."""
    return lk.samplers.MixedSampler(components(), weights=weights, seed=7, **how)


def loader_of(
    weights: Any, *, batch: int = 8, sampler: Any = None, operations: Any = None, **how: Any
) -> "lk.DataLoader":
    """A loader whose elements are the record keys of a mixture."""
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, 120, 1),
        sampler=mixture(weights) if sampler is None else sampler,
        operations=[lk.Batch(global_batch_size=batch)] if operations is None else operations,
        **how,
    )


def shares(weights: Weights) -> dict[str, Fraction]:
    """Exact shares of the names that have some."""
    exact = {name: Fraction(repr(weight)) for name, weight in weights.items() if weight}
    return {name: weight / sum(exact.values()) for name, weight in exact.items()}


class MixtureTwin:
    """Which record each index reads, whatever became of the weights.

    stages: {first index: weights}; a change forgets what was to come later.
    """

    def __init__(self, weights: Weights) -> None:
        self.stages: dict[int, Weights] = {0: weights}

    def reweigh(self, index: int, weights: Weights) -> None:
        """Other weights from an index on; nothing where they hold there and from there on."""
        holds = max(first for first in self.stages if first <= index)
        if holds == max(self.stages) and shares(self.stages[holds]) == shares(weights):
            return
        self.stages = {first: old for first, old in self.stages.items() if first < index} | {index: weights}

    def reads(self, end: int) -> list[tuple[str, int]]:
        """(component, its own index) of the indices 0 to end - 1."""
        reads, count = [], Counter[str]()
        firsts = sorted(self.stages)
        for first, last in zip(firsts, [*firsts[1:], end]):
            order = order_of(shares(self.stages[first]))
            for place in order.of(np.arange(max(0, min(last, end) - first)))[0].tolist():
                name = order.names[place]
                reads.append((name, count[name]))
                count[name] += 1
        return reads

    def keys(self, end: int) -> list[int]:
        """Record keys of the indices 0 to end - 1."""
        samplers = components()
        return [OFFSETS[name] + samplers[name][local].record_key for name, local in self.reads(end)]
