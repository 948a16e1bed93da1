"""Bad records: how many are allowed, what is read instead of them, and what a state remembers of them.

bad     a record on which the read, or an operation before the first Batch, raises an error
lost    an index: its own record was bad when its row was handed out
ledger  [index, index read instead] of each lost index; twice the same index where the user's function made the element
skipped number of lost indices that left no row, by logical stream
search  for an index to read instead: those after the lost one; after the stream's last index follows its first. A
        sampler with `instead` says which ones: a mixture stays in the component of the lost index

All of it depends on the stream, the policy and the set of bad records only, on no worker, task or host.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass, field, replace
from loaderkit._order.metadata import MOST_INT64, RecordMetadata
from loaderkit._order.stage_keys import rows_of_keys
from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import record_keys_of

from .ledger import Ledger
from .segments import Segments

Int64Array = NDArray[np.int64]

# So many bad records in a row end a stream where the user sets no limit. Fewer would end streams with a damaged file of
# some hundred records; more would search longer in a source that can't be read at all. Not measured.
IN_A_ROW = 1000
# A share is taken of at least so many records: one bad record among the first ten isn't 10 % of a run. Not measured.
_FIRST_SHARE = 1000
# Candidates planned at once, first and most: most searches end at the first candidate, and a long one shouldn't ask
# the sampler often. Not measured.
_FIRST_CHUNK, _LAST_CHUNK = 16, 4096
_NONE: Int64Array = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class BadRecords:
    """The bad records up to a position.

    ledger: {lost index: index read instead}. skipped: {logical stream: number of skipped records}.

    >>> BadRecords(Ledger({7: 8})).with_ledger([(3, 4)]).with_skipped({0: 2}).count
    4
    """

    ledger: Ledger = field(default_factory=Ledger)
    skipped: Mapping[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of lost indices."""
        return len(self.ledger) + sum(self.skipped.values())

    def with_ledger(self, entries: Iterable[tuple[int, int]]) -> "BadRecords":
        """These and the entries; of an index that occurs twice the last entry counts."""
        ledger = self.ledger
        for index, instead in entries:
            ledger = ledger.with_entry(index, instead)
        return replace(self, ledger=ledger)

    def with_skipped(self, more: Mapping[int, int]) -> "BadRecords":
        """These and `more` skipped ones, {stream: number}."""
        skipped = dict(self.skipped)
        for stream, count in more.items():
            skipped[stream] = skipped.get(stream, 0) + count
        return replace(self, skipped=skipped)

    def joined(self, other: "BadRecords") -> "BadRecords":
        """The bad records of two processes at the same step; an entry that both have is counted once."""
        return BadRecords(Ledger({**other.ledger, **self.ledger}), {**other.skipped, **self.skipped})

    def before(self, index: int) -> "BadRecords":
        """These without the lost indices from an index on, from where the stream reads other records."""
        if self.ledger.last < index:
            return self
        kept = {lost: instead for lost, instead in self.ledger.items() if lost < index}
        return replace(self, ledger=Ledger(kept))

    def of_streams(self, streams: Collection[int], stream_of: Callable[[int], int]) -> "BadRecords":
        """These without those of other logical streams. stream_of: gives an index's stream."""
        kept = {lost: instead for lost, instead in self.ledger.items() if stream_of(lost) in streams}
        ledger = self.ledger if len(kept) == len(self.ledger) else Ledger(kept)
        return BadRecords(ledger, {s: n for s, n in self.skipped.items() if s in streams})


NO_BAD_RECORDS = BadRecords()


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The bad records that a user allows.

    policy: "raise", "replace", "skip", or "call" for a function of the user's. most: the greatest number of lost
    indices, an int, or their share of the records, a float; None where the user set no limit.

    >>> Tolerance("replace", 3).allows(lost=4, passed=1000, num_records=1000)
    False
    >>> Tolerance("replace", 0.01).allows(lost=4, passed=10, num_records=500)
    True
    """

    policy: str = "raise"
    most: int | float | None = None

    @property
    def skips(self) -> bool:
        """Whether a bad record leaves no row, so that the number of rows isn't known in advance."""
        return self.policy == "skip"

    def allows(self, *, lost: int, passed: int, num_records: int) -> bool:
        """Whether `lost` of `passed` records are within the limit; a share is of 1,000 records or an epoch at least."""
        if isinstance(self.most, float):
            return lost <= self.most * max(passed, min(_FIRST_SHARE, num_records))
        return self.most is None or lost <= self.most

    def in_a_row(self, *, num_records: int, length: int | None) -> int:
        """The number of bad records in a row that ends a stream: all are bad, or more than the user can have meant.

        num_records: the source's length; twice as many consecutive indices contain every record. length: of the
        stream, None without an end.

        >>> Tolerance("skip").in_a_row(num_records=5, length=None)
        10
        """
        allowed = self.most or 0
        if isinstance(allowed, float):
            allowed = int(allowed * num_records)
        every_record = 2 * num_records if length is None else min(2 * num_records, length)
        return max(1, min(max(IN_A_ROW, allowed), every_record))


