"""Runs a level: on runs of elements, piece by piece, and counts what each of its operations takes.

A level is a Batch and the operations after it up to the next Batch, each of them a stage. Level 0 has no Batch; its
elements are the source's records.

With one element at a time the cost of each stage is paid for each element. With a whole task at once every picture
would be decoded before the first is cropped, and all of them would be in memory at once, outside the processor's cache.
With pieces, cv2.resize of a decoded photograph took 70 us instead of 115, and a photograph cost 3 page faults instead
of 37.

A piece has as many elements as a stage handles in a short time. Work that touches much memory takes long, so the time
alone is a good measure, and the elements aren't examined. The size of pieces never changes a result.
"""

import time
from collections.abc import Sequence
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._order.facts import Cursor, Failure, Fill
from loaderkit._order.rng import named_ordinal

from .base import Batch, FlatMap, Map, Transformation, Window, draws, operation_name
from .map_chain import with_chains
from .padding import spread, spread_rows, valid_rows, with_valid
from .run import ElementRun
from .stack import Block
from .stages import MapStage, MixStage, Stage, WindowStage, no_result, stage_of


@dataclass(frozen=True, slots=True)
class Level:
    """One Batch (None for level 0) and the stages after it; level_runner.py runs them.

    label  the Batch's name in errors
    depth  number of FlatMaps and Windows before the Batch
    window what makes elements of the rows in place of a batch: the level of a Window, whose `batch` lists the rows
    windows  of level 0: the level of the first Window, if tasks that read make its elements too
    mark   adds the leaf "valid" to each row where the next Batch pads; not one of the stages, because no record causes
           its errors
    """

    batch: Batch | None
    label: str
    stages: tuple[Stage, ...]
    depth: int = 0
    mark: MapStage | None = None
    window: WindowStage | None = None
    windows: "Level | None" = None


def compile_levels(
    operations: Sequence[Transformation], seed: int | None, *, reads_windows: bool = False
) -> tuple[Level, ...]:
    """Splits the operations into levels, one for each Batch and Window; random operations are numbered through all.

    reads_windows: whether the first Window is a part of level 0.
    """
    levels = [Level(None, "", ())]
    drawn = depth = 0
    for place, op in enumerate(operations):
        label, last = operation_name(place, op), levels[-1]
        if isinstance(op, Batch):
            if op.remainder == "pad" and op.batch_fn is None:
                levels[-1] = replace(last, mark=MapStage(label, with_valid))
            levels.append(Level(op, label, (), depth))
            continue
        stage = stage_of(
            op, label, seed, drawn if op._drawn_as is None else named_ordinal(op._drawn_as), depth
        )
        if isinstance(stage, WindowStage):
            levels.append(Level(Batch(stage.size, batch_fn=list), label, (), depth, window=stage))
        else:
            levels[-1] = replace(last, stages=(*last.stages, stage))
        drawn += draws(op) and op._drawn_as is None
        depth += isinstance(op, FlatMap | Window)
    if len(levels) > 1 and levels[1].window is None:
        levels[0] = _by_column(levels[0], operations[0], levels[1].batch)
    if reads_windows:
        levels[:2] = [replace(levels[0], windows=levels[1])]
    return tuple(levels)


def _by_column(level: Level, op: Transformation, batch: Batch | None) -> Level:
    """Level 0, which makes rows by column where its only operation can, and they are only stacked."""
    by_column = op._by_column if isinstance(op, Map) and len(level.stages) == 1 else None
    if by_column is None or level.mark or batch is None or batch.batch_fn is not None or batch.pads:
        return level
    (stage,) = level.stages
    assert isinstance(stage, MapStage)
    return replace(level, stages=(replace(stage, by_column=by_column),))


# The aim for one stage: many times the microsecond that a stage takes besides its calls.
_SECONDS = 50e-6


class PiecePace:
    """Computes the size of the next piece from the time of the last one.

    >>> pace = PiecePace()
    >>> pace.took(1e-3, elements=4)
    >>> pace.size
    1
    """

    def __init__(self) -> None:
        self.size = 4

    def took(self, seconds: float, *, elements: int) -> None:
        """Adapts the size to a piece of `elements` elements that took `seconds` in each stage."""
        if seconds > 2 * _SECONDS:
            self.size = max(1, int(elements * _SECONDS / seconds))
        elif seconds < _SECONDS / 2 and elements == self.size:
            self.size *= 2


