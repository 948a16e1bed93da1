"""A compiled pipeline: what is run on the records, cut into levels, the same in every process.

A *level* is a Batch and the operations that follow it up to the next Batch; level 0 has no Batch and starts from the
source. Inside a level each operation is a *stage* that takes a run of elements at once. Beside its value an element
has two cursors, tuples of one index and one ordinal for each FlatMap passed:

    begin   the place in the stream where it starts; its first record's index and which child of what it is
    end     the place where the stream goes on after it

Map and Filter keep both; FlatMap appends the child's ordinal (the end of the last child is its parent's); Batch
takes its first row's begin and its last row's end. The begin is also what keys the randomness of an element, so a
draw is a function of the place in the stream and of nothing else.

A failure ends a run of elements: those before it are still good and go on through the later stages, where an earlier
one may fail too. What is reported is therefore the first failure in the order of the stream, however tasks are cut.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, takewhile
from typing import Any

import numpy as np

from loaderkit.plan.cursor import Cursor
from loaderkit.plan.rng import RecordRng, child_of
from loaderkit.plan.schedule import Fill

from .base import Batch, Filter, FlatMap, Map, MapWithIndex, RandomMap, Transformation, function_of, label_of
from .padding import spread, spread_rows, valid_rows, with_valid
from .seeding import SeededGlobals
from .stack import Block, collect


@dataclass(frozen=True, slots=True)
class Failure:
    """What a user's function or the batching raised, and where: enough for the trainer to say which record it was."""

    error: Exception
    label: str
    indices: tuple[int, ...]


class Singles(Sequence[Cursor]):
    """The cursors `(index,)` of records straight from the source, made only when somebody asks for them."""

    def __init__(self, indices: np.ndarray) -> None:
        self._indices = indices  # (n,) int64

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Singles(self._indices[place])
        return (int(self._indices[place]),)

    def __iter__(self) -> Iterator[Cursor]:
        return zip(self._indices.tolist(), strict=True)


@dataclass(slots=True)
class Run:
    """Consecutive elements of one stream: values, and their cursors.

    `ends` is None where the pipeline never changes the number of rows: there the plan knows every end.
    """

    values: list[Any]
    begins: Sequence[Cursor]
    ends: Sequence[Cursor] | None

    def head(self, count: int) -> "Run":
        return Run(self.values[:count], self.begins[:count], None if self.ends is None else self.ends[:count])

    def add(self, other: "Run") -> None:
        self.values += other.values
        self.begins = [*self.begins, *other.begins]
        if self.ends is not None and other.ends is not None:
            self.ends = [*self.ends, *other.ends]


class _Stop(Exception):  # noqa: N818 - carries what was made so far; it never leaves this file
    """A stage stopped early: what it had made, how many elements that took, and why."""

    def __init__(self, made: Run, taken: int, error: Exception) -> None:
        super().__init__()
        self.made, self.taken, self.error = made, taken, error


def _gather(results: Iterable[Any], expected: int, out: list[Any]) -> Exception | None:
    # list.extend keeps what it had when the iterable raises, so len(out) says which call failed, without a
    # Python-level loop. It also takes a StopIteration from the user's function for the end: hence the count.
    try:
        out.extend(results)
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything
        return error
    if len(out) != expected:
        return RuntimeError("the function raised StopIteration, which would end the loop that called it")
    return None


@dataclass(frozen=True, slots=True)
class _MapStage:
    label: str
    call: Callable[..., Any]
    with_index: bool = False

    def apply(self, run: Run, start: Cursor) -> Run:
        values: list[Any] = []
        if self.with_index:
            results = map(self.call, [begin[0] for begin in run.begins], run.values)
        else:
            results = map(self.call, run.values)
        error = _gather(results, len(run.values), values)
        if error is not None:
            made = run.head(len(values))
            made.values = values
            raise _Stop(made, len(values), error)
        return Run(values, run.begins, run.ends)