@dataclass(frozen=True, slots=True)
class ReplacementSearch:
    """Gives the indices to try in place of a lost one, in order, and the record that each reads.

    sampler, start, stop: the stream. num_records: the source's length. ledger: the results of earlier searches. most:
    the greatest number of candidates for one index. segments: of the steps, where only records of its own step, which
    are no longer than planned, may stand for a lost one, whatever the sampler says.

    >>> from loaderkit.samplers import SequentialSampler
    >>> candidates = ReplacementSearch(SequentialSampler(4), 0, 4, num_records=4, ledger={}, most=9)
    >>> [part.tolist() for part in candidates(2, 0)], [part.tolist() for part in candidates(2, 3)]
    ([[3, 0, 1], [3, 0, 1]], [[], []])
    """

    sampler: Sampler
    start: int
    stop: int | None
    num_records: int
    ledger: Mapping[int, int]
    most: int
    segments: Segments | None = None

    def __call__(self, index: int, tried: int) -> tuple[Int64Array, Int64Array]:
        """Indices and record keys of the next candidates, (n,) int64 each; empty after the last one.

        index: the lost one. tried: number of candidates that earlier calls gave for it.
        """
        if self.segments is None and hasattr(self.sampler, "instead"):
            return self._by_sampler(self.sampler, index, tried)
        begin, start, stop = self.ledger.get(index, index), self.start, self.stop
        if self.segments is not None:
            start, end = self.segments.step_around(index)
            stop = end if stop is None else min(end, stop)
        most = self.most if stop is None else min(self.most, stop - start - 1)
        count = min(most - tried, max(_FIRST_CHUNK, min(tried, _LAST_CHUNK)))
        if stop is None:
            count = min(count, MOST_INT64 - begin - tried)
        if count <= 0:
            return _NONE, _NONE
        indices = np.arange(begin + 1 + tried, begin + 1 + tried + count, dtype=np.int64)
        if stop is not None:
            indices = start + (indices - start) % (stop - start)
        return self._with_keys(indices, lambda those: record_keys_of(self.sampler, those))

    def _by_sampler(self, sampler: Any, index: int, tried: int) -> tuple[Int64Array, Int64Array]:
        count = min(self.most - tried, max(_FIRST_CHUNK, min(tried, _LAST_CHUNK)))
        if count <= 0:
            return _NONE, _NONE
        indices = sampler.instead(index, tried + self._tried_before(sampler, index), count)
        return self._with_keys(indices, lambda those: sampler.keys_instead(np.full_like(those, index), those))

    def _tried_before(self, sampler: Any, index: int) -> int:
        """The number of candidates up to the result of an earlier search for an index, 0 without one."""
        found, tried = self.ledger.get(index, index), 0
        while found != index and tried < self.most:
            indices = sampler.instead(index, tried, max(_FIRST_CHUNK, min(tried, _LAST_CHUNK)))
            if (places := np.flatnonzero(indices == found)).size:
                return tried + int(places[0]) + 1
            if not len(indices):
                break
            tried += len(indices)
        return 0

    def _with_keys(
        self, indices: Int64Array, keys_of: Callable[[Int64Array], Int64Array]
    ) -> tuple[Int64Array, Int64Array]:
        try:
            keys = keys_of(indices)
        except Exception:  # noqa: BLE001 - a user's sampler may raise anything for an index far ahead
            # Its error is raised when the stream comes to that index; the search ends before it.
            keys = _until_error(indices, keys_of)
        outside = np.flatnonzero((keys >= self.num_records) & (rows_of_keys(keys) >= self.num_records))
        count = int(outside[0]) if outside.size else len(keys)
        return indices[:count], keys[:count]


def _until_error(indices: Int64Array, keys_of: Callable[[Int64Array], Int64Array]) -> Int64Array:
    keys: list[int] = []
    for place in range(len(indices)):
        try:
            keys += keys_of(indices[place : place + 1]).tolist()
        except Exception:  # noqa: BLE001 - as above
            break
    return np.array(keys, np.int64)


class _Substituted:
    """A sampler that gives for a lost index the metadata of the index read instead."""

    def __init__(self, sampler: Sampler, ledger: Mapping[int, int]) -> None:
        self._sampler = sampler
        self._ledger = ledger
        lost = sorted(ledger)
        self._indices = np.array(lost, np.int64)  # (n,)
        self._instead = np.array([ledger[index] for index in lost], np.int64)  # (n,)

    def __getitem__(self, index: int) -> RecordMetadata:
        return self._sampler[self._ledger.get(index, index)]


class _SubstitutedInBlocks(_Substituted):
    def record_keys(self, indices: Int64Array) -> Any:
        places = np.searchsorted(self._indices, indices).clip(max=len(self._indices) - 1)
        read = np.where(self._indices[places] == indices, self._instead[places], indices)
        return record_keys_of(self._sampler, read)


class _SubstitutedBySampler(_SubstitutedInBlocks):
    def __getitem__(self, index: int) -> RecordMetadata:
        return replace(self._sampler[index], record_key=int(self.record_keys(np.array([index]))[0]))

    def record_keys(self, indices: Int64Array) -> Int64Array:
        places = np.searchsorted(self._indices, indices).clip(max=len(self._indices) - 1)
        lost = self._indices[places] == indices
        if not lost.any():
            return record_keys_of(self._sampler, indices)
        keys = np.empty(indices.shape, np.int64)
        keys[~lost] = record_keys_of(self._sampler, indices[~lost])
        sampler: Any = self._sampler
        keys[lost] = sampler.keys_instead(indices[lost], self._instead[places[lost]])
        return keys


def with_substitutions(sampler: Sampler, ledger: Mapping[int, int]) -> Sampler:
    """The sampler with the ledger's substitutions, so that rows repeat although lost records may be readable now.

    >>> from loaderkit.samplers import SequentialSampler
    >>> with_substitutions(SequentialSampler(9), {2: 3, 7: 0}).record_keys(np.arange(9)).tolist()
    [0, 1, 3, 3, 4, 5, 6, 0, 8]
    """
    if not ledger:
        return sampler
    if hasattr(sampler, "keys_instead"):
        return _SubstitutedBySampler(sampler, ledger)
    kind = _SubstitutedInBlocks if hasattr(sampler, "record_keys") else _Substituted
    return kind(sampler, ledger)
