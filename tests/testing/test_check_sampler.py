"""check_sampler: every check finds a sampler that breaks its rule, and the samplers of loaderkit keep all rules."""

import os
import random
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.errors import ConformanceError
from loaderkit.interop.grain import samplers as grain
from loaderkit.testing import check_sampler, sampler_checks

LENGTH = 120
NAMES = [check.name for check in sampler_checks._CHECKS]


class Good:
    """A sampler with all that one may have; the broken ones below differ in one thing."""

    num_records: Any = 40
    seed: Any = 3
    shard_options: Any = None

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < LENGTH:
            raise IndexError(index)
        rng = np.random.Generator(np.random.Philox(key=index))
        return lk.RecordMetadata(index=index, record_key=self.key(index), rng=rng)

    def key(self, index: int) -> int:
        return index * 7 % 40

    def record_keys(self, indices: Any) -> Any:
        return np.array([self.key(index) for index in indices.tolist()], np.int64)

    def fingerprint(self) -> dict[str, Any]:
        return {"step": 7}


PLACES = sampler_checks._SamplerSamples(Good(), None, 32).places


class Alternates(Good):
    asked = 0

    def __len__(self) -> int:
        self.asked += 1
        return LENGTH + self.asked % 2


class Replays:
    """Without an end, and each answer from the one before."""

    def __getitem__(self, index: int) -> Any:
        key = 1
        for _ in range(index):
            key = key * 5 % 37
        return lk.RecordMetadata(index=index, record_key=key)


class OtherIndex(Good):
    def __getitem__(self, index: int) -> Any:
        return lk.RecordMetadata(index=index + 1, record_key=super().__getitem__(index).record_key)


class Keys(Good):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index).record_key


class TooFar(Good):
    def key(self, index: int) -> int:
        return index


class Negative(Good):
    def key(self, index: int) -> int:
        return -1


class Counts(Good):
    asked = 0

    def key(self, index: int) -> int:
        self.asked += 1
        return self.asked % 40


class GeneratorGoesOn(Good):
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index: int) -> Any:
        return lk.RecordMetadata(index=index, record_key=super().__getitem__(index).record_key, rng=self.rng)


class LooksBack(Good):
    """Wrong where the index before was the one that follows in the usual order."""

    last = -1

    def key(self, index: int) -> int:
        wrong = (index, self.last) in pairwise(PLACES)
        self.last = index
        return super().key(index + wrong)


class SharedPlace(Good):
    place = 0

    def key(self, index: int) -> int:
        self.place = index
        time.sleep(0.0005)
        return super().key(self.place)


class Wraps(Good):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index % LENGTH)


class CountsOn(Good):
    def record_keys(self, indices: Any) -> Any:
        return super().record_keys(
            np.arange(indices[0], indices[0] + len(indices)) if len(indices) else indices
        )


class WritesIndices(Good):
    def record_keys(self, indices: Any) -> Any:
        keys = super().record_keys(indices)
        indices[:] = keys
        return keys


class FloatKeys(Good):
    def record_keys(self, indices: Any) -> Any:
        return super().record_keys(indices).astype(float)


class NegativeSeed(Good):
    seed = -1


class NoShards(Good):
    shard_options = (0, 2)


class OtherSeed(Good):
    @property
    def seed(self) -> Any:
        return time.perf_counter_ns()


class Dated(Good):
    def fingerprint(self) -> dict[str, Any]:
        return {"now": time.perf_counter_ns()}


class ManyBits(Good):
    def fingerprint(self) -> dict[str, Any]:
        return {"key": 2**80}


class Forgets(Good):
    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def key(self, index: int) -> int:
        return super().key(index + self.offset)

    def __reduce__(self) -> Any:
        return Forgets, (1,)


def of_the_process() -> Any:
    trainer = os.getpid()

    class OfTheProcess:  # local, so that the worker needn't import this module
        def __getitem__(self, index: int) -> Any:
            return lk.RecordMetadata(index=index, record_key=os.getpid() - trainer + 2**40)

    return OfTheProcess()


class Grows(Good):
    more = 0

    def __len__(self) -> int:
        return LENGTH + self.more

    def fingerprint(self) -> dict[str, Any]:
        self.more = 1
        return super().fingerprint()


class Ends(Good):
    def endless(self) -> Any:
        return Ends()


class OtherOrder(Good):
    def endless(self) -> Any:
        return lk.IndexSampler(40)


class LateUses(Good):
    def next_uses(self, record_keys: Any, index: int, lanes: Any = None) -> Any:
        return np.full(len(record_keys), 1 << 40)


class NoLanes(Good):
    lanes = 0


class OtherComponents(Good):
    components: ClassVar = {"a": lk.IndexSampler(40)}
    offsets: ClassVar = {"a": 0}

    def component_numbers(self, indices: Any) -> Any:
        return np.full(len(indices), 3)


class FewParts(Good):
    part_lengths = np.array([1, 1])


