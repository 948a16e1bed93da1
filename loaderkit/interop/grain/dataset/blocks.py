"""Reads rows in this process, as many at once as take a few milliseconds: what the engine would do, without its part.

Where no worker, thread, batch or flat map is asked for, the engine would only pass rows on: of 7 us for a cheap row its
part was 6.
"""

import time
from typing import Any

import numpy as np

from loaderkit._base.notes import annotate
from loaderkit._engine.pace import ALONE_SECONDS
from loaderkit.errors import IteratorClosedError
from loaderkit.interop.grain._layout_plan import LayoutPosition

from .rows import Rows
from .transforming import ABSENT

_MOST, _FEW = 1024, 16  # rows at once


class BlockReader:
    """Reads the rows of one stream; its position is the number of rows that were used.

    An error is raised at the row that it belongs to, and again until the position is set anew.

    Args:
        rows: by arithmetic.
    """

    def __init__(self, rows: Rows) -> None:
        self._source, self._size = rows, rows.size(0, 1)
        self._at_once = 1
        self._closed = False
        self._begin(0)

    def _begin(self, used: int) -> None:
        self._used = used  # before those that were read
        self._rows: list[Any] = []  # without those that are absent
        self._after: list[int] = []  # rows used behind each of these
        self._given = 0

    def next(self) -> Any:
        """The next row; StopIteration behind the last."""
        given = self._given
        if given == len(self._rows):
            self._read()
            given = 0
        self._given = given + 1
        return self._rows[given]

    def _read(self) -> None:
        if self._closed:
            raise IteratorClosedError("the iterator was closed; iter(ds) gives another")
        used, there = self.position.cursors[0][0], list[tuple[Any, int]]()
        while not there:
            if used == self._size:
                raise StopIteration
            indices = np.arange(used, min(used + self._at_once, self._size))
            begun = time.thread_time()  # a busy machine would make all look slow
            try:
                found = self._source.at(indices, 1)
            except Exception as error:
                if len(indices) == 1:
                    annotate(error, f"raised for the element at index {used}")
                    raise
                self._at_once = 1  # those before the one that fails come first
                continue
            # A part of it is the same for any number of rows, and is most of it where these are few.
            spent = (time.thread_time() - begun) / (4 if len(indices) < _FEW else 1)
            if spent < ALONE_SECONDS:
                self._at_once = min(2 * self._at_once, _MOST)
            elif spent > 3 * ALONE_SECONDS:
                self._at_once = max(1, self._at_once // 2)
            there = [(row, index + 1) for index, row in enumerate(found, used) if row is not ABSENT]
            used += len(found)
        rows, after = map(list, zip(*there, strict=True))
        self._used, self._rows, self._after, self._given = after[0] - 1, rows, after, 0

    @property
    def position(self) -> LayoutPosition:
        """Where it stands."""
        return LayoutPosition(0, 0, ((self._after[self._given - 1] if self._given else self._used,),))

    def go_to(self, position: LayoutPosition) -> None:
        """Goes to a position."""
        self._begin(position.cursors[0][0])

    def start_prefetch(self) -> None:
        """Does nothing: nothing could be made meanwhile."""

    def close(self) -> None:
        """Reads no more."""
        self._closed = True
        self._begin(self.position.cursors[0][0])
