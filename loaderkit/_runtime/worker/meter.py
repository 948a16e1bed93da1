"""The meter of one worker: counters that only grow, in memory that the trainer can read at any time.

The cells of a worker process are the rest of the page of its heartbeat: no message and no lock is needed, they can be
read in the middle of a task that is stuck, and after the worker died. A worker in a thread, and the trainer's own
thread, have an array. There is one writer. It makes the sequence odd while it changes the phase, and the reader tries
again where it is odd or has changed.

The clock is read for each task, each stage of a piece, and each read; never for a record.
"""

import time
from array import array
from collections.abc import Sequence
from typing import Any

from loaderkit._stats.counters import PHASES, STARTING, WORKING, OperationCounters, WorkerCounters

_SEQUENCE, _PHASE, _SINCE = range(3)
_SUMS = 3  # a cell for each phase
_CPU = _SUMS + len(PHASES)
_TASKS, _RECORDS, _ROWS, _NBYTES = range(_CPU + 1, _CPU + 5)
_READ, _READ_CALLS, _THREADS_READ, _THREADS_READ_CALLS, _RETRIES, _BATCH = range(_NBYTES + 1, _NBYTES + 7)
_OPERATIONS = _BATCH + 1  # three for each
_MOST_OPERATIONS = 128  # those behind it are summed in the last
# The fields of WorkerCounters in the cells from `_CPU` on.
_NAMES = (
    *("cpu", "tasks", "records", "rows", "nbytes"),
    *("read", "read_calls", "threads_read", "threads_read_calls", "retries", "batch"),
)
CELLS = _OPERATIONS + 3 * _MOST_OPERATIONS
# A writer that was stopped in the middle of a change leaves the sequence odd: what is there is taken then.
_TRIES = 1_000


class Meter:
    """The worker's side.

    Args:
        cells: `CELLS` int64 of zeros; an array of this process if not given.

    >>> meter = Meter()
    >>> before = meter.enter(1)
    >>> meter.task_done(5, 3, 3, 24)
    >>> meter.spent(7, 1, 0, [], [])
    >>> counters(meter.cells, 0, "thread", ()).records
    3
    """

    __slots__ = ("_phase", "_sequence", "_since", "cells")

    def __init__(self, cells: Any = None) -> None:
        self.cells: Any = array("q", bytes(8 * CELLS)) if cells is None else cells
        self._phase, self._sequence = STARTING, 0
        self._since = time.perf_counter_ns()
        self.cells[_SINCE] = self._since

    def enter(self, phase: int) -> int:
        """Ends the present phase and begins another; returns the one that ended."""
        cells, before = self.cells, self._phase
        now = time.perf_counter_ns()
        self._sequence |= 1  # odd already where an interrupt fell between `task_done` and `spent`
        cells[_SEQUENCE] = self._sequence
        cells[_SUMS + before] += now - self._since
        cells[_PHASE] = self._phase = phase
        cells[_SINCE] = self._since = now
        self._sequence += 1
        cells[_SEQUENCE] = self._sequence
        return before

    @property
    def phase(self) -> int:
        """The present phase."""
        return self._phase

    def task_done(self, cpu: int, records: int, rows: int, nbytes: int) -> None:
        """Counts a task; `spent` must follow. cpu: nanoseconds of its thread."""
        cells = self.cells
        self._sequence |= 1  # `spent` makes it even again: a reader sees all of a task, or none of it
        cells[_SEQUENCE] = self._sequence
        cells[_CPU] += cpu
        cells[_TASKS] += 1
        cells[_RECORDS] += records
        cells[_ROWS] += rows
        cells[_NBYTES] += nbytes

    def spent(
        self,
        read: int,
        read_calls: int,
        written: int,
        batched: Sequence[Sequence[int]],
        operations: Sequence[Sequence[int]],
    ) -> None:
        """Sets what tasks took so far, each figure in all.

        read, read_calls: nanoseconds and calls. written, batched: nanoseconds in which batches were written and made.
        operations: for each nanoseconds, elements in and out.
        """
        cells = self.cells
        cells[_READ], cells[_READ_CALLS] = read, read_calls
        for (nanoseconds,) in batched:
            written += nanoseconds
        cells[_BATCH] = written
        at = _OPERATIONS
        for spent, taken, given in operations[:_MOST_OPERATIONS]:
            cells[at], cells[at + 1], cells[at + 2] = spent, taken, given
            at += 3
        self._sequence = (self._sequence | 1) + 1
        cells[_SEQUENCE] = self._sequence

    def read_aside(self, nanoseconds: int, calls: int, retries: int) -> None:
        """Sets what reading threads took so far, and how many reads were tried again."""
        cells = self.cells
        cells[_THREADS_READ], cells[_THREADS_READ_CALLS], cells[_RETRIES] = nanoseconds, calls, retries


def counters(
    cells: Any,
    number: int,
    kind: str,
    names: Sequence[str],
    task: int | None = None,
    memory: int | None = None,
    delayed: int | None = None,
) -> WorkerCounters:
    """What a worker's cells say now; any thread and the trainer's process may ask.

    Args:
        cells: of its meter.
        number, kind, task, memory, delayed: as in `WorkerCounters`.
        names: of the operations.
    """
    shown = min(len(names), _MOST_OPERATIONS)
    seen, now = _read(cells, _OPERATIONS + 3 * shown)
    sums = seen[_SUMS:_CPU]
    phase = min(max(seen[_PHASE], 0), len(PHASES) - 1)
    present = max(0, now - seen[_SINCE]) if seen[_SINCE] else 0
    sums[phase] += present
    flat = seen[_OPERATIONS:]
    operations = tuple(
        OperationCounters(name, *flat[3 * place : 3 * place + 3]) for place, name in enumerate(names[:shown])
    )
    named = dict(zip(_NAMES, seen[_CPU:_OPERATIONS], strict=True))
    starting, working, telling, starving, waiting = sums
    return WorkerCounters(
        number,
        kind,
        PHASES[phase],
        task,
        starting,
        working,
        telling,
        starving,
        waiting,
        unfinished=present if phase == WORKING else 0,
        operations=operations,
        delayed=delayed,
        memory=memory,
        **named,
    )


def _read(cells: Any, count: int) -> tuple[list[int], int]:
    """The first cells, as they were at one time, and that time."""
    tries = 0
    while True:
        sequence = cells[_SEQUENCE]
        seen, now = list(cells[:count]), time.perf_counter_ns()
        tries += 1
        if (not sequence & 1 and cells[_SEQUENCE] == sequence) or tries == _TRIES:
            return seen, now
