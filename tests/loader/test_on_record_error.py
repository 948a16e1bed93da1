"""What a bad record costs: it is counted, reported once, limited, and no other row changes."""

import errno
import json
import logging
import os
import resource
import signal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from internals import settings_of, variant_of

import loaderkit as lk

THREADS: dict[str, Any] = {"worker_count": 2, "worker_kind": "thread"}
PROCESSES: dict[str, Any] = {"worker_count": 2, "worker_kind": "process"}
RUNNINGS = [{}, THREADS, pytest.param(PROCESSES, marks=pytest.mark.slow)]


class Trouble(Exception):  # noqa: N818 - a user's classes have any name
    """A user's error with constructor arguments of its own."""

    def __init__(self, key: int, reason: str) -> None:
        super().__init__(f"{key} is {reason}")


def bad_at(*keys: int) -> Any:
    def decode(element: int) -> int:
        if element in keys:
            raise Trouble(element, "bad")
        return element

    return decode


def loader_of(count: int, *operations: Any, num_epochs: int | None = 1, **options: Any) -> "lk.DataLoader":
    task_rows = options.pop("task_rows", None)
    options.setdefault("on_record_error", "replace")
    loader = lk.DataLoader(
        data_source=options.pop("data_source", lk.RangeDataSource(0, count, 1)),
        sampler=options.pop("sampler", lk.IndexSampler(count, num_epochs=num_epochs, seed=0)),
        operations=operations,
        **options,
    )
    return variant_of(loader, task_rows=task_rows)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("running", RUNNINGS, ids=str)
def test_each_loss_is_counted_told_once_and_written(running, tmp_path, caplog):
    """Count, log and quarantine file have each lost row once: with its key, index, step, error and who raised it."""
    path = tmp_path / "bad.jsonl"
    with loader_of(12, bad_at(2, 3, 11), lk.Batch(4), quarantine=path, task_rows=2, **running) as loader:
        it = iter(loader)
        assert (it.peek().tolist(), it.bad_records, path.exists()) == ([0, 1, 4, 4], 0, False)
        assert [(next(it).tolist(), it.bad_records) for _ in range(3)] == [
            ([0, 1, 4, 4], 2),
            ([4, 5, 6, 7], 2),
            ([8, 9, 10, 0], 3),
        ]
        it.seek(0)
        assert next(it).tolist() == [0, 1, 4, 4]
        assert len(list(it)) == 2
        assert it.bad_records == 3
    assert [
        (line["record_key"], line["index"], line["instead"], line["step"]) for line in lines_of(path)
    ] == [
        (2, 2, 4, 0),
        (3, 3, 4, 0),
        (11, 11, 0, 2),
    ]
    assert lines_of(path)[2] == {
        "source": "RangeDataSource",
        "record_key": 11,
        "index": 11,
        "instead": 0,
        "step": 2,
        "raised_by": "operations[0] Map(decode)",
        "error": "Trouble: 11 is bad",
    }
    assert warnings_in(caplog)[0] == (
        "record_key 2 of RangeDataSource (index 2) is bad: Trouble: 2 is bad, "
        "raised by operations[0] Map(decode); index 4 is read instead"
    )
    assert len(warnings_in(caplog)) == 3


def test_a_restored_run_goes_on_counting(tmp_path):
    """A state has the count; rows made again after going back are neither counted nor told again."""
    path = tmp_path / "bad.jsonl"
    it = iter(loader_of(12, bad_at(2, 6, 10), lk.Batch(4), quarantine=str(path)))
    next(it)
    state = it.get_state()
    next(it)
    assert it.bad_records == 2
    it.set_state(state)
    assert it.bad_records == 1
    assert [next(it).tolist() for _ in range(2)] == [[4, 5, 7, 7], [8, 9, 11, 11]]
    assert (it.bad_records, len(lines_of(path))) == (3, 3)
    again = iter(loader_of(12, bad_at(2, 6, 10), lk.Batch(4)))
    again.set_state(it.get_state())
    assert again.bad_records == 3
    assert json.loads(again.get_state())["bad_records"]["ledger"] == [[2, 3], [6, 7], [10, 11]]


def test_the_ledger_belongs_to_its_records():
    """Restored over another sampler, by the user's leave, what was read instead of other records means nothing."""
    it = iter(loader_of(12, bad_at(2), lk.Batch(4)))
    next(it)
    other = iter(loader_of(12, lk.Batch(4), sampler=lk.IndexSampler(12, shuffle=True, seed=1, num_epochs=1)))
    other.set_state(it.get_state(), allow={"sampler", "parameters"})
    assert other.bad_records == 0


