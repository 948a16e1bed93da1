"""Batches whose rows have a place before they are read: any worker writes any rows, in place.

A *stretch* is one step, or where no batch is written in place several steps that one task makes. It goes through these
states, and batches are handed out in the order of the stretches:

    open      some rows were not given to anybody yet
    filling   all rows are given away, some are not done
    finishing a task looks at all rows: gathers what was not written in place, runs what needs the whole batch
    settled   an outcome: its batches, or the error of its first failing row; where both, in two stretches

Rows are given away in ascending order, so when a row fails every earlier row was given away before it: once nothing
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

from loaderkit._order.fill import Fill
from loaderkit._order.loss import Loss

from .scheduler import AHEAD_NBYTES, Reserve, Supplies
from .task import Broken, End, Layout, Outcome, Part, Ready, Report, Slot, Span, Target, Task


class Rows(Protocol):
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
class _NoRows:
    indices: np.ndarray
    keys: np.ndarray
    rows: int
    steps: int
    fill: Fill = ()


_NO_ROWS = _NoRows(np.empty(0, np.int64), np.empty(0, np.int64), 0, 0)


class Feed(Protocol):
    """The plan, step by step."""

    def next(self, most: int) -> Rows | None:
        """The rows of the next step, or of up to `most` whole ones; None behind the last."""
        ...


@dataclass(slots=True, eq=False)
class _Stretch:
    rows: Rows
    slot: Slot | None = None
    layout: Layout | None = None
    given: int = 0  # rows given away
    out: int = 0  # tasks out for it
    spans: dict[int, Span] = field(default_factory=dict)  # first row -> where those rows are
    failed: tuple[int, object] | None = None  # (row, error): the lowest so far
    outcome: Ready | Broken | None = None
    losses: dict[int, list[Loss]] = field(default_factory=dict)  # by step of the stretch

    @property
    def total(self) -> int:
        return self.rows.rows * self.rows.steps

    @property
    def filled(self) -> bool:
        return sum(span.hi - span.lo for span in self.spans.values()) == self.total


_ANY = 1 << 62
_SEVERAL = 8  # batches handed out in one go: more would make one next() in many a slow one


class Grid:
    """The assembly of a fixed, batched pipeline.

    Args:
        feed: the rows of each stretch from the start on.
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
        self._batch = 0  # rows of the step that was opened last
        self._ahead = 0  # steps that were opened and not handed out
        self._stretches: deque[_Stretch] = deque()  # not handed out yet, in order
        self._to_give: deque[_Stretch] = deque()  # those of them that are open, in order
        self._to_finish: deque[_Stretch] = deque()
        self._work: dict[int, list[_Stretch]] = {}  # task id -> the stretch of each of its targets
        self._enough = _ANY  # with so many ahead, nothing is opened
        self._most_at_once = 1  # batches to give in one go
        # Batches that were given in one go with the one before them: not counted as handed out yet.
        self._along = 0
        self._over = False
        self._failed = False

    def next_task(self) -> Task | None:
        if self._to_finish:
            return self._finish_task()
        if self._failed or not (self._to_give or self._open(self._at_once())):
            return None
        first = self._to_give[0]
        batch = first.rows.rows
        rows = self._reserve.task_rows(batch)
        if first.rows.steps == 1 and (first.given or rows < 2 * batch):
            parts = -(-batch // min(rows, batch))
            return self._rows_task([first], min(batch, first.given + -(-batch // parts)))
        wanted = max(1, rows // batch)
        stretches: list[_Stretch] = []
        while wanted > 0 and (len(stretches) < len(self._to_give) or self._open(wanted)):
            stretches.append(self._to_give[len(stretches)])
            wanted -= stretches[-1].rows.steps
        return self._rows_task(stretches, first.total)

    def _at_once(self) -> int:
        """Steps to open as one stretch: as many as make a task, where batches have no slots of their own."""
        if self._slots is not None or not self._batch:
            return 1
        return max(1, self._reserve.task_rows(self._batch) // self._batch)

    def _open(self, most: int) -> bool:
        if self._over or self._ahead >= self._enough:
            return False
        window = self._window()
        self._most_at_once = self._several(window)
        # Once it is full, work is given out again when half of it was used: many tasks in a message, not one each time.
        full = self._ahead >= window
        self._enough = window - window // 2 + 1 if full else _ANY
        if full:
            return False
        try:
            rows = self._feed.next(1 if self._slots is not None else min(most, window - self._ahead))
        except Exception as error:  # noqa: BLE001 - a user's sampler may raise anything
            self._over = True
            self._stretches.append(_Stretch(_NO_ROWS, outcome=Broken(error)))
            return False
        if rows is None:
            self._over = True
            return False
        self._batch = rows.rows
        self._ahead += rows.steps
        stretch = _Stretch(rows, layout=self._layout)
        self._stretches.append(stretch)
        self._to_give.append(stretch)
        return True

    def _several(self, window: int) -> int:
        if not self._supplies.several or self._layout is None:
            return 1
        return max(1, min(window // 2, _SEVERAL, AHEAD_NBYTES // max(self._layout.nbytes(self._batch), 1)))

    def _window(self) -> int:
        pace = self._supplies.pace
        batch = self._stretches[0].rows.rows if self._stretches else max(self._batch, 1)
        ahead = pace.rows_ahead(batch)
        if self._layout is not None:
            affordable = AHEAD_NBYTES * batch // max(self._layout.nbytes(batch), 1)
            ahead = min(ahead, max(affordable, pace.least_ahead(self._reserve.task_rows(batch))))
        return max(self._prefetch, 1, -(-ahead // batch))

    def _rows_task(self, stretches: list[_Stretch], hi: int) -> Task:
        """Rows of the first stretch up to `hi`, and the whole of those behind it. MemoryError changes nothing."""
        lo = stretches[0].given
        if lo == 0:
            stretches = self._with_slots(stretches, whole=hi == stretches[0].total)
        rows = hi - lo + sum(stretch.total for stretch in stretches[1:])
        try:
            reserve = None if all(stretch.slot for stretch in stretches) else self._reserve.slot(rows)
        except MemoryError:
            for stretch in stretches if lo == 0 else ():
                self._free(stretch)
            raise
        targets = tuple(
            self._target(stretch, hi if stretch is stretches[0] else stretch.total) for stretch in stretches
        )
        places = [
            slice(target.first * self._group, (target.first + target.rows) * self._group)
            for target in targets
        ]
        task = Task(
            id=self._supplies.new_id(),
            level=0,
            indices=_join(
                [stretch.rows.indices[place] for stretch, place in zip(stretches, places, strict=True)]
            ),
            keys=_join([stretch.rows.keys[place] for stretch, place in zip(stretches, places, strict=True)]),
            targets=targets,
            reserve=reserve,
        )
        while self._to_give and self._to_give[0].given == self._to_give[0].total:
            self._to_give.popleft()
        self._work[task.id] = stretches
        return task

    def _with_slots(self, stretches: list[_Stretch], *, whole: bool) -> list[_Stretch]:
        """Room for batches that are begun; as many of them as there is memory for."""
        # A task that makes the whole batch and finishes it at once leaves nothing in place.
        if self._slots is None or (whole and self._finish):
            return stretches
        for place, stretch in enumerate(stretches):
            if stretch.layout is None or stretch.rows.fill:  # whoever puts in the zeros makes the batch
                continue
            try:
                stretch.slot = self._slots.alloc(stretch.layout.nbytes(stretch.rows.rows))
            except MemoryError:
                if place == 0:
                    raise
                return stretches[:place]
        return stretches

    def _target(self, stretch: _Stretch, hi: int) -> Target:
        lo, rows = stretch.given, stretch.rows.rows
        stretch.given = hi
        stretch.out += 1
        whole = hi - lo == stretch.total
        return Target(
            hi - lo,
            rows,
            lo,
            stretch.slot,
            whole,
            stretch.layout if stretch.slot else None,
            stretch.rows.fill if whole else (),
        )

    def _finish_task(self) -> Task:
        stretch = self._to_finish[0]
        indices = stretch.rows.indices[:: self._group]
        reserve = self._reserve.slot(stretch.rows.rows)
        self._to_finish.popleft()
        task = Task(
            id=self._supplies.new_id(),
            level=self._level,
            indices=indices,
            keys=np.empty(0, np.int64),
            inputs=tuple(stretch.spans[first] for first in sorted(stretch.spans)),
            begin=(int(indices[0]),),
            reserve=reserve,
            fill=stretch.rows.fill,
        )
        stretch.out += 1
        self._work[task.id] = [stretch]
        return task

    def done(self, task: Task, report: Report) -> int:
        stretches = self._work.pop(task.id)
        if report.layout is not None:
            self._layout = report.layout
        if report.nbytes:
            self._reserve.saw(len(task.indices[:: 1 if task.level else self._group]), report.nbytes)
        if task.level:
            return self._finished(task, stretches[0], report)
        rows = sum(target.rows for target in task.targets)
        self._supplies.pace.saw(rows=rows, seconds=report.seconds)
        uses = 0
        for place, (stretch, target) in enumerate(zip(stretches, task.targets, strict=True)):
            stretch.out -= 1
            trouble = report.trouble
            if trouble is None or place < trouble.part:
                uses += self._filled(task, stretch, place, target, report.parts[place])
            else:
                self._fail(stretch, target.first, trouble.error)
                if (
                    place == trouble.part < len(report.parts)
                ):  # batches of a stretch that are before the failure
                    uses += self._filled(task, stretch, place, target, report.parts[place])
                    broken = _Stretch(_NO_ROWS, outcome=Broken(trouble.error))
                    self._stretches.insert(self._stretches.index(stretch) + 1, broken)
            self._settle(stretch)
        if report.losses:
            self._lose(task, stretches, report.losses)
        return uses

    def _lose(self, task: Task, stretches: list[_Stretch], losses: Sequence[Loss]) -> None:
        """Keeps each loss with the step that its row is in; one that only shows what a row looks like is nobody's."""
        behind = list(accumulate(target.rows * self._group for target in task.targets))
        for loss in losses:
            place = bisect_right(behind, loss.place)
            stretch, target = stretches[place], task.targets[place]
            if stretch.rows.fill and not any(real for real, _ in stretch.rows.fill):
                continue
            begin = behind[place] - target.rows * self._group
            row = target.first + (loss.place - begin) // self._group
            stretch.losses.setdefault(row // stretch.rows.rows, []).append(loss)

    def _filled(self, task: Task, stretch: _Stretch, place: int, target: Target, part: Part) -> int:
        if target.whole:
            if part.in_place:
                stretch.outcome = Ready(rows=target.batch, slot=stretch.slot, layout=stretch.layout)
                stretch.slot = None
                return 0
            self._free(stretch)
            stretch.outcome = Ready(task=task.id, part=place, count=part.size)
            return 1
        lo, hi = target.first, target.first + target.rows
        if part.in_place:
            stretch.spans[lo] = Span(-1, 0, lo, hi, target.slot, target.batch, target.layout)
            return 0
        stretch.spans[lo] = Span(task.id, place, 0, target.rows)
        return 1

    def _finished(self, task: Task, stretch: _Stretch, report: Report) -> int:
        stretch.out -= 1
        for span in task.inputs:
            if span.slot is None:
                self._supplies.outputs.drop(span.task)
        stretch.spans.clear()
        self._free(stretch)
        if report.trouble is not None:
            self._fail(stretch, 0, report.trouble.error)
            self._settle(stretch)
            return 0
        stretch.outcome = Ready(task=task.id)
        return 1

    def _fail(self, stretch: _Stretch, row: int, error: object) -> None:
        if stretch.failed is None or row < stretch.failed[0]:
            stretch.failed = (row, error)
        self._over = self._failed = True

    def _settle(self, stretch: _Stretch) -> None:
        if stretch.outcome is not None or stretch.out:
            return
        if stretch.failed is not None:
            stretch.outcome = Broken(stretch.failed[1])
        elif stretch.filled:
            if self._finish or any(span.slot is None for span in stretch.spans.values()):
                self._to_finish.append(stretch)
            else:
                stretch.outcome = Ready(rows=stretch.rows.rows, slot=stretch.slot, layout=stretch.layout)
                stretch.slot = None

    def _free(self, stretch: _Stretch) -> None:
        if stretch.slot is not None and self._slots is not None:
            self._slots.free(stretch.slot)
            stretch.slot = None

    def due(self) -> bool:
        return self._stretches[0].outcome is not None if self._stretches else self._over

    def pop(self) -> Outcome | None:
        self._ahead -= self._along
        self._along = 0
        if not self._stretches:
            return End() if self._over else None
        outcome = self._stretches[0].outcome
        if isinstance(outcome, Ready):
            stretch = self._stretches.popleft()
            self._ahead -= stretch.rows.steps
            if stretch.losses:
                losses = {
                    step: tuple(sorted(lost, key=attrgetter("index")))
                    for step, lost in stretch.losses.items()
                }
                return replace(outcome, losses=losses)
            if outcome.slot is not None:
                return self._with_others(outcome)
        return outcome

    def _with_others(self, first: Ready) -> Ready:
        """A batch, and some of those behind it that are ready: one call of many then pays for the hand-over."""
        others: list[Ready] = []
        while len(others) + 1 < self._most_at_once and self._stretches:
            stretch = self._stretches[0]
            if not isinstance(stretch.outcome, Ready) or stretch.outcome.slot is None or stretch.losses:
                break
            others.append(stretch.outcome)
            self._stretches.popleft()
        self._along = len(others)
        return replace(first, along=tuple(others)) if others else first

    def taken(self, ready: Ready) -> None:
        self._supplies.outputs.drop(ready.task)

    def owned(self) -> tuple[list[Slot], list[int]]:
        slots, outputs = [], []
        for stretch in self._stretches:
            if stretch.slot is not None:
                slots.append(stretch.slot)
            outputs += [span.task for span in stretch.spans.values() if span.slot is None]
            if isinstance(stretch.outcome, Ready):
                if stretch.outcome.slot is not None:
                    slots.append(stretch.outcome.slot)
                else:
                    outputs.append(stretch.outcome.task)
        return slots, outputs


def _join(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
