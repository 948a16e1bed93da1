"""Spans of records one after the other: the rows of a packing plan that is another one in each epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from reprlib import repr as _short
from typing import Any, cast

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._order.groups import groups
from loaderkit._order.mixing import fold_arrays, fold_each
from loaderkit._order.permutation import (
    MAX_RECORDS,
    Int64Array,
    Permutations,
    distinct_of,
    permute,
    unpermute,
)
from loaderkit._order.sharding import Sharding
from loaderkit._source.record_key import short_repr

from .epochs import EpochSampler, IndexSampler
from .excluding import ExcludingSampler
from .protocol import Sampler


@dataclass(frozen=True, slots=True)
class SpanSampler(EpochSampler):
    """Spans of records one after the other, each in order or shuffled by itself: each plan of `plan_packing(epochs=)`.

    Args:
        spans: the records of each, ints of 1 or more; `rows.epoch_lengths` of a PackedDataSource.
        shuffle, num_epochs, seed, shard_options: as IndexSampler says; an epoch of this sampler is all spans once.

    A value of the wrong type is a TypeError, a value out of range a ValueError.

    A saved state compares the spans that were begun: later ones may have changed, and others may have come.

    >>> sampler = SpanSampler([4, 3], shuffle=True, seed=1, num_epochs=1)
    >>> sampler.record_keys(range(7))
    array([2, 3, 0, 1, 4, 6, 5])
    """

    spans: Sequence[int]
    _: KW_ONLY
    shard_options: Sharding | None = None
    shuffle: bool = False
    num_epochs: int | None = None
    seed: int | None = None
    num_records: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given: Any = self.spans
        if not isinstance(given, Iterable) or not (given := tuple(given)):
            raise TypeError(f"spans: expected the records of one span or more, got {_short(self.spans)}")
        advice = "give the records of each span"
        spans = [
            at_least(f"spans[{place}]", each, 1, below=MAX_RECORDS, advice=advice)
            for place, each in enumerate(given)
        ]
        self._set(spans=tuple(spans), num_records=sum(spans))
        self._normalise(shuffle=self.shuffle)

    def fingerprint(self) -> dict[str, object]:
        """What a saved state keeps of this sampler, as JSON values; the sharding isn't part of it.

        >>> SpanSampler([4, 3], num_epochs=1).fingerprint()
        {'kind': 'SpanSampler', 'shuffle': False, 'num_epochs': 1, 'seed': None, 'spans': [4, 3]}
        """
        # `super()` doesn't work here: slots=True makes another class of the same name.
        said = {**EpochSampler.fingerprint(self), "spans": list(self.spans)}
        del said["num_records"]
        return said

    @property
    def _ends(self) -> Int64Array:
        return np.cumsum(np.array(self.spans, np.int64))

    def _shuffled(self, positions: Int64Array, epochs: Int64Array, owners: Int64Array | None) -> Int64Array:
        if not positions.size:
            return positions
        ends, count = self._ends, len(self.spans)
        tickets = ends.searchsorted(positions, "right")
        if owners is not None:
            tickets += owners * count
        some, orders = distinct_of(tickets)
        epoch, span = np.divmod(some, count)
        of_epochs = fold_each(cast(int, self.seed), epochs.view(np.uint64))
        keys = fold_arrays(of_epochs[epoch], span.view(np.uint64))
        sizes = np.diff(ends, prepend=0)[span]
        firsts = ends[span] - sizes
        if orders is None:
            return permute(positions - firsts, None, int(sizes[0]), keys) + firsts
        firsts = firsts[orders]
        return Permutations(sizes, keys)(positions - firsts, orders) + firsts

    def _unshuffled(self, record_keys: Int64Array, epoch: int) -> Int64Array:
        places, ends = np.empty_like(record_keys), self._ends
        of_epoch = fold_each(cast(int, self.seed), np.array([epoch], np.uint64))
        for span, here in groups(ends.searchsorted(record_keys, "right")):
            first = int(ends[span]) - self.spans[span]
            key = fold_arrays(of_epoch, np.array([span], np.uint64))
            places[here] = unpermute(record_keys[here] - first, None, self.spans[span], key) + first
        return places


def has_spans(sampler: Sampler) -> bool:
    """Whether a sampler is of spans.

    >>> has_spans(SpanSampler([4, 3])), has_spans(IndexSampler(7))
    (True, False)
    """
    return isinstance(sampler, SpanSampler)


def spans_begun(sampler: Sampler, index: int) -> int | None:
    """How many spans the indices before one have begun; None in a later epoch, and for a sampler that has no spans.

    Args:
        sampler: any; one without some records passes over these, so its places are behind its indices.
        index: 0 to the sampler's length.

    >>> [spans_begun(SpanSampler([4, 3]), index) for index in (0, 4, 5, 7)]
    [0, 1, 2, None]
    """
    spans = sampler.sampler if isinstance(sampler, ExcludingSampler) else sampler
    if not isinstance(spans, SpanSampler):
        return None
    epoch, place = divmod(index, spans.num_records)
    if isinstance(sampler, ExcludingSampler):
        _, epoch, place = sampler.begin_at(index)
    firsts = np.cumsum([0, *spans.spans[:-1]])
    return None if epoch else int(np.count_nonzero(firsts < place))


def sampler_over(
    source: Any, *, shuffle: bool, num_epochs: int | None, seed: int | None, lanes: int = 1
) -> Sampler:
    """All records of a source once in each epoch; of one that has `epoch_lengths`, one span of them after the other.

    Args:
        source: any data source.
        shuffle, num_epochs, seed: as the samplers take them.
        lanes: that are asked for; ValueError where they are several and there are spans, which are of all lanes.

    >>> sampler_over([5, 6], shuffle=False, num_epochs=1, seed=None)
    IndexSampler(num_records=2, shard_options=None, shuffle=False, num_epochs=1, seed=None)
    """
    spans = epoch_lengths_of(source)
    if spans is None:
        return IndexSampler(len(source), shuffle=shuffle, num_epochs=num_epochs, seed=seed)
    if lanes > 1:
        raise ValueError(
            f"lanes: expected 1 for {short_repr(source)}, whose {len(spans)} epochs are read one after the other, "
            f"got {lanes}"
        )
    return SpanSampler(spans, shuffle=shuffle, num_epochs=num_epochs, seed=seed)


def epoch_lengths_of(source: Any) -> tuple[int, ...] | None:
    """The source's `epoch_lengths`: how many of its records are of each epoch, one after the other; None without.

    >>> epoch_lengths_of([5, 6]) is None
    True
    """
    lengths = getattr(source, "epoch_lengths", None)
    return lengths if isinstance(lengths, tuple) and sum(lengths) == len(source) else None
