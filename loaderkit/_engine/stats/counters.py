"""Counters of workers, and of the thread that takes a loader's elements, as snapshots.

They only grow, so the difference of two is what happened between them.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import Any, NamedTuple, Self

from loaderkit._base.system.dataclasses import dataclass, fields, replace

# What a worker is in, in the order of its cells.
PHASES = ("starting", "working", "telling", "starving", "waiting")
STARTING, WORKING, TELLING, STARVING, WAITING = range(len(PHASES))
ENDED = "ended"


@dataclass(frozen=True, slots=True)
class OperationCounters:
    """One operation, in one worker or in several.

    Attributes:
        name: as in errors, "operations[0] Decode".
        nanoseconds: in its calls.
        elements_in, elements_out: what it took and gave.
    """

    name: str
    nanoseconds: int = 0
    elements_in: int = 0
    elements_out: int = 0

    def plus(self, other: "OperationCounters", sign: int = 1) -> "OperationCounters":
        """The sum with the same operation elsewhere, or with sign=-1 the difference."""
        sums = (getattr(self, name) + sign * getattr(other, name) for name in _OF_OPERATIONS)
        return OperationCounters(self.name, *sums)


_OF_OPERATIONS = ("nanoseconds", "elements_in", "elements_out")


class TaskTrace(NamedTuple):
    """One finished task. begin, end: by the worker's perf_counter_ns. The others: as in `WorkerCounters`, of this task.

    operations: nanoseconds of each operation but Batches.
    """

    task: int
    begin: int
    end: int
    records: int
    rows: int
    read: int
    batch: int
    operations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerCounters:
    """One worker, or several as one. Times are nanoseconds of one clock; the phase that is open is in them.

    Attributes:
        number: of the worker in its pool, which none of its successors has; -1 where several are summed.
        kind: "process", "thread", or "inline" for the thread that calls next().
        phase: what it is in now, one of `PHASES`, or "ended".
        task: the one that it is at, None for none.
        starting: until it was ready.
        working: in tasks.
        telling: messages, pickles, outputs.
        starving: for want of tasks.
        waiting: for memory, or for the trainer's answer. `wall` is these five together.
        unfinished: the part of `working` that is of the present task, which is in no other figure yet.
        cpu: of its thread in tasks; None where that isn't known.
        tasks, records, rows, nbytes: done, read, made, made in bytes (about).
        read, read_calls: in which the worker itself read, or waited for reads ahead.
        threads_read, threads_read_calls: of its reading threads.
        tokens: that were packed into rows.
        places: of these rows, padding included.
        retries: reads that were tried again.
        batch: in which batches were made.
        operations: of each.
        delayed: in which its thread could run and had no processor, since it was ready; None where that isn't known.
        memory: bytes of its own at the snapshot; None where that isn't known.
    """

    number: int = -1
    kind: str = "inline"
    phase: str = ENDED
    task: int | None = None
    starting: int = 0
    working: int = 0
    telling: int = 0
    starving: int = 0
    waiting: int = 0
    unfinished: int = 0
    cpu: int | None = 0
    tasks: int = 0
    records: int = 0
    rows: int = 0
    nbytes: int = 0
    read: int = 0
    read_calls: int = 0
    threads_read: int = 0
    threads_read_calls: int = 0
    tokens: int = 0
    places: int = 0
    retries: int = 0
    batch: int = 0
    operations: tuple[OperationCounters, ...] = ()
    delayed: int | None = 0
    memory: int | None = None

    @property
    def wall(self) -> int:
        """Nanoseconds since it began."""
        return self.starting + self.working + self.telling + self.starving + self.waiting

    def plus(self, other: "WorkerCounters", sign: int = 1) -> Self:
        """The counters of both together, or with sign=-1 what this one did since the other.

        >>> WorkerCounters(tasks=3, working=50).plus(WorkerCounters(tasks=1, working=20), -1).tasks
        2
        """
        sums: dict[str, int | None] = {}
        for name in _SUMMED:
            mine, its = getattr(self, name), getattr(other, name)
            sums[name] = None if mine is None or its is None else mine + sign * its
        return type(self)(
            number=self.number if sign < 0 or self.number == other.number else -1,
            kind=self.kind,
            phase=self.phase,
            task=self.task,
            memory=self.memory,
            operations=_joined(self.operations, other.operations, sign),
            **sums,  # type: ignore[arg-type]  # None for cpu alone
        )


_SUMMED = tuple(
    field.name
    for field in fields(WorkerCounters)
    if field.name not in ("number", "kind", "phase", "task", "memory", "operations")
)
_sums_of = attrgetter(*_SUMMED)


def _joined(
    mine: tuple[OperationCounters, ...], its: tuple[OperationCounters, ...], sign: int
) -> tuple[OperationCounters, ...]:
    longer, shorter = (mine, its) if len(mine) >= len(its) else (its, mine)
    made = []
    for place, operation in enumerate(longer):
        if place >= len(shorter):
            made.append(operation if longer is mine or sign > 0 else OperationCounters(operation.name))
        else:
            made.append(mine[place].plus(its[place], sign))
    return tuple(made)


def total(workers: Iterable[WorkerCounters]) -> WorkerCounters:
    """All of these as one; number -1.

    >>> total([WorkerCounters(0, tasks=2), WorkerCounters(1, tasks=3)]).tasks
    5
    """
    each = [*workers]
    if len(each) < 2:
        return each[0] if each else WorkerCounters()
    # By column: 64 workers take 0.2 ms, and 64 sums of two 1.1 ms.
    columns = zip(_SUMMED, zip(*map(_sums_of, each), strict=True), strict=True)
    sums: dict[str, Any] = {name: None if None in column else sum(column) for name, column in columns}
    by_operation = zip_longest(*(worker.operations for worker in each))
    operations = tuple(_all_of([one for one in same if one is not None]) for same in by_operation)
    return replace(each[0], number=-1, operations=operations, **sums)


def _all_of(operations: Sequence[OperationCounters]) -> OperationCounters:
    sums = (sum(getattr(each, name) for each in operations) for name in _OF_OPERATIONS)
    return OperationCounters(operations[0].name, *sums)


@dataclass(frozen=True, slots=True)
class PoolCounters:
    """The workers of an executor, at a snapshot.

    Attributes:
        workers: those that live, by number.
        ended: what all that ended did together.
        wanted: how many there should be, and of other machines those that are there; 0 without workers.
        lost: workers that died or were killed.
        repeated: tasks that were begun again after a loss.
        mapped: bytes of the shared memory; 0 without workers, as the next three.
        used: bytes of its slots.
        leased: bytes of batches that the user holds.
        copied: bytes of batches that were copied for want of memory.
        tasks_waiting: tasks that are given and not done.
        ready: elements that are made and not taken.
        places: by place what its worker did, and those before it that it replaced; their number is the place.
        executor: its number in this process, for two may have workers of the same numbers; 0 where there is none.
    """

    workers: tuple[WorkerCounters, ...]
    ended: WorkerCounters = WorkerCounters()
    wanted: int = 0
    lost: int = 0
    repeated: int = 0
    mapped: int = 0
    used: int = 0
    leased: int = 0
    copied: int = 0
    tasks_waiting: int = 0
    ready: int = 0
    places: tuple[WorkerCounters, ...] = ()
    executor: int = 0

    @property
    def kind(self) -> str:
        """Of the workers, also after their end."""
        return (self.workers or (self.ended,))[0].kind

    def after(self, earlier: "PoolCounters") -> "PoolCounters":
        """This pool's counters on top of those of the pool that it replaced, whose workers have all ended for it.

        >>> PoolCounters((), lost=1).after(PoolCounters((WorkerCounters(0, tasks=2),), lost=2)).lost
        3
        """
        return replace(
            self,
            ended=self.ended.plus(earlier.all),
            places=_by_place(self.places, earlier.places, 1),
            lost=self.lost + earlier.lost,
            repeated=self.repeated + earlier.repeated,
            copied=self.copied + earlier.copied,
        )

    def since(self, earlier: "PoolCounters") -> "PoolCounters":
        """What was counted since an earlier snapshot; what doesn't only grow is as it is now.

        >>> worker = WorkerCounters(0, tasks=5)
        >>> now = PoolCounters((worker,), lost=3)
        >>> now.since(PoolCounters((WorkerCounters(0, tasks=2),), lost=2)).all.tasks
        3
        """
        same = self.executor == earlier.executor
        before = {worker.number: worker for worker in earlier.workers} if same else {}
        workers = tuple(
            worker.plus(before[worker.number], -1) if worker.number in before else worker
            for worker in self.workers
        )
        ended = self.all.plus(earlier.all, -1).plus(total(workers), -1)
        return replace(
            self,
            workers=workers,
            ended=replace(ended, number=-1, kind=self.kind, phase=ENDED, memory=None),
            places=_by_place(self.places, earlier.places, -1),
            lost=self.lost - earlier.lost,
            repeated=self.repeated - earlier.repeated,
            copied=self.copied - earlier.copied,
        )

    @property
    def all(self) -> WorkerCounters:
        """The work of all workers there were."""
        return total([*self.workers, self.ended])


def _by_place(
    mine: tuple[WorkerCounters, ...], its: tuple[WorkerCounters, ...], sign: int
) -> tuple[WorkerCounters, ...]:
    made = {worker.number: worker for worker in mine}
    for other in its:
        nothing = WorkerCounters(other.number, other.kind, cpu=None if other.cpu is None else 0)
        made[other.number] = made.get(other.number, nothing).plus(other, sign)
    return tuple(made[place] for place in sorted(made))


class _Counted:
    __slots__ = ()

    def minus(self, earlier: Self) -> Self:
        """What was counted since an earlier snapshot.

        >>> TrainerCounters(elapsed=9, waiting=4).minus(TrainerCounters(elapsed=2, waiting=1)).own
        4
        """
        names: Any = fields(self)  # type: ignore[arg-type]  # those that derive from it are dataclasses
        return type(self)(*(getattr(self, each.name) - getattr(earlier, each.name) for each in names))


@dataclass(frozen=True, slots=True)
class CorpusCounters:
    """One component of a mixture, over all processes.

    Attributes:
        records: of the elements handed out.
        epochs: None where its sampler doesn't say how long one is.
    """

    records: int = 0
    epochs: float | None = 0.0

    def minus(self, earlier: "CorpusCounters") -> "CorpusCounters":
        """What was read since an earlier snapshot.

        >>> CorpusCounters(30, 1.5).minus(CorpusCounters(10, 0.5))
        CorpusCounters(records=20, epochs=1.0)
        """
        epochs = None if self.epochs is None else self.epochs - (earlier.epochs or 0.0)
        return CorpusCounters(self.records - earlier.records, epochs)


@dataclass(frozen=True, slots=True)
class Exposed(_Counted):
    """What `it.watch(loss)` found; times are nanoseconds.

    Attributes:
        exposed: with nothing to do, in blocked calls that were judged.
        judged: of these calls in all.
        calls: how many.
    """

    exposed: int = 0
    judged: int = 0
    calls: int = 0

    @property
    def share(self) -> float | None:
        """The share of the blocked time in which the devices had nothing to do; None where no call was judged."""
        return self.exposed / self.judged if self.judged else None


@dataclass(frozen=True, slots=True)
class TrainerCounters(_Counted):
    """One iterator's user. Times are nanoseconds.

    Attributes:
        elapsed: since the first element was there.
        opening: blocked until the first element after an opening, a seek or a restore.
        opening_since_first: as `opening`, without that of the first element of all.
        waiting: blocked otherwise, for workers, or at work itself where there are none.
        handing: in the loader's own code.
        placing: sending batches to devices.
        paused: in gaps that are far longer than usual, such as an evaluation.
        elements: handed out.
        after_first: elements after the first.
        openings: elements that came first after an opening.
        blocked_calls: calls of next() that were blocked and gave an element, openings left out.
        records, bad_records: of the elements handed out, this process's.
    """

    elapsed: int = 0
    opening: int = 0
    opening_since_first: int = 0
    waiting: int = 0
    handing: int = 0
    placing: int = 0
    paused: int = 0
    elements: int = 0
    after_first: int = 0
    openings: int = 0
    blocked_calls: int = 0
    records: int = 0
    bad_records: int = 0

    @property
    def own(self) -> int:
        """Nanoseconds in the user's code between two elements, pauses left out."""
        mine = self.opening_since_first + self.waiting + self.handing + self.placing + self.paused
        return max(0, self.elapsed - mine)

    @property
    def ready(self) -> int:
        """Elements that were ready when they were asked for, openings left out."""
        return max(0, self.elements - self.openings - self.blocked_calls)
