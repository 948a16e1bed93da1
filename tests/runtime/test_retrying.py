"""Reads that fail for a passing reason: tried again, and where that doesn't help, every attempt is told."""

import os
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from internals import executor_of
from runtime_loaders import numbers

import loaderkit as lk
import loaderkit._runtime.worker.retrying as retrying_module
from loaderkit._runtime.worker.retrying import Retrying

SOON = {"wait": 1e-4}


class Flaky:
    """A source whose every third record can be read at the n-th attempt only, counted in each process by itself."""

    def __init__(self, failures: int, error: type[Exception] = OSError) -> None:
        self.failures, self.error = failures, error
        self.reads: Counter[int] = Counter()

    def __len__(self) -> int:
        return 12

    def __getitem__(self, key: int) -> int:
        self.reads[key] += 1
        if key % 3 == 1 and self.reads[key] <= self.failures:
            raise self.error(f"attempt {self.reads[key]} at {key}")
        return key


class FlakyBatches(Flaky):
    def __getitems__(self, keys: list[int]) -> list[int]:
        return [self[key] for key in keys]


class FlakyColumns(Flaky):
    def take(self, keys: np.ndarray, out: list[np.ndarray] | None = None) -> Any:
        raise OSError("the whole file")


RUNNINGS: list[dict[str, Any]] = [
    {},
    {"num_threads": 3},
    {"worker_count": 2, "worker_kind": "thread", "num_threads": 2},
    {"worker_count": 1, "worker_kind": "process"},
]


def loader_of(source: Flaky, running: dict[str, Any], retry: lk.Retry, **options: Any) -> "lk.DataLoader":
    running = dict(running)
    read_options = lk.ReadOptions(num_threads=running.pop("num_threads", 0), retry=retry)
    return numbers(12, lk.Batch(4), data_source=source, read_options=read_options, **running, **options)


@pytest.mark.slow
@pytest.mark.parametrize("running", RUNNINGS, ids=str)
@pytest.mark.parametrize("kind", [Flaky, FlakyBatches, FlakyColumns])
def test_a_read_that_succeeds_later_shows_nowhere(kind, running):
    """The stream is that of a source which never failed, however records are read."""
    with loader_of(kind(2), running, lk.Retry(attempts=3, **SOON)) as loader:
        assert [batch.tolist() for batch in loader] == [[*range(k, k + 4)] for k in (0, 4, 8)]


@pytest.mark.parametrize("running", RUNNINGS, ids=str)
def test_the_last_error_names_the_key_and_every_attempt(running):
    """It keeps its type; each attempt is told with its time and error; records that don't fail are read once."""
    source = Flaky(99, ConnectionResetError)
    loader = loader_of(source, running, lk.Retry(attempts=3, **SOON))
    with loader, pytest.raises(ConnectionResetError, match="attempt 3 at 1") as raised:
        next(iter(loader))
    (note,) = [note for note in raised.value.__notes__ if note.startswith("read of record_key 1: ")]
    attempts = re.findall(
        r"attempt (\d) ended after \d+\.\d{3} s with ConnectionResetError\('attempt (\d) at 1'\)", note
    )
    assert attempts == [("1", "1"), ("2", "2"), ("3", "3")]
    assert any("index 1 (record_key 1)" in note for note in raised.value.__notes__)
    if running.get("worker_kind") != "process":
        assert source.reads[0] == 1


def test_errors_that_do_not_pass_are_not_waited_for():
    """Other types fail at once; what may pass is the user's to say; an error that changes on the way ends it."""
    source = Flaky(1, ValueError)
    with pytest.raises(ValueError, match="attempt 1 at 1") as raised:
        next(iter(loader_of(source, {}, lk.Retry(**SOON))))
    assert not any("attempt 1 ended" in note for note in raised.value.__notes__)
    retry = lk.Retry(errors=(ValueError, TimeoutError), **SOON)
    assert next(iter(loader_of(Flaky(1, ValueError), {}, retry))).tolist() == [0, 1, 2, 3]

    class Changing(Flaky):
        def __getitem__(self, key: int) -> int:
            self.error = [OSError, KeyError][min(self.reads[key], 1)]
            return super().__getitem__(key)

    source = Changing(9)
    with pytest.raises(KeyError) as raised:
        next(iter(loader_of(source, {}, lk.Retry(**SOON))))
    assert any("attempt 1 ended" in note and "attempt 2 ended" in note for note in raised.value.__notes__)
    assert source.reads[1] == 2


