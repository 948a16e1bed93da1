"""Rows of bad records: a record whose read, or an operation before the first Batch on it, raises is bad as a whole.

All records of a task are read and worked on at once, as long as none is bad. From the first bad one on it goes record
by record, each read anew: an operation may have written into those that had come further. What was made of a bad
record before an operation failed, such as the first children of a FlatMap, is dropped with it.

Some errors are no record's: a want of memory or of descriptors, or a file that was replaced, would make every record
bad in turn, and what isn't an Exception (Ctrl-C, sys.exit) is a wish to end. They are raised, whatever the policy says.
"""

import errno
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from loaderkit._base.notes import text_of
from loaderkit._engine.task import Task
from loaderkit._order.failure import Failure
from loaderkit._order.loss import Loss
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.rng import generator
from loaderkit._runtime.transport.exceptions import shortened
from loaderkit.errors import BadRecordsError, FileChangedError
from loaderkit.transforms.base import MapWithIndex, draws
from loaderkit.transforms.pipeline import Pipeline
from loaderkit.transforms.run import ElementRun

from .reading import RecordReader

NO_RECORD = -1  # announced where it is several
OnRecordError = str | Callable[[Exception, RecordMetadata], Any]
_Search = Callable[
    [int, int], tuple[np.ndarray, np.ndarray]
]  # index, how many were tried -> indices, record keys

_OF_THE_MACHINE = {errno.ENOMEM, errno.EMFILE, errno.ENFILE}
_number_of: Any = OSError.__dict__["errno"].__get__
_MOST_SAID = 2_000  # characters of an error in the log and the quarantine file
_MOST_KNOWN = 100_000  # bad record keys; beyond that they are found anew


class OnRecordStart(Protocol):
    """Takes the index of the record that is worked on next; `instead`: index and key of what is read in its place."""

    def __call__(self, index: int, instead: tuple[int, int] | None = None) -> None: ...


