"""Bad input: the right type of error, as early as can be, that names the argument, what came and what to do."""

import json
import re
import threading
from typing import Any

import numpy as np
import pytest
from pipelines import Running

import loaderkit as lk

TEN = range(10)


def loader_of(*operations: Any, running: Running = Running(), **options: Any) -> lk.DataLoader:  # noqa: B008 - frozen
    options = {"data_source": TEN, "sampler": lk.IndexSampler(10, seed=0, num_epochs=1)} | options
    options = {"worker_count": running.workers, "worker_kind": running.kind} | options
    return lk.DataLoader(operations=operations, **options)


def refused(make: Any, error: type[Exception], *patterns: str) -> None:
    """`make` raises exactly that type, and its text and notes say all of the patterns."""
    with pytest.raises(error) as raised:
        make()
    assert raised.type is error
    said = "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
    for pattern in patterns:
        assert re.search(pattern, said), f"{pattern!r} is not in: {said}"


class NoKeys:
    """A sampler whose answers are no metadata."""

    def __getitem__(self, index: int) -> Any:
        return index


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


GUARD = threading.Lock()


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
    "shard too large": (lambda: lk.ShardOptions(2, 2), ValueError, "shard_index.*got 2.*the last is 1"),
    "shard negative": (lambda: lk.ShardOptions(-1, 2), ValueError, "shard_index.*got -1"),
    "no shards": (lambda: lk.ShardOptions(0, 0), ValueError, "shard_count.*got 0"),
    "shard no int": (lambda: lk.ShardOptions("0", 2), TypeError, "shard_index.*'0'"),
    "batch of none": (lambda: lk.Batch(0), ValueError, "batch_size.*0 came"),
    "batch negative": (lambda: lk.Batch(global_batch_size=-4), ValueError, "global_batch_size.*-4 came"),
    "batch no int": (lambda: lk.Batch(2.0), TypeError, "batch_size.*2.0 came"),
    "no size": (lk.Batch, ValueError, "exactly one of batch_size and global_batch_size, neither"),
    "two sizes": (lambda: lk.Batch(2, global_batch_size=2), ValueError, "exactly one of .*, both came"),
    "pad": (lambda: lk.Batch(2, remainder="pad"), ValueError, "remainder: only 'keep' or 'drop'.*'pad'"),
    "wrap": (lambda: lk.Batch(2, remainder="wrap"), ValueError, "remainder: only 'keep' or 'drop'.*'wrap'"),
    "batch_fn no function": (lambda: lk.Batch(2, batch_fn=3), TypeError, "batch_fn.*3 came"),
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
    "no operation": (lambda: loader_of(abs, 3), TypeError, r"operations\[1\].*int 3 came"),
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
        r"Own derives from Map.*map\(self, element\)",
    ),
    "no function": (lambda: lk.Filter(3), TypeError, "Filter: expected a function.*3 came"),
    "global size inside": (
        lambda: loader_of(lk.Batch(global_batch_size=2), lk.Batch(2)),
        ValueError,
        r"operations\[0\].*isn't the last Batch.*batch_size=",
    ),
    "empty source": (lambda: loader_of(data_source=[]), ValueError, "data_source.*empty"),
    "source an iterator": (lambda: loader_of(data_source=iter(TEN)), TypeError, "data_source.*no __len__"),
    "source a class": (lambda: loader_of(data_source=list), TypeError, "data_source.*the class list came"),
    "source a dict": (lambda: loader_of(data_source={"train": []}), TypeError, "data_source.*'train'.*split"),
    "sampler none": (lambda: loader_of(sampler=None), TypeError, "sampler.*IndexSampler.*got None"),
    "sampler a class": (lambda: loader_of(sampler=lk.IndexSampler), TypeError, "sampler.*got <class"),
    "sampler too long": (
        lambda: loader_of(sampler=lk.IndexSampler(11)),
        ValueError,
        r"num_records=11 records, the data source has 10; use num_records=len\(source\)",
    ),
    "sampler empty": (lambda: loader_of(sampler=[]), ValueError, r"sampler.*no indices \(len is 0\)"),
    "draws without seed": (
        lambda: loader_of(abs, lk.RandomMap(lambda x, rng: x), sampler=lk.IndexSampler(10)),
        ValueError,
        r"operations\[1\] RandomMap.*no seed.*seed=0",
    ),
    "global draws without seed": (
        lambda: loader_of(lk.Map(abs, seed_globals=True), sampler=lk.IndexSampler(10)),
        ValueError,
        r"operations\[0\] Map\(abs\).*no seed",
    ),
    "global draws in threads": (
        lambda: loader_of(lk.Map(abs, seed_globals=True), running=Running(2)),
        ValueError,
        r"operations\[0\] Map\(abs\).*threads share.*worker_kind='process'",
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
    "sampler's index": (lambda: lk.IndexSampler(3, num_epochs=2)[6], IndexError, r"index 6.*\[0, 6\)"),
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
        "global_batch_size: 3 rows.*2 shards.*global_batch_size=4",
    ),
    "unpicklable source": (
        lambda: loader_of(data_source=Unpicklable(), running=PROCESS),
        lk.TransportError,
        "data_source.*attribute 'guard'.*worker_kind='thread' or worker_count=0",
    ),
    "unpicklable operation": (
        lambda: loader_of(abs, Decode(), running=PROCESS),
        lk.TransportError,
        r"operations\[1\] Decode.*attribute 'handle'.*worker_count=0",
    ),
    "unpicklable closure": (
        lambda: loader_of(closure(), running=PROCESS),
        lk.TransportError,
        r"operations\[0\] Map\(decode\).*attribute 'guard'",
    ),
    "sampler's answer": (
        lambda: loader_of(sampler=NoKeys()),
        TypeError,
        r"NoKeys\[0\] must be a RecordMetadata, got 0",
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


# --- while it runs ----------------------------------------------------------------------------------------------------


class Trouble(Exception):  # noqa: N818 - a user's classes have any name
    """A user's error with constructor arguments of its own."""

    def __init__(self, key: int, reason: str) -> None:
        super().__init__(f"{key} is {reason}")
        self.key, self.reason = key, reason


def fail_at(key: int) -> Any:
    def decode(element: Any) -> Any:
        if element == key:
            raise Trouble(element, "bad")
        return element

    return decode


def end_loop_at(key: int) -> Any:
    return lambda element: next(iter([])) if element == key else element


class Keys:
    """A sampler by a list of keys; endless, as far as a loader knows, where it has no length."""

    def __init__(self, keys: list[Any]) -> None:
        self.keys = keys

    def __getitem__(self, index: int) -> lk.RecordMetadata:
        key = self.keys[index]
        if isinstance(key, type):
            raise key(f"no key for {index}")
        return lk.RecordMetadata(index, key)

    def fingerprint(self) -> dict[str, Any]:
        return {"kind": "Keys"}  # its own, or the first 64 keys were asked for when iteration starts


class Broken:
    """A source that fails at one record, alone or in a batched read."""

    def __init__(self, key: int, error: type[Exception], batched: bool = False) -> None:
        self.key, self.error = key, error
        if batched:
            self.__class__ = BrokenBatched

    def __len__(self) -> int:
        return 10

    def __getitem__(self, key: int) -> int:
        if key == self.key:
            raise self.error(f"record {key} is torn")
        return key


class BrokenBatched(Broken):
    def __getitems__(self, keys: list[int]) -> list[int]:
        return [self[key] for key in keys]


RUNNINGS = [Running(), Running(2, task_rows=2), Running(1, "process")]
every_running = pytest.mark.parametrize("running", RUNNINGS, ids=str)

# What fails at index 5: operations and options, the type, and what text and notes say.
FAILURES: dict[str, tuple[list[Any], dict[str, Any], type[Exception], tuple[str, ...]]] = {
    "Map": ([fail_at(5)], {}, Trouble, ("5 is bad", r"operations\[0\] Map\(decode\)")),
    "Filter": (
        [abs, lk.Filter(lambda x: 1 / (x - 5))],
        {},
        ZeroDivisionError,
        (r"operations\[1\] Filter\(<lambda>\)",),
    ),
    "FlatMap": (
        [lk.FlatMap(lambda x: [x] if x != 5 else 7)],
        {},
        TypeError,
        ("not iterable", r"operations\[0\] FlatMap"),
    ),
    "fan out": (
        [lk.FlatMap(lambda x: [x] * (1 if x != 5 else 4), max_fan_out=3)],
        {},
        ValueError,
        ("gave 4 elements for one, max_fan_out is 3",),
    ),
    "a Filter's answer": (
        [lk.Filter(lambda x: np.ones(1 if x != 5 else 2))],
        {},
        ValueError,
        ("truth value", r"operations\[0\] Filter"),
    ),
    "RandomMap": (
        [lk.RandomMap(lambda x, rng: [x][0 if x != 5 else 1])],
        {},
        IndexError,
        (r"operations\[0\] RandomMap",),
    ),
    "MapWithIndex": (
        [lk.MapWithIndex(lambda i, x: {}[x] if i == 5 else x)],
        {},
        KeyError,
        (r"operations\[0\] MapWithIndex",),
    ),
    "source": ([], {"data_source": Broken(5, OSError)}, OSError, ("record 5 is torn", "source Broken")),
    "batched source": (
        [abs],
        {"data_source": Broken(5, OSError, batched=True)},
        OSError,
        ("record 5 is torn", "source BrokenBatched"),
    ),
    "source in flight": (
        [],
        {"data_source": Broken(5, OSError), "read_options": lk.ReadOptions(num_threads=2)},
        OSError,
        ("record 5 is torn", "source Broken"),
    ),
    "StopIteration of a function": (
        [end_loop_at(5)],
        {},
        RuntimeError,
        ("StopIteration", r"operations\[0\] Map"),
    ),
    "StopIteration of a source": (
        [],
        {"data_source": Broken(5, StopIteration)},
        RuntimeError,
        ("StopIteration",),
    ),
    "StopIteration in flight": (
        [],
        {"data_source": Broken(5, StopIteration), "read_options": lk.ReadOptions(num_threads=2)},
        RuntimeError,
        ("StopIteration",),
    ),
}


def values_until_error(it: Any) -> tuple[list[Any], Exception]:
    values = []
    with pytest.raises(Exception) as raised:  # noqa: PT012 - which one is looked at by the caller
        while True:
            values.append(next(it))
    return values, raised.value


IN_PROCESSES = ("Map", "FlatMap", "batched source", "StopIteration in flight")


@pytest.mark.parametrize(
    ("name", "running"),
    [(name, r) for name in FAILURES for r in RUNNINGS if r.kind == "thread" or name in IN_PROCESSES],
    ids=str,
)
def test_a_failing_record_is_named(name, running):
    """All elements before it come, then an error of the user's type with index, record_key and operation."""
    operations, options, error, patterns = FAILURES[name]
    with loader_of(*operations, running=running, **options) as loader:
        it = iter(loader)
        values, raised = values_until_error(it)
        assert len(values) == it.step == 5
        assert type(raised).__qualname__ == error.__qualname__
        said = "\n".join([str(raised), *raised.__notes__])
        for pattern in (*patterns, r"index 5 \(record_key 5\)", "at step 5"):
            assert re.search(pattern, said), f"{pattern!r} is not in: {said}"
        assert (len([note for note in raised.__notes__ if "Traceback" in note]) > 0) == (
            running.kind == "process"
        )
        del raised


@every_running
def test_an_error_keeps_its_class_and_attributes(running):
    """A user's exception with arguments of its own arrives whole."""
    with loader_of(fail_at(5), lk.Batch(3), running=running) as loader:
        it = iter(loader)
        assert next(it).tolist() == [0, 1, 2]
        with pytest.raises(Trouble) as raised:
            next(it)
        assert (raised.value.key, raised.value.reason, str(raised.value)) == (5, "bad", "5 is bad")
        assert "for index 5 (record_key 5) of range, at step 1" in raised.value.__notes__[-1]
        del raised


@every_running
@pytest.mark.parametrize("changing", [False, True], ids=["fixed", "changing"])
def test_next_raises_it_again(changing, running):
    """Asked again, next() and peek() raise the same error, which doesn't grow; state and step stay."""
    operations = [lk.Filter(lambda _: True)] if changing else []
    with loader_of(fail_at(5), *operations, lk.Batch(2), running=running) as loader:
        it = iter(loader)
        _, first = values_until_error(it)
        state, notes = it.get_state(), list(first.__notes__)
        depths = set()
        for ask in (it.__next__, it.peek, it.__next__, it.__next__):
            with pytest.raises(Trouble) as raised:
                ask()
            assert raised.value is first
            depths.add(len(raised.traceback))
        assert first.__notes__ == notes
        assert max(depths) - min(depths) <= 1  # peek and next have a frame of their own each
        assert (it.step, it.get_state()) == (2, state)
        del first, raised


@every_running
def test_going_on_behind_a_failed_record(running):
    """skip(1) leaves the failed step out; the state of the failure, in a loader that was mended, loses nothing."""
    batches = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    with loader_of(fail_at(5), lk.Batch(2), running=running) as loader:
        it = iter(loader)
        values, _ = values_until_error(it)
        state = it.get_state()
        assert [value.tolist() for value in values] == batches[:2]
        it.skip(1)
        assert [value.tolist() for value in it] == batches[3:]
        assert it.step == 4
        it.set_state(state)
        assert values_until_error(it)[0] == []
        it.seek(1)
        assert next(it).tolist() == batches[1]
    with loader_of(abs, lk.Batch(2), running=running) as mended:
        again = iter(mended)
        again.set_state(state)
        assert [value.tolist() for value in again] == batches[2:]


@every_running
def test_the_earliest_failure_is_told(running):
    """Of several failing records the first in the stream is raised, whatever was made first and by whom."""
    with loader_of(fail_at(7), fail_at(4), lk.Batch(2), fail_batch, running=running) as loader:
        values, raised = values_until_error(iter(loader))
        assert [value.tolist() for value in values] == [[0, 1], [2, 3]]
        assert raised.key == 4
        del raised


def fail_batch(batch: Any) -> Any:
    if batch[0] == 6:
        raise ZeroDivisionError
    return batch


@every_running
@pytest.mark.parametrize(
    ("keys", "error", "says"),
    [
        ([0, 1, 2, 10], IndexError, "index 3 reads record_key 10, the data source has 10 records: 0 to 9"),
        ([0, 1, 2, -1], ValueError, r"record_key.*-1"),
        ([0, 1, 2, "x"], TypeError, r"Keys\[3\]\.record_key.*'x'"),
        ([0, 1, 2, None], TypeError, r"Keys\[3\]\.record_key.*None"),
        ([0, 1, 2, OSError], OSError, "no key for 3"),
        ([0, 1, 2, StopIteration], RuntimeError, "StopIteration"),
    ],
    ids=str,
)
@pytest.mark.parametrize("operations", [[], [lk.Filter(lambda _: True)]], ids=["fixed", "changing"])
def test_a_sampler_that_fails(keys, error, says, operations, running):
    """What a user's sampler gives or raises at index 3 is told there: all before it comes first."""
    if running.kind == "process":
        running = Running(1, "thread", task_rows=1)  # the trainer plans, whoever works
    sampler = Keys([*keys, *range(100)])
    with loader_of(*operations, sampler=sampler, running=running) as loader:
        values, raised = values_until_error(iter(loader))
        assert values == [0, 1, 2]
        assert type(raised) is error
        assert re.search(says, str(raised))
        del raised


def test_a_batch_fn_that_ends_the_loop():
    """StopIteration of a batch_fn would end the user's loop without a word: it is an error."""
    with loader_of(lk.Batch(2, batch_fn=lambda rows: next(iter([])))) as loader:
        refused(
            lambda: next(iter(loader)),
            RuntimeError,
            "StopIteration",
            r"Batch\(batch_size=2",
            "index 0.*index 1",
        )


def test_an_element_that_cant_be_pickled():
    """An element that can't travel from a process is an error that names its record; threads hand it over."""
    with loader_of(lambda x: threading.Lock() if x == 3 else x, running=PROCESS) as loader:
        it = iter(loader)
        values, raised = values_until_error(it)
        assert values == [0, 1, 2]
        said = "\n".join([str(raised), *raised.__notes__])
        assert isinstance(raised, lk.TransportError)
        assert re.search(r"index 3 \(record_key 3\)", said), said
        del raised
    with loader_of(lambda x: threading.Lock(), running=Running(1)) as loader:
        assert type(next(iter(loader))) is type(GUARD)


# --- states -----------------------------------------------------------------------------------------------------------


def edited(**fields: Any) -> bytes:
    document = json.loads(iter(loader_of(lk.Batch(2))).get_state())
    return json.dumps(document | fields).encode()


STATES = {
    "a str": ("{}", TypeError, "bytes"),
    "None": (None, TypeError, "bytes"),
    "not UTF-8": (b"\xff\xfe", lk.StateError, "UTF-8"),
    "not JSON": (b"step 3", lk.StateError, "JSON"),
    "empty": (b"", lk.StateError, "JSON"),
    "another format": (edited(format="grain"), lk.StateError, "format: expected 'loaderkit', got 'grain'"),
    "newer format": (edited(format_version=99), lk.StateError, "format_version: at most .*, got 99.*upgrade"),
    "newer stream": (edited(stream_version=99), lk.StateError, "stream_version: at most .*, got 99.*upgrade"),
    "altered": (edited(step=1), lk.StateError, "digest.*altered"),
    "no documents": ([], lk.StateError, "one document or more"),
}


@pytest.mark.parametrize("name", STATES)
def test_what_is_no_state(name):
    """What can't be read is refused by the field that is wrong, and the iterator stays where it is."""
    state, error, pattern = STATES[name]
    it = iter(loader_of(lk.Batch(2)))
    next(it)
    before = it.get_state()
    refused(lambda: it.set_state(state), error, pattern)
    assert it.get_state() == before


OTHERS = {
    "data": ({"data_source": range(1, 11)}, "source", "source"),
    "longer data": ({"data_source": range(11)}, "source", "source"),
    "seed": (
        {"sampler": lk.IndexSampler(10, seed=1, num_epochs=1)},
        "sampler.seed: saved 0, this loader 1",
        "sampler",
    ),
    "epochs": (
        {"sampler": lk.IndexSampler(10, seed=0)},
        "sampler.num_epochs: saved 1, this loader null",
        "sampler",
    ),
    "shuffle": (
        {"sampler": lk.IndexSampler(10, seed=0, num_epochs=1, shuffle=True)},
        "sampler.shuffle: saved false, this loader true",
        "sampler",
    ),
    "batch size": ({"size": 4}, r"global_batch_size: saved 2 rows.*this loader 4 rows", "global_batch_size"),
    "operations": ({"more": [lk.Batch(1)]}, "operations: saved .*Batch.*this loader .*Batch", "operations"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_state_of_another_stream(name):
    """The field and both values are named, with the text of how to allow it; allowed, it is taken."""
    options, says, field = OTHERS[name]
    options = dict(options)
    saved = iter(loader_of(lk.Batch(2)))
    next(saved)
    size, more = options.pop("size", 2), options.pop("more", [])
    other = iter(loader_of(*more, lk.Batch(size), **options))
    refused(
        lambda: other.set_state(saved.get_state()), lk.CheckpointMismatchError, says, f'allow=.*"{field}"'
    )
    assert other.step == 0
    refused(lambda: other.set_state(saved.get_state(), allow={"colour"}), ValueError, "allow.*colour")
    refused(lambda: other.set_state(saved.get_state(), allow=field), TypeError, "allow.*write allow=")
    other.set_state(saved.get_state(), allow={field})
    assert (other.step, other.index) == (1, 2)
    assert len(next(other)) == size


def test_streams_and_rows_cant_be_allowed():
    """A state of a pipeline with a Filter doesn't fit one without, nor the other way round, whatever is allowed."""
    plain, changing = iter(loader_of(lk.Batch(2))), iter(loader_of(lk.Filter(bool), lk.Batch(2)))
    for one, other in ((plain, changing), (changing, plain)):
        refused(
            lambda one=one, other=other: one.set_state(other.get_state(), allow={"operations"}),
            lk.CheckpointMismatchError,
            "streams: saved",
        )