@dataclass(frozen=True, slots=True)
class _RandomMapStage:
    label: str
    call: Callable[[Any, np.random.Generator], Any]
    rng: RecordRng

    def apply(self, run: Run, start: Cursor) -> Run:
        values: list[Any] = []
        error = _gather(map(self.call, run.values, self._generators(run.begins)), len(run.values), values)
        if error is not None:
            made = run.head(len(values))
            made.values = values
            raise _Stop(made, len(values), error)
        return Run(values, run.begins, run.ends)

    def _generators(self, begins: Sequence[Cursor]) -> Iterator[np.random.Generator]:
        at = self.rng.at
        for begin in begins:
            yield at(begin[0], child_of(begin[1:])) if len(begin) > 1 else at(begin[0])


@dataclass(frozen=True, slots=True)
class _FilterStage:
    label: str
    call: Callable[[Any], Any]

    def apply(self, run: Run, start: Cursor) -> Run:
        keep: list[Any] = []
        error = _gather(map(self.call, run.values), len(run.values), keep)
        # An array of several values has no truth value: bool() says so here, where the record is known.
        for place, answer in enumerate(keep):
            try:
                keep[place] = bool(answer)
            except Exception as not_a_bool:  # noqa: BLE001 - __bool__ may raise anything
                error = not_a_bool
                del keep[place:]
                break
        made = Run(
            list(compress(run.values, keep)),
            list(compress(run.begins, keep)),
            None if run.ends is None else list(compress(run.ends, keep)),
        )
        if error is not None:
            raise _Stop(made, len(keep), error)
        return made


@dataclass(frozen=True, slots=True)
class _FlatMapStage:
    label: str
    call: Callable[[Any], Iterable[Any]]
    depth: int  # FlatMaps passed before this one
    max_fan_out: int | None

    def apply(self, run: Run, start: Cursor) -> Run:
        made = Run([], [], [])
        begins: list[Cursor] = []
        ends: list[Cursor] = []
        assert run.ends is not None
        for place, (value, begin, end) in enumerate(zip(run.values, run.begins, run.ends, strict=True)):
            try:
                children = list(self.call(value))
                if self.max_fan_out is not None and len(children) > self.max_fan_out:
                    raise ValueError(
                        f"{self.label} gave {len(children)} elements for one, max_fan_out is {self.max_fan_out}"
                    )
            except StopIteration as stop:
                error: Exception = RuntimeError("the function raised StopIteration")
                error.__cause__ = stop
            except Exception as raised:  # noqa: BLE001 - a user's function may raise anything
                error = raised
            else:
                # The element in which the stream was entered again: its first children were handed out before.
                entered = begin == start[: self.depth + 1] and len(start) > self.depth + 1
                first = start[self.depth + 1] if entered else 0
                made.values += children[first:]
                begins += [(*begin, k) for k in range(first, len(children))]
                ends += [(*begin, k + 1) for k in range(first, len(children) - 1)]
                if len(children) > first:
                    ends.append(end)
                continue
            made.begins, made.ends = begins, ends
            raise _Stop(made, place, error)
        made.begins, made.ends = begins, ends
        return made


_Stage = _MapStage | _RandomMapStage | _FilterStage | _FlatMapStage


