"""Bad input: the right type of error, as early as can be, that names the argument, what came and what to do."""

import threading
from typing import Any

import pytest
from pipelines import Running
from refusals import TEN, loader_of, refused

import loaderkit as lk


class NoKeys:
    """A sampler whose answers are no metadata."""

    def __getitem__(self, index: int) -> Any:
        return index


class Long:
    """A sampler of any length."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> lk.RecordMetadata:
        return lk.RecordMetadata(index=index, record_key=index % 10)


class Unpicklable:
    """A source, or anything, with a lock in it."""

    def __init__(self) -> None:
        self.name, self.guard = "x", threading.Lock()

    def __len__(self) -> int:
        return 10

    def __getitem__(self, key: int) -> int:
        return key


class Decode(lk.Map):
    def __init__(self) -> None:
        self.handle = threading.Lock()

    def map(self, element: Any) -> Any:
        return element


def closure() -> Any:
    guard = threading.Lock()

    def decode(element: Any) -> Any:
        with guard:
            return element

    return decode


# --- at construction --------------------------------------------------------------------------------------------------

AT_ONCE = {
    "no records": (lambda: lk.IndexSampler(0), ValueError, "num_records.*got 0"),
    "negative records": (lambda: lk.SequentialSampler(-1), ValueError, "num_records.*got -1"),
    "records no int": (lambda: lk.IndexSampler(3.0), TypeError, "num_records.*3.0"),
    "records a bool": (lambda: lk.IndexSampler(True), TypeError, "num_records.*True"),
    "no epochs": (lambda: lk.IndexSampler(3, num_epochs=0), ValueError, "num_epochs.*got 0"),
    "epochs no int": (lambda: lk.IndexSampler(3, num_epochs="1"), TypeError, "num_epochs.*'1'"),
    "negative seed": (lambda: lk.IndexSampler(3, seed=-1), ValueError, "seed.*got -1"),
    "large seed": (lambda: lk.IndexSampler(3, seed=2**64), ValueError, r"seed.*2\*\*64"),
    "seed no int": (lambda: lk.IndexSampler(3, seed=1.5), TypeError, "seed.*1.5"),
    "shuffle without seed": (lambda: lk.IndexSampler(3, shuffle=True), ValueError, "needs a seed.*seed=0"),
    "shard too large": (
        lambda: lk.ShardOptions(2, 2),
        ValueError,
        "shard_index.*0 to 1, got 2.*numbered from 0",
    ),
    "shard negative": (lambda: lk.ShardOptions(-1, 2), ValueError, "shard_index.*got -1"),
    "no shards": (lambda: lk.ShardOptions(0, 0), ValueError, "shard_count.*got 0"),
    "shard no int": (lambda: lk.ShardOptions("0", 2), TypeError, "shard_index.*'0'"),
    "batch of none": (lambda: lk.Batch(0), ValueError, "batch_size.*got 0"),
    "batch negative": (lambda: lk.Batch(global_batch_size=-4), ValueError, "global_batch_size.*got -4"),
    "batch no int": (lambda: lk.Batch(2.0), TypeError, "batch_size.*got 2.0"),
    "no size": (lk.Batch, ValueError, "exactly one of batch_size and global_batch_size, got neither"),
    "two sizes": (lambda: lk.Batch(2, global_batch_size=2), ValueError, "exactly one of .*, got both"),
    "remainder": (
        lambda: lk.Batch(2, remainder="fill"),
        ValueError,
        "remainder: expected 'keep', 'drop', .*got 'fill'",
    ),
    "inner pad": (
        lambda: loader_of(lk.Batch(2, remainder="pad"), lk.Batch(2)),
        ValueError,
        r"operations\[0\].*'keep' or 'drop' before the last Batch",
    ),
    "drop and pad": (
        lambda: lk.Batch(2, remainder="pad", drop_remainder=True),
        ValueError,
        "drop_remainder.*got True with remainder='pad'",
    ),
    "no steps": (lambda: loader_of(num_steps=0), ValueError, "num_steps.*got 0"),
    "batch_fn no function": (lambda: lk.Batch(2, batch_fn=3), TypeError, "batch_fn.*got 3"),
    "collate_fn": (lambda: lk.Batch(2, collate_fn=list), TypeError, "collate_fn.*batch_fn"),
    "workers negative": (lambda: loader_of(worker_count=-1), ValueError, "worker_count.*got -1"),
    "workers no int": (lambda: loader_of(worker_count=1.0), TypeError, "worker_count.*got 1.0"),
    "kind": (
        lambda: loader_of(worker_kind="fork"),
        ValueError,
        "worker_kind.*'process' or 'thread', got 'fork'",
    ),
    "prefetch": (lambda: loader_of(prefetch_batches=0), ValueError, "prefetch_batches.*got 0"),
    "memory": (lambda: loader_of(max_memory=-1), ValueError, "max_memory.*got -1"),
    "streams": (lambda: loader_of(logical_streams=0), ValueError, "logical_streams.*got 0"),
    "read options": (lambda: loader_of(read_options=4), TypeError, "read_options.*ReadOptions, got 4"),
    "sharding": (
        lambda: loader_of(shard_options=(0, 2)),
        TypeError,
        r"shard_options.*ShardOptions.*got \(0, 2\)",
    ),
    "no operation": (lambda: loader_of(abs, 3), TypeError, r"operations\[1\].*got int 3"),
    "an operation's class": (lambda: loader_of(Decode), TypeError, r"operations\[0\].*Decode\(\.\.\.\)"),
    "operations a string": (
        lambda: lk.DataLoader(data_source=TEN, sampler=lk.IndexSampler(10), operations="abs"),
        TypeError,
        "operations: expected a list.*'abs'",
    ),
    "one operation": (
        lambda: lk.DataLoader(data_source=TEN, sampler=lk.IndexSampler(10), operations=lk.Map(abs)),
        TypeError,
        r"operations: expected a list.*Map\(abs\)",
    ),
    "no method": (
        type("Own", (lk.Map,), {}),
        TypeError,
        r"Own: expected the method map\(self, element\).*derives from Map",
    ),
    "no function": (lambda: lk.Filter(3), TypeError, "Filter: expected a function.*got 3"),
    "global size inside": (
        lambda: loader_of(lk.Batch(global_batch_size=2), lk.Batch(2)),
        ValueError,
        r"operations\[0\].*batch_size=.* before the last Batch",
    ),
    "empty source": (lambda: loader_of(data_source=[]), ValueError, "data_source.*empty"),
    "source an iterator": (
        lambda: loader_of(data_source=iter(TEN)),
        TypeError,
        "data_source: expected an object with __len__",
    ),
    "source a class": (lambda: loader_of(data_source=list), TypeError, "data_source.*got the class list"),
    "source a dict": (lambda: loader_of(data_source={"train": []}), TypeError, "data_source.*'train'.*split"),
    "sampler none": (lambda: loader_of(sampler=None), TypeError, "sampler.*IndexSampler.*got None"),
    "sampler a class": (lambda: loader_of(sampler=lk.IndexSampler), TypeError, "sampler.*got <class"),
    "epochs without end": (
        lambda: loader_of(lk.Batch(2), sampler=lk.IndexSampler(10, num_epochs=2**59)),
        ValueError,
        r"sampler: expected a last index below 2\*\*62, got 5764607523034234879; .*num_epochs=None",
    ),
    "indices without end": (
        lambda: loader_of(sampler=Long(2**62 + 1)),
        ValueError,
        r"sampler: expected a last index below 2\*\*62, got 4611686018427387904",
    ),
    "more indices than len() takes": (
        lambda: loader_of(sampler=Long(2**63)),
        ValueError,
        r"len\(Long\): expected fewer than 2\*\*63 indices.*leave __len__ out",
    ),
    "a step without end": (
        lambda: loader_of(lk.Batch(2**31), lk.Batch(2**30)),
        ValueError,
        r"Batches that take at most 2\*\*60 records for one step, got 2305843009213693952",
    ),
    "a step without end over all shards": (
        lambda: iter(loader_of(lk.Batch(2**59), shard_options=lk.ShardOptions(0, 4))),
        ValueError,
        r"Batches that take at most 2\*\*60 records for one step, got 2305843009213693952",
    ),
    "an epoch without end": (
        lambda: loader_of(sampler=lk.IndexSampler(10)).epoch(2**60),
        ValueError,
        r"e: expected an epoch that ends at index 2\*\*62 at most, got epoch 1152921504606846976 of 10 indices",
    ),
    "sampler too long": (
        lambda: loader_of(sampler=lk.IndexSampler(11)),
        ValueError,
        r"sampler: expected num_records of at most 10.*got 11; use num_records=len\(source\)",
    ),
    "sampler empty": (
        lambda: loader_of(sampler=[]),
        ValueError,
        r"sampler.*with indices, got list of length 0",
    ),
    "draws without seed": (
        lambda: loader_of(abs, lk.RandomMap(lambda x, rng: x), sampler=lk.IndexSampler(10)),
        ValueError,
        r"operations\[1\] RandomMap.*no seed.*seed=0",
    ),
    "global draws without seed": (
        lambda: loader_of(lk.transforms.Seeded(abs), sampler=lk.IndexSampler(10)),
        ValueError,
        r"operations\[0\] Seeded\(abs\).*no seed",
    ),
    "global draws in threads": (
        lambda: loader_of(lk.transforms.Seeded(abs), running=Running(2)),
        ValueError,
        r"operations\[0\] Seeded\(abs\).*threads share.*worker_kind='process'",
    ),
    "num_workers": (lambda: loader_of(num_workers=2), TypeError, "num_workers.*worker_count"),
    "worker_buffer_size": (
        lambda: loader_of(worker_buffer_size=2),
        TypeError,
        "worker_buffer_size.*prefetch_batches",
    ),
    "drop_last": (lambda: loader_of(drop_last=True), TypeError, "drop_last.*drop_remainder=True"),
    "anything else": (lambda: loader_of(colour=1), TypeError, r"DataLoader\(\) has no argument colour"),
    "MapTransform": (lambda: lk.MapTransform, AttributeError, r"MapTransform.*lk\.Map"),
    "PyGrainCheckpointSave": (lambda: lk.PyGrainCheckpointSave, AttributeError, r"lk\.CheckpointSave"),
    "sampler's index": (lambda: lk.IndexSampler(3, num_epochs=2)[6], IndexError, "index: .* 0 to 5, got 6"),
    "missing file": (
        lambda: lk.ArrayRecordDataSource("/nowhere/a.array_record"),
        FileNotFoundError,
        "/nowhere/a",
    ),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_refused_at_once(name):
    """What can be known when it is written is an error there, before anything is read or started."""
    refused(*AT_ONCE[name])


# --- when iteration starts --------------------------------------------------------------------------------------------

PROCESS = Running(1, "process")
AT_THE_START = {
    "cut": (
        lambda: loader_of(lk.Batch(global_batch_size=3), shard_options=lk.ShardOptions(0, 2)),
        ValueError,
        "global_batch_size: .* multiple of 2.* got 3; .*global_batch_size=4",
    ),
    "unpicklable source": (
        lambda: loader_of(data_source=Unpicklable(), running=PROCESS),
        lk.errors.TransportError,
        "data_source.*attribute 'guard'.*worker_count=0 .*worker_kind='thread'",
    ),
    "unpicklable operation": (
        lambda: loader_of(abs, Decode(), running=PROCESS),
        lk.errors.TransportError,
        r"operations\[1\] Decode.*attribute 'handle'.*worker_count=0",
    ),
    "unpicklable closure": (
        lambda: loader_of(closure(), running=PROCESS),
        lk.errors.TransportError,
        r"operations\[0\] Map\(decode\).*attribute 'guard'",
    ),
    "sampler's answer": (
        lambda: loader_of(sampler=NoKeys()),
        TypeError,
        r"NoKeys\[0\]: expected RecordMetadata.*, got 0",
    ),
}


@pytest.mark.parametrize("name", AT_THE_START)
def test_refused_when_iteration_starts(name):
    """What depends on the shards, and what can't travel to workers, is an error of iter(loader)."""
    make, error, *patterns = AT_THE_START[name]
    loader = make()
    refused(lambda: iter(loader), error, *patterns)


def test_what_cant_travel_can_work_here():
    """The same without processes works: in threads, and in the trainer."""
    for running in (Running(), Running(2)):
        with loader_of(Decode(), closure(), data_source=Unpicklable(), running=running) as loader:
            assert list(loader) == list(TEN)