def test_no_attempt_begins_behind_the_deadline():
    """With no time left there is one attempt, whatever `attempts` says."""
    source = Flaky(9)
    with pytest.raises(OSError, match="attempt 1 at 1"):
        next(iter(loader_of(source, {}, lk.Retry(attempts=9, deadline=0.0, **SOON))))
    assert source.reads[1] == 1
    source = Flaky(9)
    with pytest.raises(OSError, match="attempt 9 at 1"):
        next(iter(loader_of(source, {}, lk.Retry(attempts=9, deadline=None, **SOON))))


def test_retries_touch_no_randomness_but_their_own():
    """Neither the global generators nor those of the operations notice that a read was tried again."""

    def noisy(element: Any, rng: np.random.Generator) -> Any:
        return element + rng.random()

    def elements(failures: int) -> list[float]:
        options = {"sampler": lk.IndexSampler(12, num_epochs=1, seed=3)}
        options["read_options"] = lk.ReadOptions(retry=lk.Retry(attempts=5, **SOON))
        return list(numbers(12, lk.RandomMap(noisy), data_source=Flaky(failures), **options))

    before = random.getstate(), np.random.get_state()[1].tolist()
    assert elements(4) == elements(0)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_what_was_tried_in_vain_is_bad():
    """Retries come first; only then the record is replaced, and the loss tells the error."""
    source = Flaky(99)
    retry = lk.Retry(attempts=2, **SOON)
    it = iter(loader_of(source, {}, retry, on_record_error="replace"))
    assert [batch.tolist() for batch in it] == [[0, 2, 2, 3], [5, 5, 6, 8], [8, 9, 11, 11]]
    assert it.bad_records == 4


class Waiting(Retrying):
    """Whose pauses are known."""

    def _pause(self, attempt: int) -> float:
        return 0.35


def test_a_pause_is_full_of_signs_of_life():
    """One each tenth of a second at least, and the last behind it."""
    signs = []
    source = Flaky(2)
    read = Waiting(source.__getitem__, lk.Retry(attempts=3))
    read.waits = lambda: signs.append(source.reads[1])
    assert read(1) == 1
    assert all(signs.count(attempt) >= 5 for attempt in (1, 2)) and set(signs) == {1, 2}


