"""Bulk reads: ahead by whole calls, tried again as a whole, in halves where they fail; nothing of it in the stream."""

import gc
import itertools
import os
import queue
import random
import signal
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import executor_of
from runtime_loaders import numbers

import loaderkit as lk
import loaderkit._runtime.worker.retrying as retrying_module
from loaderkit._runtime.worker.bulk_read import BulkRead
from loaderkit._runtime.worker.reading import ReadOptions, RecordReader, read_ahead_limits
from loaderkit._runtime.worker.retrying import Retrying
from loaderkit.errors import DataFormatError, FileChangedError

PATIENCE_S = 20.0
SOON = {"wait": 1e-4}


class Bulk:
    """A batched source of numbers that keeps its calls; records in `bad` can't be read, alone or among others."""

    def __init__(
        self, records: int = 40, bad: tuple[int, ...] = (), error: type[Exception] = OSError
    ) -> None:
        self.records, self.bad, self.error = records, bad, error
        self.calls: list[list[int]] = []

    def __len__(self) -> int:
        return self.records

    def __getitem__(self, key: int) -> int:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: list[int]) -> list[int]:
        self.calls.append(list(keys))
        for key in keys:
            if key in self.bad:
                raise self.error(f"record {key} is torn")
        return list(keys)


class Flaky(Bulk):
    """Each record fails at its first reads, at random often; a call fails with its first such record."""

    def __init__(self, seed: int, most: int) -> None:
        super().__init__()
        chance = random.Random(seed)
        self.left = Counter({key: chance.choice([0, 0, 0, most]) for key in range(self.records)})
        self.lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=threading.Lock())

    def __getitems__(self, keys: list[int]) -> list[int]:
        with self.lock:
            for key in keys:
                if self.left[key] > 0:
                    self.left[key] -= 1
                    raise ConnectionResetError(f"record {key}")
        return super().__getitems__(keys)


RUNNINGS: list[dict[str, Any]] = [
    {"num_threads": 0},
    {"num_threads": 3, "prefetch_buffer_size": 7},
    {"num_threads": 2, "worker_count": 2, "worker_kind": "thread"},
    {"num_threads": 3, "prefetch_buffer_size": 5, "worker_count": 2, "worker_kind": "thread", "task_rows": 3},
]
PROCESSES = {"num_threads": 2, "worker_count": 2, "worker_kind": "process"}


def loader_of(source: Any, *operations: Any, running: dict[str, Any], **options: Any) -> "lk.DataLoader":
    running = dict(running)
    names = ("num_threads", "prefetch_buffer_size")
    reads = lk.ReadOptions(
        **{name: running.pop(name) for name in names if name in running}, retry=options.pop("retry", None)
    )
    options = {
        "sampler": lk.IndexSampler(len(source), shuffle=True, seed=5, num_epochs=2),
        "read_options": reads,
        **running,
        **options,
    }
    return numbers(len(source), *operations, data_source=source, **options)


def double(element: int) -> int:
    return element * 2


def odd(element: int) -> bool:
    return element % 4 == 2


SHAPES = [
    (lk.Batch(7),),
    (double, lk.Batch(4), lk.Batch(2)),
    (double, lk.Filter(odd), lk.Batch(3)),
    (double,),
]


def elements(loader: "lk.DataLoader") -> list[Any]:
    with loader:
        return [np.asarray(element).tolist() for element in loader]


@pytest.mark.parametrize("operations", SHAPES, ids=["batch", "batches", "filter", "single"])
def test_the_stream_is_that_of_single_reads(operations):
    """Whatever the threads, bounds, tasks and failures that retries mend."""
    expected = elements(loader_of([*range(40)], *operations, running={"num_threads": 0}))
    for running in RUNNINGS:
        assert elements(loader_of(Bulk(), *operations, running=running)) == expected
        flaky = loader_of(Flaky(3, 2), *operations, running=running, retry=lk.Retry(attempts=3, **SOON))
        assert elements(flaky) == expected