@pytest.mark.parametrize("running", RUNNINGS, ids=str)
@pytest.mark.parametrize("policy", ["replace", "skip"])
def test_a_count_is_a_limit(policy, running):
    """One loss more than max_bad_records is an error in its step, each time it is asked for."""
    with loader_of(
        12, bad_at(1, 2, 9), lk.Batch(3), on_record_error=policy, max_bad_records=2, **running
    ) as loader:
        it = iter(loader)
        rows = [next(it).tolist() for _ in range(2)]
        assert rows == ([[0, 3, 3], [3, 4, 5]] if policy == "replace" else [[0, 3, 4], [5, 6, 7]])
        if policy == "replace":
            next(it)
        step = it.step
        for ask in (it.peek, it.__next__, it.__next__):
            with pytest.raises(
                lk.errors.BadRecordsError,
                match=r"^3 of about \d+ records are bad, and max_bad_records is 2;"
                r" the last is index 9 \(record_key 9\): Trouble: 9 is bad, raised by op.*decode",
            ):
                ask()
        assert (it.step, it.bad_records) == (step, 2)


def test_a_share_is_a_limit():
    """A share is of the records so far, from an epoch on, or from 1,000 records on where that is longer."""
    bad = bad_at(*range(0, 3000, 100))
    assert sum(1 for _ in loader_of(3000, bad, max_bad_records=0.011)) == 3000
    it = iter(loader_of(3000, bad, max_bad_records=0.0099))
    with pytest.raises(
        lk.errors.BadRecordsError, match=r"^10 of about 901 records are bad, and max_bad_records is 0.0099"
    ):
        list(it)
    assert it.step == 900
    few = iter(loader_of(10, bad_at(0, 1), max_bad_records=0.1))
    with pytest.raises(lk.errors.BadRecordsError, match=r"^2 of about 2 records"):
        list(few)
    assert list(loader_of(3, bad_at(0), max_bad_records=1.0)) == [1, 1, 2]
    with pytest.raises(lk.errors.BadRecordsError):
        list(loader_of(3, bad_at(0), max_bad_records=0))


@pytest.mark.parametrize(
    "operations", [[], [lk.Filter(lambda element: True)]], ids=["fixed rows", "any rows"]
)
@pytest.mark.parametrize("policy", ["replace", "skip"])
def test_a_share_is_of_the_process_s_own_records(policy, operations):
    """One of four shards has read a quarter of what the step has passed, and its losses are held against that."""
    bad = bad_at(*range(0, 16_000, 160))  # all of them shard 0's: one of 40 of its own
    loader = loader_of(
        16_000,
        *operations,
        bad,
        lk.Batch(global_batch_size=8),
        num_epochs=None,
        shard_options=lk.ShardOptions(0, 4),
        logical_streams=4,
        on_record_error=policy,
        max_bad_records=0.02,
    )
    with pytest.raises(
        lk.errors.BadRecordsError, match=r"^21 of about 80\d records are bad, and max_bad_records is 0.02"
    ):
        list(islice(loader, 1000))


def test_records_lost_behind_the_last_row_are_told_with_the_end(tmp_path):
    """Left-out records at the end of a stream are counted, written, and held against the limit."""
    path = tmp_path / "bad.jsonl"
    with loader_of(
        8,
        bad_at(3, 6, 7),
        lk.Batch(2),
        on_record_error="skip",
        quarantine=path,
        worker_count=1,
        worker_kind="thread",
    ) as loader:
        it = iter(loader)
        assert [(batch.tolist(), it.bad_records) for batch in it] == [([0, 1], 0), ([2, 4], 1), ([5], 1)]
        for _ in range(2):
            assert (next(it, None), it.bad_records, len(lines_of(path))) == (None, 3, 3)
        state = it.get_state()
        assert json.loads(state)["bad_records"] == {"ledger": [], "skipped": {"0": 1}}
        it.set_state(state)
        assert (it.bad_records, next(it, None), it.bad_records, len(lines_of(path))) == (1, None, 3, 3)
    it = iter(loader_of(8, bad_at(3, 6, 7), lk.Batch(2), on_record_error="skip", max_bad_records=2))
    assert [next(it).tolist() for _ in range(3)] == [[0, 1], [2, 4], [5]]
    for _ in range(2):
        with pytest.raises(lk.errors.BadRecordsError, match=r"^3 of about"):
            next(it)


