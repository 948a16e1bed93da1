"""What becomes of bad records: how many may be, what is read instead, and what a state remembers of them.

bad     a record whose read, or an operation before the first Batch on it, raises an error
lost    an index whose own record was bad when its row was handed out
ledger  [index, index read instead] of each lost index; itself where an element took its place that is no record's
skipped how many were lost without a row in their place, by logical stream
search  for what to read instead: the indices behind the lost one, on from the stream's first behind its last

All of it is a function of the stream, the policy and which records are bad; of no worker, task or host.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._order.metadata import RecordMetadata
from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import record_keys_of

from .ledger import Ledger

Int64Array = NDArray[np.int64]

IN_A_ROW = (
    1000  # bad records in a row are more than bad luck, where the user doesn't say how many there may be
)
_FIRST_SHARE = 1000  # records: a share of fewer says nothing
_FIRST_CHUNK, _LAST_CHUNK = 16, 4096  # candidates that are planned at once
_MAX_INDEX = 2**63 - 1
_NONE: Int64Array = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class BadRecords:
    """The records that were lost up to a position.

    ledger: what was read instead of each. skipped: {stream: how many}.

    >>> BadRecords(Ledger({7: 8})).with_ledger([(3, 4)]).with_skipped({0: 2}).count
    4
    """

    ledger: Ledger = field(default_factory=Ledger)
    skipped: Mapping[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many were lost."""
        return len(self.ledger) + sum(self.skipped.values())

    def with_ledger(self, entries: Iterable[tuple[int, int]]) -> "BadRecords":
        """These and more; an index that is known already is counted once, with what was read last."""
        ledger = self.ledger
        for index, instead in entries:
            ledger = ledger.with_entry(index, instead)
        return replace(self, ledger=ledger)

    def with_skipped(self, more: Mapping[int, int]) -> "BadRecords":
        """These and more, by stream."""
        skipped = dict(self.skipped)
        for stream, count in more.items():
            skipped[stream] = skipped.get(stream, 0) + count
        return replace(self, skipped=skipped)

    def joined(self, other: "BadRecords") -> "BadRecords":
        """Those of two processes at the same step; what both know is counted once."""
        return BadRecords(Ledger({**other.ledger, **self.ledger}), {**other.skipped, **self.skipped})

    def of_streams(self, streams: Iterable[int]) -> "BadRecords":
        """Without the skipped ones of other logical streams."""
        return replace(self, skipped={s: n for s, n in self.skipped.items() if s in set(streams)})


NO_BAD_RECORDS = BadRecords()


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What a user allows.

    policy: "raise", "replace", "skip", or "call" for a function of the user's. most: how many may be lost, an int, or
    a share of the records, a float; None where nothing was said.

    >>> Tolerance("replace", 3).allows(lost=4, passed=1000, num_records=1000)
    False
    >>> Tolerance("replace", 0.01).allows(lost=4, passed=10, num_records=500)
    True
    """

    policy: str = "raise"
    most: int | float | None = None

    @property
    def skips(self) -> bool:
        """Whether a bad record leaves no row, so that the number of rows isn't known."""
        return self.policy == "skip"

    def allows(self, *, lost: int, passed: int, num_records: int) -> bool:
        """Whether so many may be lost of `passed` records; a share counts from 1,000 records or an epoch on."""
        if isinstance(self.most, float):
            return lost <= self.most * max(passed, min(_FIRST_SHARE, num_records))
        return self.most is None or lost <= self.most

    def in_a_row(self, *, num_records: int, length: int | None) -> int:
        """How many bad records in a row are the end: where not one is good, or more than anybody meant.

        num_records: the source's length: twice as many indices have all of them. length: of the stream, None without
        an end.

        >>> Tolerance("skip").in_a_row(num_records=5, length=None)
        10
        """
        meant = self.most or 0
        if isinstance(meant, float):
            meant = int(meant * num_records)
        all_of_them = 2 * num_records if length is None else min(2 * num_records, length)
        return max(1, min(max(IN_A_ROW, meant), all_of_them))


@dataclass(frozen=True, slots=True)
class ReplacementSearch:
    """The indices to try, in order, where an index is lost, and the record each reads.

    sampler, start, stop: the stream. num_records: the source's length. ledger: where earlier searches ended. most: how
    many to try for one index.

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

    def __call__(self, index: int, tried: int) -> tuple[Int64Array, Int64Array]:
        """Indices and record keys of the next candidates, (n,) int64 each; none where all were tried.

        index: the lost one. tried: how many candidates were asked for before.
        """
        begin = self.ledger.get(index, index)
        most = self.most if self.stop is None else min(self.most, self.stop - self.start - 1)
        count = min(most - tried, max(_FIRST_CHUNK, min(tried, _LAST_CHUNK)))
        if self.stop is None:
            count = min(count, _MAX_INDEX - begin - tried)
        if count <= 0:
            return _NONE, _NONE
        indices = np.arange(begin + 1 + tried, begin + 1 + tried + count, dtype=np.int64)
        if self.stop is not None:
            indices = self.start + (indices - self.start) % (self.stop - self.start)
        return self._with_keys(indices)

    def _with_keys(self, indices: Int64Array) -> tuple[Int64Array, Int64Array]:
        try:
            keys = record_keys_of(self.sampler, indices)
        except Exception:  # noqa: BLE001 - a user's sampler may raise anything, for an index far ahead
            # What it says of an index is raised where the stream comes to it; here the search ends before it.
            keys = self._until_error(indices)
        known = np.flatnonzero(keys >= self.num_records)
        count = int(known[0]) if known.size else len(keys)
        return indices[:count], keys[:count]

    def _until_error(self, indices: Int64Array) -> Int64Array:
        keys: list[int] = []
        for index in indices:
            try:
                keys.append(int(record_keys_of(self.sampler, np.array([index]))[0]))
            except Exception:  # noqa: BLE001 - as above
                break
        return np.array(keys, np.int64)


class _Substituted:
    """A sampler whose lost indices read what was read instead of them."""

    def __init__(self, sampler: Sampler, ledger: Mapping[int, int]) -> None:
        self._sampler = sampler
        self._lost = sorted(ledger)
        self._instead = np.array(
            [ledger[index] for index in self._lost], np.int64
        )  # (n,) in the order of _lost
        self._indices = np.array(self._lost, np.int64)

    def __getitem__(self, index: int) -> RecordMetadata:
        place = bisect_left(self._lost, index)
        lost = place < len(self._lost) and self._lost[place] == index
        return self._sampler[int(self._instead[place]) if lost else index]


class _SubstitutedInBlocks(_Substituted):
    def record_keys(self, indices: Int64Array) -> Any:
        places = np.searchsorted(self._indices, indices).clip(max=len(self._lost) - 1)
        read = np.where(self._indices[places] == indices, self._instead[places], indices)
        return record_keys_of(self._sampler, read)


def with_substitutions(sampler: Sampler, ledger: Mapping[int, int]) -> Sampler:
    """The sampler with the ledger's rows as they were handed out: also where the lost records can be read now.

    >>> from loaderkit.samplers import SequentialSampler
    >>> with_substitutions(SequentialSampler(9), {2: 3, 7: 0}).record_keys(np.arange(9)).tolist()
    [0, 1, 3, 3, 4, 5, 6, 0, 8]
    """
    if not ledger:
        return sampler
    kind = _SubstitutedInBlocks if hasattr(sampler, "record_keys") else _Substituted
    return kind(sampler, ledger)
