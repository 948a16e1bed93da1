"""Epochs over chosen records."""

from __future__ import annotations

from dataclasses import dataclass, field
from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import as_array
from loaderkit._order.array_digest import digest_of
from loaderkit._order.permutation import MAX_RECORDS, Int64Array
from loaderkit._order.sharding import Sharding

from .epochs import ArraySampler, checked_ints

_ADVICE = "give record keys, such as np.flatnonzero(mask)"


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class KeysSampler(ArraySampler):
    """Each of the chosen record keys once in each epoch, in their order or shuffled anew for each epoch.

    Args:
        keys: (n,) ints in [0, 2**62), one or more, in any order; a key that stands there twice is read twice in each
            epoch. They are copied. TypeError for a key of another type, ValueError for one out of range; both name its
            place.
        shuffle, num_epochs, seed, shard_options: as IndexSampler says.

    `num_records` is the number of keys.

    >>> KeysSampler([7, 3, 3], num_epochs=2).record_keys(range(6)).tolist()
    [7, 3, 3, 7, 3, 3]
    >>> labels = np.array([0, 1, 1, 0, 1])
    >>> sorted(KeysSampler(np.flatnonzero(labels), shuffle=True, seed=0).record_keys(range(3)).tolist())
    [1, 2, 4]
    """

    keys: Int64Array
    shuffle: bool
    num_epochs: int | None
    seed: int | None
    shard_options: Sharding | None
    num_records: int = field(init=False)
    _by_key: Int64Array | None = field(init=False)  # places of the keys, sorted, once they were asked for

    def __init__(
        self,
        keys: npt.ArrayLike,
        *,
        shuffle: bool = False,
        num_epochs: int | None = None,
        seed: int | None = None,
        shard_options: Sharding | None = None,
    ) -> None:
        checked = _checked_keys(keys)
        self._set(keys=checked, num_records=len(checked), shuffle=shuffle, num_epochs=num_epochs, seed=seed)
        self._set(shard_options=shard_options, _by_key=None)
        self._normalise(shuffle=self.shuffle)

    @property
    def min_records(self) -> int:
        """The least length of a source that has all the keys.

        >>> KeysSampler([7, 3, 3]).min_records
        8
        """
        return int(self.keys.max()) + 1

    def record_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """The record keys of many indices at once, (n,) int64.

        Args:
            indices: (n,) ints; errors as IndexSampler's.

        >>> KeysSampler([7, 3]).record_keys([0, 1, 2]).tolist()
        [7, 3, 7]
        """
        # `super()` doesn't work here: slots=True makes another class of the same name.
        return self.keys[ArraySampler.record_keys(self, indices)]

    def positions_of(self, record_keys: npt.ArrayLike, epoch: int) -> Int64Array:
        """The place of each key in the order of an epoch, (n,) int64; -1 for one that isn't chosen.

        Args:
            record_keys: (n,) ints.
            epoch: 0 or more.

        ValueError where a key was chosen twice, so that an epoch reads it at several places. It keeps 8 bytes a key.

        >>> KeysSampler([7, 3]).positions_of([3, 5], 0)
        array([ 1, -1])
        """
        keys, by_key = np.asarray(record_keys, np.int64), self._by_key
        if by_key is None:
            by_key = np.argsort(self.keys, kind="stable")
            again = np.flatnonzero(np.diff(self.keys[by_key]) == 0)
            if again.size:
                raise ValueError(
                    f"keys: expected each record key once, to say where an epoch reads it, got "
                    f"{self.keys[by_key[again[0]]]} more than once"
                )
            self._set(_by_key=by_key)
        at = by_key[np.searchsorted(self.keys, keys, sorter=by_key).clip(max=len(by_key) - 1)]
        return ArraySampler.positions_of(self, np.where(self.keys[at] == keys, at, -1), epoch)

    def fingerprint(self) -> dict[str, object]:
        """What a saved state keeps of this sampler, as JSON values: of the keys their number and a digest.

        >>> said = KeysSampler([7, 3]).fingerprint()
        >>> said["num_records"], said["keys"]
        (2, 'sha256:a2dcad78d59bc1d926164cb141e46559')
        """
        return {**ArraySampler.fingerprint(self), "keys": digest_of(self.keys)}


def _checked_keys(given: Any) -> Int64Array:
    if isinstance(given, range):
        given = np.arange(given.start, given.stop, given.step, dtype=np.int64)
    keys = as_array(given)
    if not keys.ndim:
        raise TypeError(f"keys: expected an array of record keys, got {_short(given)}; {_ADVICE}")
    if keys.ndim != 1:
        raise ValueError(f"keys: expected one dimension, got {_short(given)}; {_ADVICE}")
    if not keys.size:
        raise ValueError(
            "keys: expected one record key or more, got none; an empty selection can't be sampled"
        )
    return checked_ints("keys", keys if keys.dtype.kind in "iu" else given, below=MAX_RECORDS, advice=_ADVICE)