# For each check samplers that break its rule and no earlier one, with a part of the message.
BROKEN: list[tuple[str, Callable[[], Any], str]] = [
    ("length", Alternates, "expected a length of 121 again, got 120. Give the number of indices"),
    ("far index", Replays, "expected sampler[1099511627776] within 20,000 lines of Python, got more"),
    ("metadata", OtherIndex, "expected sampler[0] to have index=0, got index=1"),
    ("metadata", Keys, "expected sampler[0] to be a RecordMetadata, got 0"),
    ("metadata", TooFar, "expected a record_key below 40 for index"),
    ("metadata", Negative, "sampler[0].record_key: expected an int from 0 to 2**63 - 1, got -1"),
    ("asked again", Counts, "expected sampler[0] to be record_key 4 with a generator that draws"),
    ("asked again", GeneratorGoesOn, "no generator that goes on from answer to answer"),
    ("another order", LooksBack, "when it is asked for in another order, got record_key"),
    ("threads", SharedPlace, "when several threads ask at once, got record_key"),
    ("beyond the end", Wraps, "expected an IndexError for index 120, got RecordMetadata(index=0"),
    ("record_keys", WritesIndices, "expected the array of indices to stay as it was, got [0, 7"),
    ("record_keys", FloatKeys, "FloatKeys.record_keys: expected ints, got an array of float64"),
    ("record_keys of shards", CountsOn, "expected record_keys([0, 1, 4, 5, "),
    ("attributes", NegativeSeed, "NegativeSeed.seed: expected an int from 0 to 2**64 - 1, got -1"),
    ("attributes", NoShards, "expected shard_options to be a ShardOptions, got (0, 2)"),
    ("attributes", OtherSeed, "again, got {'num_records': 40, 'seed': "),
    ("fingerprint", Dated, "when it is asked for again, got "),
    ("fingerprint", ManyBits, "fingerprint.key: expected an integer of at most 64 bits, got one of 81"),
    ("endless", Ends, "expected endless() without an end, got a length of 120"),
    ("endless", OtherOrder, "from endless(), got record_key"),
    (
        "how it reads",
        LateUses,
        "expected next_uses(keys, 0) at or before the index that reads each key, got later",
    ),
    ("how it reads", NoLanes, "NoLanes.lanes: expected an int from 1 to"),
    ("how it reads", OtherComponents, "expected component_numbers from -1 to 0, got [3, 3"),
    ("how it reads", FewParts, "expected keys below 2, all of part_lengths, got"),
    ("pickled copy", Forgets, "from a pickled copy, got record_key 7"),
    ("another process", of_the_process, "to be record_key 1099511627776 in another process, got record_key"),
    ("unchanged by asking", Grows, "expected a length of 120 after all these answers, got 121"),
]


@pytest.mark.parametrize(
    ("name", "broken", "said"), [pytest.param(*row, id=f"{row[0]}-{row[1].__name__}") for row in BROKEN]
)
def test_each_check_finds_what_breaks_its_rule(name, broken, said):
    """By its own name, with what was expected, what came and what to do."""
    with pytest.raises(ConformanceError) as found:
        check_sampler(
            broken(),
            num_records=40 if name == "metadata" else None,
            skip=["another process", "pickled copy"] if name == "unchanged by asking" else (),
        )
    assert found.value.check == name
    text = str(found.value)
    assert text.startswith("check_sampler: ") and f"check {name!r}: expected " in text
    assert said in text


def test_every_check_has_a_sampler_that_breaks_it():
    """A new check comes with one."""
    assert list(dict.fromkeys(name for name, _, _ in BROKEN)) == NAMES


OWN = {
    "SequentialSampler": lk.SequentialSampler(7),
    "with a seed": lk.SequentialSampler(1000, seed=2**64 - 1),
    "IndexSampler": lk.IndexSampler(1000, shuffle=True, seed=7),
    "some epochs": lk.IndexSampler(11, shuffle=True, seed=7, num_epochs=5),
    "in order": lk.IndexSampler(11, shard_options=lk.ShardOptions(1, 2)),
    "one record": lk.IndexSampler(1, shuffle=True, seed=0, num_epochs=1),
    "Grain's IndexSampler": grain.IndexSampler(50, shuffle=True, seed=3, num_epochs=2),
    "Grain's SequentialSampler": grain.SequentialSampler(9),
    "ChunkSampler": lk.ChunkSampler(1000, chunk=7, window=5, lanes=4, batch=16, seed=7),
    "KeysSampler": lk.samplers.KeysSampler(np.arange(40)[::-1], shuffle=True, seed=5),
    "WeightedSampler": lk.samplers.WeightedSampler(np.arange(50), seed=5),
    "LengthBucketSampler": lk.samplers.LengthBucketSampler(
        np.arange(50) % 9, [2, 8], 4, batch_sizes=[4, 2], shuffle=True, seed=5
    ),
    "one epoch of buckets": lk.samplers.LengthBucketSampler(
        [3, 9, 2, 8, 4, 7, 1], [4, 10], 2, shuffle=True, seed=5, num_epochs=1
    ),
    "InterleavedSampler": lk.samplers.InterleavedSampler(
        [9, 0, 3, 20], cycle_length=2, block_length=4, num_epochs=1
    ),
    "MixedSampler": lk.samplers.MixedSampler(
        {"a": lk.IndexSampler(20), "b": lk.IndexSampler(30, shuffle=True, seed=1)}
    ),
    "SpanSampler": lk.samplers.SpanSampler([20, 30], shuffle=True, seed=1, num_epochs=2),
    "SliceSampler": lk.samplers.SliceSampler(lk.IndexSampler(30, shuffle=True, seed=1, num_epochs=2), 25, 50),
    "a slice without end": lk.samplers.SliceSampler(
        lk.ChunkSampler(50, chunk=7, window=5, lanes=4, batch=16, seed=7), 160, None
    ),
    "a slice of a mixture": lk.samplers.SliceSampler(
        lk.samplers.MixedSampler({"a": lk.IndexSampler(20), "b": lk.IndexSampler(30, shuffle=True, seed=1)}),
        7,
        40,
    ),
    "many records": lk.IndexSampler(2**61, shuffle=True, seed=0),
}


