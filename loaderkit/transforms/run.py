"""A run: consecutive elements of a stream with their cursors, and the failure that may end it.

An element has a value and two cursors (_order/facts.py):

    begin   the place in the stream where it starts: the index of its first record, and the ordinals of its FlatMaps
    end     the place in the stream after it

Map and Filter keep both. FlatMap appends the child's ordinal; the end of the last child is its parent's end. Batch
takes its first row's begin and its last row's end. The generator of a random operation is keyed by the begin, so for
a seed the numbers drawn depend on the operation and the place in the stream only.

A failure ends a run of elements. The elements before it go on through the later stages, where an earlier element may
fail as well: that failure takes its place. So the failure that is reported is always the first in the order of the
stream, for every size of tasks.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.facts import Cursor, Failure


class Singles(Sequence[Cursor]):
    """The cursors `(index,)` of records from the source, each made when it is read."""

    def __init__(self, indices: np.ndarray) -> None:
        self._indices = indices  # (n,) int64

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Singles(self._indices[place])
        return (int(self._indices[place]),)

    def __iter__(self) -> Iterator[Cursor]:
        return zip(self._indices.tolist(), strict=True)


@dataclass(slots=True)
class ElementRun:
    """Consecutive elements of one stream: values and cursors, and the failure behind them.

    `values` is a list; of the rows of a whole task that a stage made by column it is a `Block` (stack.py).
    `ends` is None where the pipeline doesn't change the number of rows: there the plan computes the ends. `failure` is
    None where nothing ended the run. `rows` has the begins of each batch's rows; None where the elements aren't batches
    that a Batch just made.
    """

    values: Any
    begins: Sequence[Cursor]
    ends: Sequence[Cursor] | None = None
    failure: Failure | None = None
    rows: list[Sequence[Cursor]] | None = None

    def part(self, lo: int, hi: int) -> "ElementRun":
        """Elements lo to hi; the failure is behind them if there are fewer."""
        here = slice(lo, hi)
        return ElementRun(
            self.values[here],
            self.begins[here],
            None if self.ends is None else self.ends[here],
            self.failure if hi > len(self.values) else None,
            None if self.rows is None else self.rows[here],
        )

    def cut(self, values: list[Any], failure: Failure) -> "ElementRun":
        """A run of what was made of the first elements, one each, before the failure of the next."""
        made = self.part(0, len(values))
        made.values, made.failure = values, failure
        return made

    def then(self, failure: Failure | None) -> "ElementRun":
        """The run itself, with what failed behind it, unless its own failure comes before that."""
        self.failure = self.failure or failure
        return self

    def add(self, other: "ElementRun") -> None:
        """Appends the elements of another run, which follow this run's in the stream, and its failure."""
        self.values += other.values
        self.begins = _longer(self.begins, other.begins)
        if self.ends is not None and other.ends is not None:
            self.ends = _longer(self.ends, other.ends)
        self.failure = self.failure or other.failure


def _longer(cursors: Sequence[Cursor], by: Sequence[Cursor]) -> list[Cursor]:
    made: list[Cursor] = cursors if isinstance(cursors, list) else [*cursors]
    made.extend(by)  # in place, because a run may be made of many pieces
    return made
