"""Handles bad records: those on which the read, or an operation before the first Batch or Window, raises an error.

All records of a task are read and transformed together as long as none is bad. From the first bad one on they are
processed one by one and read again, because operations may have changed those after it. All that was made of a bad
record before the error, such as the first children of a FlatMap, is dropped.

Some errors don't come from a record and are always raised: out of memory or descriptors, or a replaced file, which
would make every record bad, and what isn't an Exception (Ctrl-C, sys.exit), which asks the program to end.
"""

import errno
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from loaderkit._base.notes import text_of
from loaderkit._engine.task import ReadStream, ReadTask
from loaderkit._order.facts import Cursor, Failure, Loss
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.rng import generator
from loaderkit._runtime.transport.exceptions import shortened
from loaderkit.errors import BadRecordsError, ChecksumError, FileChangedError
from loaderkit.transforms.base import MapWithIndex, draws
from loaderkit.transforms.pipeline import Pipeline
from loaderkit.transforms.run import ElementRun

from .reading import RecordReader

NO_RECORD = -1  # passed to OnRecordStart for work on more than one record
OnRecordError = str | Callable[[Exception, RecordMetadata], Any]
# (lost index, number of candidates tried) -> (indices, record keys) of the next candidates
_Search = Callable[[int, int], tuple[np.ndarray, np.ndarray]]

_OF_THE_MACHINE = {errno.ENOMEM, errno.EMFILE, errno.ENFILE}
_number_of: Any = OSError.__dict__["errno"].__get__
_MOST_TEXT = 2_000  # characters of an error in the log and the quarantine file
_MOST_KNOWN = 100_000  # remembered bad record keys, a bound on memory; others are read again as candidates


class OnRecordStart(Protocol):
    """Is called with the index of the next record. instead: index and key of the record that is read in its place."""

    def __call__(self, index: int, instead: tuple[int, int] | None = None) -> None: ...


