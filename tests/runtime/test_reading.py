"""Reads: several in flight, a bounded number ahead, batched ones that fail said record by record."""

import itertools
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_loaders import numbers

import loaderkit as lk
from loaderkit._runtime.worker import read_ahead
from loaderkit._runtime.worker.read_ahead import ReadAhead, ReadRecords
from loaderkit._runtime.worker.reading import RecordReader

PATIENCE_S = 20.0


class Together:
    """A source whose reads end only when three of them are under way."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(3)

    def __len__(self) -> int:
        return 30

    def __getitem__(self, key: int) -> int:
        self.barrier.wait(timeout=PATIENCE_S)
        return key


def test_a_debugger_sees_reads_and_operations_in_its_own_thread():
    """Whatever threads and workers the loader has."""
    seen = []

    class Source:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, key: int) -> int:
            seen.append(threading.current_thread())
            return key

    loader = lk.DataLoader(
        data_source=Source(),
        sampler=lk.SequentialSampler(6),
        operations=[lambda x: (seen.append(threading.current_thread()), x)[1]],
        worker_count=2,
        read_options=lk.ReadOptions(num_threads=3),
    )
    assert list(loader.debug()) == [*range(6)]
    assert len(seen) == 12 and {*seen} == {threading.current_thread()}


@pytest.mark.parametrize("workers", [0, 1])
def test_reads_of_one_worker_overlap(workers):
    """As many as there are threads; otherwise the source would break its barrier."""
    options = {
        "worker_count": workers,
        "worker_kind": "thread",
        "read_options": lk.ReadOptions(num_threads=3),
    }
    with numbers(30, lk.Batch(6), data_source=Together(), task_rows=6, **options) as loader:
        assert [batch.tolist() for batch in loader] == [[*range(k, k + 6)] for k in range(0, 30, 6)]


class Pairs:
    """A source whose reads of an even key end when that of the next key is under way, once `overlaps` is set."""

    def __init__(self) -> None:
        self.overlaps = False
        self.begun = [threading.Event() for _ in range(8)]

    def __len__(self) -> int:
        return 8

    def __getitem__(self, key: int) -> int:
        self.begun[key].set()
        if self.overlaps and key % 2 == 0:
            assert self.begun[key + 1].wait(PATIENCE_S)
        return key


@pytest.mark.parametrize("end", ["close", "interrupt"])
def test_reads_overlap_after_others_were_cancelled(end):
    """Those of a closed iterator, and of a stream whose user pressed Ctrl-C, count no more as ahead.

    The threads end with the loader.
    """
    source, interrupts = Pairs(), []

    def operation(x: int) -> int:
        if interrupts:
            raise interrupts.pop()
        return x

    options = {"read_options": lk.ReadOptions(num_threads=2, prefetch_buffer_size=2), "task_rows": 2}
    with numbers(8, operation, lk.Batch(2), data_source=source, **options) as loader:
        it = iter(loader)
        assert next(it).tolist() == [0, 1]
        if end == "close":
            it.close()
            it = iter(loader)
        else:
            interrupts.append(KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                next(it)
        source.overlaps = True
        for event in source.begun:
            event.clear()
        list(it)
    assert not [one for one in threading.enumerate() if one.name.startswith(read_ahead.READER_NAME)]


class Pipes:
    """A source whose reads 0 and 1 end only together, in whichever process they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.mkfifo(folder / "pipe")

    def __len__(self) -> int:
        return 8

    def __getitem__(self, key: int) -> int:
        if key == 0:
            (self.folder / "pipe").read_text()
        if key == 1:
            (self.folder / "pipe").write_text("")
        return key


def test_reads_of_a_worker_process_overlap(tmp_path):
    """The second read is under way while the first waits for it."""
    options = {"worker_count": 1, "read_options": lk.ReadOptions(num_threads=2), "task_rows": 4}
    with numbers(8, data_source=Pipes(tmp_path), **options) as loader:
        assert list(loader) == [*range(8)]


@pytest.mark.parametrize(("records", "call_records"), [(1, 1), (3, 1), (4, 2), (5, 5)])
def test_no_more_is_read_ahead_than_allowed(records, call_records):
    """The rest begins as records are asked for, in whole calls."""
    begun: queue.SimpleQueue[list[int]] = queue.SimpleQueue()

    def read(keys: list[int]) -> ReadRecords:
        begun.put(keys)
        return ReadRecords(keys)

    ahead = ReadAhead(read, threads=4, records=records, call_records=call_records)
    ahead.begin(0, [*range(10)])
    ahead.begin(1, [*range(10, 20)])
    seen: list[int] = []
    for taken in range(11):
        while len(seen) + call_records <= min(records + taken, 20):
            seen += begun.get(timeout=PATIENCE_S)
        assert sorted(seen) == [*range(len(seen))]
        if taken < 10:
            assert ahead.take(0, [taken]) == ReadRecords([taken])
    ahead.close()
    assert begun.empty()


def test_a_read_in_flight_is_waited_for_at_the_end(monkeypatch):
    """So that it finds what the user's program closes next."""
    monkeypatch.setattr(read_ahead, "_CLOSE_SECONDS", PATIENCE_S)
    begun, closed, seen = threading.Event(), threading.Event(), []

    def read(keys: list[int]) -> ReadRecords:
        begun.set()
        seen.append(closed.wait(timeout=0.1))
        return ReadRecords(keys)

    ahead = ReadAhead(read, threads=1, records=1)
    ahead.begin(0, [0])
    assert begun.wait(PATIENCE_S)
    ahead.close()
    closed.set()
    assert seen == [False]


