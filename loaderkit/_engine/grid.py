"""Batches whose rows have a place before they are read: any worker writes any rows, in place.

A *step* goes through these states, and a batch is handed out in the order of the steps:

    open      some rows were not given to anybody yet
    filling   all rows are given away, some are not done
    finishing a task looks at all rows: gathers what was not written in place, runs what needs the whole batch
    settled   an outcome: a batch, or the error of its first failing row

Rows are given away in ascending order, so when a row fails every earlier row was given away before it: once nothing
of a step is out, the lowest failure is the step's first one, whoever worked on what. A failure ends the stream, so
nothing is begun behind the earliest failing step.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import numpy as np

from .assembly import AHEAD_NBYTES, Reserve, Supplies
from .task import Broken, End, Layout, Outcome, Part, Ready, Report, Slot, Span, Target, Task


class Rows(Protocol):
    """The rows of one step as the plan gives them; `group` consecutive indices make a row."""

    @property
    def indices(self) -> np.ndarray:
        """(rows * group,) int64, the last row's part may be short."""
        ...

    @property
    def keys(self) -> np.ndarray:
        """The record keys of the indices."""
        ...

    @property
    def rows(self) -> int:
        """How many rows."""
        ...


@dataclass(frozen=True, slots=True)
class _NoRows:
    indices: np.ndarray
    keys: np.ndarray
    rows: int


_NO_ROWS = _NoRows(np.empty(0, np.int64), np.empty(0, np.int64), 0)


class Feed(Protocol):
    """The plan, step by step."""

    def next(self) -> Rows | None:
        """The rows of the next step, None behind the last."""
        ...


@dataclass(slots=True)
class _Step:
    rows: Rows
    slot: Slot | None
    layout: Layout | None
    given: int = 0  # rows given away
    out: int = 0  # tasks out for it
    spans: dict[int, Span] = field(default_factory=dict)  # first row -> where those rows are
    failed: tuple[int, object] | None = None  # (row, error): the lowest so far
    outcome: Ready | Broken | None = None

    @property
    def filled(self) -> bool:
        return sum(span.hi - span.lo for span in self.spans.values()) == self.rows.rows


