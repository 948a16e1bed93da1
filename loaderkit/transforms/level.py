"""A level: a Batch and the operations after it up to the next Batch, each of them a stage.

Level 0 has no Batch; its elements are the source's records.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loaderkit._order.facts import Cursor, Failure, Fill

from .base import Batch, FlatMap, Transformation, Window, draws
from .operation_names import RaisedBy, operation_name
from .pace import PiecePace
from .padding import spread, spread_rows, valid_rows, with_valid
from .run import ElementRun
from .stack import Block
from .stages import MapStage, Stage, Stop, WindowStage, no_result, stage_of, window_stage_of


@dataclass(frozen=True, slots=True)
class Level:
    """One Batch (None for level 0) and the stages after it.

    label  the Batch's name in errors
    depth  number of FlatMaps and Windows before the Batch
    window what makes elements of the rows in place of a batch: the level of a Window, whose `batch` lists the rows
    windows  of level 0: the level of the first Window, if tasks that read make its elements too
    mark   adds the leaf "valid" to each row where the next Batch pads; not one of the stages, because no record causes
           its errors
    pace   how many elements go through the stages together
    spent  for each stage the nanoseconds in it, the elements that it took and those that it gave, in all
    counted_stages  each stage with its numbers of `spent`
    """

    batch: Batch | None
    label: str
    stages: tuple[Stage, ...]
    depth: int = 0
    mark: MapStage | None = None
    window: WindowStage | None = None
    windows: "Level | None" = None
    pace: PiecePace = field(default_factory=PiecePace)
    spent: list[list[int]] = field(default_factory=list)
    counted_stages: list[tuple[Stage, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Of a level with a Window, the stages' are behind the Window's own.
        count = len(self.stages) + (self.window is not None)
        self.spent.extend([0, 0, 0] for _ in range(count - len(self.spent)))
        behind = self.spent if self.window is None else self.spent[1:]
        self.counted_stages[:] = zip(self.stages, behind, strict=True)

    def counted(self) -> list[tuple[str, list[int]]]:
        """The label of each operation of this level but its Batch, and what it took."""
        labels = [stage.label for stage in self.stages]
        if self.window is not None:
            labels.insert(0, self.window.label)
        mine = list(zip(labels, self.spent, strict=True))
        return mine if self.windows is None else mine + self.windows.counted()

    def run(self, run: ElementRun, start: Cursor) -> tuple[ElementRun, Failure | None]:
        """Runs the stages on the elements and marks them; with a failure, gives the elements before it."""
        run, failure = self.work(run, start)
        return self.finished(run, failure, start)

    def finished(
        self, run: ElementRun, failure: Failure | None, start: Cursor
    ) -> tuple[ElementRun, Failure | None]:
        """The elements after `work` taken through what needs several of them, and marked; failure: what ended them."""
        if self.windows is None:
            run, earlier = self.marked(run)
            return run, earlier or failure
        assert self.windows.window is not None
        begun, taken = time.perf_counter_ns(), len(run.values)
        run, stopped = self.windows.window.windows(run, start, partial=failure is None)
        _count(self.windows.spent[0], begun, taken, len(run.values))
        run, earlier = self.windows.run(run, start)
        return run, earlier or stopped or failure

    def expanded(
        self, rows: list[Any], begins: Sequence[Cursor], begin: Cursor, end: Cursor, start: Cursor
    ) -> tuple[ElementRun, Failure | None]:
        """What a Window makes of its rows, taken through the stages after it.

        Args:
            rows, begins: the rows, and the cursor of each for errors.
            begin, end, start: as in `WindowStage.children`.
        """
        assert self.window is not None
        begun = time.perf_counter_ns()
        try:
            run = self.window.children(rows, begin, end, start)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            failure = Failure(error, self.label, tuple(row[0] for row in begins))
            return ElementRun([], [], []), failure
        _count(self.spent[0], begun, len(rows), len(run.values))
        return self.run(run, start)

    def work(self, run: ElementRun, start: Cursor) -> tuple[ElementRun, Failure | None]:
        """Runs the stages on the elements, piece by piece, without marking them."""
        if not self.stages:
            return run, None
        clock = time.perf_counter_ns  # read once a stage
        begun, count = clock(), len(run.values)
        in_pieces = len(self.stages) > 1 and count > 1
        made: ElementRun | None = None
        failure: Failure | None = None
        low, high = 0, count
        while True:
            if in_pieces:
                high = low + self.pace.size
            piece, piece_begun = run.part(low, high) if in_pieces else run, begun
            taken = size = len(piece.values)
            for stage, counted in self.counted_stages:
                try:
                    piece = stage.apply(piece, start)
                except Stop as stop:
                    failure = _failure(stop.error, stage.label, piece.begins[stop.taken][0])
                    piece = stop.made
                now, given = clock(), len(piece.values)
                counted[0] += now - begun  # all three behind the calls, which Ctrl-C may fall into
                counted[1] += size
                counted[2] += given
                begun, size = now, given
            if in_pieces:
                self.pace.took((begun - piece_begun) / (1e9 * len(self.stages)), elements=taken)
            if made is None:
                made = piece
            else:
                made.add(piece)
            low = high
            if low >= count or failure is not None:
                return made, failure

    def marked(self, run: ElementRun) -> tuple[ElementRun, Failure | None]:
        """The elements after the stages, as rows of the next Batch."""
        if self.mark is None:
            return run, None
        try:
            return self.mark.apply(run, ()), None
        except Stop as stop:
            return stop.made, Failure(stop.error, self.mark.label, (run.begins[stop.taken][0],))

    def make_batch(
        self, parts: Sequence[Block | list[Any]], begins: Sequence[Cursor], fill: Fill = ()
    ) -> Any:
        """One batch of all rows of `parts`; raises NoBatch where they can't be batched.

        Args:
            parts: runs of rows, by column or as a list.
            begins: the cursor of each row, for errors.
            fill: which rows are zeros; empty for none.
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
            # Rows for a batch_fn are never put in columns, so it gets the objects that the user's functions made.
            rows: list[Any] = [row for part in parts for row in part]  # type: ignore[union-attr]
            fill = fill or ((len(rows), 0),)
            made = self.batch.batch_fn(spread_rows(rows, fill))
            if made is None and not self.batch._may_give_none:
                raise no_result(self.label, "a batch of its batch_fn")
            return with_valid(made, valid_rows(fill)) if self.batch.remainder == "pad" else made
        except Exception as error:
            indices = tuple(mentioned or [begin[0] for begin in begins])
            raise NoBatch(Failure(error, self.label, indices)) from error