ENDLESS_TROUBLE = [
    (policy, num_epochs, batch, running)
    for policy in ("replace", "skip")
    for num_epochs in (1, None)
    for batch in ((), (lk.Batch(4),))
    for running in ({}, THREADS)
]
ENDLESS_TROUBLE += [
    pytest.param("replace", None, (lk.Batch(4),), PROCESSES, marks=pytest.mark.slow),
    pytest.param("skip", None, (), PROCESSES, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("policy", "num_epochs", "batch", "running"), ENDLESS_TROUBLE)
def test_where_every_record_is_bad_it_ends(policy, num_epochs, batch, running):
    """A bug that hits every record isn't swallowed: the error names one, however long the stream."""
    always = bad_at(*range(50))
    loader = loader_of(50, always, *batch, num_epochs=num_epochs, on_record_error=policy, **running)
    with loader, pytest.raises(lk.errors.BadRecordsError) as raised:
        next(iter(loader))
    if policy == "replace":
        tried = 49 if num_epochs else 100
        assert (
            str(raised.value)
            == f"index 0 can't be replaced: its own record and the {tried} tried instead are bad"
        )
        assert any("Trouble: 0 is bad" in note for note in raised.value.__notes__) or isinstance(
            raised.value.__cause__, Trouble
        )
        assert "raised by operations[0] Map(decode) for index 0 (record_key 0)" in raised.value.__notes__[-1]
    else:
        many = 50 if num_epochs else 100
        assert str(raised.value) == (
            f"{many} records in a row are bad, the last of them at index {many - 1} (record_key 49): "
            "Trouble: 49 is bad, raised by operations[0] Map(decode)"
        )


@pytest.mark.parametrize("policy", ["replace", "skip"])
def test_a_thousand_in_a_row_are_enough_unless_more_are_meant(policy):
    """A large data set isn't searched to its end for a bug's sake; max_bad_records says how long to go on."""
    bad = bad_at(*range(3000))
    with pytest.raises(lk.errors.BadRecordsError, match=r"1,000 (tried|records in a row)"):
        next(iter(loader_of(9000, bad, on_record_error=policy)))
    for most in (4000, 0.4) if policy == "replace" else (4000,):
        it = iter(loader_of(9000, bad, on_record_error=policy, max_bad_records=most))
        assert next(it) == 3000
    with pytest.raises(lk.errors.BadRecordsError, match=r"2,000 (tried|records in a row)"):
        next(iter(loader_of(9000, bad, on_record_error=policy, max_bad_records=2000)))


def test_a_function_that_answers_for_everything_ends_too():
    """A thousand records and not one good: an error, though the user's function had an element for each."""
    always = bad_at(*range(5000))
    it = iter(loader_of(5000, always, lk.Batch(10), on_record_error=lambda error, metadata: 0))
    with pytest.raises(
        lk.errors.BadRecordsError, match=r"^1,000 of about 1,000 records are bad; the last is index 999"
    ):
        list(it)
    assert it.step == 99
    assert len(list(loader_of(50, always, lk.Batch(10), on_record_error=lambda error, metadata: 0))) == 5


@pytest.mark.parametrize("running", RUNNINGS, ids=str)
def test_a_function_gives_the_element_or_raises(running):
    """It is called with the error and the RecordMetadata that the sampler gives; what it raises is raised."""

    def answer(error: Exception, metadata: lk.RecordMetadata) -> float:
        if metadata.index == 6:
            raise KeyError("not this one") from error
        assert str(error) == f"{metadata.record_key} is bad"
        return -metadata.rng.random()

    sampler = lk.IndexSampler(8, shuffle=True, num_epochs=1, seed=0)
    keys = [sampler[index].record_key for index in range(8)]
    decode = bad_at(keys[2], keys[6])
    assert keys[2] != 2
    with loader_of(8, decode, lk.Batch(4), sampler=sampler, on_record_error=answer, **running) as loader:
        it = iter(loader)
        rng = settings_of(loader).sampler[2].rng
        assert next(it).tolist() == [*keys[:2], -rng.random(), keys[3]]
        assert it.bad_records == 1
        with pytest.raises(KeyError, match="not this one") as raised:
            next(it)
        assert f"raised by on_record_error for index 6 (record_key {keys[6]})" in raised.value.__notes__[-1]
    with loader_of(8, bad_at(2), on_record_error=_raise_it, **running) as loader:
        with pytest.raises(Trouble, match="2 is bad") as raised:
            list(loader)
        assert "raised by operations[0] Map(decode) for index 2" in raised.value.__notes__[-1]


def _raise_it(error: Exception, metadata: lk.RecordMetadata) -> Any:
    raise error


@pytest.mark.parametrize(
    "error",
    [MemoryError("full"), OSError(errno.EMFILE, "too many open files")],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize(
    "policy", ["replace", "skip", lambda error, metadata: 0], ids=["replace", "skip", "call"]
)
def test_what_is_no_records_fault_is_raised(policy, error):
    """A want of memory or descriptors would make all records bad in turn."""

    def fail(x: int) -> int:
        if x == 2:
            raise error
        return x

    it = iter(loader_of(5, fail, on_record_error=policy))
    assert [next(it), next(it)] == [0, 1]
    with pytest.raises(type(error)):
        next(it)


@pytest.mark.parametrize("running", RUNNINGS, ids=str)
@pytest.mark.parametrize("changing", [False, True], ids=["fixed", "changing"])
def test_a_function_gives_a_row_of_a_batch_that_is_filled_up(changing, running):
    """Its element is marked as real like every other one."""

    def decode(element: int) -> dict[str, int]:
        return {"x": bad_at(1, 4)(element)}

    operations = [lk.Filter(lambda row: row["x"] != 2)] if changing else []
    with loader_of(
        6 if changing else 5,
        decode,
        *operations,
        lk.Batch(2, remainder="pad"),
        on_record_error=lambda error, metadata: {"x": -1},
        **running,
    ) as loader:
        batches = [(batch["x"].tolist(), batch["valid"].tolist()) for batch in loader]
    last = ([5, 0], [True, False]) if changing else ([-1, 0], [True, False])
    middle = [3, -1] if changing else [2, 3]
    assert batches == [([0, -1], [True, True]), (middle, [True, True]), last]


@pytest.mark.parametrize(
    "policy", ["replace", "skip", lambda error, metadata: {"valid": 0}], ids=["replace", "skip", "function"]
)
def test_a_leaf_named_valid_is_no_records_fault(policy):
    """Where padding adds that leaf, records that have one are an error under every policy."""

    def decode(element: int) -> dict[str, int]:
        return {"valid" if element == 5 else "x": element}

    loader = loader_of(8, decode, lk.Batch(3, remainder="pad"), on_record_error=policy)
    it = iter(loader)
    assert next(it)["x"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r'leaf "valid".*rename') as raised:
        next(it)
    assert "operations[1] Batch(batch_size=3, remainder='pad') for index 5 " in raised.value.__notes__[0]
    assert it.bad_records == 0


@pytest.mark.parametrize("running", RUNNINGS, ids=str)
def test_a_record_that_only_shows_what_a_row_looks_like_is_no_loss(running):
    """A shard without a real row in the last step reads one for its shape: it lost no row."""
    for shard, lost in enumerate([1, 0]):
        with loader_of(
            5,
            bad_at(0),
            lk.Batch(global_batch_size=4, remainder="pad"),
            shard_options=lk.ShardOptions(shard, 2),
            max_bad_records=lost,
            **running,
        ) as loader:
            it = iter(loader)
            got = [rows[real].tolist() for rows, real in it]
        assert (got, it.bad_records) == (([[1, 1], [4]], 1) if lost else ([[2, 3], []], 0))


class Stop(BaseException):
    """A user's wish to end."""


@pytest.mark.slow
def test_what_is_no_exception_ends_worker_processes(capfd):
    """No policy takes it for a bad record: the WorkerError names the record, its traceback is on stderr."""

    def decode(x: int) -> int:
        if x == 1:
            raise Stop("enough")
        return x

    with loader_of(4, decode, worker_count=1, task_rows=1, max_worker_restarts=1) as loader:
        it = iter(loader)
        assert next(it) == 0
        with pytest.raises(lk.WorkerError) as raised:
            next(it)
        assert (raised.value.record_keys, it.bad_records) == ((1,), 0)
    assert "Stop: enough" in capfd.readouterr().err


def test_a_huge_error_makes_no_huge_line(tmp_path):
    """Log and quarantine file have its beginning and its end."""
    path = tmp_path / "bad.jsonl"

    def decode(x: int) -> int:
        if x == 1:
            raise ValueError("y" * 1_000_000)
        return x

    assert list(loader_of(3, decode, quarantine=path)) == [0, 2, 2]
    (line,) = lines_of(path)
    assert len(line["error"]) < 2_100
    assert line["error"].startswith("ValueError: yyy")


def test_an_interrupt_is_no_bad_record():
    """Ctrl-C in a decoder goes through, and the next call goes on exactly, with nothing counted twice."""
    interrupts = [KeyboardInterrupt()]

    def decode(x: int) -> int:
        if x == 3 and interrupts:
            raise interrupts.pop()
        return bad_at(1, 2)(x)

    it = iter(loader_of(8, decode, lk.Batch(4)))
    with pytest.raises(KeyboardInterrupt):
        next(it)
    assert [batch.tolist() for batch in it] == [[0, 3, 3, 3], [4, 5, 6, 7]]
    assert it.bad_records == 2


def test_what_was_made_of_a_bad_record_goes_with_it():
    """A FlatMap's children come all or not at all, also where an operation behind it fails on one of them."""

    def fan(x: int) -> list[tuple[int, int]]:
        return [(x, child) for child in range(3)]

    def check(pair: tuple[int, int]) -> tuple[int, int]:
        if pair == (1, 2):
            raise ValueError
        return pair

    operations = (lk.FlatMap(fan), check)
    assert list(loader_of(3, *operations, on_record_error="skip")) == [*fan(0), *fan(2)]
    assert list(loader_of(3, *operations)) == [*fan(0), *fan(2), *fan(2)]


def test_an_operation_behind_a_batch_is_no_matter_of_a_record():
    """What fails on a batch, or in making one, is raised under any policy."""
    with pytest.raises(Trouble, match="their sum"):
        list(loader_of(4, lk.Batch(2), _fail_on_5))
    with pytest.raises(lk.errors.BatchError):
        list(loader_of(2, lambda x: np.zeros(x + 1), lk.Batch(2), on_record_error="skip"))


def _fail_on_5(batch: np.ndarray) -> np.ndarray:
    if batch.sum() == 5:
        raise Trouble(5, "their sum")
    return batch


class InPlace:
    """A source of fresh arrays, which operations may write into."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, key: int) -> np.ndarray:
        return np.full(2, key)


def test_records_that_went_further_are_read_anew():
    """An operation that writes into its element doesn't do so twice where a later operation fails on another."""

    def double(x: np.ndarray) -> np.ndarray:
        x *= 2
        return x

    def check(x: np.ndarray) -> int:
        return bad_at(4)(int(x[0]))

    with loader_of(6, double, check, lk.Batch(6), data_source=InPlace(), task_rows=6) as loader:
        assert next(iter(loader)).tolist() == [0, 2, 6, 6, 8, 10]


class Columns:
    """A columnar source that can't read one of its rows."""

    columns = np.arange(8)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, key: int) -> Any:
        return self.take(np.array([key]))[0]

    def take(self, keys: np.ndarray, out: list[np.ndarray] | None = None) -> Any:
        if 5 in keys:
            raise OSError("row 5")
        if out is None:
            return self.columns[keys]
        out[0][...] = self.columns[keys]
        return None


@pytest.mark.parametrize("running", RUNNINGS, ids=str)
def test_a_columnar_source_is_read_row_by_row_where_a_row_is_bad(running):
    """A read of many rows that fails costs the bad row alone."""
    with loader_of(8, lk.Batch(4), data_source=Columns(), **running) as loader:
        it = iter(loader)
        assert [batch.tolist() for batch in it] == [[0, 1, 2, 3], [4, 6, 6, 7]]
        assert it.bad_records == 1


class Miscounting:
    def __len__(self) -> int:
        return 8

    def __getitem__(self, key: int) -> int:
        return key

    def __getitems__(self, keys: list[int]) -> list[int]:
        return keys[1:]


def test_a_source_that_miscounts_is_no_bad_record():
    """A batched read with too few records is the source's bug: which record is missing isn't known."""
    with pytest.raises(ValueError, match="__getitems__ gave 3 records for 4 keys"):
        next(iter(loader_of(8, lk.Batch(4), data_source=Miscounting(), task_rows=4)))


class Keys:
    """A sampler of a user's that ends sooner than it says."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> lk.RecordMetadata:
        if index >= self.count:
            raise RuntimeError(f"no key for {index}")
        return lk.RecordMetadata(index, index)

    def fingerprint(self) -> dict[str, Any]:
        return {"count": self.count}


def test_a_search_meets_no_index_that_the_sampler_cannot_say():
    """Where the user's sampler fails ahead, the search ends before it, and its own error comes in its own place."""
    it = iter(loader_of(10, bad_at(2), sampler=Keys(5)))
    assert [next(it) for _ in range(5)] == [0, 1, 3, 3, 4]
    with pytest.raises(RuntimeError, match="no key for 5"):
        next(it)
    it = iter(loader_of(10, bad_at(4), sampler=Keys(5)))
    assert [next(it) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(
        lk.errors.BadRecordsError, match="index 4 can't be replaced: its own record and the 0 tried"
    ):
        next(it)


def test_an_epoch_of_its_own_is_searched_within():
    """Past the end of epoch(e) the search goes on at its own first index."""
    loader = loader_of(5, bad_at(4), num_epochs=None)
    it = iter(loader.epoch(3))
    assert list(it) == [0, 1, 2, 3, 0]
    assert json.loads(it.get_state())["bad_records"]["ledger"] == [[19, 15]]


class KillOnce:
    """Kills its process at one record, the first time that it comes by; another record is bad."""

    def __init__(self, folder: Path, at: int, bad: int) -> None:
        self.folder, self.at, self.bad = folder, at, bad

    def __call__(self, x: int) -> int:
        if x == self.bad:
            raise Trouble(x, "bad")
        if x == self.at:
            try:
                os.close(os.open(self.folder / "killed", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return x
            os.kill(os.getpid(), signal.SIGKILL)
        return x


@pytest.mark.slow
def test_a_task_done_again_after_a_death_counts_once(tmp_path):
    """A worker that dies behind a bad record of its task: the row is made again, and lost once."""
    path = tmp_path / "bad.jsonl"
    with loader_of(
        16, KillOnce(tmp_path, 6, 5), lk.Batch(8), quarantine=path, worker_count=1, task_rows=8
    ) as loader:
        it = iter(loader)
        assert [batch.tolist() for batch in it] == [[0, 1, 2, 3, 4, 6, 6, 7], [*range(8, 16)]]
        assert (tmp_path / "killed").exists()
        assert (it.bad_records, len(lines_of(path))) == (1, 1)


def test_skipping_changes_rows_from_construction():
    """Also while nothing is bad: no length, no seek, logical streams of its own, and another fingerprint."""
    loader = loader_of(8, lk.Batch(4), on_record_error="skip")
    it = iter(loader)
    for ask in (lambda: len(loader), lambda: it.seek(1), lambda: it.skip(1), lambda: loader.records(0)):
        with pytest.raises(
            (TypeError, ValueError), match="on_record_error='skip' changes the number of rows"
        ):
            ask()
    state = it.get_state()
    assert json.loads(state)["streams"] == {"count": 1, "q": 4, "writers": [0]}
    with pytest.raises(lk.CheckpointMismatchError, match="streams: saved 1, this loader null"):
        iter(loader_of(8, lk.Batch(4))).set_state(state)
    with pytest.raises(lk.CheckpointMismatchError, match=r"operations: .*skip bad records"):
        iter(loader_of(8, lk.Filter(bool), lk.Batch(4))).set_state(
            iter(loader_of(8, lk.Filter(bool), lk.Batch(4), on_record_error="skip")).get_state()
        )


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_streams_lose_records_on_their_own(policy):
    """With logical streams each loses its own bad records, and each process tells of its own streams'."""

    def shard(h: int, count: int) -> list[Any]:
        loader = loader_of(
            40,
            bad_at(1, 2, 12, 30),
            lk.Filter(lambda element: element != 7),
            lk.Batch(global_batch_size=4),
            num_epochs=None,
            on_record_error=policy,
            logical_streams=2,
            shard_options=lk.ShardOptions(h, count),
        )
        it = iter(loader)
        rows = [next(it).tolist() for _ in range(8)]
        return [rows, it.bad_records, it.get_state(), loader]

    whole, first, second = shard(0, 1), shard(0, 2), shard(1, 2)
    assert whole[0] == [a + b for a, b in zip(first[0], second[0], strict=True)]
    assert whole[1] == first[1] + second[1]
    again = iter(whole[3])
    again.set_state([first[2], second[2]])
    assert again.bad_records == whole[1]
    assert json.loads(again.get_state())["bad_records"] == json.loads(whole[2])["bad_records"]
    for host in (first, second):  # the states of all tell each host its own
        part = iter(host[3])
        for states in (whole[2], [first[2], second[2]]):
            part.set_state(states)
            assert part.bad_records == host[1] > 0
        assert part.get_state() == host[2]


def test_what_is_read_instead_is_named_in_later_errors():
    """An error of a batch names the row's index and that its record is another's."""

    def fail(rows: list[int]) -> np.ndarray:
        raise Trouble(0, "late")

    it = iter(loader_of(4, bad_at(1), lk.Batch(4)))
    next(it)
    state = it.get_state()
    late = iter(loader_of(4, bad_at(1), lk.Batch(4, batch_fn=fail)))
    late.set_state(state, allow={"parameters"})
    late.seek(0)
    with pytest.raises(Trouble) as raised:
        next(late)
    assert "index 1 (record_key 2, read instead of its own)" in raised.value.__notes__[-1]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"on_record_error": "ignore"},
            ValueError,
            "on_record_error: expected 'raise', 'replace', 'skip' or a func",
        ),
        ({"on_record_error": None}, ValueError, "on_record_error: .* got None"),
        (
            {"on_record_error": "raise", "max_bad_records": 3},
            ValueError,
            "max_bad_records: expected None .* got 3; give on_record_error=",
        ),
        (
            {"on_record_error": "raise", "quarantine": "x"},
            ValueError,
            "quarantine: expected None .* got 'x'; give on_record_error=",
        ),
        ({"max_bad_records": -1}, ValueError, "max_bad_records: expected 0 or more"),
        (
            {"max_bad_records": 1.5},
            ValueError,
            "max_bad_records: expected a share from 0.0 to 1.0, or a count",
        ),
        ({"max_bad_records": float("nan")}, ValueError, "max_bad_records: expected a share"),
        ({"max_bad_records": True}, TypeError, "max_bad_records: expected an int"),
        ({"max_bad_records": "2"}, TypeError, "max_bad_records: expected a count, or a share"),
        ({"quarantine": b"x"}, TypeError, "quarantine: expected the path of a file"),
        ({"quarantine": 3}, TypeError, "quarantine: expected the path of a file"),
        (
            {"quarantine": "/no/such/folder/x"},
            ValueError,
            "quarantine: expected a file in a folder that exists, .*make '/no/such/folder' first",
        ),
    ],
)
def test_a_wrong_argument_is_named(options, error, text):
    """What was given, what was expected, before anything is read."""
    with pytest.raises(error, match=text):
        loader_of(4, **options)


