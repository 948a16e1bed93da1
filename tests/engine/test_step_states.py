"""The states of a step in flight: the scheduler makes every move of the table, and any other is refused."""

from itertools import product

import pytest
from engine_twins import GridSpec, RowLayout
from engine_values import batch_made, nothing, rows_read
from engine_world import World
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.in_flight_step import TRANSITIONS, InFlightStep, StepEvent, StepState
from loaderkit._engine.pace import TASK_SECONDS
from loaderkit._engine.task import MakeBatch, ReadRows, Ready, RowsPart, Task, TaskResult
from loaderkit._order.facts import Failure

OPEN, FILLING, FINISHING, SETTLED = StepState
EACH = [*product(StepState, StepEvent)]


class Walk:
    """A scheduler of steps of four rows, in tasks of so many, and what its steps did.

    Args:
        task_rows: rows of a task.
        arena: whether batches are written in place.
    """

    def __init__(self, task_rows: int, *, arena: bool = False) -> None:
        self.world = World(arena=arena, reserves=False, task_rows=task_rows)
        self.scheduler = GridSpec(rows=4, last_rows=4, steps=2).scheduler(self.world.context)

    def read(self) -> ReadRows:
        task = self.scheduler.next_task()
        assert isinstance(task, ReadRows)
        return task

    def done(self, task: Task, result: TaskResult) -> None:
        self.world.outputs.arrived(task.id, None, uses=self.scheduler.done(task, result))

    def made(self, task: ReadRows) -> None:
        """All rows of a task are in its output."""
        parts = [RowsPart(1 if target.whole else target.rows) for target in task.targets]
        self.done(task, rows_read(*parts, layout=RowLayout()))

    def in_place(self, task: ReadRows) -> None:
        """All rows of a task lie in their slots."""
        self.done(task, rows_read(*[RowsPart(0, in_place=True) for _ in task.targets]))

    def failed(self, task: Task) -> None:
        self.done(task, nothing(task, "bad"))

    def gathered(self) -> MakeBatch:
        """The task that finishes a step whose rows are all done."""
        for task in [self.read(), self.read()]:
            self.made(task)
        task = self.scheduler.next_task()
        assert isinstance(task, MakeBatch)
        return task


def assigned_in_parts(moves):
    """The first half of the rows is assigned: the rest is what the next task reads."""
    walk = Walk(2)
    assert walk.read().indices.tolist() == [0, 1]
    assert moves == [(OPEN, StepEvent.ROWS_ASSIGNED)]
    assert walk.read().indices.tolist() == [2, 3]


def assigned_as_a_whole(moves):
    """No row is left for another task."""
    walk = Walk(4)
    walk.read()
    assert moves == [(OPEN, StepEvent.LAST_ROWS_ASSIGNED)]
    assert walk.read().indices.tolist() == [4, 5, 6, 7] and walk.scheduler.pop() is None


def failed_before_all_rows_were_assigned(moves):
    """The rows that are left are never read, and the failure is handed out in the step's place."""
    walk = Walk(2)
    walk.failed(walk.read())
    assert moves[-1] == (OPEN, StepEvent.FAILED)
    assert walk.scheduler.next_task() is None and walk.scheduler.pop() == Failure("bad")


def failed_while_other_rows_are_out(moves):
    """The step waits for its other task, whose failure may be of an earlier row."""
    walk = Walk(2)
    tasks = [walk.read(), walk.read()]
    walk.failed(tasks[1])
    assert not walk.scheduler.due()
    walk.made(tasks[0])
    assert moves[-1] == (FILLING, StepEvent.FAILED)
    assert walk.scheduler.pop() == Failure("bad")


def made_by_one_task(moves):
    """The task had all the rows: its output is the batch."""
    walk = Walk(4)
    task = walk.read()
    walk.made(task)
    assert moves[-1] == (FILLING, StepEvent.BATCHES_MADE)
    assert walk.scheduler.pop() == Ready(task=task.id)


def gathered_from_outputs(moves):
    """The rows lie in two outputs: the next task makes the batch of them, in order."""
    walk = Walk(2)
    task = walk.gathered()
    assert moves[-1] == (FILLING, StepEvent.ROWS_DONE)
    assert not walk.scheduler.due() and [span.hi - span.lo for span in task.inputs] == [2, 2]


def finished(moves):
    """The batch is that task's output."""
    walk = Walk(2)
    task = walk.gathered()
    walk.done(task, batch_made())
    assert moves[-1] == (FINISHING, StepEvent.BATCHES_MADE)
    assert walk.scheduler.pop() == Ready(task=task.id)


def failed_at_the_end(moves):
    """Its batch failed: the stream ends with that failure."""
    walk = Walk(2)
    walk.failed(walk.gathered())
    assert moves[-1] == (FINISHING, StepEvent.FAILED)
    assert walk.scheduler.pop() == Failure("bad") and walk.scheduler.next_task() is None