@dataclass(frozen=True, slots=True)
class Level:
    """One Batch (None for level 0) and the stages behind it.

    depth    FlatMaps passed before it
    mark     says of each row that it is real, where the next Batch puts others in between; no stage, for what it
             raises is no record's fault
    """

    batch: Batch | None
    stages: tuple[_Stage, ...]
    depth: int = 0
    mark: _MapStage | None = None

    def run(self, run: Run, start: Cursor) -> tuple[Run, Failure | None]:
        """Takes the elements through the stages and marks them; a failure comes with the elements before it."""
        run, failure = self.work(run, start)
        run, earlier = self.marked(run)
        return run, earlier or failure

    def work(self, run: Run, start: Cursor) -> tuple[Run, Failure | None]:
        """Takes the elements through the stages only."""
        failure = None
        for stage in self.stages:
            try:
                run = stage.apply(run, start)
            except _Stop as stop:
                failure = Failure(stop.error, stage.label, (run.begins[stop.taken][0],))
                run = stop.made
        return run, failure

    def marked(self, run: Run) -> tuple[Run, Failure | None]:
        """The elements that went through the stages, as rows of the next Batch."""
        if self.mark is None:
            return run, None
        try:
            return self.mark.apply(run, ()), None
        except _Stop as stop:
            return stop.made, Failure(stop.error, self.mark.label, (run.begins[stop.taken][0],))

    def make_batch(
        self, parts: Sequence[Block | list[Any]], begins: Sequence[Cursor], fill: Fill = ()
    ) -> Any:
        """One batch of all rows of `parts`; raises _NoBatch.

        Args:
            parts: runs of rows, by column or as a list.
            begins: of each row, for the words of an error.
            fill: where rows of zeros stand; nowhere, if it is empty.
        """
        assert self.batch is not None
        mentioned: list[int] = []

        def describe(row: int) -> str:
            index = begins[row][0]
            mentioned.append(index)
            return f"index {index}"

        try:
            if self.batch.batch_fn is None:
                batch = self.batch.stacked(parts, describe)
                return spread(batch, fill) if fill else batch
            # Rows on the way to a batch_fn are never put in columns: it sees them as the user's functions made them.
            rows: list[Any] = [row for part in parts for row in part]  # type: ignore[union-attr]
            fill = fill or ((len(rows), 0),)
            made = self.batch.batch_fn(spread_rows(rows, fill))
            return with_valid(made, valid_rows(fill)) if self.batch.remainder == "pad" else made
        except Exception as error:
            indices = tuple(mentioned or [begin[0] for begin in begins])
            raise _NoBatch(Failure(error, repr(self.batch), indices)) from error


class _NoBatch(Exception):  # noqa: N818 - carries the failure; it never leaves this file
    """The rows make no batch."""

    def __init__(self, failure: Failure) -> None:
        super().__init__()
        self.failure = failure


def _stage(op: Transformation, label: str, seed: int | None, draws: int, depth: int) -> _Stage:
    match op:
        case RandomMap():
            assert seed is not None
            return _RandomMapStage(label, function_of(op), RecordRng(seed, draws))
        case Map() if op.seed_globals:
            assert seed is not None
            return _RandomMapStage(label, SeededGlobals(function_of(op)), RecordRng(seed, draws))
        case Map():
            return _MapStage(label, function_of(op))
        case MapWithIndex():
            return _MapStage(label, function_of(op), with_index=True)
        case Filter():
            return _FilterStage(label, function_of(op))
        case FlatMap():
            return _FlatMapStage(label, function_of(op), depth, op.max_fan_out)
    raise TypeError(f"{op!r} is no operation that a pipeline can run")


def draws(op: Transformation) -> bool:
    """Whether the operation draws random numbers, and so needs a seed and an ordinal."""
    return isinstance(op, RandomMap) or (isinstance(op, Map) and bool(op.seed_globals))


def compile_levels(operations: Sequence[Transformation], seed: int | None) -> tuple[Level, ...]:
    """Cuts the operations into levels, after each Batch; ordinals of drawing operations count over all of them."""
    levels: list[Level] = []
    batch: Batch | None = None
    stages: list[_Stage] = []
    drawn = depth = before = 0
    for place, op in enumerate(operations):
        if isinstance(op, Batch):
            mark = None
            if op.remainder == "pad" and op.batch_fn is None:
                mark = _MapStage(f"operations[{place}] {label_of(op)}", with_valid)
            levels.append(Level(batch, tuple(stages), before, mark))
            batch, stages, before = op, [], depth
            continue
        stages.append(_stage(op, f"operations[{place}] {label_of(op)}", seed, drawn, depth))
        drawn += draws(op)
        depth += isinstance(op, FlatMap)
    levels.append(Level(batch, tuple(stages), before))
    return tuple(levels)


