"""Steps that hold some of their parent's elements back: window shuffle, and batches of another size."""

from itertools import islice
from typing import Any, ClassVar

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit.interop.grain._shuffle import index_shuffle, shuffled
from loaderkit.interop.grain._tree import map_structure

from .step import GroupIterator, Step


class _WindowShuffleIterator(GroupIterator):
    _before_name = "parent_window_start_state"
    _numbers: ClassVar = {"_number": "window_index", "_given": "pos_in_window"}
    _number = 0  # of the window

    def _forget(self) -> None:
        self._left: list[Any] | None = (
            None  # elements of the window, the next one last; None until it is read
        )
        self._ended = False

    def __next__(self) -> Any:
        if self._left is None:
            window = self._window()
            self._left = window[: max(0, len(window) - self._given)]
        if not self._left and not self._ended:
            self._before, self._given = self._parent.get_state(), 0
            self._left = self._window()
        if not self._left:
            raise StopIteration
        self._given += 1
        element = self._left.pop()
        self._number += not self._left
        return element

    def _window(self) -> list[Any]:
        node = self._node
        window = [*islice(self._parent, node._size)]
        self._ended = len(window) < node._size
        if not window:
            return window
        last, seed = len(window) - 1, node._seed + self._number
        index_shuffle(0, last, seed, rounds=4)  # refuses a seed out of range
        return [window[place] for place in shuffled(np.arange(len(window)), last, seed)]


class WindowShuffleIterDataset(Step):
    """The elements, each window of them in another order.

    Args:
        parent: the data set before.
        window_size: elements that are shuffled together.
        seed: of the first window; each further one has the next.
    """

    _iterator = _WindowShuffleIterator

    def __init__(self, parent: Any, *, window_size: int, seed: int) -> None:
        super().__init__(parent)
        self._size, self._seed = at_least("window_size", window_size, 1), seed


class _RebatchIterator(GroupIterator):
    _numbers: ClassVar = {"_given": "batch_idx"}

    def _forget(self) -> None:
        self._batch: Any = None  # the present batch; None until it is read
        self._rows = 0

    def __next__(self) -> Any:
        needed, parts = self._node._size, list[Any]()
        while needed and self._has_rows():
            first, self._given = self._given, min(self._given + needed, self._rows)
            needed -= self._given - first
            parts.append(_rows_of(self._batch, first, self._given))
        if not parts or (needed and self._node._drop_remainder):
            raise StopIteration
        return parts[0] if len(parts) == 1 else map_structure(lambda *leaves: np.concatenate(leaves), *parts)

    def _has_rows(self) -> bool:
        """Whether the present batch has rows that weren't given; else the next one is read."""
        while self._given >= self._rows:
            before = self._parent.get_state()
            try:
                batch = next(self._parent)
            except StopIteration:
                self._before = before
                return False
            if self._batch is not None:
                self._given = 0
            self._before, self._batch = before, batch
            leaves: list[Any] = []
            map_structure(leaves.append, batch)
            self._rows = len(leaves[0])
            if not self._rows:
                raise ValueError("expected batches of 1 row or more to batch anew, got one of none")
        return True


def _rows_of(batch: Any, first: int, last: int) -> Any:
    return map_structure(lambda leaf: leaf[first:last], batch)


class RebatchIterDataset(Step):
    """The rows of batches, in batches of another size.

    Args:
        parent: the data set before, of batches.
        batch_size: rows.
        drop_remainder: whether a last, smaller batch is left out.
    """

    _iterator = _RebatchIterator

    def __init__(self, parent: Any, batch_size: int, drop_remainder: bool = False) -> None:
        super().__init__(parent)
        self._size, self._drop_remainder = at_least("batch_size", batch_size, 1), drop_remainder
