"""A part of the stream of another sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import at_least
from loaderkit._order.permutation import Int64Array
from loaderkit._order.sharding import Sharding

from .bulk import BulkSampler, theirs
from .mixed import fingerprint_with_stages
from .optional import (
    batch_of,
    components_of,
    epochs_of,
    indices_of,
    lanes_of,
    next_uses_of,
    part_lengths_of,
    window_of,
)
from .protocol import (
    ENDLESS,
    Sampler,
    length_of,
    min_records_of,
    random_parts_of,
    record_keys_of,
    seed_of,
    shaped,
)


@dataclass(frozen=True)
class SliceSampler(BulkSampler):
    """The indices from `start` to `stop` of another sampler, counted from 0 again: what `take` and `skip` read.

    Args:
        sampler: any that reads single records; ValueError for one that plans whole batches.
        start: the first of its indices, 0 or more. ValueError where no index is left.
        stop: behind the last one, None for all from start on. ValueError where it is behind the sampler's end.

    A value of the wrong type is a TypeError.

    The seed is the sampler's; random operations draw by the indices of the slice. There are no epochs:
    `loader.epoch(e)` is a TypeError. Of a mixture it has the weights as they were given; `reweigh` is of the mixture.

    >>> from loaderkit.samplers import IndexSampler
    >>> SliceSampler(IndexSampler(3, seed=0), 2, 6).record_keys(range(4)).tolist()
    [2, 0, 1, 2]
    """

    sampler: Sampler
    start: int
    stop: int | None
    shard_options: Sharding | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.sampler, type) or not hasattr(type(self.sampler), "__getitem__"):
            raise TypeError(
                f"sampler: expected one, such as IndexSampler(len(source)), got {self.sampler!r:.80}"
            )
        if shaped(self.sampler) is not None:
            raise ValueError(
                f"sampler: expected one of single records, got a {type(self.sampler).__qualname__}, which plans whole "
                "batches; give num_steps= to lk.DataLoader"
            )
        length = length_of(self.sampler)
        start = at_least("start", self.start, 0, below=ENDLESS if length is None else length)
        stop = length
        if self.stop is not None:
            last = ENDLESS - 1 if length is None else length
            stop = at_least("stop", self.stop, start + 1, below=last + 1)
        self._set(start=start, stop=stop, shard_options=getattr(self.sampler, "shard_options", None))

    @property
    def _limit(self) -> int:
        return ENDLESS if self.stop is None else self.stop - self.start

    def record_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """The record keys of many indices at once, (n,) int64.

        Args:
            indices: (n,) ints; errors as IndexSampler's.

        >>> from loaderkit.samplers import SequentialSampler
        >>> SliceSampler(SequentialSampler(9), 2, None).record_keys([0, 6]).tolist()
        [2, 8]
        """
        return record_keys_of(self.sampler, self._checked(indices) + self.start)

    def indices_of(self, record_keys: npt.ArrayLike, start: int, stop: int) -> tuple[Int64Array, Int64Array]:
        """The places in `record_keys` of what indices in [start, stop) read, and these indices, (m,) int64 each.

        Args:
            record_keys: (n,) ints.
            start: the first index that is looked at.
            stop: one past the last.

        >>> from loaderkit.samplers import SequentialSampler
        >>> SliceSampler(SequentialSampler(9), 2, None).indices_of([8, 1], 0, 7)
        (array([0]), array([6]))
        """
        stop = min(stop, self._limit)
        which, found = indices_of(self.sampler, record_keys, start + self.start, stop + self.start)
        return which, found - self.start

    def epochs_of(self, indices: Int64Array) -> Int64Array:
        """The epoch of the sampler that each index is in, (n,) int64.

        Args:
            indices: (n,) int64.
        """
        return epochs_of(self.sampler, indices + self.start)

    def fingerprint(self) -> dict[str, object]:
        """What a saved state keeps of this sampler, as JSON values.

        >>> from loaderkit.samplers import SequentialSampler
        >>> said = SliceSampler(SequentialSampler(9), 2, 5).fingerprint()
        >>> said["start"], said["stop"], said["sampler"]["kind"]
        (2, 5, 'SequentialSampler')
        """
        inside = fingerprint_with_stages(self.sampler)
        return {"kind": "SliceSampler", "start": self.start, "stop": self.stop, "sampler": inside}

    seed = theirs(seed_of)
    min_records = theirs(min_records_of)
    random_parts = theirs(random_parts_of)

    # --- the optional members of the sampler, where it has them; samplers/optional.py reads them -----------------

    shuffle = theirs(lambda sampler: bool(getattr(sampler, "shuffle", False)))
    window = theirs(lambda sampler: window_of(sampler)[0] or None)
    chunk = theirs(lambda sampler: window_of(sampler)[1] or None)
    batch = theirs(batch_of)
    part_lengths = theirs(part_lengths_of)
    components = theirs(lambda sampler: getattr(components_of(sampler), "samplers", None))
    offsets = theirs(lambda sampler: getattr(components_of(sampler), "offsets", None))

    @property
    def next_uses(self) -> Callable[..., Int64Array] | None:
        """The sampler's, in indices of the slice."""
        own = next_uses_of(self.sampler)
        if own is None:
            return None

        def next_uses(record_keys: npt.ArrayLike, index: int, lanes: range | None = None) -> Int64Array:
            return own(record_keys, index + self.start, lanes) - self.start

        return next_uses

    @property
    def lanes(self) -> int:
        """The sampler's; 1 where the slice begins within a batch."""
        return lanes_of(self.sampler) if self.start % (batch_of(self.sampler) or 1) == 0 else 1

    @property
    def component_numbers(self) -> Callable[[Int64Array], Int64Array] | None:
        """The sampler's, of indices of the slice."""
        mixed = components_of(self.sampler)
        if mixed is None or (numbers := mixed.numbers) is None:
            return None
        return lambda indices: numbers(self._checked(indices) + self.start)

    @property
    def instead(self) -> Callable[[int, int, int], Int64Array]:
        """The sampler's, in indices of the slice, up to the first one that lies before it."""
        own = cast(Any, self.sampler).instead

        def instead(index: int, tried: int, count: int) -> Int64Array:
            found: Int64Array = own(index + self.start, tried, count) - self.start
            before = np.flatnonzero(found < 0)
            return found[: before[0]] if before.size else found

        return instead

    @property
    def keys_instead(self) -> Callable[[npt.ArrayLike, npt.ArrayLike], Int64Array]:
        """The sampler's, of indices of the slice."""
        own = cast(Any, self.sampler).keys_instead
        return lambda lost, instead: own(np.asarray(lost) + self.start, np.asarray(instead) + self.start)
