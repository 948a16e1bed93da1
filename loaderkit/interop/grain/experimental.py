"""What of grain.experimental a DataLoader has to do with."""

from typing import TYPE_CHECKING, Any, Never

import numpy as np

from ._batching import batch_and_pad
from ._installed import missing
from ._shuffle import index_shuffle
from .transforms import FlatMap as FlatMapTransform
from .transforms import MapWithIndex as MapWithIndexTransform

__all__ = [
    "FlatMapTransform",
    "MapWithIndexTransform",
    "assert_equal_output_after_checkpoint",
    "batch_and_pad",
    "device_put",
    "index_shuffle",
]


def device_put(
    ds: Any, device: Any, *, cpu_buffer_size: int = 4, device_buffer_size: int = 2
) -> "DeviceLoader":
    """A loader whose elements are put on devices as they are handed out, by `jax.device_put`.

    Args:
        ds: the loader.
        device: where to, as jax.device_put takes it.
        cpu_buffer_size, device_buffer_size: nothing: workers make batches ahead, and JAX doesn't wait for its copies.

    >>> import jax, loaderkit.interop.grain as grain
    >>> [*device_put(grain.load([1, 2], num_epochs=1, batch_size=2), jax.devices()[0])]
    [Array([1, 2], dtype=int32)]
    """
    return DeviceLoader(ds, device)


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
        import jax

        return jax.device_put(next(self._of), self._device)

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