class LevelRunner:
    """Runs the stages of a level, and makes its batches, in one worker.

    Args:
        level: what is run.
        pace: how many elements go through the stages together.

    level: as given. counted: of each operation but the Batch the nanoseconds in it, the elements that it took and those
    that it gave, in all.
    """

    def __init__(self, level: Level, pace: PiecePace | None = None) -> None:
        self.level = level
        self._pace = pace or PiecePace()
        self._windows = None if level.windows is None else LevelRunner(level.windows)
        self._window_counted = [0, 0, 0]
        of_stages = [[0, 0, 0] for _ in level.stages]
        self._stages = with_chains(level.stages, of_stages)
        self._keeps_number = all(isinstance(stage, MapStage | MixStage) for stage in level.stages)
        self.counted = [self._window_counted] if level.window is not None else []
        self.counted += of_stages
        self.counted += [] if self._windows is None else self._windows.counted

    def run(self, run: ElementRun, start: Cursor) -> ElementRun:
        """The elements after all stages, as rows of the next Batch; start: where the stream was entered."""
        return self.finished(self.work(run, start) if self._stages else run, start)

    def finished(self, run: ElementRun, start: Cursor) -> ElementRun:
        """The elements after `work` taken through what needs several of them, and marked."""
        if self._windows is not None:
            return self._windows.windowed(run, start)
        return run if self.level.mark is None else self.level.mark.apply(run, ())

    def windowed(self, run: ElementRun, start: Cursor) -> ElementRun:
        """What the level's Window makes of its rows, taken through the stages after it."""
        assert self.level.window is not None
        begun, counted = time.perf_counter_ns(), self._window_counted
        made = self.level.window.apply(run, start)
        counted[0] += time.perf_counter_ns() - begun
        counted[1] += len(run.values)
        counted[2] += len(made.values)
        return self.run(made, start)

    def work(self, run: ElementRun, start: Cursor) -> ElementRun:
        """Runs the stages on the elements, piece by piece, without marking them."""
        if not self._stages:
            return run
        clock = time.perf_counter_ns  # read once a stage
        begun, count = clock(), len(run.values)
        stages = len(self.level.stages)
        in_pieces = stages > 1 and count > 1
        keeps_begins = self._keeps_number and run.ends is None
        made: ElementRun | None = None
        low, high = 0, count
        while True:
            if in_pieces:
                high = low + self._pace.size
            piece, piece_begun = run.part(low, high) if low or high < count else run, begun
            taken = size = len(piece.values)
            for stage, counted in self._stages:
                piece = stage.apply(piece, start)
                now, given = clock(), len(piece.values)
                counted[0] += now - begun  # all three behind the calls, which Ctrl-C may fall into
                counted[1] += size
                counted[2] += given
                begun, size = now, given
            if in_pieces:
                self._pace.took((begun - piece_begun) / (1e9 * stages), elements=taken)
            if made is None:
                made = piece
            elif keeps_begins:
                made.values += piece.values
                made.failure = piece.failure
            else:
                made.add(piece)
            low = high
            if low >= count or made.failure is not None:
                if keeps_begins and made is not piece:
                    made.begins = run.begins[: len(made.values)]
                made.failure = made.failure or run.failure
                return made

    def make_batch(
        self,
        parts: Sequence[Block | list[Any]],
        begins: Sequence[Cursor],
        begin: Cursor,
        end: Cursor | None,
        start: Cursor,
        fill: Fill = (),
    ) -> ElementRun:
        """One batch of all rows of `parts`, taken through the stages after the Batch; of a Window what it makes.

        Args:
            parts: runs of rows, by column or as a list.
            begins: the cursor of each row, for errors.
            begin, end: the batch's cursors; end is None where the plan computes it.
            start: the cursor where the stream was entered.
            fill: which rows are zeros; empty for none.
        """
        begin = begin[: self.level.depth + 1]
        if self.level.window is not None:
            assert end is not None
            rows: list[Any] = [row for part in parts for row in part]  # type: ignore[union-attr]
            return self.windowed(ElementRun(rows, [begin, *begins[1:]], [end] * len(rows)), start)
        made: list[Any] = []
        failure = self.add_batch(made, parts, begins, fill)
        ends = None if end is None else [end] * len(made)
        return self.run(ElementRun(made, [begin] * len(made), ends, failure, [begins] * len(made)), start)

    def make_batches(
        self, rows: Block | list[Any], begins: Sequence[Cursor], size: int, failure: Failure | None = None
    ) -> ElementRun:
        """The batches of consecutive rows, taken through the stages after the Batch.

        Args:
            rows, begins: the rows and their cursors, in a pipeline that doesn't change their number.
            size: rows of a batch.
            failure: what is behind the rows; a last batch is smaller only if there is none.
        """
        made: list[Any] = []
        firsts: list[Cursor] = []
        each: list[Sequence[Cursor]] = []
        stopped: Failure | None = None
        count = len(rows)
        for lo in range(0, count, size):
            hi = min(lo + size, count)
            if hi - lo < size and failure is not None:
                break
            if hi - lo == count:  # a slice of a Block is views, which the batch would copy
                part = rows
            else:
                part = rows.slice(lo, hi) if isinstance(rows, Block) else rows[lo:hi]
            here = begins[lo:hi]
            stopped = self.add_batch(made, [part], here)
            if stopped is not None:
                break
            firsts.append(here[0])
            each.append(here)
        return self.run(ElementRun(made, firsts, None, stopped or failure, each), ())

    def add_batch(
        self,
        made: list[Any],
        parts: Sequence[Block | list[Any]],
        begins: Sequence[Cursor],
        fill: Fill = (),
    ) -> Failure | None:
        """Appends the batch of some rows, as `make_batch` takes them, or returns why there is none."""
        batch = self.level.batch
        assert batch is not None
        mentioned: list[int] = []

        def describe(row: int) -> str:
            index = begins[row][0]
            mentioned.append(index)
            return f"index {index}"

        try:
            if batch.batch_fn is None:
                stacked = batch.stacked(parts, describe)
                made.append(spread(stacked, fill) if fill else stacked)
                return None
            # Rows for a batch_fn are never put in columns, so it gets the objects that the user's functions made.
            rows: list[Any] = [row for part in parts for row in part]  # type: ignore[union-attr]
            fill = fill or ((len(rows), 0),)
            given = batch.batch_fn(spread_rows(rows, fill))
            if given is None and not batch._may_give_none:
                raise no_result(self.level.label, "a batch of its batch_fn")
            made.append(with_valid(given, valid_rows(fill)) if batch.remainder == "pad" else given)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            return Failure(error, self.level.label, tuple(mentioned or [begin[0] for begin in begins]))
        return None
