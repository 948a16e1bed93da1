"""Draws with replacement: each record with a probability of its own."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import as_array, at_least, number
from loaderkit._order.alias_table import MOST_COLUMNS, AliasTable, Float64Array
from loaderkit._order.array_digest import digest_of
from loaderkit._order.mixing import fold, fold_each
from loaderkit._order.permutation import Int64Array
from loaderkit._order.sharding import Sharding, check_sharding

from .bulk import BulkSampler
from .protocol import ENDLESS, SEED_LIMIT

_COLUMN, _PART = 1, 2  # which of an index's two words a key is for
_ADVICE = "give one finite weight for each record, 0 for one that is never drawn"


@dataclass(frozen=True, slots=True, repr=False)
class WeightedSampler(BulkSampler):
    """Records drawn with replacement: record k with probability weights[k] / sum(weights), the same for each index.

    Args:
        weights: (n,) numbers, finite, 0 or more and not all 0, one for each record of the source; n is 1 to 2**32 - 1.
            They count as float64.
        seed: int in [0, 2**64).
        num_samples: how many indices, None for an endless stream.
        shard_options: used by a loader that gets none of its own.

    A value of the wrong type is a TypeError, a value out of range a ValueError that names its place.

    The draw of an index depends on seed and index alone. Probabilities are exact to 2**-62; a record of weight 0 is
    never drawn. The sampler keeps 12 bytes a record. There are no epochs: `loader.epoch(e)` is a TypeError.

    >>> sampler = WeightedSampler([5, 0, 3, 2], seed=0)
    >>> sampler.record_keys(range(12)).tolist()
    [0, 2, 2, 2, 2, 3, 0, 3, 0, 2, 0, 3]
    >>> (np.bincount(sampler.record_keys(range(10_000))) / 10_000).round(2).tolist()
    [0.5, 0.0, 0.3, 0.2]
    """

    _gives_length = "give num_samples"

    weights: InitVar[npt.ArrayLike]
    seed: int = field(kw_only=True)
    num_samples: int | None = field(default=None, kw_only=True)
    shard_options: Sharding | None = field(default=None, kw_only=True)
    table: AliasTable = field(init=False, compare=False)
    weights_digest: str = field(init=False)

    def __post_init__(self, weights: npt.ArrayLike) -> None:
        self._set(seed=at_least("seed", self.seed, 0, below=SEED_LIMIT))
        samples = self.num_samples
        if samples is not None:
            advice = "give None for an endless stream"
            samples = at_least("num_samples", samples, 1, below=ENDLESS - 1, advice=advice)
        check_sharding(self.shard_options)
        checked = _checked_weights(weights)
        self._set(num_samples=samples, table=AliasTable.of(checked), weights_digest=digest_of(checked))

    @property
    def min_records(self) -> int:
        """The length of a source that it is for: the number of weights.

        >>> WeightedSampler([1, 0, 2], seed=0).min_records
        3
        """
        return len(self.table.aliases)

    @property
    def random_parts(self) -> list[range]:
        """The record keys that are read in a random order: all.

        >>> WeightedSampler([1, 0, 2], seed=0).random_parts
        [range(0, 3)]
        """
        return [range(self.min_records)]

    def record_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """The record keys of many indices at once, (n,) int64.

        Args:
            indices: (n,) ints; errors as IndexSampler's.

        >>> WeightedSampler([0, 1, 0], seed=0).record_keys([5, 0]).tolist()
        [1, 1]
        """
        return self.drawn(self._checked(indices), 0)

    def drawn(self, indices: Int64Array, time: int) -> Int64Array:
        """The record keys of indices as one of several draws has them, (n,) int64.

        Args:
            indices: (n,) int64.
            time: which draw, from 0 on; 0 is that of `record_keys`.

        >>> WeightedSampler([0, 1, 0], seed=0).drawn(np.array([5, 0]), 3).tolist()
        [1, 1]
        """
        # Two keys, so that the words of an index are independent.
        wanted, keys = indices.view(np.uint64), (_COLUMN + 2 * time, _PART + 2 * time)
        columns, words = (fold_each(fold(self.seed, key), wanted) for key in keys)
        return self.table.draw(columns, words)

    def drawable_without(self, record_keys: Int64Array) -> bool:
        """Whether a record can be drawn that isn't among some.

        Args:
            record_keys: (n,) int64.

        >>> sampler = WeightedSampler([1, 0, 2], seed=0)
        >>> sampler.drawable_without(np.array([0])), sampler.drawable_without(np.array([0, 2]))
        (True, False)
        """
        drawable = self.table.thresholds > 0
        drawable[self.table.aliases] = True
        drawable[record_keys[record_keys < drawable.size]] = False
        return bool(drawable.any())

    def fingerprint(self) -> dict[str, object]:
        """What a saved state keeps of this sampler, as JSON values: of the weights their number and a digest.

        >>> WeightedSampler([1, 3], seed=0).fingerprint()  # doctest: +NORMALIZE_WHITESPACE
        {'kind': 'WeightedSampler', 'records': 2, 'weights': 'sha256:df05c72cdcfe99ccd882da2c3bc3baa0',
         'num_samples': None, 'seed': 0}
        """
        return {
            "kind": "WeightedSampler",
            "records": self.min_records,
            "weights": self.weights_digest,
            "num_samples": self.num_samples,
            "seed": self._seed_in_state(),
        }

    @property
    def _limit(self) -> int:
        return ENDLESS if self.num_samples is None else self.num_samples

    def __repr__(self) -> str:
        return (
            f"WeightedSampler({self.min_records} weights, seed={self.seed}, num_samples={self.num_samples}, "
            f"shard_options={self.shard_options})"
        )


def _checked_weights(given: Any) -> Float64Array:
    weights = as_array(given)
    if weights.ndim != 1:
        raise ValueError(f"weights: expected one dimension, got {_short(given)}; {_ADVICE}")
    if not 1 <= len(weights) <= MOST_COLUMNS:
        raise ValueError(f"weights: expected 1 to 2**32 - 1, got {len(weights)}; {_ADVICE}")
    if weights.dtype.kind not in "iuf":
        weights = np.array([_number(place, weight) for place, weight in enumerate(given)])
    weights = weights.astype(np.float64, copy=False)
    good = np.isfinite(weights) & (weights >= 0)
    if not good.all():
        place = int(np.argmin(good))
        raise ValueError(
            f"weights[{place}]: expected a finite number, 0 or more, got {_short(given[place])}; {_ADVICE}"
        )
    if not weights.any():
        raise ValueError(f"weights: expected one above 0 or more, got {len(weights)} zeros; {_ADVICE}")
    return weights


def _number(place: int, weight: Any) -> float:
    try:
        return number(f"weights[{place}]", weight)
    except OverflowError:  # an int that no float holds
        return np.inf
