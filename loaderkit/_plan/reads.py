"""Which indices some steps read, and the way back: at which step and row an index is read.

Most steps are whole: they read the indices one behind the other. At the end of a stream a step may be shorter, or have
rows of the stream's beginning again; such a step is looked at by itself.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.permutation import Int64Array
from loaderkit.samplers.protocol import ShapedSampler


class StepReads(NamedTuple):
    """What steps read: of each record its step, its row in the global batch and its index, (n,) int64 each."""

    steps: Int64Array
    rows: Int64Array
    indices: Int64Array

    def blocks(self, most: int) -> Iterator["StepReads"]:
        """All at once."""
        yield self

    def of_indices(self, indices: Int64Array) -> "StepReads":
        """Those at some indices, which are distinct."""
        here = np.isin(self.indices, indices)
        return StepReads(*(column[here] for column in self))


@dataclass(frozen=True, slots=True)
class WholeSteps:
    """Consecutive whole steps.

    step, index: the first. steps: how many. stride: indices of one. group: consecutive ones of a row. shaped: the
    sampler where it says how many of its indices a step uses.

    >>> steps = WholeSteps(step=2, index=8, steps=2, stride=4, group=2)
    >>> [reads.rows.tolist() for reads in steps.blocks(4)]
    [[0, 0, 1, 1], [0, 0, 1, 1]]
    >>> steps.of_indices(np.array([3, 13]))
    StepReads(steps=array([3]), rows=array([0]), indices=array([13]))
    """

    step: int
    index: int
    steps: int
    stride: int
    group: int
    shaped: ShapedSampler | None = None

    @property
    def span(self) -> tuple[int, int]:
        """The first index and the one behind the last."""
        return self.index, self.index + self.steps * self.stride

    def blocks(self, most: int) -> Iterator[StepReads]:
        """All reads in order, so many indices at a time or those of a step."""
        begin, end = self.span
        size = max(1, most // self.stride) * self.stride
        for low in range(begin, end, size):
            yield self.of_indices(np.arange(low, min(low + size, end)))

    def of_indices(self, indices: Int64Array) -> StepReads:
        """Those at some indices, which are distinct and ascend."""
        begin, end = self.span
        here = np.flatnonzero((indices >= begin) & (indices < end))
        steps, places = np.divmod(indices[here] - begin, self.stride)
        if self.shaped is not None and here.size:
            some, of = np.unique(steps, return_inverse=True)
            used = places < self.shaped.rows_of(begin + some * self.stride)[of]
            here, steps, places = here[used], steps[used], places[used]
        return StepReads(self.step + steps, places // self.group, indices[here])
