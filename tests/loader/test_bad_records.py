"""What fails while it runs: a record, a batch, a sampler; named, told again, and nothing else is lost."""

import re
import threading
from typing import Any

import numpy as np
import pytest
from pipelines import Running
from refusals import loader_of, refused

import loaderkit as lk
from loaderkit._runtime.worker.bulk_read import SourceEndedError


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
slow_in_processes = [pytest.param(r, marks=[pytest.mark.slow] * (r.kind == "process")) for r in RUNNINGS]
every_running = pytest.mark.parametrize("running", slow_in_processes, ids=str)

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
        ("expected at most max_fan_out=3 elements for one, got 4",),
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
        SourceEndedError,
        ("StopIteration",),
    ),
    "StopIteration in flight": (
        [],
        {"data_source": Broken(5, StopIteration), "read_options": lk.ReadOptions(num_threads=2)},
        SourceEndedError,
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
    [
        pytest.param(name, r, marks=[pytest.mark.slow] * (r.kind == "process"))
        for name in FAILURES
        for r in RUNNINGS
        if r.kind == "thread" or name in IN_PROCESSES
    ],
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
        again.set_state(state, allow={"parameters"})  # another function
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
        (
            [0, 1, 2, 10],
            IndexError,
            "record_key: expected 0 to 9 for a data source of 10 records, got 10 at index 3",
        ),
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
        running = Running(1, "thread", task_rows=1)  # the trainer plans, with workers too
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
    with loader_of(lambda x: threading.Lock() if x == 3 else x, running=Running(1, "process")) as loader:
        it = iter(loader)
        values, raised = values_until_error(it)
        assert values == [0, 1, 2]
        said = "\n".join([str(raised), *raised.__notes__])
        assert isinstance(raised, lk.errors.TransportError)
        assert re.search(r"index 3 \(record_key 3\)", said), said
        del raised
    with loader_of(lambda x: threading.Lock(), running=Running(1)) as loader:
        assert type(next(iter(loader))) is type(threading.Lock())
