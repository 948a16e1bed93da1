"""A task that is not finished, and what is known of the workers that were lost at it.

The first attempt is as fast as can be; of a worker that is lost there only the task is known. From then on the task is
a *suspect*: it is assigned alone, and done record by record, so the next worker that is lost names the record. Losses
in a row at the same record are counted, the first one, at no record, with them; `max_restarts` are forgiven. A task at
which workers are lost at ever other records is given up too, after some times as many.

A task that is given up isn't thrown away: where the record is known, those before it are done once more, without it,
and the error follows them.
"""

from collections.abc import Hashable

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.facts import Failure
from loaderkit.errors import WorkerError, WorkerTimeoutError

from .task import MakeBatch, ReadRows, ReadStream, ReadTask, Target, Task, TaskResult, failed, with_failure

# Times `max_restarts`: so many losses at ever other records are too many. More forgives more kills from outside; fewer
# finds sooner a record that kills some time after it was read.
_WITHOUT_A_PATTERN = 4
_NAMED = 8  # record keys that an error names


@dataclass(slots=True)
class InFlightTask:
    """A task that is queued or with a worker. Its reserve is where the output goes, also a requested one.

    attempt        its number; what is reported of an earlier one is ignored
    suspect        a worker was lost at it
    losses_in_row  workers lost in a row at the same record
    all_losses     workers lost at it in all
    lost_at        the index of the record at which the last one was lost, None where that isn't known
    instead        index and record key of what was read there instead of a bad record, None where it was its own
    records_left   how many of its first records are still done; `error` follows them
    remote_losses  workers elsewhere lost while they had it
    local          only a worker of this machine is given it
    nbytes_elsewhere   bytes of its slots that a worker elsewhere is to write
    """

    stream: Hashable
    task: Task
    attempt: int = 0
    suspect: bool = False
    losses_in_row: int = 0
    all_losses: int = 0
    lost_at: int | None = None
    instead: tuple[int, int] | None = None
    records_left: int | None = None
    error: WorkerError | None = None
    remote_losses: int = 0
    local: bool = False
    nbytes_elsewhere: int = 0

    def lose_elsewhere(self, *, at_work: bool) -> None:
        """A worker elsewhere was lost that had it: nothing is held against it, but it must not lose them all.

        at_work: whether it was, or may have been, what that worker was doing.
        """
        self.remote_losses += 1
        self.local = self.local or at_work or self.remote_losses > 1

    @property
    def stays_here(self) -> bool:
        """Whether only a worker of this machine can do it: outputs that a batch is made of lie here."""
        return self.local or self.suspect or isinstance(self.task, MakeBatch)

    def lose(
        self,
        reason: str,
        at: int | None,
        instead: tuple[int, int] | None = None,
        *,
        max_restarts: int,
        retry: bool,
        late: bool,
    ) -> bool:
        """A worker was lost at this task. Whether it is to be done again, perhaps without some records.

        Args:
            reason: what is known of the cause.
            at: the index of the record that the worker had, if it was working record by record.
            instead: index and record key of what it read in the row of that one, which is bad.
            max_restarts: losses at the same record that are no error yet.
            retry: whether the task may be done again at all.
            late: whether the worker was ended because it took too long.
        """
        at, instead = (at, instead) if self.suspect else (None, None)
        same = self.lost_at is None or (at, instead) == (self.lost_at, self.instead)
        self.losses_in_row = self.losses_in_row + 1 if same else 1
        self.all_losses += 1
        self.lost_at, self.instead = at, instead
        self.suspect = True
        most = _WITHOUT_A_PATTERN * max(max_restarts, 1)
        if retry and self.losses_in_row <= max_restarts and self.all_losses <= most:
            return True
        self.error = _error_of(self, reason, WorkerTimeoutError if late else WorkerError)
        self.records_left = 0
        if retry and not isinstance(self.task, MakeBatch):
            self.records_left = len(before(self.task, self.lost_at)[0].indices)
        self.losses_in_row = self.all_losses = 0
        self.lost_at = self.instead = None
        return self.records_left > 0

    def to_do(self) -> Task:
        """What a worker is to do now."""
        if self.records_left is None or isinstance(self.task, MakeBatch):
            return self.task
        return _first(self.task, self.records_left)[0]

    def completed(self, result: TaskResult) -> TaskResult:
        """The result of the records that were left, with the error after them."""
        assert self.error is not None
        if result.failure is not None:
            return result
        failed_target = 0
        if isinstance(self.task, ReadRows):
            failed_target = _first(self.task, self.records_left or 0)[1]
        return with_failure(result, Failure(self.error, indices=self.error.indices), failed_target)

    def given_up(self) -> TaskResult:
        """The result where no record is left to be done: the error alone."""
        assert self.error is not None
        return failed(self.task, Failure(self.error, indices=self.error.indices))


