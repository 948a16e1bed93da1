"""The meter of one worker: counters that only grow, in memory that the trainer can read at any time.

The cells of a worker process are the rest of the page of its heartbeat: no message and no lock is needed, they can be
read in the middle of a task that is stuck, and after the worker died. A worker in a thread, and the trainer's own
thread, write none: the trainer reads their objects.

There are two groups of cells: the phases, and what finished tasks did. Each begins and ends with a number that grows
with each change. A group is written from its begin to its end by one call; the reader reads the last number first and
tries again where the first is another one.

The clock is read twice a task here, and once for each stage of a piece and each read; never for a record.
"""

import struct
import time
from collections.abc import Sequence
from operator import sub
from typing import Any

from loaderkit._engine.stats.counters import (
    PHASES,
    STARTING,
    WAITING,
    WORKING,
    OperationCounters,
    TaskTrace,
    WorkerCounters,
)

# The first number of the group of tasks; the group of phases; the rest of the group of tasks, with its last number
# behind the operations.
_TASKS_CHANGE, _PHASES_CHANGE, _PHASE, _SINCE = range(4)
_SUMS = 4  # a cell for each phase
_PHASES_CHANGED = _SUMS + len(PHASES)
_CPU = _PHASES_CHANGED + 1
_ACCOUNTED, _TASKS, _RECORDS, _ROWS, _NBYTES = range(_CPU + 1, _CPU + 6)
_READ = _NBYTES + 1
_COUNTED = _READ - _CPU  # those that grow by what each task says
_MOST_OPERATIONS = 128  # those behind it aren't counted
# The fields of WorkerCounters in the cells from `_TASKS` on; those of the phases have their names.
_NAMES = (
    *("tasks", "records", "rows", "nbytes", "read", "read_calls"),
    *("threads_read", "threads_read_calls", "tokens", "places", "retries", "batch"),
)
_OPERATIONS = _TASKS + len(_NAMES)  # three for each
# Where the figures of a TaskTrace are among those of tasks.
_TRACED = tuple(cell - _CPU for cell in (_RECORDS, _ROWS, _READ, _OPERATIONS - 1))
CELLS = _OPERATIONS + 3 * _MOST_OPERATIONS + 1
_PHASES_CELLS = struct.Struct(f"={_CPU - _PHASES_CHANGE}q")
_CELL = 8  # bytes
# A writer that was killed in the middle of a change leaves a group as it is: what is there is taken then.
_TRIES = 1_000


