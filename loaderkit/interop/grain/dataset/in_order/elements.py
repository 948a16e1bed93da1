"""Steps that call a function for each element, or choose among elements."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit.interop.grain._batching import make_batch
from loaderkit.interop.grain.dataset.node import function_of

from .step import CountingIterator, State, Step, StepIterator


class _MapIterator(StepIterator):
    def __next__(self) -> Any:
        element = next(self._parent)
        return None if element is None else self._node._call(element)


class MapIterDataset(Step, step="IterDataset.map"):
    """The elements, each as `transform` makes it.

    Args:
        parent: the data set before.
        transform: a Map, or a function of one element.
    """

    _iterator = _MapIterator

    def __init__(self, parent: Any, transform: Any) -> None:
        super().__init__(parent)
        self._call = function_of(transform, "Map")


class _MapWithIndexIterator(CountingIterator):
    _count_name = "counter"

    def __next__(self) -> Any:
        element = next(self._parent)
        index = self._count
        self._count += 1
        return None if element is None else self._node._call(index, element)


class MapWithIndexIterDataset(Step, step="IterDataset.map_with_index"):
    """The elements, each as `transform` makes it of its number in this stream and itself.

    Args:
        parent: the data set before.
        transform: a MapWithIndex, or a function of a number and an element.
    """

    _iterator = _MapWithIndexIterator

    def __init__(self, parent: Any, transform: Any) -> None:
        super().__init__(parent)
        self._call = function_of(transform, "MapWithIndex")


class _RandomMapIterator(CountingIterator):
    _count_name = "index_for_rng"

    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(node, *parents)
        self._bits = np.random.Philox(node._seed)
        self._first: Any = self._bits.state
        self._generator = np.random.Generator(self._bits)

    def __next__(self) -> Any:
        element = next(self._parent)
        stream, streams = self._node._stream
        self._first["state"]["counter"][3] = stream + self._count * streams
        self._count += 1
        if element is None:
            return None
        self._bits.state = self._first
        return self._node._call(element, self._generator)


class RandomMapIterDataset(Step, step="IterDataset.random_map"):
    """The elements, each as `transform` makes it with the generator of its number in this stream.

    Args:
        parent: the data set before.
        transform: a RandomMap, or a function of an element and a generator.
        seed: of this step; by default made of those that `seed` gave. ValueError without any.
    """

    _iterator = _RandomMapIterator

    def __init__(self, parent: Any, transform: Any, seed: int | None = None) -> None:
        super().__init__(parent)
        self._call = function_of(transform, "RandomMap")
        self._seed = self._seed_or_default("random_map", seed)


class _FilterIterator(StepIterator):
    def __next__(self) -> Any:
        keeps = self._node._call
        for element in self._parent:
            if keeps(element):
                return element
        raise StopIteration


class FilterIterDataset(Step, step="IterDataset.filter"):
    """The elements for which `transform` is true.

    Args:
        parent: the data set before.
        transform: a Filter, or a function of one element.
    """

    _iterator = _FilterIterator

    def __init__(self, parent: Any, transform: Any) -> None:
        super().__init__(parent)
        self._call = function_of(transform, "Filter")


class _FlatMapIterator(StepIterator):
    def __init__(self, node: Any, *parents: Any) -> None:
        super().__init__(node, *parents)
        self._children: Sequence[Any] = ()
        self._given = 0
        self._before = self._parent.get_state()  # the state before the element of these children

    def __next__(self) -> Any:
        while self._given >= len(self._children):
            self._before = self._parent.get_state()
            self._children = self._node._call(next(self._parent))
            self._given = 0
        self._given += 1
        return self._children[self._given - 1]

    def get_state(self) -> State:
        return {"parent": self._before, "next_index_in_buffer": self._given}

    def set_state(self, state: State) -> None:
        self._parent.set_state(state["parent"])
        self._before = state["parent"]
        try:
            self._children, self._given = self._node._call(next(self._parent)), state["next_index_in_buffer"]
        except StopIteration:
            self._children, self._given = (), 0


class FlatMapIterDataset(Step, step="IterDataset.flat_map"):
    """All that `transform` makes of each element, one after the other.

    Args:
        parent: the data set before.
        transform: a FlatMap.
    """

    _iterator = _FlatMapIterator

    def __init__(self, parent: Any, transform: Any) -> None:
        super().__init__(parent)
        self._call = function_of(transform, "FlatMap")


class _LimitIterator(CountingIterator):
    _count_name = "count_elements_read"

    def __next__(self) -> Any:
        if self._count >= self._node._most:
            raise StopIteration
        element = next(self._parent)
        self._count += 1
        return element


class LimitIterDataset(Step):
    """The first elements.

    Args:
        parent: the data set before.
        count: how many; ValueError below 1.
    """

    _iterator = _LimitIterator

    def __init__(self, parent: Any, count: int) -> None:
        super().__init__(parent)
        self._most = at_least("count", count, 1)


class _BatchIterator(StepIterator):
    def __next__(self) -> Any:
        node = self._node
        rows = [*islice(self._parent, node._size)]
        if not rows or (node._drop_remainder and len(rows) < node._size):
            raise StopIteration
        return node._make(rows)


class BatchIterDataset(Step, step="IterDataset.batch"):
    """Batches of consecutive elements.

    Args:
        parent: the data set before.
        batch_size: rows; ValueError below 1.
        drop_remainder: whether a last, smaller batch is left out.
        batch_fn: takes the list of rows and gives the batch, instead of stacking.
    """

    _iterator = _BatchIterator

    def __init__(
        self,
        parent: Any,
        batch_size: int,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[Any]], Any] | None = None,
    ) -> None:
        super().__init__(parent)
        self._size, self._drop_remainder = at_least("batch_size", batch_size, 1), drop_remainder
        self._batch_fn = batch_fn

    def _make(self, rows: Sequence[Any]) -> Any:
        if self._batch_fn is not None:
            return self._batch_fn(rows)
        # A worker process of Grain stacks its last batches into memory of the first row's dtype.
        return make_batch(rows, first_dtype=self._last_of_worker)
