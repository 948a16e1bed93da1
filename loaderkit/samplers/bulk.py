"""What all samplers of this package share: `sampler[i]` and iteration follow from the keys of many indices at once."""

from collections.abc import Callable, Iterator
from copy import copy
from operator import index as to_index
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import not_an_int
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.permutation import Int64Array
from loaderkit._order.rng import generator

from .protocol import ENDLESS

# Indices of one vectorised call when a sampler is iterated: with 64 an index took 1.4 times as long, 4096 was no
# faster.
_ITERATION_BLOCK = 1024


def theirs(find: Callable[[Any], Any]) -> Any:
    """A property of a sampler over another one, its `sampler`: what `find` gives of that."""
    return property(lambda self: find(self.sampler))


class BulkSampler:
    """A sampler whose `record_keys` answers; a subclass says its `_limit`, the number of indices or ENDLESS."""

    __slots__ = ()
    _gives_length: ClassVar[str] = "give num_epochs"

    seed: int | None

    @property
    def _limit(self) -> int:
        raise NotImplementedError

    def record_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """The record keys of many indices at once: (n,) ints in, (n,) int64 out."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> RecordMetadata:
        try:
            place = to_index(index)
        except TypeError:
            raise not_an_int("index", index) from None
        if not 0 <= place < self._limit:
            raise self._out_of_bounds(place)
        return self._metadata(place, int(self.record_keys([place])[0]))

    def __iter__(self) -> Iterator[RecordMetadata]:
        for start in range(0, self._limit, _ITERATION_BLOCK):
            indices = range(start, min(start + _ITERATION_BLOCK, self._limit))
            keys = self.record_keys(np.array(indices, np.int64)).tolist()
            for index, key in zip(indices, keys, strict=True):
                yield self._metadata(index, key)

    def __len__(self) -> int:
        if self._limit == ENDLESS:
            raise TypeError(f"{self!r} is endless and has no length; {self._gives_length}")
        return self._limit

    def __bool__(self) -> bool:
        # Without this method Python would call __len__, which raises for an endless sampler.
        return True

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)  # a frozen dataclass has no other way

    def _copied(self, **values: Any) -> Self:
        other = copy(self)
        other._set(**values)
        return other

    def _seed_in_state(self) -> int | str | None:
        # A state holds no integer above 63 bits, which many JSON readers would round.
        return self.seed if self.seed is None or self.seed < ENDLESS else str(self.seed)

    def _metadata(self, index: int, record_key: int) -> RecordMetadata:
        rng = None if self.seed is None else generator(self.seed, 0, index, 0)
        return RecordMetadata(index, record_key, rng)

    def _checked(self, indices: npt.ArrayLike) -> Int64Array:
        wanted = np.asarray(indices)
        if wanted.size == 0:
            return np.empty(wanted.shape, np.int64)
        if wanted.dtype.kind not in "iu":
            raise TypeError(f"indices: expected ints, got an array of {wanted.dtype}; give int64 indices")
        if wanted.ndim != 1:
            raise ValueError(f"indices: expected one dimension, got shape {wanted.shape}; flatten them")
        if wanted.min() < 0 or wanted.max() >= self._limit:
            raise self._out_of_bounds(int(wanted[(wanted < 0) | (wanted >= self._limit)][0]))
        return wanted.astype(np.int64, copy=False)

    def _out_of_bounds(self, index: int) -> IndexError:
        last = "2**63 - 1" if self._limit == ENDLESS else str(self._limit - 1)
        return IndexError(f"index: expected an int from 0 to {last}, got {index}, of {self!r}")