class NoBatch(Exception):  # noqa: N818 - carries a failure to the pipeline, which catches it
    """The rows can't be batched."""

    def __init__(self, failure: Failure) -> None:
        super().__init__()
        self.failure = failure


def _count(counted: list[int], begun: int, taken: int, given: int) -> None:
    counted[0] += time.perf_counter_ns() - begun
    counted[1] += taken
    counted[2] += given


def _failure(error: Exception, label: str, index: int) -> Failure:
    if isinstance(error, RaisedBy):
        return Failure(error.error, error.label, (index,))
    return Failure(error, label, (index,))


def compile_levels(
    operations: Sequence[Transformation], seed: int | None, *, reads_windows: bool = False
) -> tuple[Level, ...]:
    """Splits the operations into levels, one for each Batch and Window; random operations are numbered through all.

    reads_windows: whether the first Window is a part of level 0.
    """
    levels: list[Level] = []
    batch: Batch | None = None
    window: WindowStage | None = None
    batch_label = ""
    stages: list[Stage] = []
    drawn = depth = before = 0
    for place, op in enumerate(operations):
        if isinstance(op, Batch):
            mark = None
            if op.remainder == "pad" and op.batch_fn is None:
                mark = MapStage(operation_name(place, op), with_valid)
            levels.append(Level(batch, batch_label, tuple(stages), before, mark, window))
            batch, batch_label, stages, before, window = op, operation_name(place, op), [], depth, None
            continue
        if isinstance(op, Window):
            levels.append(Level(batch, batch_label, tuple(stages), before, None, window))
            batch, batch_label, stages, before = (
                Batch(op.size, batch_fn=list),
                operation_name(place, op),
                [],
                depth,
            )
            window = window_stage_of(op, batch_label, seed, drawn, depth)
            drawn += draws(op)
            depth += 1
            continue
        stages.append(stage_of(op, operation_name(place, op), seed, drawn, depth))
        drawn += draws(op)
        depth += isinstance(op, FlatMap)
    levels.append(Level(batch, batch_label, tuple(stages), before, None, window))
    if reads_windows:
        levels[:2] = [replace(levels[0], windows=levels[1])]
    return tuple(levels)