@pytest.mark.slow
@pytest.mark.parametrize("operations", SHAPES, ids=["batch", "batches", "filter", "single"])
def test_the_stream_is_that_of_single_reads_in_processes(operations):
    """With workers that have reading threads of their own."""
    expected = elements(loader_of([*range(40)], *operations, running={"num_threads": 0}))
    retry = lk.Retry(attempts=3, **SOON)
    assert elements(loader_of(Flaky(3, 2), *operations, running=PROCESSES, retry=retry)) == expected


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.sets(st.integers(0, 39), max_size=2),
    st.integers(0, 3),
    st.integers(1, 9),
    st.booleans(),
)
def test_records_before_a_bad_one_and_its_error(sizes, bad, threads, records, begun):
    """As single reads give them: the same records, the same error with the same index, for each task."""
    source = Bulk(bad=tuple(bad), error=KeyError)
    reader = RecordReader(source, ReadOptions(threads, records), copy=False)
    ends = np.cumsum([0, *sizes])
    tasks = [np.arange(lo, hi) for lo, hi in itertools.pairwise(ends)]
    if begun:
        for number, keys in enumerate(tasks):
            reader.begin(number, keys)
    for number, keys in enumerate(tasks):
        run = reader.read(number, keys, keys + 100)
        got, failure = run.values, run.failure
        first = next((key for key in keys.tolist() if key in bad), None)
        assert got == [key for key in keys.tolist() if first is None or key < first]
        assert (failure is None) == (first is None)
        if failure is not None:
            assert failure.indices == (first + 100,)
            assert str(failure.error) == repr(f"record {first} is torn")
        reader.forget(number)
    if threads and not bad:
        limits = read_ahead_limits(source, ReadOptions(threads, records))
        assert limits is not None
        assert all(len(call) <= limits.call_records for call in source.calls)
    reader.close()


@pytest.mark.parametrize("operations", [(lk.Batch(4),), (double, lk.Batch(4)), (double, lk.Filter(odd))])
@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_bad_records_are_handled_as_with_single_reads(policy, operations):
    """The same ones are left out or replaced, with the same elements in their places."""
    options: dict[str, Any] = {"on_record_error": policy}
    expected = elements(loader_of(Bulk(bad=(7, 8, 30)), *operations, running={"num_threads": 0}, **options))
    for running in RUNNINGS[1:]:
        assert elements(loader_of(Bulk(bad=(7, 8, 30)), *operations, running=running, **options)) == expected


class Together(Bulk):
    """Whose calls end only when three of them are under way."""

    def __init__(self) -> None:
        super().__init__(54)
        self.barrier = threading.Barrier(3)

    def __getitems__(self, keys: list[int]) -> list[int]:
        self.barrier.wait(timeout=PATIENCE_S)
        return super().__getitems__(keys)


class Advised(Together):
    read_ahead = 3


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("source", "options"), [(Together, {"num_threads": 3}), (Advised, {})], ids=["told", "advised"]
)
@pytest.mark.parametrize("wrap", [lambda source: source, lambda source: lk.ConcatDataSource([[], source])])
def test_calls_for_several_tasks_overlap(source, options, workers, wrap):
    """As many as the user said, or the source; otherwise it would break its barrier. A task of 6 rows is a call."""
    running = {**options, "worker_count": workers, "worker_kind": "thread"}
    own = source()
    loader = loader_of(wrap(own), lk.Batch(6), running=running, task_rows=6)
    assert sum(map(sum, elements(loader))) == 2 * sum(range(54))
    assert [len(call) for call in own.calls] == [6] * 18