WALKS = {
    (OPEN, StepEvent.ROWS_ASSIGNED): assigned_in_parts,
    (OPEN, StepEvent.LAST_ROWS_ASSIGNED): assigned_as_a_whole,
    (OPEN, StepEvent.FAILED): failed_before_all_rows_were_assigned,
    (FILLING, StepEvent.ROWS_DONE): gathered_from_outputs,
    (FILLING, StepEvent.BATCHES_MADE): made_by_one_task,
    (FILLING, StepEvent.FAILED): failed_while_other_rows_are_out,
    (FINISHING, StepEvent.BATCHES_MADE): finished,
    (FINISHING, StepEvent.FAILED): failed_at_the_end,
}


@pytest.fixture
def moves(monkeypatch):
    """The moves of all steps, in order."""
    made: list[tuple[StepState, StepEvent]] = []
    move = InFlightStep.move

    def recorded(step: InFlightStep, event: StepEvent) -> None:
        made.append((step.state, event))
        move(step, event)
        assert step.state is TRANSITIONS[made[-1]]

    monkeypatch.setattr(InFlightStep, "move", recorded)
    return made


@pytest.mark.parametrize("walk", WALKS.values(), ids=lambda walk: walk.__name__)
def test_the_scheduler_makes_every_move(walk, moves):
    """Each of the table's, seen from outside by what is read, made and handed out next."""
    walk(moves)


def test_every_move_of_the_table_is_walked():
    assert WALKS.keys() == TRANSITIONS.keys()


def test_rows_in_one_slot_settle_a_step_when_the_last_of_them_is_done(moves):
    """The layout is known from the first step: the second is written in place by two tasks, in either order."""
    walk = Walk(2, arena=True)
    walk.done(walk.gathered(), batch_made())
    early, late = walk.read(), walk.read()
    assert early.targets[0].slot == late.targets[0].slot is not None
    walk.in_place(late)
    assert moves[-1] == (OPEN, StepEvent.LAST_ROWS_ASSIGNED)
    walk.in_place(early)
    assert moves[-1] == (FILLING, StepEvent.BATCHES_MADE)


@pytest.mark.parametrize(
    ("state", "event"), [each for each in EACH if each not in TRANSITIONS], ids=lambda value: value.name
)
def test_any_other_move_is_refused(state, event):
    """And the step stays as it was."""
    step = InFlightStep(GridSpec().next(1), 4, state=state)
    with pytest.raises(RuntimeError, match=f"a step that is {state.name}: expected .*, got {event.name}$"):
        step.move(event)
    assert step.state is state and step.outcome is None


def test_a_settled_step_takes_no_more_rows_and_no_second_outcome():
    step = InFlightStep(GridSpec().next(1), 4)
    step.assign(4)
    step.settle_failed(Failure("bad"))
    with pytest.raises(RuntimeError, match="expected no further event"):
        step.settle(Ready(task=1))
    with pytest.raises(RuntimeError, match="expected no further event"):
        step.assign(4)
    assert step.outcome == Failure("bad") and step.tasks_out == 1


@pytest.mark.parametrize("layout", [None, RowLayout()])
def test_rows_that_have_no_place_are_read_by_the_worker_that_makes_their_batch(layout):
    """Bytes and ragged rows aren't sent from one worker to another; what rows look like is known of the first batch."""
    world = World(arena=True, workers=2)
    scheduler = GridSpec(rows=8, last_rows=8, steps=8).scheduler(world.context)

    def done(task, result):
        world.outputs.arrived(task.id, None, uses=scheduler.done(task, result))

    first = [scheduler.next_task() for _ in range(4)]
    # The first batch comes early.
    assert [target.rows for task in first for target in task.targets] == [2, 2, 2, 2]
    for task in first:
        done(task, rows_read(RowsPart(2), seconds=2 * TASK_SECONDS / 6))
    gathering = scheduler.next_task()
    assert isinstance(gathering, MakeBatch)
    done(gathering, batch_made(layout=layout))
    assert [scheduler.next_task().targets[0].whole for _ in range(2)] == [layout is None] * 2


@given(st.integers(2, 9), st.integers(2, 512), st.floats(TASK_SECONDS, 75e-3) | st.floats(75e-3, 1e3))
def test_workers_make_batches_of_their_own_where_none_waits_for_one(workers, batch, work):
    """Rows without a place: one of up to 75 ms is made by one worker; where too few are begun, all share them."""
    world = World(workers=workers)
    scheduler = GridSpec(rows=batch, last_rows=batch, steps=2 * workers).scheduler(world.context)

    def done(task, result):
        world.outputs.arrived(task.id, None, uses=scheduler.done(task, result))

    first = [scheduler.next_task() for _ in range(-(-batch // -(-batch // (2 * workers))))]
    for task in first:
        rows = len(task.indices)
        done(task, rows_read(RowsPart(rows), seconds=rows * work / batch))
    done(scheduler.next_task(), batch_made())
    assert isinstance(scheduler.pop(), Ready)
    tasks = [scheduler.next_task() for _ in range(workers)]
    assert None not in tasks
    assert work > 75e-3 or all(target.whole for task in tasks for target in task.targets)
