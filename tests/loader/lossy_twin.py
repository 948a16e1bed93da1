"""What becomes of bad records, said slowly: one index after the other, one record after the other.

Written from the documents. A record is bad where its read, or an operation before the first Batch or Window on it,
raises.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pipelines import SEED, Pipeline, Running
from stream_twin import Pair, through

import loaderkit as lk


class Damaged:
    """A source in which the reads of some record keys fail; `batched` says whether it reads many at once."""

    def __init__(self, records: list[Any], bad: set[int], batched: bool) -> None:
        self.records, self.bad = records, bad
        if batched:
            self.__class__ = DamagedBatched

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, key: int) -> Any:
        if key in self.bad:
            raise LookupError(f"record {key} is damaged")
        return self.records[key]

    def fingerprint(self) -> dict[str, Any]:
        return {"records": len(self.records)}


class DamagedBatched(Damaged):
    def __getitems__(self, keys: list[int]) -> list[Any]:
        return [self[key] for key in keys]


def stand_in(error: Exception, metadata: lk.RecordMetadata) -> Any:
    """A function of the user's: an element that says what it was asked with."""
    assert metadata.rng is not None
    assert metadata.record_key is not None
    return -(10**6 * metadata.index + 10**3 * metadata.record_key + int(metadata.rng.integers(1000)))


@dataclass
class Lossy:
    """A pipeline over a damaged source under a policy, and what is expected of it.

    losses: the lost indices and what was read instead, in the order in which `elements` met them.
    """

    pipeline: Pipeline
    bad: frozenset[int]
    policy: str
    batched: bool = False
    losses: dict[int, int] = field(default_factory=dict)

    def loader(self, running: Running, bad: set[int] | None = None, **options: Any) -> "lk.DataLoader":
        source = Damaged(self.pipeline.source, set(self.bad) if bad is None else bad, self.batched)
        policy = stand_in if self.policy == "call" else self.policy
        return running.loader(self.pipeline, source, on_record_error=policy, **options)

    @property
    def row_changing(self) -> bool:
        return self.pipeline.row_changing or self.policy == "skip"

    @property
    def used(self) -> int:
        return self.length if self.row_changing else self.pipeline.used

    @property
    def length(self) -> int:
        return self.pipeline.count * self.pipeline.epochs

    def elements(self, ledger: dict[int, int] | None = None) -> Iterator[tuple[Any, int]]:
        """Each element, and how many records were lost up to its last record's."""
        operations = list(self.pipeline.operations)
        batches = [place for place, op in enumerate(operations) if isinstance(op, lk.Batch | lk.Window)]
        first = batches[0] if batches else len(operations)
        self.losses = dict(ledger or {})
        met = -1

        def pairs() -> Iterator[Pair]:
            nonlocal met
            for index in range(self.used):
                met = index
                yield from self._row(index, operations[:first])

        drawn = sum(map(_draws, operations[:first]))
        for _, value in through(operations[first:], pairs(), SEED, drawn):
            yield value, sum(index <= met for index in self.losses)

    def _row(self, index: int, operations: list[Any]) -> list[Pair]:
        begin = self.losses.get(index, index)
        try:
            return self._made(index, begin, operations)
        except Exception:  # noqa: BLE001 - that is what makes it bad
            pass
        if self.policy == "skip":
            self.losses[index] = index
            if set(range(index - self.patience + 1, index + 1)) <= self.losses.keys():
                raise lk.errors.BadRecordsError("so many in a row")
            return []
        if self.policy == "call":
            self.losses[index] = index
            metadata = self.pipeline.sampler[index]
            return [((index,), stand_in(KeyError(), metadata))]
        for instead in [(begin + 1 + k) % self.length for k in range(self.length - 1)][: self.patience]:
            try:
                made = self._made(index, instead, operations)
            except Exception:  # noqa: BLE001 - as above
                continue
            self.losses[index] = instead
            return made
        raise lk.errors.BadRecordsError("not one is good")

    @property
    def patience(self) -> int:
        return min(2 * self.pipeline.count, self.length)

    def _made(self, index: int, of: int, operations: list[Any]) -> list[Pair]:
        key = self.pipeline.sampler[of].record_key
        assert key is not None
        if key in self.bad:
            raise KeyError(key)
        return list(through(operations, iter([((index,), self.pipeline.source[key])]), SEED))


def _draws(op: Any) -> bool:
    return isinstance(op, lk.RandomMap | lk.transforms.Seeded)


def outcome(
    stream: Iterator[Any], count: Callable[[], int] | None = None
) -> tuple[list[Any], list[int], type[Exception] | None]:
    """The elements of a loader or twin, how many were lost by each, and the type of the error that ended them."""
    values: list[Any] = []
    counts: list[int] = []
    try:
        for item in stream:
            value, lost = item if count is None else (item, count())
            values.append(value)
            counts.append(lost)
    except Exception as error:  # noqa: BLE001 - which one it is, is what is compared
        return values, counts, type(error)
    return values, counts, None
