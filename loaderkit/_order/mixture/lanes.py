"""Lanes of a mixture: the parts of every global batch, each of which is a mixture of its own."""

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.permutation import Int64Array


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lane l has the rows [l * q, (l + 1) * q) of each batch, q = batch / count; its turns are counted from 0.

    >>> import numpy as np
    >>> lanes = Lanes(count=2, batch=4)
    >>> turns, of = lanes.turns_of(np.arange(6))
    >>> turns.tolist(), of.tolist(), lanes.indices_of(turns, of).tolist()
    ([0, 1, 0, 1, 2, 3], [0, 0, 1, 1, 0, 0], [0, 1, 2, 3, 4, 5])
    """

    count: int
    batch: int  # any, where there is one lane

    def turns_of(self, indices: Int64Array) -> tuple[Int64Array, Int64Array | int]:
        """The turn and the lane of each index; one lane for all where there is one."""
        if self.count == 1:
            return indices, 0
        rows = self.batch // self.count
        batches = indices // self.batch
        row = indices - batches * self.batch
        lanes = row // rows
        return batches * rows + (row - lanes * rows), lanes

    def indices_of(self, turns: Int64Array, lanes: Int64Array | int) -> Int64Array:
        """The index of each turn of a lane."""
        if self.count == 1:
            return turns
        rows = self.batch // self.count
        batches = turns // rows
        return batches * self.batch + lanes * rows + (turns - batches * rows)

    def turns_around(self, start: int, stop: int) -> tuple[int, int]:
        """The first turn and the one behind the last that any lane has for indices in [start, stop), or more.

        >>> Lanes(count=2, batch=4).turns_around(5, 9)
        (2, 6)
        """
        if self.count == 1:
            return start, stop
        rows = self.batch // self.count
        return start // self.batch * rows, -(-stop // self.batch) * rows

    def locals_of(self, ordinals: Int64Array, lanes: Int64Array | int) -> Int64Array:
        """The index in a component's own stream, whose lanes take turns, of each record of a lane."""
        return ordinals if self.count == 1 else ordinals * self.count + lanes

    def turns_before(self, index: int) -> list[tuple[int, int]]:
        """How many turns lanes have before an index: (turns, number of lanes that have so many).

        >>> Lanes(count=3, batch=6).turns_before(9)
        [(4, 1), (3, 1), (2, 1)]
        """
        if self.count == 1:
            return [(index, 1)]
        rows = self.batch // self.count
        batches, rest = divmod(index, self.batch)
        whole, part = divmod(rest, rows)
        turns = batches * rows
        return [(turns + rows, whole), (turns + part, 1), (turns, self.count - whole - 1)]