@pytest.mark.parametrize("batch", [(lk.Batch(4),), (double, lk.Filter(odd))], ids=["rows", "stream"])
def test_the_trainer_alone_has_the_next_calls_made_while_it_is_away(batch):
    """Without workers: when the first element is there, calls for the next ones begin without another next()."""
    begun: queue.SimpleQueue[int] = queue.SimpleQueue()

    class Told(Bulk):
        def __getitems__(self, keys: list[int]) -> list[int]:
            begun.put(len(keys))
            return super().__getitems__(keys)

    loader = loader_of(Told(400), *batch, running={"num_threads": 3}, task_rows=4)
    with loader, iter(loader) as it:
        next(it)
        assert sum(begun.get(timeout=PATIENCE_S) for _ in range(4)) == 16


def test_zero_threads_are_zero_whatever_a_source_advises():
    """The user's word goes before the source's; nothing given is the source's."""
    source = Advised()
    assert read_ahead_limits(source, ReadOptions(0)) is None
    assert read_ahead_limits(source, ReadOptions()) == (3, 500, 166)
    assert read_ahead_limits(source, ReadOptions(prefetch_buffer_size=0)) is None
    assert read_ahead_limits(source, ReadOptions(8, 4)) == (8, 4, 1)
    assert read_ahead_limits(Bulk(), ReadOptions()) is None
    for other in (-1, True, "4", lambda: 4, None):
        source.read_ahead = other  # another library's
        assert read_ahead_limits(source, ReadOptions()) is None


