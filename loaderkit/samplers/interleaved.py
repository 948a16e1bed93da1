"""Some sources in turn, as tf.data's `interleave` reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.numbers import at_least
from loaderkit._order.array_digest import digest_of
from loaderkit._order.interleave import InterleaveOrder
from loaderkit._order.permutation import MAX_RECORDS, Int64Array
from loaderkit._order.sharding import Sharding

from .epochs import ArraySampler, checked_ints


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class InterleavedSampler(ArraySampler):
    """The records of several sources in turn, in exactly the order of tf.data's `interleave`, over a ConcatDataSource.

    Args:
        lengths: (n,) ints, 0 or more, the records of each source; at least one record in all.
        cycle_length: how many sources are open at a time, None for all.
        block_length: how many consecutive records of a source are read in its turn.
        num_epochs: how many times the same order is read, None for an endless stream. If not given it is 1, with a
            DeprecationWarning; 0.3 requires it.
        seed: int in [0, 2**64), for random operations.
        shard_options: used by a loader that gets none of its own.

    A value of the wrong type is a TypeError, a value out of range a ValueError. `lk.interleave` makes the source and
    the sampler.

    The place of a source that has no more records is taken by the next source when its turn comes again.

    >>> sampler = InterleavedSampler([3, 1, 2], cycle_length=2, num_epochs=1)
    >>> sampler.record_keys(range(6)).tolist()  # of records 0 1 2, 3, 4 5
    [0, 3, 1, 2, 4, 5]
    """

    lengths: Int64Array
    cycle_length: int | None
    block_length: int
    num_epochs: int | None
    seed: int | None
    shard_options: Sharding | None
    shuffle: bool = field(init=False)
    num_records: int = field(init=False)
    _firsts: Int64Array = field(init=False)  # (n,) the first key of each source
    _order: InterleaveOrder = field(init=False)

    @former_arguments(removed_in="0.3.0", left_out={"num_epochs": 1})
    def __init__(
        self,
        lengths: npt.ArrayLike,
        *,
        cycle_length: int | None = None,
        block_length: int = 1,
        num_epochs: int | None,
        seed: int | None = None,
        shard_options: Sharding | None = None,
    ) -> None:
        checked = _checked_lengths(lengths)
        self._set(lengths=checked, num_records=int(checked.sum()), shuffle=False)
        self._set(num_epochs=num_epochs, seed=seed, shard_options=shard_options)
        self._normalise()
        if cycle_length is not None:
            advice = "give None to have all sources open"
            cycle_length = at_least("cycle_length", cycle_length, 1, below=MAX_RECORDS, advice=advice)
        advice = "give 1 to change the source at each record"
        block_length = at_least("block_length", block_length, 1, below=MAX_RECORDS, advice=advice)
        self._set(cycle_length=cycle_length, block_length=block_length)
        self._set(_firsts=np.cumsum(checked) - checked)
        self._set(_order=InterleaveOrder(checked, cycle_length or len(checked), block_length))

    @property
    def part_lengths(self) -> Int64Array:
        """The records of each source, (n,) int64."""
        return self.lengths

    def record_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """The record keys of many indices at once, (n,) int64.

        Args:
            indices: (n,) ints; errors as IndexSampler's.

        >>> InterleavedSampler([2, 2], num_epochs=2).record_keys([0, 1, 4, 5]).tolist()
        [0, 2, 0, 2]
        """
        # `super()` doesn't work here: slots=True makes another class of the same name.
        sources, records = self._order(ArraySampler.record_keys(self, indices))
        return self._firsts[sources] + records

    def positions_of(self, record_keys: npt.ArrayLike, epoch: int) -> Int64Array:
        """The place of each key in an epoch, (n,) int64, the same in each; -1 for a key that none reads.

        Args:
            record_keys: (n,) ints.
            epoch: 0 or more.

        >>> InterleavedSampler([3, 1, 2], cycle_length=2, num_epochs=1).positions_of([3, 2, 6], 0)
        array([ 1,  3, -1])
        """
        found = ArraySampler.positions_of(self, record_keys, epoch)
        here = np.flatnonzero(found >= 0)
        sources = np.searchsorted(self._firsts, found[here], "right") - 1
        found[here] = self._order.places_of(sources, found[here] - self._firsts[sources])
        return found

    def fingerprint(self) -> dict[str, object]:
        """What a saved state keeps of this sampler, as JSON values: of the lengths their number and a digest.

        >>> said = InterleavedSampler([2, 2], block_length=4, num_epochs=1).fingerprint()
        >>> said["sources"], said["cycle_length"], said["block_length"]
        (2, 2, 4)
        """
        return {
            **ArraySampler.fingerprint(self),
            "sources": len(self.lengths),
            "lengths": digest_of(self.lengths),
            # More slots than sources are the same order.
            "cycle_length": min(self.cycle_length or len(self.lengths), len(self.lengths)),
            "block_length": self.block_length,
        }


def _checked_lengths(given: Any) -> Int64Array:
    advice = "give len(source) of each source"
    if np.ndim(given) != 1:
        raise ValueError(f"lengths: expected one dimension, got {_short(given)}; {advice}")
    lengths = checked_ints("lengths", given, below=MAX_RECORDS, advice=advice)
    total = sum(lengths.tolist())
    if not 1 <= total < MAX_RECORDS:
        raise ValueError(
            f"lengths: expected 1 to 2**62 - 1 records in all, got {total}; an empty source can't be sampled"
        )
    return lengths