class Grid:
    """The assembly of a fixed, batched pipeline.

    Args:
        feed: the rows of each step from the start on.
        supplies: what the loader's assemblies share.
        level: the last Batch's level.
        group: records of one row.
        finish: whether every batch needs a finishing look (a batch_fn, operations behind the last Batch).
        in_place: whether rows may be written to slots at all (there is no batch_fn).
        prefetch: batches to make ahead of the one handed out last.
    """

    def __init__(
        self,
        feed: Feed,
        supplies: Supplies,
        *,
        level: int,
        group: int,
        finish: bool,
        in_place: bool,
        prefetch: int,
    ) -> None:
        self._feed = feed
        self._supplies = supplies
        self._level, self._group, self._finish = level, group, finish
        self._slots = supplies.slots if in_place else None
        self._prefetch = prefetch
        self._reserve = Reserve(supplies)
        self._layout: Layout | None = None
        self._steps: deque[_Step] = deque()  # not handed out yet, in order
        self._to_give: deque[_Step] = deque()  # those of them that are open, in order
        self._to_finish: deque[_Step] = deque()
        self._work: dict[int, list[_Step]] = {}  # task id -> the step of each of its targets
        self._over = False
        self._failed = False

    def next_task(self) -> Task | None:
        if self._to_finish:
            return self._finish_task()
        if self._failed or not (self._to_give or self._open()):
            return None
        first = self._to_give[0]
        batch = first.rows.rows
        rows = self._supplies.pace.rows(batch)
        if first.given or rows < 2 * batch:
            parts = -(-batch // min(rows, batch))
            return self._rows_task([first], min(batch, first.given + -(-batch // parts)))
        count = rows // batch
        while len(self._to_give) < count and self._open():
            continue
        return self._rows_task(list(islice(self._to_give, count)), batch)

    def _open(self) -> bool:
        if self._over or len(self._steps) >= self._window():
            return False
        try:
            rows = self._feed.next()
        except Exception as error:  # noqa: BLE001 - a user's sampler may raise anything
            self._over = True
            self._steps.append(_Step(_NO_ROWS, None, None, outcome=Broken(error)))
            return False
        if rows is None:
            self._over = True
            return False
        step = _Step(rows, None, self._layout)
        self._steps.append(step)
        self._to_give.append(step)
        return True

    def _window(self) -> int:
        pace = self._supplies.pace
        batch = self._steps[0].rows.rows if self._steps else 1
        ahead = pace.rows_ahead(batch)
        if self._layout is not None:
            affordable = AHEAD_NBYTES * batch // max(self._layout.nbytes(batch), 1)
            ahead = min(ahead, max(affordable, pace.least_ahead(batch)))
        return max(self._prefetch, 1, -(-ahead // batch))

    def _rows_task(self, steps: list[_Step], hi: int) -> Task:
        """Rows of the first step up to `hi`, and the whole of those behind it. MemoryError changes nothing."""
        lo = steps[0].given
        if lo == 0:
            steps = self._with_slots(steps, whole=hi == steps[0].rows.rows)
        rows = hi - lo + sum(step.rows.rows for step in steps[1:])
        try:
            reserve = None if all(step.slot for step in steps) else self._reserve.slot(rows)
        except MemoryError:
            for step in steps if lo == 0 else ():
                self._free(step)
            raise
        targets = tuple(self._target(step, hi if step is steps[0] else step.rows.rows) for step in steps)
        places = [
            slice(target.first * self._group, (target.first + target.rows) * self._group)
            for target in targets
        ]
        task = Task(
            id=self._supplies.new_id(),
            level=0,
            indices=_join([step.rows.indices[place] for step, place in zip(steps, places, strict=True)]),
            keys=_join([step.rows.keys[place] for step, place in zip(steps, places, strict=True)]),
            targets=targets,
            reserve=reserve,
        )
        while self._to_give and self._to_give[0].given == self._to_give[0].rows.rows:
            self._to_give.popleft()
        self._work[task.id] = steps
        return task

    def _with_slots(self, steps: list[_Step], *, whole: bool) -> list[_Step]:
        """Room for batches that are begun; as many of them as there is memory for."""
        # A task that makes the whole batch and finishes it at once leaves nothing in place.
        if self._slots is None or (whole and self._finish):
            return steps
        for place, step in enumerate(steps):
            if step.layout is None:
                continue
            try:
                step.slot = self._slots.alloc(step.layout.nbytes(step.rows.rows))
            except MemoryError:
                if place == 0:
                    raise
                return steps[:place]
        return steps

    def _target(self, step: _Step, hi: int) -> Target:
        lo, rows = step.given, step.rows.rows
        step.given = hi
        step.out += 1
        return Target(hi - lo, rows, lo, step.slot, hi - lo == rows, step.layout if step.slot else None)

    def _finish_task(self) -> Task:
        step = self._to_finish[0]
        indices = step.rows.indices[:: self._group]
        reserve = self._reserve.slot(step.rows.rows)
        self._to_finish.popleft()
        task = Task(
            id=self._supplies.new_id(),
            level=self._level,
            indices=indices,
            keys=np.empty(0, np.int64),
            inputs=tuple(step.spans[first] for first in sorted(step.spans)),
            begin=(int(indices[0]),),
            reserve=reserve,
        )
        step.out += 1
        self._work[task.id] = [step]
        return task

    def done(self, task: Task, report: Report) -> int:
        steps = self._work.pop(task.id)
        if report.layout is not None:
            self._layout = report.layout
        if report.nbytes:
            self._reserve.saw(len(task.indices[:: 1 if task.level else self._group]), report.nbytes)
        if task.level:
            return self._finished(task, steps[0], report)
        rows = sum(target.rows for target in task.targets)
        self._supplies.pace.saw(rows=rows, seconds=report.seconds)
        uses = 0
        for place, (step, target) in enumerate(zip(steps, task.targets, strict=True)):
            step.out -= 1
            if report.trouble is not None and place >= report.trouble.part:
                self._fail(step, target.first, report.trouble.error)
            else:
                uses += self._filled(task, step, place, target, report.parts[place])
            self._settle(step)
        return uses

    def _filled(self, task: Task, step: _Step, place: int, target: Target, part: Part) -> int:
        if target.whole:
            if part.in_place:
                step.outcome = Ready(rows=target.batch, slot=step.slot, layout=step.layout)
                step.slot = None
                return 0
            self._free(step)
            step.outcome = Ready(task=task.id, part=place)
            return 1
        lo, hi = target.first, target.first + target.rows
        if part.in_place:
            step.spans[lo] = Span(-1, 0, lo, hi, target.slot, target.batch, target.layout)
            return 0
        step.spans[lo] = Span(task.id, place, 0, target.rows)
        return 1

    def _finished(self, task: Task, step: _Step, report: Report) -> int:
        step.out -= 1
        for span in task.inputs:
            if span.slot is None:
                self._supplies.outputs.drop(span.task)
        step.spans.clear()
        self._free(step)
        if report.trouble is not None:
            self._fail(step, 0, report.trouble.error)
            self._settle(step)
            return 0
        step.outcome = Ready(task=task.id)
        return 1

    def _fail(self, step: _Step, row: int, error: object) -> None:
        if step.failed is None or row < step.failed[0]:
            step.failed = (row, error)
        self._over = self._failed = True

    def _settle(self, step: _Step) -> None:
        if step.outcome is not None or step.out:
            return
        if step.failed is not None:
            step.outcome = Broken(step.failed[1])
        elif step.filled:
            if self._finish or any(span.slot is None for span in step.spans.values()):
                self._to_finish.append(step)
            else:
                step.outcome = Ready(rows=step.rows.rows, slot=step.slot, layout=step.layout)
                step.slot = None

    def _free(self, step: _Step) -> None:
        if step.slot is not None and self._slots is not None:
            self._slots.free(step.slot)
            step.slot = None

    def pop(self) -> Outcome | None:
        if not self._steps:
            return End() if self._over else None
        outcome = self._steps[0].outcome
        if isinstance(outcome, Ready):
            self._steps.popleft()
        return outcome

    def taken(self, task: int) -> None:
        self._supplies.outputs.drop(task)

    def owned(self) -> tuple[list[Slot], list[int]]:
        slots, outputs = [], []
        for step in self._steps:
            if step.slot is not None:
                slots.append(step.slot)
            outputs += [span.task for span in step.spans.values() if span.slot is None]
            if isinstance(step.outcome, Ready):
                if step.outcome.slot is not None:
                    slots.append(step.outcome.slot)
                else:
                    outputs.append(step.outcome.task)
        return slots, outputs


def _join(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