def before(task: ReadTask, index: int | None) -> tuple[ReadTask, int]:
    """What can be done of a task without the record of an index and those after it, perhaps nothing.

    Returned with the number of the target that the error belongs to. Without an index nothing can be done.
    """
    return _first(task, 0 if index is None else record_number(task, index))


def record_number(task: Task, index: int) -> int:
    """The number of an index among those of a task. They needn't ascend: a stream may begin again in a task."""
    return int(np.flatnonzero(task.indices == index)[0])


def _first(task: ReadTask, records: int) -> tuple[ReadTask, int]:
    """A task cut to what so many records are enough for, and how many of its targets are whole."""
    if isinstance(task, ReadStream):
        return task._replace(indices=task.indices[:records], keys=task.keys[:records]), 0
    targets, whole, records = _enough_for(task, records)
    return task._replace(indices=task.indices[:records], keys=task.keys[:records], targets=targets), whole


def _enough_for(task: ReadRows, records: int) -> tuple[tuple[Target, ...], int, int]:
    """The targets that so many records are enough for, how many of them are the task's whole, and their records.

    The last one may be a part of an in-flight step: the batches of it that the records are enough for.
    """
    group = -(-len(task.indices) // sum(target.rows for target in task.targets))
    targets: list[Target] = []
    used = 0
    for target in task.targets:
        size = min(target.rows * group, len(task.indices) - used)
        if used + size > records:
            rows = (records - used) // group // target.batch * target.batch if target.whole else 0
            part = (target._replace(rows=rows),) if rows else ()
            return (*targets, *part), len(targets), used + rows * group
        targets.append(target)
        used += size
    return tuple(targets), len(targets), used


def _error_of(in_flight: InFlightTask, reason: str, kind: type[WorkerError]) -> WorkerError:
    task, losses = in_flight.task, in_flight.all_losses
    indices: list[int] = task.indices.tolist()
    keys: list[int] = [] if isinstance(task, MakeBatch) else task.keys.tolist()
    if in_flight.lost_at is not None and keys:
        number = indices.index(in_flight.lost_at)
        indices, keys = indices[number : number + 1], keys[number : number + 1]
    several = len(indices) > 1
    what = "no record"
    if indices:
        what = f"indices {indices[0]}..{indices[-1]}" if several else f"index {indices[0]}"
    if keys:
        shown = ", ".join(map(str, keys[:_NAMED])) + (", …" if len(keys) > _NAMED else "")
        what += f" (record keys {shown})" if several else f" (record_key {shown})"
    if in_flight.instead is not None:
        index, key = in_flight.instead
        keys = [key]
        what = f"index {index} (record_key {key}), read instead of {what}, which is bad"
    lost = f"{losses} workers were lost at the same work, the last" if losses > 1 else "a worker was lost"
    advice = (
        "Read the record alone in a process of its own, source[record_key], and apply the operations to it."
    )
    if several and kind is WorkerTimeoutError:
        advice = 'Which of them it was at is found by on_worker_timeout="restart".'
    error = kind(f"{lost} with {reason} at {what}. {advice}")
    error.indices, error.record_keys = tuple(indices), tuple(keys)
    return error