class Unsteady(Flaky):
    """Fails while a file is there, and tells of its first read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "down").touch()

    def __getitem__(self, key: int) -> int:
        (self.folder / "read").touch()
        if (self.folder / "down").exists():
            raise OSError("down")
        return key


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "threads"), [("process", 0), ("process", 2), ("thread", 0)])
def test_waiting_for_the_next_attempt_is_no_standing_still(kind, threads, tmp_path, monkeypatch):
    """A worker in such a pause gives signs all the time: neither the warning nor worker_timeout counts it."""
    if kind == "thread":  # which can't be killed: a pause has to end
        monkeypatch.setattr(Retrying, "_pause", lambda *_: 0.3)
    retry = lk.Retry(attempts=10**6, wait=60.0, deadline=None)
    read_options = lk.ReadOptions(num_threads=threads, retry=retry)
    source = Unsteady(tmp_path)
    with numbers(
        12, data_source=source, read_options=read_options, worker_count=1, worker_kind=kind
    ) as loader:
        it = iter(loader)
        it.start_prefetch()
        pool: Any = executor_of(loader)
        until((tmp_path / "read").exists)
        (worker,) = pool._supervisor.workers.values()
        until(lambda: worker.progress().task is not None)
        before = worker.progress()
        until(lambda: worker.progress().beats >= before.beats + 8)
        assert worker.progress().task == before.task
        (tmp_path / "down").unlink()
        if kind == "thread":
            assert list(it) == [*range(12)]


class Stuck(Unsteady):
    """Its first record can be read, and no other."""

    def __getitem__(self, key: int) -> int:
        return key if key == 0 else super().__getitem__(key)


@pytest.mark.slow
def test_reads_ahead_that_are_tried_again_hide_no_transform_that_stands_still(tmp_path):
    """Signs of life are those of who transforms, and of the reads that it waits for."""
    os.mkfifo(tmp_path / "never")

    def stuck(key: int) -> int:
        (tmp_path / "never").read_text()
        return key

    retry = lk.Retry(attempts=10**6, wait=60.0, deadline=None)
    read_options = lk.ReadOptions(num_threads=2, retry=retry)
    with (
        numbers(
            12,
            stuck,
            data_source=Stuck(tmp_path),
            read_options=read_options,
            task_rows=1,
            worker_count=1,
            worker_kind="process",
            worker_timeout=0.6,
        ) as loader,
        pytest.raises(lk.errors.WorkerTimeoutError),
    ):
        next(iter(loader))


def test_a_pause_is_a_random_part_of_what_doubles_up_to_a_minute(monkeypatch):
    """Before attempt k + 1 of `wait * 2**(k - 1)` seconds, whatever these would have become."""
    parts: list[tuple[float, float]] = []
    slept: list[float] = []

    class Drawn(random.Random):
        def uniform(self, a: float, b: float) -> float:
            parts.append((a, b))
            return b

    def never(key: int) -> int:
        raise OSError("down")

    retrying = Retrying(never, lk.Retry(attempts=9, wait=1.5, deadline=None))
    monkeypatch.setattr(retrying, "_jitter", Drawn())
    monkeypatch.setattr(retrying, "_sleep", slept.append)
    with pytest.raises(OSError, match="down"):
        retrying(0)
    assert slept == [1.5, 3, 6, 12, 24, 48, 60, 60]
    assert parts[: len(slept)] == [(0, seconds) for seconds in slept]
    assert retrying._pause(10**6) == 60  # no power of two that is too large


def test_the_first_read_counts_for_the_deadline(monkeypatch):
    """Where it alone takes longer than all may, no other begins."""
    clock = iter([0.0, 61.0, 61.0])
    monkeypatch.setattr(retrying_module, "time", SimpleNamespace(monotonic=clock.__next__))
    reads: list[int] = []

    def slow(key: int) -> int:
        reads.append(key)
        raise OSError("timed out")

    with pytest.raises(OSError, match="timed out") as error:
        Retrying(slow, lk.Retry(attempts=5, wait=1e-9, deadline=60.0))(7)
    assert reads == [7]
    assert "1 ended after 61.000 s" in error.value.__notes__[0]


def until(condition: Any) -> None:
    """Waits for something that happens elsewhere."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def test_without_the_library_the_line_to_install_it_is_said(monkeypatch):
    """Where tenacity is missing, making a Retry says what to do."""
    monkeypatch.setitem(sys.modules, "tenacity", None)
    with pytest.raises(ImportError, match=r"lk\.Retry needs tenacity: pip install '\.\[retry\]'"):
        lk.Retry()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"attempts": 0}, ValueError, "attempts: expected 1 or more"),
        ({"attempts": 2.5}, TypeError, "attempts: expected an int"),
        ({"wait": -1}, ValueError, "wait: expected 0 seconds or more"),
        ({"wait": "1"}, TypeError, "wait: expected a number of seconds"),
        ({"deadline": float("nan")}, ValueError, "deadline: expected 0 seconds or more"),
        ({"errors": OSError}, TypeError, "errors: expected a tuple of exception types"),
        ({"errors": (KeyboardInterrupt,)}, TypeError, "errors: expected a tuple of exception types"),
    ],
)
def test_a_wrong_argument_is_named(options, error, text):
    """What was given and what was expected."""
    with pytest.raises(error, match=text):
        lk.Retry(**options)
    with pytest.raises(TypeError, match="retry: expected a Retry"):
        lk.ReadOptions(retry=3)


def test_a_huge_error_makes_no_huge_note():
    """Each attempt is told of with the beginning and the end of its error."""

    def read(key: int) -> int:
        raise OSError("x" * 1_000_000)

    with pytest.raises(OSError, match="xxx") as raised:
        Retrying(read, lk.Retry(attempts=3, wait=0.0))(7)
    (note,) = raised.value.__notes__
    assert note.count("OSError('xxx") == 3
    assert len(note) < 5_000


def test_seconds_may_be_numbers_of_numpy():
    """As in every other number of seconds."""
    assert lk.Retry(attempts=2, wait=np.float32(0.5), deadline=np.int64(3)).wait == 0.5
