"""Batches whose rows have a place before they are read: any worker writes any rows, in place.

An in-flight step is one step of the plan, or where no batch is written in place several steps that one task makes. It
goes through these states, and batches are handed out in its order:

    open      some rows are not assigned yet
    filling   all rows are assigned, some are not done
    finishing a task looks at all rows: gathers what was not written in place, runs what needs the whole batch
    settled   an outcome: its batches, or the error of its first failing row; where both, in two in-flight steps

Rows are assigned in ascending order, so when a row fails every earlier row was assigned before it: once nothing
of a step is out, the lowest failure is the step's first one, whoever worked on what. A failure ends the stream, so
nothing is begun behind the earliest failing step.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import attrgetter
from typing import Protocol

import numpy as np

from loaderkit._order.facts import Facts
from loaderkit._order.failure import Failure
from loaderkit._order.fill import Fill
from loaderkit._order.loss import Loss

from .scheduler import AHEAD_NBYTES, Replacement, Reserve, SchedulerContext, no_replacement
from .task import End, Layout, Outcome, Ready, Report, Slot, Span, Target, Task, TaskPart


class StepRows(Protocol):
    """The rows of one or several steps as the plan gives them; `group` consecutive indices make a row."""

    @property
    def indices(self) -> np.ndarray:
        """(steps * rows * group,) int64, the last row's part may be short."""
        ...

    @property
    def keys(self) -> np.ndarray:
        """The record keys of the indices."""
        ...

    @property
    def rows(self) -> int:
        """How many rows each step has."""
        ...

    @property
    def steps(self) -> int:
        """How many steps."""
        ...

    @property
    def fill(self) -> Fill:
        """Where rows of zeros stand in a single step; if none is real, one is given to show what a row looks like."""
        ...


@dataclass(frozen=True, slots=True)
class _NoStepRows:
    indices: np.ndarray
    keys: np.ndarray
    rows: int
    steps: int
    fill: Fill = ()


_NO_ROWS = _NoStepRows(np.empty(0, np.int64), np.empty(0, np.int64), 0, 0)


class StepInput(Protocol):
    """The plan, step by step."""

    def next(self, most: int) -> StepRows | None:
        """The rows of the next step, or of up to `most` whole ones; None behind the last."""
        ...


@dataclass(slots=True, eq=False)
class InFlightStep:
    rows: StepRows
    slot: Slot | None = None
    layout: Layout | None = None
    assigned: int = 0  # rows that tasks were made of
    out: int = 0  # tasks out for it
    spans: dict[int, Span] = field(default_factory=dict)  # first row -> where those rows are
    failed: tuple[int, Failure] | None = None  # (row, failure): the lowest row so far
    outcome: Ready | Failure | None = None
    losses: dict[int, list[Loss]] = field(default_factory=dict)  # by step of the plan

    @property
    def total(self) -> int:
        return self.rows.rows * self.rows.steps

    @property
    def filled(self) -> bool:
        return sum(span.hi - span.lo for span in self.spans.values()) == self.total


_ANY = 1 << 62
_BULK = 8  # batches handed out in one go: more would make one next() in many a slow one