class Pipeline:
    """The levels of a loader's operations, and the two ways to run them.

    Args:
        operations: transformations, already checked.
        seed: the sampler's, None where nothing draws.
    """

    def __init__(self, operations: Sequence[Transformation], seed: int | None) -> None:
        self._operations = operations
        self.levels = compile_levels(operations, seed)
        self.depth = sum(isinstance(op, FlatMap) for op in operations)

    @property
    def before_first_batch(self) -> tuple[Transformation, ...]:
        """The operations that work on one record after the other."""
        return tuple(takewhile(lambda op: not isinstance(op, Batch), self._operations))

    @property
    def group(self) -> int:
        """Records of one row of the last Batch, where no operation changes their number."""
        return math.prod(
            level.batch.batch_size or 1 for level in self.levels[1:-1] if level.batch is not None
        )

    @property
    def passes_rows(self) -> bool:
        """Whether records are rows of the only Batch as they come from the source."""
        first = self.levels[0]
        return len(self.levels) == 2 and not first.stages and first.mark is None

    def make_rows(
        self, records: list[Any], indices: np.ndarray, *, unread: Failure | None
    ) -> tuple[Run, Failure | None]:
        """The rows that enter the last Batch, for a pipeline that never changes their number.

        Args:
            records: what the source gave.
            indices: (n,) int64, the records' indices.
            unread: why there are no more records, where reading the next one failed.
        """
        run, failure = self.levels[0].run(Run(records, Singles(indices), None), ())
        return self.rows_of(run, failure or unread)

    def rows_of(self, run: Run, failure: Failure | None) -> tuple[Run, Failure | None]:
        """The rows that enter the last Batch, from the elements before the first one; a failure ends both."""
        for level in self.levels[1:-1]:
            assert level.batch is not None and level.batch.batch_size is not None
            run, earlier = _batch_up(
                run.values, run.begins, level, level.batch.batch_size, partial=failure is None
            )
            run, earliest = level.run(run, ())
            failure = earliest or earlier or failure
        return run, failure

    def batch_one(
        self,
        level: int,
        parts: Sequence[Block | list[Any]],
        rows: Sequence[Cursor],
        begin: Cursor,
        end: Cursor | None,
        start: Cursor,
        fill: Fill = (),
    ) -> tuple[Run, Failure | None]:
        """One batch from its rows, and what the stages behind that Batch make of it.

        Args:
            level: which Batch.
            parts, rows: the rows in order, and the begin of each.
            begin, end: of the batch; end is None where the plan knows it.
            start: where the stream was entered.
            fill: where rows of zeros stand in it.
        """
        try:
            batch = self.levels[level].make_batch(parts, rows, fill)
        except _NoBatch as stop:
            return Run([], [], None if end is None else []), stop.failure
        begins = [begin[: self.levels[level].depth + 1]]
        return self.levels[level].run(Run([batch], begins, None if end is None else [end]), start)

    def batch_up(
        self, rows: Block | list[Any], begins: Sequence[Cursor], size: int, *, partial: bool
    ) -> tuple[Run, Failure | None]:
        """The last Batch's batches of `size` rows each, and what the stages behind it make of them.

        Args:
            rows, begins: of consecutive batches, in a pipeline that never changes the number of rows.
            partial: whether a last, smaller batch is made.
        """
        level = self.levels[-1]
        run, stopped = _batch_up(rows, begins, level, size, partial=partial)
        run, failure = level.run(run, ())
        return run, failure or stopped


def _batch_up(
    rows: Block | list[Any], begins: Sequence[Cursor], level: Level, size: int, *, partial: bool
) -> tuple[Run, Failure | None]:
    made: list[Any] = []
    firsts: list[Cursor] = []
    stopped: Failure | None = None
    count = rows.size if isinstance(rows, Block) else len(rows)
    for lo in range(0, count, size):
        hi = min(lo + size, count)
        if hi - lo < size and not partial:
            break  # its other rows failed: the batch isn't there, and the failure is reported already
        part = rows.slice(lo, hi) if isinstance(rows, Block) else rows[lo:hi]
        here = begins[lo:hi]
        try:
            made.append(level.make_batch([part], here))
        except _NoBatch as stop:
            stopped = stop.failure
            break
        firsts.append(here[0])
    return Run(made, firsts, None), stopped


def as_block(rows: list[Any]) -> Block | list[Any]:
    """The rows by column where they are alike: what travels and is gathered fastest; the rows themselves elsewhere."""
    if len(rows) < 2:
        return rows
    return collect(rows) or rows
