"""A run: consecutive elements of a stream with their cursors, and the failure that may end it.

Beside its value an element has two cursors (_order/cursor.py):

    begin   the place in the stream where it starts; its first record's index and which child of what it is
    end     the place where the stream goes on after it

Map and Filter keep both; FlatMap appends the child's ordinal (the end of the last child is its parent's); Batch
takes its first row's begin and its last row's end. The begin is also what keys the randomness of an element, so a
draw is a function of the place in the stream and of nothing else.

A failure ends a run of elements: those before it are still good and go on through the later stages, where an earlier
one may fail too. What is reported is therefore the first failure in the order of the stream, however tasks are cut.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit._order.cursor import Cursor


class Singles(Sequence[Cursor]):
    """The cursors `(index,)` of records straight from the source, made only when somebody asks for them."""

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
    """Consecutive elements of one stream: values, and their cursors.

    `ends` is None where the pipeline never changes the number of rows: there the plan knows every end.
    """

    values: list[Any]
    begins: Sequence[Cursor]
    ends: Sequence[Cursor] | None

    def part(self, lo: int, hi: int) -> "ElementRun":
        here = slice(lo, hi)
        return ElementRun(
            self.values[here], self.begins[here], None if self.ends is None else self.ends[here]
        )

    def head(self, count: int) -> "ElementRun":
        return self.part(0, count)

    def add(self, other: "ElementRun") -> None:
        """What comes behind it."""
        self.values += other.values
        self.begins = _longer(self.begins, other.begins)
        if self.ends is not None and other.ends is not None:
            self.ends = _longer(self.ends, other.ends)


def _longer(cursors: Sequence[Cursor], by: Sequence[Cursor]) -> list[Cursor]:
    made: list[Cursor] = cursors if isinstance(cursors, list) else [*cursors]
    made.extend(by)  # in place: a run may be made of many pieces
    return made