class RowScheduler:
    """The scheduler of a fixed, batched pipeline.

    Args:
        feed: the rows of each step from the start on.
        context: what the schedulers of one executor share.
        level: the last Batch's level.
        group: records of one row.
        finish: whether every batch needs a finishing look (a batch_fn, operations behind the last Batch).
        in_place: whether rows may be written to slots at all (there is no batch_fn).
        prefetch: batches to make ahead of the one handed out last.
        replacement: says what is read instead of a bad record.
    """

    def __init__(
        self,
        feed: StepInput,
        context: SchedulerContext,
        *,
        level: int,
        group: int,
        finish: bool,
        in_place: bool,
        prefetch: int,
        replacement: Replacement = no_replacement,
    ) -> None:
        self.replacement = replacement
        self._feed = feed
        self._context = context
        self._level, self._group, self._finish = level, group, finish
        self._slots = context.slots if in_place else None
        self._prefetch = prefetch
        self._reserve = Reserve(context)
        self._layout: Layout | None = None
        self._batch = 0  # rows of the step that was opened last
        self._ahead = 0  # steps that were opened and not handed out
        self._steps: deque[InFlightStep] = deque()  # not handed out yet, in order
        self._to_assign: deque[InFlightStep] = deque()  # those of them that are open, in order
        self._to_finish: deque[InFlightStep] = deque()
        self._work: dict[int, list[InFlightStep]] = {}  # task id -> the step of each of its targets
        self._enough = _ANY  # with so many ahead, nothing is opened
        self._most_at_once = 1  # batches to give in one go
        # Batches that were given in one go with the one before them: not counted as handed out yet.
        self._following = 0
        self._ended = False
        self._failed = False

    def next_task(self) -> Task | None:
        if self._to_finish:
            return self._finish_task()
        if self._failed or not (self._to_assign or self._open(self._at_once())):
            return None
        first = self._to_assign[0]
        batch = first.rows.rows
        rows = self._reserve.task_rows(batch)
        if first.rows.steps == 1 and (first.assigned or rows < 2 * batch):
            parts = -(-batch // min(rows, batch))
            return self._rows_task([first], min(batch, first.assigned + -(-batch // parts)))
        wanted = max(1, rows // batch)
        steps: list[InFlightStep] = []
        while wanted > 0 and (len(steps) < len(self._to_assign) or self._open(wanted)):
            steps.append(self._to_assign[len(steps)])
            wanted -= steps[-1].rows.steps
        return self._rows_task(steps, first.total)

    def _at_once(self) -> int:
        """Steps of the plan to open as one in-flight step: as many as make a task, where batches have no own slots."""
        if self._slots is not None or not self._batch:
            return 1
        return max(1, self._reserve.task_rows(self._batch) // self._batch)

    def _open(self, most: int) -> bool:
        if self._ended or self._ahead >= self._enough:
            return False
        window = self._window()
        self._most_at_once = self._most_in_bulk(window)
        # Once it is full, work is given out again when half of it was used: many tasks in a message, not one each time.
        full = self._ahead >= window
        self._enough = window - window // 2 + 1 if full else _ANY
        if full:
            return False
        try:
            rows = self._feed.next(1 if self._slots is not None else min(most, window - self._ahead))
        except Exception as error:  # noqa: BLE001 - a user's sampler may raise anything
            self._ended = True
            self._steps.append(InFlightStep(_NO_ROWS, outcome=Failure(error)))
            return False
        if rows is None:
            self._ended = True
            return False
        self._batch = rows.rows
        self._ahead += rows.steps
        step = InFlightStep(rows, layout=self._layout)
        self._steps.append(step)
        self._to_assign.append(step)
        return True

    def _most_in_bulk(self, window: int) -> int:
        if not self._context.bulk or self._layout is None:
            return 1
        return max(1, min(window // 2, _BULK, AHEAD_NBYTES // max(self._layout.nbytes(self._batch), 1)))

    def _window(self) -> int:
        pace = self._context.pace
        batch = self._steps[0].rows.rows if self._steps else max(self._batch, 1)
        ahead = pace.rows_ahead(batch)
        if self._layout is not None:
            affordable = AHEAD_NBYTES * batch // max(self._layout.nbytes(batch), 1)
            ahead = min(ahead, max(affordable, pace.least_ahead(self._reserve.task_rows(batch))))
        return max(self._prefetch, 1, -(-ahead // batch))

    def _rows_task(self, steps: list[InFlightStep], hi: int) -> Task:
        """Rows of the first step up to `hi`, and the whole of those behind it. MemoryError changes nothing."""
        lo = steps[0].assigned
        if lo == 0:
            steps = self._with_slots(steps, whole=hi == steps[0].total)
        rows = hi - lo + sum(step.total for step in steps[1:])
        try:
            reserve = None if all(step.slot for step in steps) else self._reserve.slot(rows)
        except MemoryError:
            for step in steps if lo == 0 else ():
                self._free(step)
            raise
        targets = tuple(self._target(step, hi if step is steps[0] else step.total) for step in steps)
        places = [
            slice(target.first * self._group, (target.first + target.rows) * self._group)
            for target in targets
        ]
        task = Task(
            id=self._context.new_id(),
            level=0,
            indices=_join([step.rows.indices[place] for step, place in zip(steps, places, strict=True)]),
            keys=_join([step.rows.keys[place] for step, place in zip(steps, places, strict=True)]),
            targets=targets,
            reserve=reserve,
        )
        while self._to_assign and self._to_assign[0].assigned == self._to_assign[0].total:
            self._to_assign.popleft()
        self._work[task.id] = steps
        return task

    def _with_slots(self, steps: list[InFlightStep], *, whole: bool) -> list[InFlightStep]:
        """Room for batches that are begun; as many of them as there is memory for."""
        # A task that makes the whole batch and finishes it at once leaves nothing in place.
        if self._slots is None or (whole and self._finish):
            return steps
        for place, step in enumerate(steps):
            if step.layout is None or step.rows.fill:  # whoever puts in the zeros makes the batch
                continue
            try:
                step.slot = self._slots.alloc(step.layout.nbytes(step.rows.rows))
            except MemoryError:
                if place == 0:
                    raise
                return steps[:place]
        return steps

    def _target(self, step: InFlightStep, hi: int) -> Target:
        lo, rows = step.assigned, step.rows.rows
        step.assigned = hi
        step.out += 1
        whole = hi - lo == step.total
        return Target(
            hi - lo,
            rows,
            lo,
            step.slot,
            whole,
            step.layout if step.slot else None,
            step.rows.fill if whole else (),
        )

    def _finish_task(self) -> Task:
        step = self._to_finish[0]
        indices = step.rows.indices[:: self._group]
        reserve = self._reserve.slot(step.rows.rows)
        self._to_finish.popleft()
        task = Task(
            id=self._context.new_id(),
            level=self._level,
            indices=indices,
            keys=np.empty(0, np.int64),
            inputs=tuple(step.spans[first] for first in sorted(step.spans)),
            begin=(int(indices[0]),),
            reserve=reserve,
            fill=step.rows.fill,
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
        self._context.pace.saw(rows=rows, seconds=report.seconds)
        uses = 0
        for place, (step, target) in enumerate(zip(steps, task.targets, strict=True)):
            step.out -= 1
            failure = report.failure
            if failure is None or place < report.failed_part:
                uses += self._filled(task, step, place, target, report.parts[place])
            else:
                self._fail(step, target.first, failure)
                if place == report.failed_part < len(report.parts):
                    # Batches of a step that are before the failure.
                    uses += self._filled(task, step, place, target, report.parts[place])
                    failed = InFlightStep(_NO_ROWS, outcome=failure)
                    self._steps.insert(self._steps.index(step) + 1, failed)
            self._settle(step)
        if report.losses:
            self._lose(task, steps, report.losses)
        return uses

    def _lose(self, task: Task, steps: list[InFlightStep], losses: Sequence[Loss]) -> None:
        """Keeps each loss with the step that its row is in; one that only shows what a row looks like is nobody's."""
        behind = list(accumulate(target.rows * self._group for target in task.targets))
        for loss in losses:
            place = bisect_right(behind, loss.place)
            step, target = steps[place], task.targets[place]
            if step.rows.fill and not any(real for real, _ in step.rows.fill):
                continue
            begin = behind[place] - target.rows * self._group
            row = target.first + (loss.place - begin) // self._group
            step.losses.setdefault(row // step.rows.rows, []).append(loss)

    def _filled(self, task: Task, step: InFlightStep, place: int, target: Target, part: TaskPart) -> int:
        if target.whole:
            if part.in_place:
                step.outcome = Ready(rows=target.batch, slot=step.slot, layout=step.layout)
                step.slot = None
                return 0
            self._free(step)
            step.outcome = Ready(task=task.id, part=place, count=part.size)
            return 1
        lo, hi = target.first, target.first + target.rows
        if part.in_place:
            step.spans[lo] = Span(-1, 0, lo, hi, target.slot, target.batch, target.layout)
            return 0
        step.spans[lo] = Span(task.id, place, 0, target.rows)
        return 1

    def _finished(self, task: Task, step: InFlightStep, report: Report) -> int:
        step.out -= 1
        for span in task.inputs:
            if span.slot is None:
                self._context.outputs.drop(span.task)
        step.spans.clear()
        self._free(step)
        if report.failure is not None:
            self._fail(step, 0, report.failure)
            self._settle(step)
            return 0
        step.outcome = Ready(task=task.id)
        return 1

    def _fail(self, step: InFlightStep, row: int, failure: Failure) -> None:
        if step.failed is None or row < step.failed[0]:
            step.failed = (row, failure)
        self._ended = self._failed = True

    def _settle(self, step: InFlightStep) -> None:
        if step.outcome is not None or step.out:
            return
        if step.failed is not None:
            step.outcome = step.failed[1]
        elif step.filled:
            if self._finish or any(span.slot is None for span in step.spans.values()):
                self._to_finish.append(step)
            else:
                step.outcome = Ready(rows=step.rows.rows, slot=step.slot, layout=step.layout)
                step.slot = None

    def _free(self, step: InFlightStep) -> None:
        if step.slot is not None and self._slots is not None:
            self._slots.free(step.slot)
            step.slot = None

    def due(self) -> bool:
        return self._steps[0].outcome is not None if self._steps else self._ended

    def pop(self) -> Outcome | None:
        self._ahead -= self._following
        self._following = 0
        if not self._steps:
            return End() if self._ended else None
        outcome = self._steps[0].outcome
        if isinstance(outcome, Ready):
            step = self._steps.popleft()
            self._ahead -= step.rows.steps
            if step.losses:
                losses = {
                    place: tuple(sorted(lost, key=attrgetter("index"))) for place, lost in step.losses.items()
                }
                return replace(outcome, facts=Facts(losses=losses))
            if outcome.slot is not None:
                return self._with_others(outcome)
        return outcome

    def _with_others(self, first: Ready) -> Ready:
        """A batch, and some of those behind it that are ready: one call of many then pays for the hand-over."""
        others: list[Ready] = []
        while len(others) + 1 < self._most_at_once and self._steps:
            step = self._steps[0]
            if not isinstance(step.outcome, Ready) or step.outcome.slot is None or step.losses:
                break
            others.append(step.outcome)
            self._steps.popleft()
        self._following = len(others)
        return replace(first, following=tuple(others)) if others else first

    def delivered(self, ready: Ready) -> None:
        self._context.outputs.drop(ready.task)

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
