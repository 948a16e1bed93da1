"""All that surrounds the engine, without a process: memory that checks each write, workers that work when the test
says so, users that hold what they were handed.
"""

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from engine_twins import ROW_NBYTES, BoomError, Popped, Reach, RowLayout, Spec

from loaderkit._engine.dispatcher import Assignment, Dispatcher
from loaderkit._engine.outputs import Outputs
from loaderkit._engine.pace import Pace
from loaderkit._engine.scheduler import NO_RECORDS, SchedulerContext
from loaderkit._engine.slots import PAGE, Slots
from loaderkit._engine.task import (
    Discarded,
    MakeBatch,
    ReadRows,
    Ready,
    Slot,
    TaskResult,
    inputs_of,
    targets_of,
)
from loaderkit._order.facts import Failure
from loaderkit.errors import BadRecordsError, WorkerError, WorkerTimeoutError

MAX_RESTARTS = 2
UNIT = 256  # bytes: what the memory tells apart
REQUESTED, RESERVED = "requested", "reserved"


class WatchedSlots(Slots):
    """The allocator, and beside it which slots may be written to, and what lies there.

    Args:
        budget: bytes that all segments may have, None without an end.
    """

    def __init__(self, budget: int | None) -> None:
        super().__init__(self._grow)
        self.budget = budget
        self.requested = False  # by a worker, for an output that is made; else the engine reserves it
        self.live: dict[int, int] = {}  # offset -> bytes, kept apart from the allocator's own books
        self.pending: set[int] = set()  # offsets of what was freed while it was held
        self._let_go = False
        self._content: dict[int, Any] = {}  # place of a unit -> what was written over it last

    def _grow(self, nbytes: int) -> None:
        if self.budget is not None and self.nbytes + nbytes > self.budget:
            raise MemoryError(REQUESTED if self.requested else RESERVED)

    def alloc(self, nbytes: int) -> Slot:
        slot = super().alloc(nbytes)
        assert slot.offset % PAGE == 0 and slot.nbytes >= nbytes
        assert slot.segment <= slot.offset and slot.offset + slot.nbytes <= slot.segment + slot.segment_nbytes
        for offset, size in self.live.items():
            assert offset + size <= slot.offset or slot.offset + slot.nbytes <= offset, "two slots overlap"
        self.live[slot.offset] = slot.nbytes
        return slot

    def let_go(self, slot: Slot) -> None:
        self._let_go = True  # what comes back now was freed while it was held
        super().let_go(slot)
        self._let_go = False

    def trim(self, slot: Slot, nbytes: int) -> Slot:
        assert self.live[slot.offset] == slot.nbytes
        left = super().trim(slot, nbytes)
        self.live[slot.offset] = left.nbytes
        self._forget(left.offset + left.nbytes, slot.nbytes - left.nbytes)
        return left

    def free(self, slot: Slot) -> None:
        if self.held(slot):
            assert slot.offset not in self.pending, "freed twice"
            self.pending.add(slot.offset)
            super().free(slot)
            return
        assert (slot.offset in self.pending) == self._let_go
        self.pending.discard(slot.offset)
        assert self.live.pop(slot.offset) == slot.nbytes, "freed in another size"
        super().free(slot)
        self._forget(slot.offset, slot.nbytes)

    def _forget(self, offset: int, nbytes: int) -> None:
        for unit in range(offset // UNIT, (offset + nbytes) // UNIT):
            self._content.pop(unit, None)

    def put(self, slot: Slot, at: int, nbytes: int, value: Any) -> None:
        """A process writes in a slot that it was given."""
        assert self.live.get(slot.offset, 0) >= slot.nbytes, "written to a slot that isn't out any more"
        assert at + nbytes <= slot.nbytes, "written past the end of a slot"
        cell = (value,)
        for unit in range((slot.offset + at) // UNIT, -(-(slot.offset + at + nbytes) // UNIT)):
            self._content[unit] = cell

    def get(self, slot: Slot, at: int, nbytes: int) -> Any:
        """What a process finds there; it was all written in one go, and not written over since."""
        units = range((slot.offset + at) // UNIT, -(-(slot.offset + at + nbytes) // UNIT))
        found = {id(self._content[unit]): self._content[unit] for unit in units}
        assert len(found) == 1, "torn: parts of different writes"
        return next(iter(found.values()))[0]


class _Checked:
    """A scheduler that takes no memory where it has no task for want of memory."""

    def __init__(self, scheduler: Any, slots: WatchedSlots | None) -> None:
        self._scheduler = scheduler
        self._slots = slots

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)

    def next_task(self) -> Any:
        before = None if self._slots is None else dict(self._slots.live)
        try:
            return self._scheduler.next_task()
        except MemoryError:
            assert self._slots is None or self._slots.live == before, "memory that nothing uses"
            raise


@dataclass
class Made:
    """A task that a worker has begun: what it will report."""

    result: TaskResult
    output: list[list[Any]]
    room: Slot | None = None  # where the output goes, once the worker knows


@dataclass
class Hand:
    """A worker's queue."""

    tasks: deque[Assignment] = field(default_factory=deque)
    made: dict[int, Made] = field(default_factory=dict)  # task -> made, not reported


@dataclass
class Lease:
    """A batch in the user's hands."""

    slot: Slot
    rows: int
    expected: tuple[Any, ...]


class World(Reach):
    """Dispatcher, memory, workers and users.

    Args:
        arena: whether batches lie in slots.
        reserves: whether outputs do too.
        budget: bytes of the arena.
        workers: how many the pace counts on.
        task_rows: rows of a task, None to adapt.
        several: whether users may be handed several ready batches at once.
    """

    def __init__(
        self,
        *,
        arena: bool = True,
        reserves: bool = True,
        budget: int | None = None,
        workers: int = 2,
        task_rows: int | None = None,
        several: bool = True,
    ) -> None:
        self.slots = WatchedSlots(budget) if arena else None
        self.reserves = arena and reserves
        self.outputs = Outputs()
        self.pace = Pace(workers=workers, task_rows=task_rows)
        self.dispatcher = Dispatcher(
            slots=self.slots, outputs=self.outputs, pace=self.pace, max_restarts=MAX_RESTARTS
        )
        self.ids = 0
        self.context = SchedulerContext(
            slots=self.slots,
            reserves=self.reserves,
            bulk=several,
            outputs=self.outputs,
            pace=self.pace,
            new_id=self._new_id,
        )
        self.specs: dict[int, Spec] = {}  # of streams that were closed too: workers don't know of that
        self.twins: dict[int, Any] = {}  # open streams
        self.popped = 0  # elements, of all streams
        self.wanting: set[int] = set()  # streams that last gave an error for want of memory
        self.ended: dict[int, Any] = {}  # stream -> End() or the error it ended with
        self.hands: dict[int, Hand] = {}
        self.objects: dict[int, list[list[Any]]] = {}  # outputs that don't lie in the arena
        self.stale: list[tuple[int, int, int]] = []  # worker, task, attempt: out no more
        self.losses: dict[
            int, list[int | None]
        ] = {}  # by task, the record of each; None where it isn't known
        self.retiring: set[int] = set()
        self.elsewhere: set[int] = set()  # on other machines
        self.lost_elsewhere: dict[int, int] = {}  # how often a task was lost there; 2 where it was at work
        self.fenced: dict[int, Hand] = {}  # workers that were fenced and may still write
        self.leases: list[Lease] = []
        self._numbers = 0

    def _new_id(self) -> int:
        self.ids += 1
        return self.ids

    # --- streams and their users --------------------------------------------------------------------------------

    def open(self, spec: Spec) -> int:
        self._numbers += 1
        stream = self._numbers
        self.specs[stream] = spec
        self.twins[stream] = spec.elements()
        self.dispatcher.open(stream, _Checked(spec.scheduler(self.context), self.slots))
        return stream

    def close(self, stream: int, *, recalled: bool = False) -> None:
        """`recalled`: workers are told, and don't begin its tasks any more."""
        out = self.dispatcher.close(stream)
        del self.twins[stream]
        self.ended.pop(stream, None)
        mine = {
            worker: [(a.task.id, a.attempt) for a in hand.tasks if a.stream == stream]
            for worker, hand in self.hands.items()
        }
        assert out == {worker: tasks for worker, tasks in mine.items() if tasks}
        for worker, tasks in out.items():
            for task, attempt in tasks:
                assert self.dispatcher.replacement(worker, task, attempt, 0, 0) is NO_RECORDS
        for worker, tasks in out.items() if recalled else ():
            hand = self.hands[worker]
            for task, attempt in tasks:
                if task not in hand.made:
                    hand.tasks = deque(a for a in hand.tasks if a.task.id != task)
                    assert self.dispatcher.done(worker, task, attempt, Discarded())
                    self.stale.append((worker, task, attempt))

    def pop(self, stream: int) -> bool:
        """Pops and compares with the naive stream; whether there was anything."""
        due = self.dispatcher.due(stream)
        outcome = self.dispatcher.pop(stream)
        assert due or outcome is None, "a next() that waits would not have been woken"
        if outcome is None:
            assert stream not in self.ended
            return False
        if stream in self.ended:
            assert outcome == self.ended[stream], "an end or error stays"
            return True
        self.wanting.discard(stream)
        if _is_want_of_memory(outcome):
            self.wanting.add(stream)
            assert not any(hand.tasks for hand in self.hands.values()), (
                "an error though something may come back"
            )
            return True
        if isinstance(outcome, Ready):
            values = self._taken(stream, outcome)
            self.popped += len(values)
            losses = outcome.facts.losses or {}
            for place, ends in enumerate(outcome.facts.ends or [None] * len(values)):
                lost = tuple(loss.index for loss in losses.get(place, ()))
                popped, expected = Popped(values[place], ends, lost), self._expected(stream)
                assert popped == expected, f"{popped} where the naive stream has {expected}"
            return True
        expected = self._expected(stream)
        self.ended[stream] = outcome
        if isinstance(outcome, Failure):
            said = _said(outcome.error), outcome.cursors
        else:
            said = tuple(loss.index for loss in outcome.losses)
        assert said == expected, f"{said} where the naive stream has {expected}"
        return True

    def _expected(self, stream: int) -> Any:
        """An element; (error, cursors behind it) where the naive stream breaks, the losses left where it ends."""
        try:
            return next(self.twins[stream])
        except StopIteration as end:
            return end.value or ()
        except BoomError as boom:
            return boom.args[0], boom.cursors

    def _taken(self, stream: int, ready: Ready) -> list[Any]:
        if ready.slot is not None:
            return [("batch", *self._leased(each)) for each in (ready, *ready.following)]
        values = self.output(ready.task)[ready.part][ready.first : ready.first + ready.size]
        assert len(values) == ready.size > 0
        self.dispatcher.delivered(stream, ready)
        return values

    def _leased(self, ready: Ready) -> tuple[Any, ...]:
        assert isinstance(ready.layout, RowLayout)
        rows = tuple(self.row(ready.slot, place) for place in range(ready.rows))
        if self.slots.held(ready.slot):  # copied out of it
            self.slots.free(ready.slot)
        else:
            self.leases.append(Lease(ready.slot, ready.rows, rows))
        return rows

    def release(self, lease: Lease) -> None:
        """The user lets go of a batch; until now it was not written to."""
        assert tuple(self.row(lease.slot, place) for place in range(lease.rows)) == lease.expected
        self.leases.remove(lease)
        self.slots.free(lease.slot)

    def let_go(self) -> None:
        """Outputs that are not needed any more are freed, as the executor does now and then."""
        for task, slot in self.outputs.take_released():
            self.objects.pop(task, None)
            if slot is not None:
                self.slots.free(slot)

    # --- what a worker sees -------------------------------------------------------------------------------------

    def row(self, slot: Slot, place: int) -> Any:
        return self.slots.get(slot, place * ROW_NBYTES, ROW_NBYTES)

    def put_row(self, slot: Slot, place: int, row: Any) -> None:
        self.slots.put(slot, place * ROW_NBYTES, ROW_NBYTES, row)

    def output(self, task: int) -> list[list[Any]]:
        slot = self.outputs.slot(task)
        if slot is None:
            return self.objects[task]
        nbytes, _ = self.slots.get(slot, 0, UNIT)
        return self.slots.get(slot, 0, nbytes)[1]

    # --- workers ------------------------------------------------------------------------------------------------

    def hire(self, *, elsewhere: bool = False) -> int:
        self._numbers += 1
        self.hands[self._numbers] = Hand()
        if elsewhere:
            self.elsewhere.add(self._numbers)
        limit = partial(self._tasks_elsewhere, self._numbers) if elsewhere else None
        self.dispatcher.ready(self._numbers, elsewhere=limit)
        return self._numbers

    def _tasks_elsewhere(self, worker: int) -> int:
        """Some get more than others, and all more or fewer from time to time."""
        return max(1, self.pace.tasks_ahead() * (1 + worker % 3) // 2)

    def give(self) -> bool:
        """Gives one task out, if there is one."""
        assignment = self.dispatcher.assign()
        if assignment is None:
            return False
        hand = self.hands[assignment.worker]
        assert assignment.worker not in self.retiring
        if assignment.worker in self.elsewhere:
            assert not assignment.suspect and not isinstance(assignment.task, MakeBatch)
            assert self.lost_elsewhere.get(assignment.task.id, 0) < 2
        elif not isinstance(assignment.task, MakeBatch) and not self.elsewhere:
            assert all(len(other.tasks) >= len(hand.tasks) for other in self._free_hands())
        assert not any(given.suspect for given in hand.tasks), "a suspect is alone"
        assert not (assignment.suspect and hand.tasks), "a suspect is alone"
        assert assignment.suspect == bool(self.losses.get(assignment.task.id) is not None)
        hand.tasks.append(assignment)
        elsewhere = assignment.worker in self.elsewhere
        most = self._tasks_elsewhere(assignment.worker) if elsewhere else self.pace.tasks_ahead()
        assert len(hand.tasks) <= most
        out = self.dispatcher.busy(assignment.worker)
        assert [task.id for task in out] == [given.task.id for given in hand.tasks]
        return True

    def _free_hands(self) -> list[Hand]:
        """Those that may be given a task."""
        free = [hand for worker, hand in self.hands.items() if worker not in self.retiring]
        return [hand for hand in free if not any(given.suspect for given in hand.tasks)]

    def retire(self, worker: int) -> None:
        self.retiring.add(worker)
        self.dispatcher.retire(worker)

    def withdraw(self, worker: int, place: int) -> None:
        """A worker elsewhere takes too long: it may still write to what isn't a slot, and report late."""
        given = self.hands[worker].tasks[place]
        if self.dispatcher.withdraw(worker, given.task.id, given.attempt):
            del self.hands[worker].tasks[place]
            self.stale.append((worker, given.task.id, given.attempt))
            self.lost_elsewhere[given.task.id] = 2

    def leave(self) -> None:
        """Those that retire and have no task go."""
        for worker in [worker for worker in self.retiring if not self.hands[worker].tasks]:
            self.retiring.discard(worker)
            del self.hands[worker]
            assert self.dispatcher.take_back(worker, "dismissed") == []

    def begin(self, worker: int, place: int) -> Made | None:
        """Does a task, and requests space if its output needs more; None if there is no space."""
        hand = self.hands[worker]
        assignment = hand.tasks[place]
        task = assignment.task
        if task.id in hand.made:
            return hand.made[task.id]
        spec = self.specs[assignment.stream]
        result, output = spec.work(task, self)
        made = hand.made[task.id] = Made(result, output)
        elements = sum(map(len, output))
        if not self.reserves or not elements:
            return made
        # What a user's objects weigh may differ from one time to the next.
        nbytes = elements * spec.nbytes * (1 + assignment.attempt % 2) + UNIT
        made.result = result._replace(nbytes=nbytes)
        made.room = task.reserve
        if task.reserve is None or task.reserve.nbytes < nbytes:
            self.slots.requested = True
            made.room = self.dispatcher.request_space(worker, task.id, assignment.attempt, nbytes)
            self.slots.requested = False
            if made.room is None:
                hand.tasks.remove(assignment)
                del hand.made[task.id]
                spec.give_up(task, MemoryError)
                return None
        return made

    def finish(self, worker: int, place: int = 0, row_seconds: float = 1e-3) -> None:
        """A worker finishes a task: its output is written, its result reported."""
        assignment = self.hands[worker].tasks[place]
        made = self.begin(worker, place)
        if made is None:
            return
        hand = self.hands[worker]
        hand.tasks.remove(assignment)
        del hand.made[assignment.task.id]
        self._write(made)
        seconds = row_seconds * len(assignment.task.indices)
        result = made.result._replace(seconds=seconds)
        if not self.reserves:
            self.objects[assignment.task.id] = made.output
        assert self.dispatcher.done(worker, assignment.task.id, assignment.attempt, result)
        self.stale.append((worker, assignment.task.id, assignment.attempt))

    def _write(self, made: Made) -> None:
        if made.room is not None:
            self.slots.put(made.room, 0, made.result.nbytes, (made.result.nbytes, made.output))

    def _scribble(self, worker: int, place: int) -> None:
        """A worker writes wherever a task of its lets it write, as one does that dies in the middle."""
        assignment = self.hands[worker].tasks[place]
        made = self.hands[worker].made.get(assignment.task.id)
        for target in targets_of(assignment.task):
            if target.slot is not None:
                for row in range(target.first, target.first + target.rows):
                    self.put_row(target.slot, row, "scribbled")
        # Its reserve is its own only until it was told of another room.
        room = assignment.task.reserve if made is None else made.room
        if room is not None:
            self.slots.put(room, 0, room.nbytes, "scribbled")

    def die(
        self, worker: int, *, begun: int | None = None, at: int | None = None, scribbling: bool = False
    ) -> None:
        """A worker was reaped. What is said of its attempts from now on is stale.

        Args:
            worker: which.
            begun: the place of the task that it was in, None if in none.
            at: chooses the record that it had, None if that isn't known.
            scribbling: whether it wrote anything where it might.
        """
        for place in range(len(self.hands[worker].tasks) if scribbling else 0):
            self._scribble(worker, place)
        self._lose(worker, begun, at, retry=True, late=False)

    def fence(self, worker: int, *, begun: int | None, at: int | None, retry: bool) -> None:
        """A worker can't be stopped. It may write until it is released."""
        # A batch_fn may write to its rows, where they lie in this process: then the task isn't done again.
        hand = self.hands[worker]
        in_batch = begun is not None and isinstance(hand.tasks[begun].task, MakeBatch)
        retry = retry and not (in_batch and not self.reserves)
        self.dispatcher.fence(worker)
        self._lose(worker, begun, at, retry=retry, late=True)
        self.fenced[worker] = hand

    def _lose(self, worker: int, begun: int | None, at: int | None, *, retry: bool, late: bool) -> None:
        hand = self.hands.pop(worker)
        self.retiring.discard(worker)
        self.stale += [(worker, a.task.id, a.attempt) for a in hand.tasks]
        task, index = None, None
        if worker in self.elsewhere:
            for place, a in enumerate(hand.tasks):
                losses = self.lost_elsewhere.get(a.task.id, 0)
                self.lost_elsewhere[a.task.id] = losses + (2 if place == 0 else 1)
        elif begun is not None:
            assignment = hand.tasks[begun]
            task = assignment.task.id
            index = None if at is None else pick(assignment.task.indices.tolist(), at)
            self._suspect(assignment, index if assignment.suspect else None, retry, late)
        lost = self.dispatcher.take_back(worker, "SIGKILL", begun=task, at=index, retry=retry, late=late)
        assert [task.id for task in lost] == [a.task.id for a in hand.tasks]

    def _suspect(self, assignment: Assignment, at: int | None, retry: bool, late: bool) -> None:
        task = assignment.task
        losses = self.losses.setdefault(task.id, [])
        losses.append(at)
        in_a_row, before = 0, None
        for record in losses:
            in_a_row = in_a_row + 1 if before in (None, record) else 1
            before = record
        if not retry or in_a_row > MAX_RESTARTS or len(losses) > 4 * MAX_RESTARTS:
            known = at if retry and not isinstance(task, MakeBatch) else None
            kind = WorkerTimeoutError if late else WorkerError
            self.specs[assignment.stream].give_up(task, kind, known)
            losses.clear()

    def write_late(self, worker: int, place: int) -> None:
        """A fenced worker wakes up and does what it was about to do."""
        assignment = self.fenced[worker].tasks[place]
        task = assignment.task
        made = self.fenced[worker].made.get(task.id)
        room = task.reserve if made is None else made.room  # it may have requested other room before
        if room is not None:
            self.slots.put(room, 0, room.nbytes, "scribbled")
        if isinstance(task, ReadRows):
            self.specs[assignment.stream].work(task, self)
        if not self.reserves:
            for span in inputs_of(task):
                if span.slot is not None:
                    for row in range(span.lo, span.hi):
                        self.put_row(span.slot, row, "scribbled")

    def fenced_ended(self, worker: int) -> None:
        """A fenced worker has ended."""
        del self.fenced[worker]
        self.dispatcher.release(worker)

    def tell_stale(self, worker: int, task: int, attempt: int) -> None:
        """An attempt that isn't the current one is reported, and requests space: nothing changes."""
        before = self.books()
        assert self.dispatcher.request_space(worker, task, attempt, PAGE) is None
        assert self.dispatcher.replacement(worker, task, attempt, 0, 0) is NO_RECORDS
        assert not self.dispatcher.done(worker, task, attempt, Discarded())
        assert self.books() == before

    def books(self) -> tuple[Any, ...]:
        taken = None if self.slots is None else (self.slots.used, self.slots.returns, dict(self.slots.live))
        return taken, len(self.outputs), frozenset(self.dispatcher._workers)

    # --- all at once --------------------------------------------------------------------------------------------

    @property
    def busy(self) -> list[int]:
        return [worker for worker, hand in self.hands.items() if hand.tasks]

    @property
    def out_again(self) -> list[tuple[int, int, int]]:
        """Worker, task and an older attempt of all that is out, and was lost before."""
        return [
            (worker, given.task.id, older)
            for worker, hand in self.hands.items()
            for given in hand.tasks
            for older in range(given.attempt)
        ]

    def never_stuck(self, stream: int) -> None:
        """Where a worker waits and none has a task, there is something to hand out or a task to assign."""
        idle = not self.hands.keys() - self.retiring - self.elsewhere  # none that may do all tasks
        if stream in self.ended or idle or self.busy or self.pop(stream):
            return
        assert self.give() or self.pop(stream), "stuck"

    def slots_without_end(self) -> None:
        """From now on there is memory enough."""
        if self.slots is not None:
            self.slots.budget = None

    def wind_up(self) -> None:
        """Closes all streams, ends all work, takes everything back: nothing is left."""
        for stream in list(self.twins):
            self.close(stream)
        for number, worker in enumerate(self.busy):
            if number % 2:
                self.die(worker, begun=0, scribbling=True)
            else:
                while self.hands[worker].tasks:
                    self.finish(worker)
        assert not self.give()
        for lease in list(self.leases):
            self.release(lease)
        for worker in list(self.fenced):
            self.fenced_ended(worker)
        self.let_go()
        assert len(self.outputs) == 0
        assert not self.objects
        if self.slots is not None:
            assert not self.slots.live
            assert self.slots.used == 0


def pick(among: list[Any], which: int) -> Any:
    return among[which % len(among)]


def _is_want_of_memory(outcome: Any) -> bool:
    """Whether the engine had no memory to reserve; a request without space has its place in the stream."""
    error = outcome.error if isinstance(outcome, Failure) else None
    return isinstance(error, MemoryError) and error.args == (RESERVED,)


def _said(error: object) -> object:
    """What an error says, as the naive stream says it."""
    if isinstance(error, WorkerError | MemoryError | ValueError | BadRecordsError):
        return type(error)
    return error.args[0] if isinstance(error, BoomError) else error


def drain(world: World, stream: int, *, turns: int = 150) -> int:
    """Works until the stream is over or wants memory, or for so many turns; how many elements came."""
    before = world.popped
    for turn in range(turns):
        gave = world.give()
        while gave and world.give():
            continue
        if world.pop(stream):
            if stream in world.ended or stream in world.wanting:
                return world.popped - before
            while world.leases:
                world.release(world.leases[0])
            world.let_go()
        elif world.busy:
            world.finish(world.busy[turn % len(world.busy)])
        else:
            assert world.give() or world.pop(stream), "stuck"
    return world.popped - before
