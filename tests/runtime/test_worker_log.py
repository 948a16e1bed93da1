"""What the log and the errors say of lost workers: the worker, why, its records, and what becomes of them."""

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._engine.stall_watch import Stall
from loaderkit._engine.supervisor import GiveUp, Progress, StallWarning, WorkerLost, WorkerSnapshot
from loaderkit._engine.task import MakeBatch, ReadStream
from loaderkit._runtime.executors.worker_log import RecordNames, WorkerLog, error_of

NAME = "worker process 9"


def task(number, level=0, rows=2):
    """Indices 2n and 2n + 1, with record keys a hundred higher."""
    indices = np.arange(rows) + 2 * number
    if level:
        return MakeBatch(number, level, indices, (), (int(indices[0]),))
    return ReadStream(number, indices, indices + 100)


def said(caplog):
    """The one message in the log."""
    (record,) = caplog.records
    return record.getMessage()


def lost(snapshot, *, fenced=False, late=False, retry=True):
    return WorkerLost(9, fenced, "exit code 3", snapshot, snapshot.begun, retry, late)


def test_a_death_names_what_is_done_again_and_where_the_worker_was(caplog):
    snapshot = WorkerSnapshot([task(3), task(4)], Progress(task=3))
    WorkerLog(RecordNames(None)).loss(NAME, lost(snapshot))
    assert said(caplog) == (
        f"{NAME} died with exit code 3; indices 6 to 9, 2 tasks, are done again; "
        "it was at one of the indices 6..7 (record keys 106, 107)"
    )


def test_hired_and_replaced_workers_are_told_once_each(caplog):
    """A worker takes the place of one loss; after a dismissal there is no place to take."""
    caplog.set_level("INFO", "loaderkit")
    log, snapshot = WorkerLog(RecordNames(None)), WorkerSnapshot([], Progress())
    log.hired("worker process 9", 0)
    log.loss("worker process 9", lost(snapshot))
    log.hired("worker process 11", 1)
    log.hired("worker process 12", 2)
    log.loss("worker process 12", lost(snapshot))
    log.dismissed()
    log.hired("worker process 13", 3)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "worker process 9 was hired; it is number 0"),
        ("WARNING", "worker process 9 died with exit code 3; it had nothing to do"),
        ("INFO", "worker process 11 was hired in place of worker process 9; it is number 1"),
        ("INFO", "worker process 12 was hired; it is number 2"),
        ("WARNING", "worker process 12 died with exit code 3; it had nothing to do"),
        ("INFO", "worker process 13 was hired; it is number 3"),
    ]


def test_workers_of_a_loader_are_logged(caplog):
    caplog.set_level("INFO", "loaderkit")
    with iter(lk.load(range(8), worker_count=2, worker_kind="thread")) as it:
        next(it)
    hired = [
        record.getMessage() for record in caplog.records if " was hired; it is number " in record.getMessage()
    ]
    assert len(hired) == 2 and all(line.startswith("worker thread ") for line in hired)


@pytest.mark.parametrize(
    ("progress", "end"),
    [
        (Progress(task=3, index=7), "it was at index 7 (record_key 107 'cat.jpg')"),
        (
            Progress(task=3, index=7, instead=(12, 112)),
            "it was at index 12 (record_key 112), read instead of index 7 (record_key 107 'cat.jpg'), which is bad",
        ),
        (Progress(), "indices 6 to 7, 1 task, are done again; it was in none of them"),
        (Progress(task=5, index=11), "it was in none of them"),  # of a task that it had before
    ],
)
def test_a_record_is_named_where_it_is_known(progress, end, caplog):
    snapshot = WorkerSnapshot([task(3)], progress)
    WorkerLog(RecordNames({107: "cat.jpg"}.get)).loss(NAME, lost(snapshot))
    assert said(caplog).endswith(end)


def test_many_record_keys_are_cut(caplog):
    snapshot = WorkerSnapshot([task(0, rows=9), task(7)], Progress(task=0))
    WorkerLog(RecordNames(None)).loss(NAME, lost(snapshot, late=True, retry=False))
    assert said(caplog) == (
        f"{NAME} was killed with exit code 3; indices 14 to 15, 1 task, are done again; "
        "it was at one of the indices 0..8 "
        "(record keys 100, 101, 102, 103, 104, 105, 106, 107, …)"
    )


def test_a_fenced_worker_is_said_to_write_yet(caplog):
    """The word alone would say nothing to a person who reads the log."""
    WorkerLog(RecordNames(None)).loss(NAME, lost(WorkerSnapshot([], Progress()), fenced=True, late=True))
    assert said(caplog) == (
        f"{NAME} was fenced with exit code 3; it can't be ended, is left to itself and may still write, "
        "so its memory is set apart; it had nothing to do"
    )


@pytest.mark.parametrize(
    ("ready", "progress", "too_long", "where"),
    [
        (True, Progress(task=3), True, ", and takes too long; it is at one of the indices 6..7"),
        (True, Progress(), False, "; it has 1 task, and has begun none; the kernel says S"),
        (False, Progress(), False, "; it isn't ready yet; the kernel says S"),
    ],
)
def test_a_stall_says_for_how_long_and_where(ready, progress, too_long, where, caplog):
    stall = Stall(9, 61.5, too_long, progress)
    warning = StallWarning(stall, ready, WorkerSnapshot([task(3)], progress))
    WorkerLog(RecordNames(None)).stall(NAME, warning, "the kernel says S", "in f")
    assert said(caplog).startswith(f"{NAME} made no progress for 61.5 s{where}")
    assert said(caplog).endswith("; the kernel says S; its Python stack:\nin f")


def test_why_no_more_workers_are_started():
    """Each cause is an error of its own, with the last worker's reason."""
    error = error_of(GiveUp("failed starts", 5, "exit code 3"), NAME)
    assert "5 workers in a row died before they were ready, the last with exit code 3; " in str(error)
    assert "Their limits are this process's: " in str(error)
    error = error_of(GiveUp("fruitless", 12, "exit code 5"), NAME)
    assert type(error) is lk.WorkerError
    assert "12 workers in a row died and nothing was done meanwhile, the last with exit code 5; " in str(
        error
    )
    error = error_of(GiveUp("late start", 1, "no sign of life for 60 s (the kernel says S)"), NAME)
    assert isinstance(error, lk.errors.WorkerTimeoutError)
    assert str(error) == f"{NAME} didn't get ready: no sign of life for 60 s (the kernel says S)"