@given(st.integers(1, 200), st.integers(1, 6), st.integers(1, 50), st.data())
@settings(max_examples=20)
def test_no_more_records_are_ahead_than_the_buffer_has(total, threads, records, data):
    """Counted from the call to the read, for tasks of any size."""
    lock, ahead, most = threading.Lock(), 0, 0

    def many(keys: list[int]) -> list[int]:
        nonlocal ahead, most
        with lock:
            ahead += len(keys)
            most = max(most, ahead)
        return list(keys)

    source = Bulk(total)
    source.__getitems__ = many  # type: ignore[method-assign]
    reader = RecordReader(source, ReadOptions(threads, records), copy=False)
    tasks, lo = [], 0
    while lo < total:
        hi = min(total, lo + data.draw(st.integers(1, 60)))
        tasks.append(np.arange(lo, hi))
        lo = hi
    for number, keys in enumerate(tasks):
        reader.begin(number, keys)
    assert most <= records
    call = max(1, records // threads)
    for number, keys in enumerate(tasks):
        for lo in range(0, len(keys), 7):
            got = reader.read(number, keys[lo : lo + 7], keys[lo : lo + 7])
            assert (got.values, got.failure) == (keys[lo : lo + 7].tolist(), None)
            with lock:
                ahead -= len(got.values)
                # A call that is taken in part was handed over as a whole.
                assert ahead <= records + call
    assert ahead == 0
    reader.close()


# --- retries -----------------------------------------------------------------------------------------------------


def bulk_read(source: Bulk, retry: lk.Retry | None) -> BulkRead:
    one: Any = source.__getitem__ if retry is None else Retrying(source.__getitem__, retry)
    return BulkRead(source.__getitems__, one, retry)


def test_a_call_that_fails_for_a_moment_is_repeated_as_a_whole():
    """Two failures cost two calls more, and no single read."""
    calls: list[int] = []

    def many(keys: list[int]) -> list[int]:
        calls.append(len(keys))
        if len(calls) < 3:
            raise TimeoutError("slow")
        return list(keys)

    read = BulkRead(many, lambda key: pytest.fail("read alone"), lk.Retry(attempts=3, **SOON))
    assert read([*range(64)]) == ([*range(64)], None)
    assert calls == [64, 64, 64]


@pytest.mark.parametrize("bad", [0, 21, 63])
def test_one_bad_record_of_64_is_found_in_few_calls(bad):
    """5 attempts of all, one of each smaller part on the way, 5 of the record: far from 64 reads."""
    source = Bulk(64, (bad,))
    records, error = bulk_read(source, lk.Retry(attempts=5, **SOON))([*range(64)])
    assert records == [*range(bad)]
    assert "attempt 5 ended" in error.__notes__[0] and f"record_key {bad}" in error.__notes__[0]
    sizes = Counter(map(len, source.calls))
    assert sizes[64] == 5 and source.calls.count([bad]) == 5
    assert len(source.calls) <= 5 + 6 + 5 + 6
    # None behind the bad record is read by itself.
    assert all(call[0] <= bad for call in source.calls)


@pytest.mark.parametrize("error", [ValueError, FileChangedError, DataFormatError])
def test_errors_that_stay_are_looked_for_at_once(error):
    """No call of the whole is repeated, and no pause made, where the error is none that passes."""
    source = Bulk(64, (40,), error)
    records, why = bulk_read(source, lk.Retry(attempts=5, wait=60.0))([*range(64)])
    assert records == [*range(40)] and type(why) is error
    assert Counter(map(len, source.calls))[64] == 1
    assert source.calls.count([40]) == 1


def test_a_server_that_is_down_is_asked_few_times(monkeypatch):
    """The first record's error is the call's; the pauses are those of two records."""
    pauses: list[float] = []
    monkeypatch.setattr(Retrying, "_sleep", lambda _, seconds: pauses.append(seconds))
    source = Bulk(64, tuple(range(64)))
    records, error = bulk_read(source, lk.Retry(attempts=5))([*range(64)])
    assert records == [] and "record 0 is torn" in str(error)
    assert len(source.calls) == 5 + 5 + 5 and len(pauses) == 4 + 4


def test_the_deadline_is_that_of_the_whole_call(monkeypatch):
    """A record that is left when it has passed has one attempt."""
    now = [0.0]
    monkeypatch.setattr(retrying_module.time, "monotonic", lambda: now[0])

    class Slow(Bulk):
        def __getitems__(self, keys: list[int]) -> list[int]:
            now[0] += 40.0
            return super().__getitems__(keys)

    source = Slow(4, (0, 1, 2, 3))
    retry = lk.Retry(attempts=9, wait=0.0, deadline=60.0)
    records, _ = bulk_read(source, retry)([*range(4)])
    assert records == []
    assert [len(call) for call in source.calls] == [4, 4, 2, 1]


@given(st.integers(1, 70), st.integers(0, 2**16), st.integers(1, 3))
def test_records_that_fail_in_turn_are_all_read(count, seed, most):
    """Each has its own attempts when it is alone, so what single reads with retries give is given."""
    source = Flaky(seed, most)
    keys = [key % 40 for key in range(count)]
    assert bulk_read(source, lk.Retry(attempts=4, wait=0.0))(keys) == (keys, None)


class LongPause(Retrying):
    def _pause(self, attempt: int) -> float:
        return 0.25


def test_pauses_of_bulk_reads_are_full_of_signs_of_life(monkeypatch):
    """As those of single reads; not while only reads ahead are in a pause."""
    monkeypatch.setattr("loaderkit._runtime.worker.bulk_read.Retrying", LongPause)
    signs: list[bool] = []
    waiting = threading.Event()

    class Once(Bulk):
        def __getitems__(self, keys: list[int]) -> list[int]:
            if not self.calls:
                self.calls.append(keys)
                raise OSError("once")
            return super().__getitems__(keys)

    for threads in (0, 2):
        signs.clear()
        reader = RecordReader(Once(), ReadOptions(threads, retry=lk.Retry(attempts=2)), copy=False)
        reader.tell_of_waits(lambda: signs.append(waiting.is_set()))
        keys = np.arange(5)
        reader.begin(0, keys)
        waiting.set()
        run = reader.read(0, keys, keys)
        assert (run.values, run.failure) == ([*range(5)], None)
        waiting.clear()
        assert signs.count(True) >= 3 and False not in signs
        reader.close()


def test_a_miscount_is_an_error_of_the_whole_task():
    """However the task is cut into calls, nothing of it is used, and nothing is read again."""

    class Short(Bulk):
        def __getitems__(self, keys: list[int]) -> list[int]:
            return super().__getitems__(keys)[: 2 if 9 in keys else None]

    for threads in (0, 2):
        source = Short()
        reader = RecordReader(source, ReadOptions(threads, 8, lk.Retry(attempts=3, **SOON)), copy=False)
        run = reader.read(0, np.arange(12), np.arange(12) + 50)
        failure = run.failure
        assert run.values == [] and failure is not None
        assert "__getitems__ gave 2 records for" in str(failure.error)
        assert failure.indices == tuple(range(50, 62))
        assert len(source.calls) <= 3
        reader.close()


# --- what may come between -------------------------------------------------------------------------------------------


def test_an_interrupt_loses_nothing_that_was_read_ahead():
    """Ctrl-C in an operation, without workers: the elements after it are those that would have come."""
    times: Counter[int] = Counter()

    def interrupting(element: int) -> int:
        times[element] += 1
        if element % 9 == 4 and times[element] == 1:
            raise KeyboardInterrupt
        return element

    loader = loader_of(Bulk(), interrupting, lk.Batch(4), running={"num_threads": 3}, task_rows=8)
    got: list[list[int]] = []
    with loader, iter(loader) as it:
        while len(got) < 20:
            try:
                got.append(next(it).tolist())
            except KeyboardInterrupt:
                continue
    assert got == elements(loader_of(Bulk(), lk.Batch(4), running={"num_threads": 0}))


def test_iterators_that_are_closed_leave_room_for_others():
    """What was read ahead for them is dropped: another one of the same loader reads on, within the same bound."""
    running = {"num_threads": 2, "prefetch_buffer_size": 8}
    with loader_of(Bulk(), lk.Batch(4), running=running, task_rows=4) as loader:
        expected = elements(loader_of(Bulk(), lk.Batch(4), running={"num_threads": 0}))
        left = [iter(loader) for _ in range(3)]
        for it in left:
            next(it)
        for it in left[:2]:
            it.close()
        del left
        assert [batch.tolist() for batch in loader] == expected
        del it
        gc.collect()
        next(iter(loader))  # streams that were thrown away are closed now, and this one when it is, too
        gc.collect()
        executor: Any = executor_of(loader)
        executor.close_abandoned()
        ahead = executor._runner.reader._ahead
        assert (ahead._ahead, ahead._begun, len(ahead._waiting)) == (0, {}, 0)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_calls_of_a_worker_process_overlap(tmp_path):
    """The second call is under way while the first waits for it."""
    os.mkfifo(tmp_path / "pipe")

    class Pipes(Bulk):
        def __getitems__(self, keys: list[int]) -> list[int]:
            if 0 in keys:
                (tmp_path / "pipe").read_text()
            if 4 in keys:
                (tmp_path / "pipe").write_text("")
            return super().__getitems__(keys)

    options = {"worker_count": 1, "read_options": lk.ReadOptions(num_threads=2), "task_rows": 4}
    with numbers(8, data_source=Pipes(8), **options) as loader:
        assert list(loader) == [*range(8)]


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX may be loaded by another test
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_reads_ahead_with_threads_of_its_own():
    """Those of its parent don't run there: it would wait without end for what they had begun."""
    options = {"running": {"num_threads": 2, "prefetch_buffer_size": 8}, "task_rows": 4}
    with loader_of(Bulk(), lk.Batch(4), **options) as loader, iter(loader) as it:
        expected = elements(loader_of(Bulk(), lk.Batch(4), running={"num_threads": 0}))
        assert next(it).tolist() == expected[0]
        if not (child := os.fork()):
            signal.alarm(int(PATIENCE_S))
            same = [next(it).tolist() for _ in range(5)] == expected[1:6]
            os._exit(0 if same and [batch.tolist() for batch in loader] == expected else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert [batch.tolist() for batch in it] == expected[1:]
