"""A task that is not over, and what is known of the workers that were lost at it.

The first attempt is as fast as can be; of a worker that is lost there only the task is known. From then on the task is
a *suspect*: it is given out alone, and record by record, so the next worker that is lost names the record. Losses in a
row at the same record are counted, the first one, at no record, with them; `max_restarts` are forgiven. A task at which
workers are lost at ever other records is given up too, after some times as many.

A task that is given up isn't thrown away: where the record is known, those before it are done once more, without it,
and the error takes its place behind them.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from loaderkit._order.failure import Failure
from loaderkit.errors import WorkerError, WorkerTimeoutError

from .task import Report, Target, Task

_WITHOUT_A_PATTERN = 4  # times as many losses, at ever other records, are too many as well
_NAMED = 8  # record keys that an error names


@dataclass(slots=True)
class InFlightTask:
    """A task to do, or out with a worker. Its reserve is where the output goes, also what was asked for.

    attempt    counts them; what is said of an earlier one is ignored
    suspect    a worker was lost at it
    losses     in a row at the same place; all: in all
    at         the index of the record at which the last one was lost, None where that isn't known
    instead    index and record key of what was read there instead of a bad record, None where it was its own
    cut        records that are still done; behind them comes `error`
    """

    stream: Hashable
    task: Task
    attempt: int = 0
    suspect: bool = False
    losses: int = 0
    all: int = 0
    at: int | None = None
    instead: tuple[int, int] | None = None
    cut: int | None = None
    error: WorkerError | None = None

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
            reason: what is known of why.
            at: the index of the record that it had, if it was doing record by record.
            instead: index and record key of what it read in the row of that one, which is bad.
            max_restarts: losses at the same place that are no error yet.
            retry: whether it may be done again at all.
            late: whether it was lost because it took too long.
        """
        at, instead = (at, instead) if self.suspect else (None, None)
        same = self.at is None or (at, instead) == (self.at, self.instead)
        self.losses = self.losses + 1 if same else 1
        self.all += 1
        self.at, self.instead = at, instead
        self.suspect = True
        if retry and self.losses <= max_restarts and self.all <= _WITHOUT_A_PATTERN * max(max_restarts, 1):
            return True
        self.error = _error_of(self, reason, WorkerTimeoutError if late else WorkerError)
        self.cut = len(before(self.task, self.at)[0].indices) if retry else 0
        self.losses = self.all = 0
        self.at = self.instead = None
        return bool(self.cut)

    def to_do(self) -> Task:
        """What a worker is to do now."""
        return self.task if self.cut is None else _first(self.task, self.cut)[0]

    def completed(self, report: Report) -> Report:
        """What a worker says, with the error behind the records that were left."""
        if self.error is None or report.failure is not None:
            return report
        failure = Failure(self.error, indices=self.error.indices)
        return replace(report, failure=failure, failed_part=_first(self.task, self.cut or 0)[1])


def before(task: Task, index: int | None) -> tuple[Task, int]:
    """What can be done of a task without the record of an index and those behind it, perhaps nothing.

    With it comes the part of its report where the error belongs. Without an index nothing can be done.
    """
    return _first(task, 0 if index is None or task.level else place_of(task, index))


def place_of(task: Task, index: int) -> int:
    """Where the record of an index is in a task. They needn't ascend: a stream may begin again in a task."""
    return int(np.flatnonzero(task.indices == index)[0])


def _first(task: Task, records: int) -> tuple[Task, int]:
    """A task cut to what so many records are enough for, and how many of its targets are whole."""
    targets, whole, records = _enough_for(task, records) if task.targets else ((), 0, records)
    return replace(task, indices=task.indices[:records], keys=task.keys[:records], targets=targets), whole


def _enough_for(task: Task, records: int) -> tuple[tuple[Target, ...], int, int]:
    """The targets that so many records are enough for, how many of them are the task's whole, and their records.

    The last one may be a part of an in-flight step: the batches of it that are.
    """
    group = -(-len(task.indices) // sum(target.rows for target in task.targets))
    targets: list[Target] = []
    taken = 0
    for target in task.targets:
        size = min(target.rows * group, len(task.indices) - taken)
        if taken + size > records:
            rows = (records - taken) // group // target.batch * target.batch if target.whole else 0
            part = (replace(target, rows=rows),) if rows else ()
            return (*targets, *part), len(targets), taken + rows * group
        targets.append(target)
        taken += size
    return tuple(targets), len(targets), taken


def _error_of(out: InFlightTask, reason: str, kind: type[WorkerError]) -> WorkerError:
    task, losses = out.task, out.all
    indices, keys = task.indices.tolist(), task.keys.tolist()
    if out.at is not None and not task.level:
        place = indices.index(out.at)
        indices, keys = indices[place : place + 1], keys[place : place + 1]
    several = len(indices) > 1
    what = "no record"
    if indices:
        what = f"indices {indices[0]}..{indices[-1]}" if several else f"index {indices[0]}"
    if keys:
        shown = ", ".join(map(str, keys[:_NAMED])) + (", …" if len(keys) > _NAMED else "")
        what += f" (record keys {shown})" if several else f" (record_key {shown})"
    if out.instead is not None:
        index, key = out.instead
        keys = [key]
        what = f"index {index} (record_key {key}), read instead of {what}, which is bad"
    who = f"{losses} workers were lost at the same work, the last" if losses > 1 else "a worker was lost"
    advice = (
        "Read the record alone in a process of its own, source[record_key], and apply the operations to it."
    )
    if several and kind is WorkerTimeoutError:
        advice = 'Which of them it was at is found by on_worker_timeout="restart".'
    error = kind(f"{who} with {reason} at {what}. {advice}")
    error.indices, error.record_keys = tuple(indices), tuple(keys)
    return error
