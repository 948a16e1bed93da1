"""What is known of elements beside their values: where they stand, what was lost on the way, what ended the stream.

`Facts` are made once by a scheduler and passed on by reference to the iterator.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loss:
    """A bad record of a task; its row was replaced, masked or left out, as the user's policy says.

    place       of the record in the task
    index       of the row
    record_key  of the bad record
    instead     index of the record that was read in its place; the row's own index where none was
    label       of the operation or the read that raised the error
    error       type and text of the error
    name        what the data source calls the record, None where it has no name
    """

    place: int
    index: int
    record_key: int
    instead: int
    label: str
    error: str
    name: str | None = None


# Pairs (real rows, rows of zeros), in the order of the rows; (): all rows are real.
Fill = tuple[tuple[int, int], ...]


Cursor = tuple[int, ...]


def trimmed(cursor: Cursor) -> Cursor:
    """The shortest cursor of the same place: the first child of an element begins where the element begins.

    >>> trimmed((7, 2, 0, 0)), trimmed((0, 0)), trimmed((7,))
    ((7, 2), (0,), (7,))
    """
    while len(cursor) > 1 and cursor[-1] == 0:
        cursor = cursor[:-1]
    return cursor


@dataclass(frozen=True, slots=True)
class Facts:
    """Of elements that are delivered together, in order.

    ends       for each element, where every logical stream goes on after it; None where the plan knows it
    begins     of a batch: the cursor where each of its rows begins, (n, depth + 1) int64; None where the plan knows it
    losses     by element: the bad records of its rows, and those passed without a row since the element before it
    masked     no row is real: the streams are exhausted, and other processes may have rows for this step
    more       elements with real rows that are sure to follow, as far as is known
    exhausted  whether no others with real rows will follow
    """

    ends: Sequence[Mapping[int, Cursor]] | None = None
    begins: np.ndarray | None = None
    losses: Mapping[int, tuple[Loss, ...]] | None = None
    masked: bool = False
    more: int = 0
    exhausted: bool = False


PLANNED = Facts()  # the plan knows everything


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in its place in the stream: everything before it was delivered.

    error    the exception; the engine carries it and never looks at it
    label    what raised it, as an operation's name; empty where the error speaks for itself
    indices  of the records that it is about
    cursors  after a batch that failed: where each logical stream goes on; None where the failure is no batch's
    """

    error: Any
    label: str = ""
    indices: tuple[int, ...] = ()
    cursors: Mapping[int, Cursor] | None = None
