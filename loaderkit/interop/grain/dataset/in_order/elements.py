"""Steps that call a function for each element, or choose among elements."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, ClassVar

from loaderkit._base.numbers import at_least
from loaderkit.interop.grain._batching import make_batch
from loaderkit.interop.grain.dataset.node import function_of
from loaderkit.interop.grain.dataset.transforming import RngPool

from .step import CountingIterator, GroupIterator, Step, StepIterator


class CallingStep(Step):
    """A step that calls a user's function.

    _transform: the kind of transforms whose method may be given in place of the function.
    """

    _transform: ClassVar[str]

    def __init__(self, parent: Any, transform: Any) -> None:
        super().__init__(parent)
        self.call = function_of(transform, self._transform)


class _MapIterator(StepIterator):
    def __next__(self) -> Any:
        element = next(self._parent)
        return None if element is None else self._node.call(element)


class MapIterDataset(CallingStep, step="IterDataset.map"):
    """The elements, each as `transform` makes it.

    Args:
        parent: the data set before.
        transform: a Map, or a function of one element.
    """

    _iterator, _transform = _MapIterator, "Map"


class _MapWithIndexIterator(CountingIterator):
    _numbers: ClassVar = {"_count": "counter"}

    def __next__(self) -> Any:
        element = next(self._parent)
        self._count += 1
        return None if element is None else self._node.call(self._count - 1, element)


class MapWithIndexIterDataset(CallingStep, step="IterDataset.map_with_index"):
    """The elements, each as `transform` makes it of its number in this stream and itself.

    Args:
        parent: the data set before.
        transform: a MapWithIndex, or a function of a number and an element.
    """

    _iterator, _transform = _MapWithIndexIterator, "MapWithIndex"


class _RandomMapIterator(CountingIterator):
    _numbers: ClassVar = {"_count": "index_for_rng"}

    def __next__(self) -> Any:
        element, node = next(self._parent), self._node
        stream, streams = node._stream
        self._count += 1
        if element is None:
            return None
        rng = node.pool.acquire_rng(stream + (self._count - 1) * streams)
        made = node.call(element, rng)
        node.pool.release_rng(rng)
        return made


class RandomMapIterDataset(CallingStep, step="IterDataset.random_map"):
    """The elements, each as `transform` makes it with the generator of its number in this stream.

    Args:
        parent: the data set before.
        transform: a RandomMap, or a function of an element and a generator.
        seed: of this step; by default made of those that `seed` gave. ValueError without any.
    """

    _iterator, _transform = _RandomMapIterator, "RandomMap"

    def __init__(self, parent: Any, transform: Any, seed: int | None = None) -> None:
        super().__init__(parent, transform)
        self._seed = self._seed_or_default("random_map", seed)
        self.pool = RngPool(self._seed)


class _FilterIterator(StepIterator):
    def __next__(self) -> Any:
        return next(filter(self._node.call, self._parent))


class FilterIterDataset(CallingStep, step="IterDataset.filter"):
    """The elements for which `transform` is true.

    Args:
        parent: the data set before.
        transform: a Filter, or a function of one element.
    """

    _iterator, _transform = _FilterIterator, "Filter"


class _FlatMapIterator(GroupIterator):
    _numbers: ClassVar = {"_given": "next_index_in_buffer"}

    def _forget(self) -> None:
        self._children: Sequence[Any] | None = None  # of the present element; None until it is read

    def __next__(self) -> Any:
        while self._children is None or self._given >= len(self._children):
            if self._children is not None:
                self._before = self._parent.get_state()
            element = next(self._parent)
            if self._children is not None:
                self._given = 0
            self._children = self._node.call(element)
        self._given += 1
        return self._children[self._given - 1]


class FlatMapIterDataset(CallingStep, step="IterDataset.flat_map"):
    """All that `transform` makes of each element, one after the other.

    Args:
        parent: the data set before.
        transform: a FlatMap.
    """

    _iterator, _transform = _FlatMapIterator, "FlatMap"


class _LimitIterator(CountingIterator):
    _numbers: ClassVar = {"_count": "count_elements_read"}

    def __next__(self) -> Any:
        if self._count >= self._node.most:
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
        self.most = at_least("count", count, 1)


class _BatchIterator(StepIterator):
    def __next__(self) -> Any:
        node = self._node
        rows = [*islice(self._parent, node.size)]
        if not rows or (node.drop_remainder and len(rows) < node.size):
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
        self.size, self.drop_remainder = at_least("batch_size", batch_size, 1), drop_remainder
        self.batch_fn = batch_fn

    def _make(self, rows: Sequence[Any]) -> Any:
        if self.batch_fn is not None:
            return self.batch_fn(rows)
        # A worker process of Grain stacks its last batches into memory of the first row's dtype.
        return make_batch(rows, first_dtype=self._last_of_worker)
