"""Handles bad records: those on which the read, or an operation before the first Batch or Window, raises an error.

All records of a task are read and transformed together as long as none is bad. From the first bad one on they are
processed one by one and read again, because operations may have changed those after it. All that was made of a bad
record before the error, such as the first children of a FlatMap, is dropped.

Some errors don't come from a record and are always raised: out of memory or descriptors, or a replaced file, which
would make every record bad, and what isn't an Exception (Ctrl-C, sys.exit), which asks the program to end.
"""

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from loaderkit._base.notes import text_of
from loaderkit._engine.task import ReadStream, ReadTask
from loaderkit._order.facts import Failure, Loss
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.rng import generator
from loaderkit._runtime.transport.exceptions import shortened
from loaderkit.errors import BadRecordsError, ChecksumError, FileChangedError
from loaderkit.transforms.base import MapWithIndex, draws
from loaderkit.transforms.pipeline import Pipeline
from loaderkit.transforms.run import ElementRun

from .reading import RecordReader

if TYPE_CHECKING:
    from .program import Program

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
        program: has the policy.
        search: gives the candidates to read instead of a bad record.

    losses: those of what was made since the list was emptied.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        reader: RecordReader,
        program: "Program",
        search: _Search,
    ) -> None:
        self._level = pipeline.runners[0]
        self._reader = reader
        self._policy = program.on_record_error
        self._search = search
        self._seed, self._row_changing = program.seed, program.row_changing
        # Whether an operation that fails on a record fails on it for every row.
        self._same_for_all = not any(
            draws(op) or isinstance(op, MapWithIndex) for op in pipeline.before_first_batch
        )
        self._bad: set[int] = set()  # record keys known to be bad, which aren't tried as candidates
        self.losses: list[Loss] = []

    def make(
        self,
        task: ReadTask,
        lo: int,
        hi: int,
        on_record_start: OnRecordStart | None,
        read: ElementRun | None = None,
    ) -> ElementRun:
        """The elements of the records lo..hi of a task, or those before a failure, with the failure.

        Args:
            task: what is read.
            lo, hi: places in its indices.
            on_record_start: called right before each record is read; None reads all records together.
            read: these records, if they are read already.
        """
        start = task.start if isinstance(task, ReadStream) else ()
        number, bad = lo, None
        if on_record_start is None:
            keys, indices = task.keys[lo:hi], task.indices[lo:hi]
            if read is None:
                read = self._reader.read(task.id, keys, indices)
            run, number = self._level.work(read, start), hi
            if self._bad and run.failure is read.failure:
                self._bad.difference_update(keys[: len(read.values)].tolist())
            if run.failure is not None and self._policy != "raise":
                bad, whole = run, len(run.values)
                number = lo + whole
                if self._row_changing:  # the run may also have children of the bad record
                    index = run.failure.indices[0]
                    whole = sum(begin[0] < index for begin in run.begins)
                    number = lo + int(np.searchsorted(indices, index))
                run = run.part(0, whole)
        else:
            run = ElementRun([], [], [] if self._row_changing else None)
        while number < hi and run.failure is None:
            index, key = int(task.indices[number]), int(task.keys[number])
            made = bad or self._one(task, index, key, on_record_start)
            if made.failure is not None and self._policy != "raise":
                made, bad = self._handled(task, number, index, key, made.failure, on_record_start), None
            run.add(made)
            number += 1
        failure = run.failure
        run = self._level.finished(run, start)
        if run.failure is not None and run.failure is not failure:
            first = run.failure.indices[0]
            self.losses[:] = [loss for loss in self.losses if loss.index < first]
        return run

    def _one(
        self,
        task: ReadTask,
        index: int,
        key: int,
        on_record_start: OnRecordStart | None,
        *,
        instead: int | None = None,
    ) -> ElementRun:
        """The elements of one record in the row of `index`: of its own record, or of that of the index `instead`."""
        if on_record_start is not None:
            on_record_start(index, None if instead is None else (instead, key))
        read = self._reader.read(task.id, np.array([key], np.int64), np.array([index], np.int64))
        run = self._level.work(read, task.start if isinstance(task, ReadStream) else ())
        if run.failure is None:
            self._bad.discard(key)
        elif len(self._bad) < _MOST_KNOWN and _of_a_record(run.failure):
            self._bad |= {key} if self._same_for_all or not read.values else set()
        return run

    def _handled(
        self,
        task: ReadTask,
        number: int,
        index: int,
        key: int,
        failure: Failure,
        on_record_start: OnRecordStart | None,
    ) -> ElementRun:
        """The elements in place of a bad record, or none and the failure to raise."""
        instead, run = index, ElementRun([], [], [])
        if not _of_a_record(failure):
            return run.then(failure)
        if self._policy == "replace":
            run, instead = self._replaced(task, index, failure, on_record_start)
        elif callable(self._policy):
            run = self._from_user(index, key, failure)
        if run.failure is None:
            error = failure.error
            why = shortened(f"{type(error).__qualname__}: {text_of(error)}", _MOST_TEXT)
            shown, name = self._reader.shown_key(key), self._reader.name(key)
            self.losses.append(Loss(number, index, shown, instead, failure.label, why, name))
        return run

    def _replaced(
        self, task: ReadTask, index: int, failure: Failure, on_record_start: OnRecordStart | None
    ) -> tuple[ElementRun, int]:
        """The elements instead, and the index of the record that they are of."""
        tried = 0
        while True:
            indices, keys = self._search(index, tried)
            if not len(indices):
                break
            for candidate, key in zip(indices.tolist(), keys.tolist(), strict=True):
                tried += 1
                if key in self._bad:
                    continue
                run = self._one(task, index, key, on_record_start, instead=candidate)
                if run.failure is None:
                    return run, candidate
                if not _of_a_record(run.failure):
                    return ElementRun([], [], [], run.failure), candidate
        error = BadRecordsError(
            f"index {index} can't be replaced: its own record and the {tried:,} tried instead are bad"
        )
        error.__cause__ = failure.error
        return ElementRun([], [], [], Failure(error, failure.label, failure.indices)), index

    def _from_user(self, index: int, key: int, failure: Failure) -> ElementRun:
        assert callable(self._policy)
        rng = None if self._seed is None else generator(self._seed, 0, index, 0)
        shown = self._reader.shown_key(key)
        try:
            element = self._policy(failure.error, RecordMetadata(index, shown, rng, self._reader.name(key)))
        except Exception as error:  # noqa: BLE001 - the user's function raises to make the loader raise
            label = failure.label if error is failure.error else "on_record_error"
            return ElementRun([], [], [], Failure(error, label, (index,)))
        return ElementRun([element], [(index,)], [(index + 1,)])


def _of_a_record(failure: Failure) -> bool:
    # A source that miscounts fails for all indices.
    return len(failure.indices) == 1 and not is_of_all(failure.error)


def is_of_all(error: Exception) -> bool:
    """Whether an error is of the machine or of a whole file, so that no record is left out for it.

    Args:
        error: which reading a record, or a function on it, raised.

    >>> (
    ...     is_of_all(FileChangedError("a.tar")),
    ...     is_of_all(OSError(errno.ENFILE, "")),
    ...     is_of_all(OSError(errno.EIO, "")),
    ... )
    (True, True, False)
    """
    # The slot and not `error.errno`, which may be a property of a user's class.
    number = _number_of(error) if issubclass(type(error), OSError) else None
    return isinstance(error, MemoryError | FileChangedError | ChecksumError) or (
        type(number) is int and number in _OF_THE_MACHINE
    )
