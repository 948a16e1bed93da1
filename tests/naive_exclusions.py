"""Exclusions, naively: a walk through each order, index by index, that leaves out what is listed at the time."""

from collections.abc import Iterator, Mapping
from typing import Any

import loaderkit as lk
from loaderkit.samplers.optional import components_of
from loaderkit.samplers.protocol import length_of

FAR = 1 << 20


def in_order(sampler: Any) -> Iterator[int]:
    """The record keys of a sampler, one by one."""
    length = length_of(sampler) or FAR
    for low in range(0, length, 64):
        yield from sampler.record_keys(range(low, min(low + 64, length))).tolist()


class NaiveExclusions:
    """What a stream reads.

    sampler: without exclusions. stages: (first index, {name: record keys of that component}); the name is "" where
    there are no components.
    """

    def __init__(self, sampler: lk.samplers.Sampler) -> None:
        self.sampler: Any = sampler
        self.stages: list[tuple[int, Mapping[str, set[int]]]] = []

    def exclude(self, index: int, listed: Mapping[str, set[int]]) -> None:
        self.stages = [*(stage for stage in self.stages if stage[0] < index), (index, listed)]

    def keys(self, count: int) -> list[int]:
        """The record keys of the indices before one."""
        mixed = components_of(self.sampler)
        if mixed is None:
            return self._walk("", self.sampler, [""] * count)
        numbers = self.sampler.component_numbers(range(count)).tolist() if count else []
        names = [mixed.names[number] for number in numbers]
        of = {name: iter(self._walk(name, mixed.samplers[name], names)) for name in mixed.names}
        return [next(of[name]) + mixed.offsets[name] for name in names]

    def _walk(self, name: str, sampler: Any, names: list[str]) -> list[int]:
        read: list[int] = []
        order = in_order(sampler)
        for index, each in enumerate(names):
            if each == name:
                listed = [stage[1].get(name, set()) for stage in self.stages if stage[0] <= index]
                key = next(order)
                while listed and key in listed[-1]:
                    key = next(order)
                read.append(key)
        return read