@pytest.mark.parametrize("name", OWN)
def test_the_samplers_of_loaderkit_keep_all_rules(name):
    """One of them in another process."""
    skip = [] if name == "some epochs" else ["another process"]
    sampler = OWN[name]
    report = check_sampler(sampler, num_records=getattr(sampler, "num_records", 50), skip=skip)
    assert {reason for _, reason in report.skipped} <= {"left out by skip=", "the sampler has no end"}
    assert len(report.passed) + len(report.skipped) == len(NAMES)


def test_every_public_sampler_is_among_them():
    """A new one joins them."""
    public = {name for name in dir(lk.samplers) if name.endswith("Sampler") and name != "Sampler"}
    assert public <= {*OWN}


def test_what_a_sampler_lacks_is_skipped_and_said():
    """A sampler needs nothing but `__getitem__`, and may stay unpicklable."""
    sampler = type("Local", (), {"__getitem__": lambda self, i: lk.RecordMetadata(i, i)})()
    sampler.lock = __import__("threading").Lock()
    report = check_sampler(sampler)
    reasons = dict(report.skipped)
    assert reasons["beyond the end"] == "the sampler has no end"
    assert reasons["record_keys"] == "the sampler has no record_keys(indices)"
    assert (
        "it doesn't travel" in reasons["pickled copy"] and "it doesn't travel" in reasons["another process"]
    )
    assert report.pickled_bytes is None and "pickled\n" not in str(report).splitlines()[0]


def test_inherited_record_keys_are_not_asked_where_a_loader_does_not():
    """A class that replaces `__getitem__` alone keeps all rules."""

    class Backwards(Good):
        def __getitem__(self, index: int) -> Any:
            metadata = super().__getitem__(index)
            return lk.RecordMetadata(index, 39 - metadata.record_key)

    check_sampler(Backwards(), num_records=40, skip=["another process"])


def test_an_epoch_may_be_shuffled_in_python():
    """Which costs lines for each record, and no more for a far index."""
    shuffles: list[int] = []

    class Lists:
        num_records = 2000

        def __getitem__(self, index: int) -> Any:
            epoch, place = divmod(index, self.num_records)
            shuffles.append(epoch)
            keys = [*range(self.num_records)]
            random.Random(epoch).shuffle(keys)
            return lk.RecordMetadata(index, keys[place])

    check_sampler(Lists(), indices=2, skip=["another process", "threads"])
    assert max(shuffles) == 2**40 // 2000


def test_a_tracing_tool_is_left_alone():
    """Its trace function stays, and the check says so."""

    def trace(frame: Any, event: str, argument: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        report = check_sampler(Good(), skip=["another process", "threads"])
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
    assert "debugger or a coverage tool" in dict(report.skipped)["far index"]


@pytest.mark.parametrize("sampler", [None, 3, lk.IndexSampler, iter([1])])
def test_what_is_no_sampler_is_refused(sampler):
    """With what is expected."""
    with pytest.raises(TypeError, match="sampler: expected an object with __getitem__"):
        check_sampler(sampler)
    with pytest.raises(ValueError, match="num_records: expected 1 or more"):
        check_sampler(Good(), num_records=0)


def test_a_sampler_of_a_class_within_a_function():
    """The pickle of its class has not the function's name."""

    class Local:
        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> Any:
            if not 0 <= index < 5:
                raise IndexError(index)
            return lk.RecordMetadata(index=index, record_key=index)

    check_sampler(Local())


def test_an_epoch_longer_than_the_source_is_found():
    """num_records says it, and the last key."""
    with pytest.raises(
        ConformanceError, match="a record_key below 100000 for index 999999, got 999999"
    ) as found:
        check_sampler(lk.IndexSampler(1_000_000, num_epochs=1), num_records=100_000)
    assert found.value.check == "metadata"
    with pytest.raises(ConformanceError, match="num_records of at most 100000, got 1000000") as found:
        check_sampler(
            lk.IndexSampler(1_000_000, num_epochs=1), num_records=100_000, skip=["far index", "metadata"]
        )
    assert found.value.check == "attributes"