class BadRecordHandler:
    """Makes the elements before the first Batch, with what a policy puts in the place of bad records.

    Args:
        pipeline: its first level is run.
        reader: of the source.
        policy: "replace", "skip" or a function of the user's.
        search: says what to read instead.
        seed: the sampler's, for the function's metadata.
        row_changing: whether cursors have to be kept.
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
        self._bad: set[int] = set()  # record keys that needn't be tried instead of others
        self._losses: list[Loss] = []

    def take_losses(self) -> tuple[Loss, ...]:
        """Those since the last call."""
        losses, self._losses = tuple(self._losses), []
        return losses

    def make(
        self, task: Task, lo: int, hi: int, on_record_start: OnRecordStart | None
    ) -> tuple[ElementRun, Failure | None]:
        """The elements of the records lo..hi of a task; a failure comes with those before it.

        Args:
            task: of level 0.
            lo, hi: places in its indices.
            on_record_start: told each record right before it is read; None reads all at once.
        """
        run, failure = self._whole(task, lo, hi, on_record_start)
        run, earlier = self._level.marked(run)
        if earlier is None:
            return run, failure
        index = earlier.indices[0]
        self._losses = [loss for loss in self._losses if loss.index < index]
        return run, earlier

    def _whole(
        self, task: Task, lo: int, hi: int, on_record_start: OnRecordStart | None
    ) -> tuple[ElementRun, Failure | None]:
        run, place, failure = ElementRun([], [], [] if self._row_changing else None), lo, None
        if on_record_start is None:
            run, place, failure = self._at_once(task, lo, hi)
        while place < hi:
            index, key = int(task.indices[place]), int(task.keys[place])
            made, bad = (
                (run, failure) if failure is not None else self._one(task, index, key, on_record_start)
            )
            if bad is not None:
                made, failure = self._mended(task, place, index, key, bad, on_record_start)
                if failure is not None:
                    return run, failure
            run.add(made)
            place += 1
        return run, None

    def _at_once(self, task: Task, lo: int, hi: int) -> tuple[ElementRun, int, Failure | None]:
        """What was made, the place of the first bad record, and why it is."""
        keys, indices = task.keys[lo:hi], task.indices[lo:hi]
        records, unread = self._reader.read(task.id, keys, indices)
        read = len(records)
        run, failure = self._level.work(self._run_of(records, indices[:read].tolist()), task.start)
        if failure is None:
            if self._bad:
                self._bad.difference_update(keys[:read].tolist())
            return run, lo + read, unread
        index = failure.indices[0]
        if not self._row_changing:
            return run, lo + len(run.values), failure
        # Also children of the bad record may have come through.
        whole = sum(begin[0] < index for begin in run.begins)
        return run.head(whole), lo + int(np.searchsorted(indices, index)), failure

    def _run_of(self, records: list[Any], indices: list[int]) -> ElementRun:
        ends = [(index + 1,) for index in indices] if self._row_changing else None
        return ElementRun(records, [(index,) for index in indices], ends)

    def _one(
        self,
        task: Task,
        index: int,
        key: int,
        on_record_start: OnRecordStart | None,
        *,
        instead: int | None = None,
    ) -> tuple[ElementRun, Failure | None]:
        """What comes of one record in the row of an index: of its own, or of that of the index `instead`."""
        where = np.array([index], np.int64), np.array([key], np.int64)
        if on_record_start is not None:
            on_record_start(index, None if instead is None else (instead, key))
        records, failure = self._reader.read(task.id, where[1], where[0])
        run = self._run_of(records, [index] * len(records))
        if failure is None:
            run, failure = self._level.work(run, task.start)
        if failure is None:
            self._bad.discard(key)
        elif _of_a_record(failure) and len(self._bad) < _MOST_KNOWN and (not records or self._same_for_all):
            self._bad.add(key)
        return run, failure

    def _mended(
        self,
        task: Task,
        place: int,
        index: int,
        key: int,
        failure: Failure,
        on_record_start: OnRecordStart | None,
    ) -> tuple[ElementRun, Failure | None]:
        """What comes in the place of a bad record, or the failure that is raised after all."""
        if not _of_a_record(failure):
            return ElementRun([], [], None), failure
        instead, again = index, None
        run = self._run_of([], [])
        if self._policy == "replace":
            run, instead, again = self._replaced(task, index, failure, on_record_start)
        elif callable(self._policy):
            run, again = self._asked(index, key, failure)
        if again is None:
            why = _text_of(failure.error)
            self._losses.append(Loss(place, index, key, instead, failure.label, why, self._reader.name(key)))
        return run, again

    def _replaced(
        self, task: Task, index: int, failure: Failure, on_record_start: OnRecordStart | None
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

    def _asked(self, index: int, key: int, failure: Failure) -> tuple[ElementRun, Failure | None]:
        assert callable(self._policy)
        rng = None if self._seed is None else generator(self._seed, 0, index, 0)
        try:
            element = self._policy(failure.error, RecordMetadata(index, key, rng, self._reader.name(key)))
        except Exception as error:  # noqa: BLE001 - raising is how it says that the loader should
            label = failure.label if error is failure.error else "on_record_error"
            return ElementRun([], [], None), Failure(error, label, (index,))
        return self._run_of([element], [index]), None


def _of_a_record(failure: Failure) -> bool:
    error = failure.error
    # Not `error.errno`: a user's class may give anything for it.
    number = _number_of(error) if issubclass(type(error), OSError) else None
    of_all = isinstance(error, MemoryError | FileChangedError) or (
        type(number) is int and number in _OF_THE_MACHINE
    )
    return len(failure.indices) == 1 and not of_all  # a source that miscounts names them all


def _text_of(error: Exception) -> str:
    return shortened(f"{type(error).__qualname__}: {text_of(error)}", _MOST_SAID)