def test_a_quarantine_that_cannot_be_written_loses_nothing(tmp_path):
    """The error of the file is raised at the row that it should tell of; once it can be written, that row comes."""
    folder = tmp_path / "q"
    folder.mkdir()
    it = iter(loader_of(4, bad_at(1), quarantine=folder / "bad.jsonl"))
    assert next(it) == 0
    folder.rmdir()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            next(it)
    folder.mkdir()
    assert [*it, it.bad_records] == [2, 2, 3, 1]
    assert len(lines_of(folder / "bad.jsonl")) == 1


@pytest.fixture
def room_for():
    """Lets files grow to so many bytes and no further, as a full disk would: what fits of a write is written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(nbytes: int | None) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before if nbytes is None else (nbytes, before[1]))

    yield limit
    limit(None)


def test_a_line_that_a_full_disk_tore_stays_alone(tmp_path, room_for):
    """The error names the file and says what to do; what is written afterwards are whole lines."""
    path = tmp_path / "bad.jsonl"
    it = iter(loader_of(6, bad_at(1, 3), quarantine=path))
    assert next(it) == 0
    room_for(50)
    for _ in range(2):
        with pytest.raises(OSError, match=r"bad\.jsonl") as raised:
            next(it)
        room_for(90)
    room_for(None)
    assert raised.value.filename == str(path)
    (note,) = raised.value.__notes__
    assert f"the quarantine file '{path}' can't be written" in note and "then next() gives that step" in note
    assert path.stat().st_size == 90
    assert [*it] == [2, 2, 4, 4, 5]
    poisoned, again, *rest = path.read_text().splitlines()
    assert (len(poisoned), len(again)) == (50, 39)
    assert [json.loads(line)["index"] for line in rest] == [1, 3]


def test_a_quarantine_may_be_no_file_on_a_disk():
    """A device or a pipe has no end that could be torn; where it is full, the error names it."""
    assert list(loader_of(4, bad_at(1), quarantine="/dev/null")) == [0, 2, 2, 3]
    with pytest.raises(OSError, match="/dev/full"):
        list(loader_of(4, bad_at(1), quarantine="/dev/full"))


def test_a_quarantine_that_never_can_be_written_is_found_at_once(tmp_path):
    """Not at the first bad record, hours later: a folder, and a place where this process may write nothing."""
    with pytest.raises(ValueError, match=f"quarantine: .* got the folder '{tmp_path}'"):
        loader_of(4, quarantine=tmp_path)
    user = os.geteuid()
    if user == 0:  # who may write everywhere
        os.seteuid(65534)
    try:
        for path, where in ("/loaderkit-bad.jsonl", "/"), ("/etc/passwd", "/etc/passwd"):
            with pytest.raises(ValueError, match=f"quarantine: .* may not read and write '{where}'"):
                loader_of(4, quarantine=path)
    finally:
        os.seteuid(user)


def test_what_is_lost_behind_the_last_row_of_a_filled_batch_is_in_its_state():
    """Batches that a Batch dropped end nothing else: a record that was lost in one is told with the padded batch."""
    operations = [
        bad_at(16),
        lk.Filter(lambda row: row >= 0),
        lk.Batch(4, remainder="drop"),
        lk.Batch(3, remainder="pad"),
    ]
    loader = loader_of(17, *operations, sampler=lk.SequentialSampler(17))
    it, again = iter(loader), iter(loader)
    counts = []
    for _ in range(2):
        next(it)
        again.set_state(it.get_state())
        counts.append((it.bad_records, again.bad_records))
    assert counts == [(0, 0), (1, 1)]
    assert next(it, None) is None
    assert (it.bad_records, next(again, None), again.bad_records) == (1, None, 1)


LAPS = [
    (policy, num_steps, running)
    for policy in ("replace", "skip")
    for num_steps in (None, 11)
    for running in ({"task_rows": 7}, {"task_rows": 64}, {}, THREADS)
]


@pytest.mark.parametrize(("policy", "num_steps", "running"), LAPS)
def test_where_streams_begin_again_losses_are_those_of_the_rows_handed_out(policy, num_steps, running):
    """The same states for any cut, workers and restore; with num_steps each time that a record is skipped counts."""

    def states(state: bytes | None = None, **options: Any) -> list[bytes]:
        batch = lk.Batch(5, remainder="wrap")
        loader = loader_of(
            20,
            bad_at(3, 11, 18, 19),
            lk.Filter(lambda row: row % 5),
            batch,
            lk.FlatMap(lambda rows: [rows, rows]),
            sampler=lk.SequentialSampler(20),
            on_record_error=policy,
            num_steps=num_steps,
            max_bad_records=None if num_steps else 4,
            **options,
        )
        with loader:
            it = iter(loader)
            if state is not None:
                it.set_state(state)
            return [it.get_state(), *(it.get_state() for _ in it)]

    plain = states(task_rows=1)
    assert states(**running) == plain
    for step in range(0, len(plain), 3):
        assert states(plain[step], **running) == plain[step:]
    lost = json.loads(plain[-1])["bad_records"]
    if policy == "replace":
        assert [index for index, _ in lost["ledger"]] == [3, 11, 18, 19]
    else:
        assert lost["skipped"] == {"0": 4 if num_steps is None else 8}


def test_a_share_holds_where_a_stream_begins_again():
    """What was lost before doesn't become a greater share when the stream is at its first records again."""
    bad = bad_at(*range(0, 3000, 100))
    operations = [bad, lk.Filter(lambda row: True), lk.Batch(100, remainder="wrap")]
    it = iter(loader_of(3000, *operations, num_steps=65, max_bad_records=0.02))
    assert sum(len(batch) for batch in it) == 6500
    assert it.bad_records == 30
    skipping = loader_of(3000, *operations, num_steps=65, max_bad_records=0.02, on_record_error="skip")
    with pytest.raises(
        ValueError, match=r"max_bad_records: expected a count .*num_steps.*got the share 0\.02"
    ):
        iter(skipping)
