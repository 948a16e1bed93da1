"""The names of grain.experimental."""

from functools import partial
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from ._batching import batch_and_pad
from ._installed import missing
from ._shuffle import index_shuffle
from .dataset.elastic import ElasticIterator
from .dataset.in_order.concat_then_split import BOSHandling, ConcatThenSplitIterDataset
from .dataset.in_order.elements import FlatMapIterDataset, LimitIterDataset
from .dataset.in_order.packing import BestFitPackIterDataset, FirstFitPackIterDataset
from .dataset.in_order.several import InterleaveIterDataset, RepeatIterDataset, ZipIterDataset
from .dataset.in_order.threads import (
    ThreadPrefetchDatasetIterator,
    ThreadPrefetchIterDataset,
    multithread_prefetch,
)
from .dataset.in_order.windows import RebatchIterDataset, WindowShuffleIterDataset
from .dataset.iter_dataset import DatasetIterator, IterDataset
from .dataset.options import (
    DatasetOptions,
    ExecutionTrackingMode,
    PerformanceConfig,
    ShapeDtypeStruct,
    ShapeDtypeStructProtocol,
    pick_performance_config,
)
from .dataset.planning import WithOptionsIterDataset
from .dataset.selecting import WindowShuffleMapDataset, ZipMapDataset
from .dataset.transforming import FlatMapMapDataset, RngPool
from .transforms import FlatMap as FlatMapTransform
from .transforms import MapWithIndex as MapWithIndexTransform

__all__ = [
    "BOSHandling",
    "BestFitPackIterDataset",
    "ConcatThenSplitIterDataset",
    "DatasetOptions",
    "ElasticIterator",
    "ExecutionTrackingMode",
    "FirstFitPackIterDataset",
    "FlatMapIterDataset",
    "FlatMapMapDataset",
    "FlatMapTransform",
    "InterleaveIterDataset",
    "LimitIterDataset",
    "MapWithIndexTransform",
    "PerformanceConfig",
    "RebatchIterDataset",
    "RepeatIterDataset",
    "RngPool",
    "ShapeDtypeStruct",
    "ShapeDtypeStructProtocol",
    "ThreadPrefetchDatasetIterator",
    "ThreadPrefetchIterDataset",
    "WindowShuffleIterDataset",
    "WindowShuffleMapDataset",
    "WithOptionsIterDataset",
    "ZipIterDataset",
    "ZipMapDataset",
    "apply_transformations",
    "assert_equal_output_after_checkpoint",
    "batch_and_pad",
    "device_put",
    "get_next_index",
    "index_shuffle",
    "multithread_prefetch",
    "pick_performance_config",
    "set_next_index",
]


def apply_transformations(ds: Any, transformations: Any) -> Any:
    """`ds.apply(transformations)`.

    Args:
        ds: a data set.
        transformations: one, or a list of them.
    """
    return ds.apply(transformations)


def get_next_index(ds_iter: DatasetIterator) -> int:
    """The number of the element that an iterator gives next; NotImplementedError where it isn't known.

    Args:
        ds_iter: an iterator of a data set.

    >>> import loaderkit.interop.grain as grain
    >>> it = iter(grain.MapDataset.range(5).to_iter_dataset().batch(2))
    >>> set_next_index(it, 2)
    >>> get_next_index(it), next(it)
    (2, array([4]))
    """
    return ds_iter._get_next_index()


def set_next_index(ds_iter: DatasetIterator, index: int) -> None:
    """Goes to an element by its number; NotImplementedError where none has one.

    Args:
        ds_iter: an iterator of a data set.
        index: the number of the element that it gives next, 0 or more.
    """
    ds_iter._set_next_index(index)


def device_put(ds: Any, device: Any, *, cpu_buffer_size: int = 4, device_buffer_size: int = 2) -> Any:
    """Elements put on devices as they are handed out, by `jax.device_put`.

    Args:
        ds: an IterDataset or a loader.
        device: where to, as jax.device_put takes it.
        cpu_buffer_size, device_buffer_size: nothing: workers make batches ahead, and JAX doesn't wait for its copies.

    >>> import jax, loaderkit.interop.grain as grain
    >>> [*device_put(grain.load([1, 2], num_epochs=1, batch_size=2), jax.devices()[0])]
    [Array([1, 2], dtype=int32)]
    """
    if isinstance(ds, IterDataset):
        return ds.map(partial(_put, device))
    return DeviceLoader(ds, device)


def _put(device: Any, element: Any) -> Any:
    import jax

    return jax.device_put(element, device)


class DeviceLoader:
    """What `device_put` gives, and what `iter` gives of that, with all that the loader or its iterator has.

    Args:
        of: the loader or its iterator.
        device: where to.
    """

    def __init__(self, of: Any, device: Any) -> None:
        self._of, self._device = of, device

    def __iter__(self) -> "DeviceLoader":
        return DeviceLoader(iter(self._of), self._device)

    def __next__(self) -> Any:
        return _put(self._device, next(self._of))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def assert_equal_output_after_checkpoint(ds: Any) -> None:
    """Raises AssertionError where a loader doesn't go on with the same elements from each of its states, or has none.

    Args:
        ds: a small one: it is read again from each element on.

    >>> import loaderkit.interop.grain as grain
    >>> assert_equal_output_after_checkpoint(grain.load([1, 2, 3], num_epochs=1))
    """
    iterator = iter(ds)
    states, values = [iterator.get_state()], []
    for value in iterator:
        values.append(value)
        states.append(iterator.get_state())
    assert values, "ds: expected an element or more, got none"
    for step, state in enumerate(states[:-1]):
        again = iter(ds)
        again.set_state(state)
        np.testing.assert_equal(
            again.get_state(), state, f"the state after {step} elements, restored, is another"
        )
        np.testing.assert_equal(
            [*again], values[step:], f"what comes after {step} elements is other than before"
        )


if not TYPE_CHECKING:  # where it would make every misspelled name one of ours

    def __getattr__(name: str) -> Never:
        missing(__name__, name)