@given(
    st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=9), max_size=8),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 4),
    st.data(),
)
def test_reads_come_in_order_whatever_fails_before_them(tasks, records, threads, call_records, data):
    """Tasks that are taken in parts, stop at a failing record or are read again leave nothing behind."""

    def read(keys: list[int]) -> ReadRecords:
        good = list(itertools.takewhile(lambda key: key >= 0, keys))
        return ReadRecords(good, None if len(good) == len(keys) else KeyError(keys[len(good)]))

    ahead = ReadAhead(read, threads=threads, records=records, call_records=min(call_records, records))
    lists = [[-key - 1 if bad and key > 6 else key for bad, key in task] for task in tasks]
    for number, keys in enumerate(lists):
        if data.draw(st.booleans()):
            ahead.begin(number, keys)
    for number, keys in enumerate(lists):
        place = 0
        while place < len(keys):
            size = data.draw(st.integers(1, len(keys) - place))
            wanted = keys[place : place + size]
            got, error = ahead.take(number, wanted)
            expected, why = read(wanted)
            assert got == expected
            assert repr(error) == repr(why)
            # A record that failed is read again, as where bad records are replaced.
            place += len(got) + (error is not None)
        ahead.forget(number)
    assert ahead._ahead == 0 and not ahead._waiting and not ahead._begun
    ahead.close()


class Broken:
    """A batched source that says only that something was wrong, and a single read that says what."""

    def __init__(self, bad: int, *, batched: bool) -> None:
        self.bad, self.calls = bad, []
        if batched:
            self.__getitems__ = self._all

    def __len__(self) -> int:
        return 20

    def _all(self, keys: list[int]) -> list[int]:
        self.calls.append(keys)
        if self.bad in keys:
            raise OSError("somewhere in there")
        return list(keys)

    def __getitem__(self, key: int) -> int:
        if key == self.bad:
            raise KeyError(f"record {key} is damaged")
        return key


@pytest.mark.parametrize("options", [lk.ReadOptions(), lk.ReadOptions(num_threads=2)])
@pytest.mark.parametrize("batched", [False, True])
def test_a_failing_batched_read_is_repeated_record_by_record(batched, options):
    """The error is that of the record, with those before it; every way to read says the same."""
    source = Broken(13, batched=batched)
    reader = RecordReader(source, options, copy=False)
    keys, indices = np.array([11, 12, 13, 14]), np.array([100, 101, 102, 103])
    run = reader.read(0, keys, indices)
    failure = run.failure
    assert run.values == [11, 12]
    assert failure is not None
    assert (str(failure.error), failure.indices) == ("'record 13 is damaged'", (102,))
    again = reader.read(1, keys[:2], indices[:2])
    assert (again.values, again.failure) == ([11, 12], None)
    assert bool(source.calls) == batched
    reader.close()


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_damaged_record_is_named_by_the_loader(kind):
    """With its key, its index and the source; the batches before it are delivered."""
    loader = numbers(20, lk.Batch(4), data_source=Broken(13, batched=False), worker_count=1, worker_kind=kind)
    with loader, iter(loader) as it:
        assert [next(it).tolist() for _ in range(3)] == [[*range(k, k + 4)] for k in (0, 4, 8)]
        with pytest.raises(KeyError, match="record 13 is damaged") as error:
            next(it)
        assert "source Broken for index 13 (record_key 13)" in error.value.__notes__[-1]


def test_a_batched_read_that_gives_too_few_records_is_an_error():
    """Rows would move up unseen."""

    class Short(Broken):
        def _all(self, keys: list[int]) -> Any:
            return keys[1:]

    reader = RecordReader(Short(-1, batched=True), lk.ReadOptions(), copy=False)
    run = reader.read(0, np.arange(3), np.arange(3))
    assert run.values == [] and run.failure is not None
    assert "gave 2 records for 3 keys" in str(run.failure.error)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"num_threads": -1}, ValueError),
        ({"num_threads": True}, TypeError),
        ({"num_threads": 2.0}, TypeError),
        ({"prefetch_buffer_size": -1}, ValueError),
        ({"prefetch_buffer_size": None}, TypeError),
    ],
)
def test_read_options_are_checked(arguments, error):
    """The argument, and what came."""
    (name,) = arguments
    with pytest.raises(error, match=f"{name}: expected .* got"):
        lk.ReadOptions(**arguments)


LEFT_OPEN = """
import sys, threading
import loaderkit as lk

begun, left = threading.Event(), threading.Event()

class Source:
    def __len__(self):
        return 4

    def __getitem__(self, key):
        if key:
            begun.set()
            left.wait(0.2)
            print("a read has ended", flush=True)
        return key

it = iter(lk.load(Source(), read_options=lk.ReadOptions(num_threads=2)))
next(it)
begun.wait()
"""


def test_the_end_of_a_process_waits_a_moment_for_reads():
    """A thread that Python ends within a library of C++ aborts the process, after a script that did all its work."""
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "a read has ended" in done.stdout
