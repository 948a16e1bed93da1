"""Steps that hold some of their parent's elements back: window shuffle, and batches of another size."""

from itertools import islice
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit.interop.grain._shuffle import index_shuffle, shuffled
from loaderkit.interop.grain._tree import map_structure

from .step import State, Step, StepIterator


class _WindowShuffleIterator(StepIterator):
    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(node, *parents)
        self._before = self._parent.get_state()  # the state before the window's first element
        self._number = 0  # of the window
        self._given = 0  # of the window's elements
        self._left: list[Any] = []  # of the window, the next one last
        self._ended = False

    def __next__(self) -> Any:
        if not self._left and not self._ended:
            self._before = self._parent.get_state()
            self._given = 0
            self._fill()
        if not self._left:
            raise StopIteration
        self._given += 1
        element = self._left.pop()
        self._number += not self._left
        return element

    def _fill(self) -> None:
        node = self._node
        window = [*islice(self._parent, node._size)]
        self._ended = len(window) < node._size
        self._left = []
        if window:
            last, seed = len(window) - 1, node._seed + self._number
            index_shuffle(0, last, seed, rounds=4)  # refuses a seed out of range
            self._left = [window[place] for place in shuffled(np.arange(len(window)), last, seed)]

    def get_state(self) -> State:
        return {
            "parent_window_start_state": self._before,
            "window_index": self._number,
            "pos_in_window": self._given,
        }

    def set_state(self, state: State) -> None:
        self._before = state["parent_window_start_state"]
        self._number, self._given = state["window_index"], state["pos_in_window"]
        self._parent.set_state(self._before)
        self._fill()
        del self._left[max(0, len(self._left) - self._given) :]


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


class _RebatchIterator(StepIterator):
    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(node, *parents)
        self._go(self._parent.get_state(), 0)

    def _go(self, before: State, given: int) -> None:
        self._before = before  # the state before the present batch
        self._given = given  # rows of the present batch
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

    def get_state(self) -> State:
        return {"parent": self._before, "batch_idx": self._given}

    def set_state(self, state: State) -> None:
        self._parent.set_state(state["parent"])
        self._go(state["parent"], state["batch_idx"])


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