class Meter:
    """The worker's side.

    Args:
        shared: `CELLS` int64 of zeros, of a page that another process reads; None for a worker of this process.

    phase: the present one. worked: nanoseconds in tasks, up to the present phase.
    operations: of each operation but Batches the nanoseconds, elements in and out, in lists that others add to; set
    once. aside: nanoseconds and number of reading threads' reads, tokens and places that were packed, and
    reads that were tried again; set before `task_done`.
    traced: finished tasks that weren't taken yet; None where no timeline is recorded.

    >>> meter = Meter()
    >>> begun = meter.enter(1)
    >>> ended = meter.task_done(2, cpu=5, made=(3, 3, 24), read=(7, 1), batch=0)
    >>> counters(meter.cells, 0, "thread", ()).records, meter.worked == ended - begun
    (3, True)
    """

    __slots__ = (
        "_change",
        "_done",
        "_format",
        "_now",
        "_shared",
        "_traced_until",
        "aside",
        "operations",
        "traced",
    )

    def __init__(self, shared: Any = None) -> None:
        # As in the cells: the present phase, when it began, the sums; what tasks did. Each is replaced whole, so that
        # Ctrl-C and other threads find it whole.
        self._now = [STARTING, time.perf_counter_ns(), *(0 for _ in PHASES)]
        self._done = [0] * (_OPERATIONS - _CPU)
        self._shared, self._change = shared, 0
        self._format: struct.Struct | None = None  # of the group of tasks, with the phases in its middle
        self.aside = (0, 0, 0, 0, 0)
        self.operations: Sequence[Sequence[int]] = ()
        self.traced: list[TaskTrace] | None = None
        self._traced_until = self._done
        self._tell()

    def enter(self, phase: int) -> int:
        """Ends the present phase and begins another; returns when that was, by perf_counter_ns."""
        now = time.perf_counter_ns()
        new = self._now.copy()
        new[_SUMS - _PHASE + new[0]] += now - new[1]
        new[0], new[1] = phase, now
        self._now = new
        if self._shared is not None:
            self._tell()
        return now

    def _tell(self) -> None:
        """Writes the group of phases."""
        if self._shared is not None:
            self._change = change = self._change + 1
            _PHASES_CELLS.pack_into(self._shared, _CELL * _PHASES_CHANGE, change, *self._now, change)

    @property
    def phase(self) -> int:
        return self._now[0]

    @property
    def worked(self) -> int:
        return self._now[_SUMS - _PHASE + WORKING]

    @property
    def elsewhere(self) -> int:
        """Nanoseconds in operations, and in waits for memory or answers.

        With those of reads, they are what of a task isn't the making of batches. One difference a task takes fewer
        clock reads than stamps around each batch, of which a task may make hundreds.
        """
        taken = self._now[_SUMS - _PHASE + WAITING]
        for each in self.operations:
            taken += each[0]
        return taken

    def task_done(
        self, phase: int, *, cpu: int, made: tuple[int, int, int], read: tuple[int, int], batch: int
    ) -> int:
        """Ends a task and begins another phase, as one change; returns when that was, by perf_counter_ns.

        Args:
            phase: that begins.
            cpu: nanoseconds of the thread in the task.
            made: the records, rows and bytes of the task.
            read, batch: nanoseconds of reads and their number, nanoseconds in which batches were made; in all so far.
        """
        now = time.perf_counter_ns()
        new = self._now.copy()
        new[_SUMS - _PHASE + new[0]] += now - new[1]
        new[0], new[1] = phase, now
        records, rows, nbytes = made
        done = self._done[:_COUNTED]
        done[0] += cpu
        done[1] = new[_SUMS - _PHASE + WORKING]
        done[2] += 1
        done[3] += records
        done[4] += rows
        done[5] += nbytes
        done += read
        done += self.aside
        done.append(batch)
        for each in self.operations:
            done += each
        self._now, self._done = new, done
        if self._shared is not None:
            self._tell_all()
        return now

    def trace(self, on: bool) -> None:
        """From the next task on, each is kept in `traced`, or none any more."""
        self._traced_until = self._done
        self.traced = [] if on else None

    def keep_trace(self, task: int, begun: int, ended: int) -> None:
        """Keeps what `task_done` has counted of a task; begun, ended: by perf_counter_ns."""
        if (traced := self.traced) is None:
            return
        done, last = self._done, self._traced_until
        self._traced_until = done
        if len(last) < len(done):  # it was made before the first task, when the operations weren't known
            last = last + [0] * (len(done) - len(last))
        records, rows, read, batch = (done[place] - last[place] for place in _TRACED)
        operations = tuple(map(sub, done[_OPERATIONS - _CPU :: 3], last[_OPERATIONS - _CPU :: 3]))
        traced.append(TaskTrace(task, begun, ended, records, rows, read, batch, operations))

    def take_traced(self) -> list[TaskTrace]:
        """The tasks that were kept and not taken."""
        taken, self.traced = self.traced or [], None if self.traced is None else []
        return taken

    def _tell_all(self) -> None:
        """Writes both groups."""
        done = self._done[: CELLS - 1 - _CPU]
        if self._format is None:
            self._format = struct.Struct(f"={_CPU + len(done) + 1}q")
        self._change = change = self._change + 1
        self._format.pack_into(self._shared, 0, change, change, *self._now, change, *done, change)

    @property
    def cells(self) -> Any:
        """The cells: the shared ones, or of a worker of this process a list of what they are, open phase included."""
        if self._shared is not None:
            return self._shared
        at = time.perf_counter_ns()  # first: the present phase may end while this thread doesn't run
        now, done = self._now.copy(), self._done
        now[_SUMS - _PHASE + now[0]] += max(0, at - now[1])
        now[1] = 0
        return [0, 0, *now, 0, *done, *(0 for _ in range(CELLS - _CPU - len(done)))]


def counters(cells: Any, number: int, kind: str, names: Sequence[str]) -> WorkerCounters:
    """What a worker's cells say now, without its task, memory and delays; any thread and the trainer's process may ask.

    Args:
        cells: of its meter.
        number, kind: as in `WorkerCounters`.
        names: of the operations.
    """
    shown = min(len(names), _MOST_OPERATIONS)
    seen, now = _read(cells, _OPERATIONS + 3 * shown)
    sums = seen[_SUMS:_PHASES_CHANGED]
    phase = min(max(seen[_PHASE], 0), len(PHASES) - 1)
    sums[phase] += max(0, now - seen[_SINCE]) if seen[_SINCE] else 0
    flat = seen[_OPERATIONS:]
    operations = tuple(
        OperationCounters(name, *flat[3 * place : 3 * place + 3]) for place, name in enumerate(names[:shown])
    )
    named = dict(zip((*PHASES, *_NAMES), sums + seen[_TASKS:_OPERATIONS], strict=True))
    return WorkerCounters(
        number,
        kind,
        PHASES[phase],
        unfinished=max(0, sums[WORKING] - seen[_ACCOUNTED]),
        cpu=seen[_CPU],
        operations=operations,
        **named,
    )


def _read(cells: Any, last: int) -> tuple[list[int], int]:
    """The cells before the last number of the tasks' group, as they were at one time, and that time."""
    tries = 0
    while True:
        changed = cells[last], cells[_PHASES_CHANGED]
        now, seen = time.perf_counter_ns(), list(cells[:last])
        tries += 1
        if changed == (cells[_TASKS_CHANGE], cells[_PHASES_CHANGE]) or tries == _TRIES:
            return seen, now


def stopped(cells: Any) -> list[int]:
    """The cells as they are now, with the open phase up to now and no longer open: for a reader with another clock."""
    seen, now, tries = list(cells), time.perf_counter_ns(), 0
    while seen != (again := list(cells)) and tries < _TRIES:
        seen, now, tries = again, time.perf_counter_ns(), tries + 1
    if seen[_SINCE]:
        seen[_SUMS + seen[_PHASE]] += max(0, now - seen[_SINCE])
        seen[_SINCE] = 0
    return seen