class BadRecordHandler:
    """Makes the elements before the first Batch or Window; replaces or leaves out bad records according to a policy.

    Args:
        pipeline: of which the first level is run.
        reader: of the source.
        policy: "replace", "skip" or a function of the user's.
        search: gives the candidates to read instead of a bad record.
        seed: the sampler's, for the metadata that the function gets.
        row_changing: whether the run keeps the ends of its elements.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        reader: RecordReader,
        policy: OnRecordError,
        search: _Search,
        *,
        seed: int | None,
        row_changing: bool,
    ) -> None:
        self._level = pipeline.levels[0]
        self._reader = reader
        self._policy = policy
        self._search = search
        self._seed = seed
        self._row_changing = row_changing
        # Whether an operation that fails on a record fails on it for every row.
        self._same_for_all = not any(
            draws(op) or isinstance(op, MapWithIndex) for op in pipeline.before_first_batch
        )
        self._bad: set[int] = set()  # record keys known to be bad, which aren't tried as candidates
        self._losses: list[Loss] = []

    def take_losses(self) -> tuple[Loss, ...]:
        """The losses since the last call."""
        losses, self._losses = tuple(self._losses), []
        return losses

    def make(
        self, task: ReadTask, lo: int, hi: int, on_record_start: OnRecordStart | None
    ) -> tuple[ElementRun, Failure | None]:
        """The elements of the records lo..hi of a task, or those before a failure, and the failure.

        Args:
            task: what is read.
            lo, hi: places in its indices.
            on_record_start: called right before each record is read; None reads all records together.
        """
        run, failure = self._whole(task, lo, hi, on_record_start)
        run, earlier = self._level.finished(run, failure, _start_of(task))
        if earlier is failure:
            return run, failure
        assert earlier is not None
        index = earlier.indices[0]
        self._losses = [loss for loss in self._losses if loss.index < index]
        return run, earlier

    def _whole(
        self, task: ReadTask, lo: int, hi: int, on_record_start: OnRecordStart | None
    ) -> tuple[ElementRun, Failure | None]:
        run, number, failure = ElementRun([], [], [] if self._row_changing else None), lo, None
        if on_record_start is None:
            run, number, failure = self._at_once(task, lo, hi)
        while number < hi:
            index, key = int(task.indices[number]), int(task.keys[number])
            made, bad = (
                (run, failure) if failure is not None else self._one(task, index, key, on_record_start)
            )
            if bad is not None:
                made, failure = self._handled(task, number, index, key, bad, on_record_start)
                if failure is not None:
                    return run, failure
            run.add(made)
            number += 1
        return run, None

    def _at_once(self, task: ReadTask, lo: int, hi: int) -> tuple[ElementRun, int, Failure | None]:
        """The elements before the first bad record, its number, and its failure; (all, hi, None) if none is bad."""
        keys, indices = task.keys[lo:hi], task.indices[lo:hi]
        records, unread = self._reader.read(task.id, keys, indices)
        read = len(records)
        run, failure = self._level.work(self._run_of(records, indices[:read].tolist()), _start_of(task))
        if failure is None:
            if self._bad:
                self._bad.difference_update(keys[:read].tolist())
            return run, lo + read, unread
        index = failure.indices[0]
        if not self._row_changing:
            return run, lo + len(run.values), failure
        # The run may also have children of the bad record.
        whole = sum(begin[0] < index for begin in run.begins)
        return run.head(whole), lo + int(np.searchsorted(indices, index)), failure

    def _run_of(self, records: list[Any], indices: list[int]) -> ElementRun:
        ends = [(index + 1,) for index in indices] if self._row_changing else None
        return ElementRun(records, [(index,) for index in indices], ends)

    def _one(
        self,
        task: ReadTask,
        index: int,
        key: int,
        on_record_start: OnRecordStart | None,
        *,
        instead: int | None = None,
    ) -> tuple[ElementRun, Failure | None]:
        """The elements of one record in the row of `index`: of its own record, or of that of the index `instead`."""
        where = np.array([index], np.int64), np.array([key], np.int64)
        if on_record_start is not None:
            on_record_start(index, None if instead is None else (instead, key))
        records, failure = self._reader.read(task.id, where[1], where[0])
        run = self._run_of(records, [index] * len(records))
        if failure is None:
            run, failure = self._level.work(run, _start_of(task))
        if failure is None:
            self._bad.discard(key)
        elif _of_a_record(failure) and len(self._bad) < _MOST_KNOWN and (not records or self._same_for_all):
            self._bad.add(key)
        return run, failure

    def _handled(
        self,
        task: ReadTask,
        number: int,
        index: int,
        key: int,
        failure: Failure,
        on_record_start: OnRecordStart | None,
    ) -> tuple[ElementRun, Failure | None]:
        """The elements in place of a bad record, or the failure to raise."""
        if not _of_a_record(failure):
            return ElementRun([], [], None), failure
        instead, again = index, None
        run = self._run_of([], [])
        if self._policy == "replace":
            run, instead, again = self._replaced(task, index, failure, on_record_start)
        elif callable(self._policy):
            run, again = self._from_user(index, key, failure)
        if again is None:
            why = _text_of(failure.error)
            self._losses.append(Loss(number, index, key, instead, failure.label, why, self._reader.name(key)))
        return run, again

    def _replaced(
        self, task: ReadTask, index: int, failure: Failure, on_record_start: OnRecordStart | None
    ) -> tuple[ElementRun, int, Failure | None]:
        tried = 0
        while True:
            indices, keys = self._search(index, tried)
            if not len(indices):
                break
            for candidate, key in zip(indices.tolist(), keys.tolist(), strict=True):
                tried += 1
                if key in self._bad:
                    continue
                run, still = self._one(task, index, key, on_record_start, instead=candidate)
                if still is None:
                    return run, candidate, None
                if not _of_a_record(still):
                    return run, candidate, still
        error = BadRecordsError(
            f"index {index} can't be replaced: its own record and the {tried:,} tried instead are bad"
        )
        error.__cause__ = failure.error
        return ElementRun([], [], None), index, Failure(error, failure.label, failure.indices)

    def _from_user(self, index: int, key: int, failure: Failure) -> tuple[ElementRun, Failure | None]:
        assert callable(self._policy)
        rng = None if self._seed is None else generator(self._seed, 0, index, 0)
        try:
            element = self._policy(failure.error, RecordMetadata(index, key, rng, self._reader.name(key)))
        except Exception as error:  # noqa: BLE001 - the user's function raises to make the loader raise
            label = failure.label if error is failure.error else "on_record_error"
            return ElementRun([], [], None), Failure(error, label, (index,))
        return self._run_of([element], [index]), None


def _start_of(task: ReadTask) -> Cursor:
    return task.start if isinstance(task, ReadStream) else ()


def _of_a_record(failure: Failure) -> bool:
    error = failure.error
    # The slot and not `error.errno`, which may be a property of a user's class.
    number = _number_of(error) if issubclass(type(error), OSError) else None
    of_all = isinstance(error, MemoryError | FileChangedError | ChecksumError) or (
        type(number) is int and number in _OF_THE_MACHINE
    )
    return len(failure.indices) == 1 and not of_all  # a source that miscounts has a failure of all indices


def _text_of(error: Exception) -> str:
    return shortened(f"{type(error).__qualname__}: {text_of(error)}", _MOST_TEXT)
