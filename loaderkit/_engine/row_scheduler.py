"""Batches whose rows have a place before they are read: any worker writes any rows, in place.

The scheduler keeps steps in flight (in_flight_step.py has their states), and hands their batches out in the plan's
order. A step with batches and an error after them becomes two.

Rows are assigned in ascending order, so when a row fails every earlier row was assigned before it: once no task of a
step is out, the lowest failure is the step's first one, whichever worker was quicker. A failure ends the stream, so
nothing is begun after the earliest failing step.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from operator import attrgetter

import numpy as np

from loaderkit._order.facts import Facts, Failure, Loss

from .in_flight_step import InFlightStep, StepEvent, StepInput, StepState, failed_step
from .scheduler import Replacement, Reserve, SchedulerContext, no_replacement
from .step_window import StepWindow
from .task import (
    BatchMade,
    End,
    Layout,
    MakeBatch,
    Outcome,
    ReadRows,
    Ready,
    RowsPart,
    RowsRead,
    Slot,
    Span,
    Target,
    Task,
    TaskResult,
)


class RowScheduler:
    """The scheduler of a fixed, batched pipeline.

    Args:
        feed: the rows of each step from the start on.
        context: what the schedulers of one executor share.
        level: the last Batch's level.
        group: records of one row.
        finish: whether every batch needs a finishing look (a batch_fn, operations after the last Batch).
        in_place: whether rows may be written to slots at all (there is no batch_fn).
        prefetch: batches to make ahead of the one handed out last.
        replacement: returns what is read instead of a bad record.
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
        self._reserve = Reserve(context)
        self._window = StepWindow(context.pace, self._reserve, prefetch=prefetch, bulk=context.bulk)
        self._steps: deque[InFlightStep] = deque()  # not handed out yet, in order
        self._to_assign: deque[InFlightStep] = deque()  # those of them that are open, in order
        self._to_finish: deque[InFlightStep] = deque()
        self._layouts: dict[int, Layout] = {}  # by the shape of a step's rows
        self._gathered = False  # whether a batch was made of rows that other tasks had read
        self._work: dict[int, list[InFlightStep]] = {}  # task id -> the step of each of its targets
        # Batches that were handed out in one go with the one before them: not counted so yet.
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
        if self._would_be_sent(first) and self._context.pace.each_its_batch(batch):
            rows = max(rows, batch)
        if first.rows.steps == 1 and (first.assigned or rows < 2 * batch):
            parts = -(-batch // min(rows, batch))
            return self._rows_task([first], min(batch, first.assigned + -(-batch // parts)))
        wanted = max(1, rows // batch)
        steps: list[InFlightStep] = []
        while wanted > 0 and (len(steps) < len(self._to_assign) or self._open(wanted)):
            steps.append(self._to_assign[len(steps)])
            wanted -= steps[-1].rows.steps
        return self._rows_task(steps, first.total)

    def _would_be_sent(self, step: InFlightStep) -> bool:
        """Whether rows have no place, as bytes have none: they would be sent to the worker that makes their batch."""
        placed = self._slots is not None and step.rows.shape in self._layouts
        return self._gathered and self._context.reserves and not placed

    def _at_once(self) -> int:
        """Steps of the plan to open as one in-flight step: as many as make a task, where batches have no own slots."""
        batch = self._window.batch
        if self._slots is not None or not batch:
            return 1
        return max(1, self._reserve.task_rows(batch) // batch)

    def _open(self, most: int) -> bool:
        if self._ended:
            return False
        room = self._window.room(self._steps[0].rows.rows if self._steps else max(self._window.batch, 1))
        if not room:
            return False
        try:
            rows = self._feed.next(1 if self._slots is not None else min(most, room))
        except Exception as error:  # noqa: BLE001 - a user's sampler may raise anything
            self._ended = True
            self._steps.append(failed_step(Failure(error)))
            return False
        if rows is None:
            self._ended = True
            return False
        self._window.opened(rows.rows, rows.steps)
        step = InFlightStep(rows, rows.rows * rows.steps, layout=self._layouts.get(rows.shape))
        self._steps.append(step)
        self._to_assign.append(step)
        return True

    def _rows_task(self, steps: list[InFlightStep], hi: int) -> Task:
        """Rows of the first step up to `hi`, and the whole of those after it. MemoryError changes nothing."""
        lo = steps[0].assigned
        if lo == 0:
            steps = self._with_slots(steps, whole=hi == steps[0].total)
        total = hi - lo + sum([step.total for step in steps[1:]])
        try:
            reserve = None if all(step.slot for step in steps) else self._reserve.slot(total)
        except MemoryError:
            for step in steps if lo == 0 else ():
                self._free(step)
            raise
        targets = tuple([step.assign(hi if step is steps[0] else step.total) for step in steps])
        chosen = [
            slice(target.first * self._group, (target.first + target.rows) * self._group)
            for target in targets
        ]
        task = ReadRows(
            id=self._context.new_id(),
            indices=_join([step.rows.indices[rows] for step, rows in zip(steps, chosen, strict=True)]),
            keys=_join([step.rows.keys[rows] for step, rows in zip(steps, chosen, strict=True)]),
            targets=targets,
            reserve=reserve,
        )
        while self._to_assign and self._to_assign[0].state is not StepState.OPEN:
            self._to_assign.popleft()
        self._work[task.id] = steps
        return task

    def _with_slots(self, steps: list[InFlightStep], *, whole: bool) -> list[InFlightStep]:
        """Slots for batches that are begun, for as many of them as there is memory for."""
        # A task that makes the whole batch and finishes it at once leaves nothing in place.
        if self._slots is None or (whole and self._finish):
            return steps
        for number, step in enumerate(steps):
            if step.layout is None or step.rows.fill:  # the task that puts in the zeros makes the batch
                continue
            try:
                step.slot = self._slots.alloc(step.layout.nbytes(step.rows.rows))
            except MemoryError:
                if number == 0:
                    raise
                return steps[:number]
        return steps

    def _finish_task(self) -> Task:
        step = self._to_finish[0]
        indices = step.rows.indices[:: self._group]
        reserve = self._reserve.slot(step.rows.rows)
        self._to_finish.popleft()
        task = MakeBatch(
            id=self._context.new_id(),
            level=self._level,
            indices=indices,
            inputs=tuple(step.spans[first] for first in sorted(step.spans)),
            begin=(int(indices[0]),),
            fill=step.rows.fill,
            reserve=reserve,
        )
        step.tasks_out += 1
        self._work[task.id] = [step]
        return task

    def done(self, task: Task, result: TaskResult) -> int:
        steps = self._work.pop(task.id)
        match task, result:
            case ReadRows(), RowsRead():
                return self._rows_read(task, steps, result)
            case MakeBatch(), BatchMade():
                return self._batch_made(task, steps[0], result)
        raise AssertionError(f"a result of task {task.id}: {type(result).__name__} for {type(task).__name__}")

    def _rows_read(self, task: ReadRows, steps: list[InFlightStep], result: RowsRead) -> int:
        rows = len(task.indices[:: self._group])
        self._learn(result, rows, steps[0])
        self._context.pace.saw(rows=rows, seconds=result.seconds, waited=result.waited)
        uses = 0
        failure = result.failure
        for number, (step, target) in enumerate(zip(steps, task.targets, strict=True)):
            step.tasks_out -= 1
            if failure is None or number < result.failed_target:
                uses += self._filled(task, step, number, target, result.parts[number])
            else:
                step.note_failure(target.first, failure)
                self._ended = self._failed = True
                if number == result.failed_target < len(result.parts):
                    # Batches of a step that are before the failure.
                    uses += self._filled(task, step, number, target, result.parts[number])
                    self._steps.insert(self._steps.index(step) + 1, failed_step(failure))
            if step.state is not StepState.SETTLED and not step.tasks_out:
                self._all_in(step)
        if result.losses:
            self._lose(task, steps, result.losses)
        return uses

    def _learn(self, result: RowsRead | BatchMade, rows: int, step: InFlightStep) -> None:
        # One object for what is equal: it is compared for every task.
        if result.layout is not None and result.layout != self._layouts.get(step.rows.shape):
            self._layouts[step.rows.shape] = result.layout
            # Of several shapes the largest one, so that no more memory is taken than for batches of one shape.
            self._window.layout = max(
                self._layouts.values(), key=lambda layout: layout.nbytes(step.rows.rows)
            )
        if result.nbytes:
            self._reserve.saw(rows, result.nbytes)

    def _lose(self, task: ReadRows, steps: list[InFlightStep], losses: Sequence[Loss]) -> None:
        """Keeps each loss with the step that its row is in; one that only shows what a row looks like is dropped."""
        # After each target: how many of the task's records go to it and those before it.
        after = list(accumulate(target.rows * self._group for target in task.targets))
        for loss in losses:
            number = bisect_right(after, loss.place)
            step, target = steps[number], task.targets[number]
            if step.rows.fill and not any(real for real, _ in step.rows.fill):
                continue
            begin = after[number] - target.rows * self._group
            row = target.first + (loss.place - begin) // self._group
            step.losses.setdefault(row // step.rows.rows, []).append(loss)

    def _filled(self, task: ReadRows, step: InFlightStep, number: int, target: Target, part: RowsPart) -> int:
        """Takes in the part of one target; how many uses of the task's output it is."""
        if target.whole:
            if part.in_place:
                step.settle_in_slot()
                return 0
            self._free(step)
            step.settle(Ready(task=task.id, part=number, size=part.size))
            return 1
        lo, hi = target.first, target.first + target.rows
        if part.in_place:
            step.spans[lo] = Span(-1, 0, lo, hi, target.slot, target.batch, target.layout)
            return 0
        step.spans[lo] = Span(task.id, number, 0, target.rows)
        return 1

    def _batch_made(self, task: MakeBatch, step: InFlightStep, result: BatchMade) -> int:
        self._learn(result, len(task.indices), step)
        self._gathered = True
        step.tasks_out -= 1
        for span in task.inputs:
            if span.slot is None:
                self._context.outputs.drop(span.task)
        step.spans.clear()
        self._free(step)
        if result.failure is not None:
            step.settle_failed(result.failure)
            self._ended = self._failed = True
            return 0
        step.settle(Ready(task=task.id))
        return 1

    def _all_in(self, step: InFlightStep) -> None:
        """No task is out for a step that is not settled: it failed, or rows are not assigned, or all are done."""
        if step.first_failure is not None:
            step.settle_failed(step.first_failure[1])
        elif step.state is StepState.FILLING:
            if self._finish or any(span.slot is None for span in step.spans.values()):
                step.move(StepEvent.ROWS_DONE)
                self._to_finish.append(step)
            else:
                step.settle_in_slot()

    def _free(self, step: InFlightStep) -> None:
        if step.slot is not None and self._slots is not None:
            self._slots.free(step.slot)
            step.slot = None

    def due(self) -> bool:
        return self._steps[0].outcome is not None if self._steps else self._ended

    def pop(self) -> Outcome | None:
        self._window.ahead -= self._following
        self._following = 0
        if not self._steps:
            return End() if self._ended else None
        outcome = self._steps[0].outcome
        if isinstance(outcome, Ready):
            step = self._steps.popleft()
            self._window.ahead -= step.rows.steps
            if step.losses:
                losses = {
                    number: tuple(sorted(lost, key=attrgetter("index")))
                    for number, lost in step.losses.items()
                }
                return outcome._replace(facts=Facts(losses=losses))
            if outcome.slot is not None:
                return self._with_others(outcome)
        return outcome

    def _with_others(self, first: Ready) -> Ready:
        """A batch, and some of those after it that are ready: one call of many then pays for the hand-over."""
        others: list[Ready] = []
        while len(others) + 1 < self._window.most_at_once and self._steps:
            step = self._steps[0]
            if not isinstance(step.outcome, Ready) or step.outcome.slot is None or step.losses:
                break
            others.append(step.outcome)
            self._steps.popleft()
        self._following = len(others)
        return first._replace(following=tuple(others)) if others else first

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
