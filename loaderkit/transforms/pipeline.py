"""A compiled pipeline: the operations on records, split into levels, the same in every process."""

import math
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Any

import numpy as np

from loaderkit._order.facts import Cursor, Failure, Fill

from .base import Batch, FlatMap, Transformation, Window
from .level import Level, NoBatch, compile_levels
from .run import ElementRun, Singles
from .stack import Block


class Pipeline:
    """The levels of a loader's operations, and the two ways to run them.

    Args:
        operations: checked transformations.
        seed: the sampler's; None where no operation is random.
        reads_windows: whether tasks that read end at the ends of windows, so that level 0 makes their elements too.
    """

    def __init__(
        self, operations: Sequence[Transformation], seed: int | None, *, reads_windows: bool = False
    ) -> None:
        self._operations = operations
        self.levels = compile_levels(operations, seed, reads_windows=reads_windows)
        self.depth = sum(isinstance(op, FlatMap | Window) for op in operations)

    @property
    def before_first_batch(self) -> tuple[Transformation, ...]:
        """The operations before the first Batch or Window, which work on single records."""
        return tuple(takewhile(lambda op: not isinstance(op, Batch | Window), self._operations))

    @property
    def packs_rows(self) -> bool:
        """Whether a Pack makes the rows of a Batch: in new memory, which no later call writes to."""
        pairs = pairwise(self._operations)
        return any(
            isinstance(op, Window) and op.makes_new_rows and isinstance(behind, Batch) for op, behind in pairs
        )

    @property
    def group(self) -> int:
        """Records of one row of the last Batch, in a pipeline that doesn't change the number of rows."""
        return math.prod(
            level.batch.batch_size or 1 for level in self.levels[1:-1] if level.batch is not None
        )

    @property
    def passes_rows(self) -> bool:
        """Whether the source's records are, unchanged, the rows of the only Batch."""
        first = self.levels[0]
        return (
            len(self.levels) == 2
            and not first.stages
            and first.mark is None
            and first.windows is None
            and self.levels[1].window is None
        )

    def make_rows(
        self, records: list[Any], indices: np.ndarray, *, unread: Failure | None
    ) -> tuple[ElementRun, Failure | None]:
        """The rows for the last Batch, in a pipeline that doesn't change the number of rows.

        Args:
            records: the source's records.
            indices: (n,) int64, the records' indices.
            unread: the failure of the next read, None where no read failed.
        """
        level = self.levels[0]
        run, failure = level.work(ElementRun(records, Singles(indices), None), ())
        run, failure = level.finished(run, failure, ())
        return self.rows_of(run, failure or unread)

    def rows_of(self, run: ElementRun, failure: Failure | None) -> tuple[ElementRun, Failure | None]:
        """The rows for the last Batch, from the elements after level 0 and the failure that ended them, if any."""
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
    ) -> tuple[ElementRun, Failure | None]:
        """One batch from its rows, taken through the stages after that Batch.

        Args:
            level: the number of the Batch's level.
            parts, rows: the rows in order, and the begin of each row.
            begin, end: the batch's cursors; end is None where the plan computes it.
            start: the cursor where the stream was entered.
            fill: which rows are zeros; empty for none.
        """
        if self.levels[level].window is not None:
            assert end is not None
            elements: list[Any] = [row for part in parts for row in part]  # type: ignore[union-attr]
            return self.levels[level].expanded(
                elements, rows, begin[: self.levels[level].depth + 1], end, start
            )
        try:
            batch = self.levels[level].make_batch(parts, rows, fill)
        except NoBatch as stop:
            return ElementRun([], [], None if end is None else []), stop.failure
        begins = [begin[: self.levels[level].depth + 1]]
        return self.levels[level].run(ElementRun([batch], begins, None if end is None else [end]), start)

    def batch_up(
        self, rows: Block | list[Any], begins: Sequence[Cursor], size: int, *, partial: bool
    ) -> tuple[ElementRun, Failure | None]:
        """The last Batch's batches of `size` rows each, taken through the stages after it.

        Args:
            rows, begins: rows of consecutive batches and their begins, in a pipeline that doesn't change their number.
            size: rows of a batch.
            partial: whether a last, smaller batch is made.
        """
        level = self.levels[-1]
        run, stopped = _batch_up(rows, begins, level, size, partial=partial)
        run, failure = level.run(run, ())
        return run, failure or stopped


def _batch_up(
    rows: Block | list[Any], begins: Sequence[Cursor], level: Level, size: int, *, partial: bool
) -> tuple[ElementRun, Failure | None]:
    made: list[Any] = []
    firsts: list[Cursor] = []
    stopped: Failure | None = None
    count = rows.size if isinstance(rows, Block) else len(rows)
    for lo in range(0, count, size):
        hi = min(lo + size, count)
        if hi - lo < size and not partial:
            break  # its other rows failed: there is no batch, and the failure is already reported
        if not isinstance(rows, Block):
            part: Block | list[Any] = rows[lo:hi]
        else:  # a slice is views, which the batch would copy
            part = rows if hi - lo == count else rows.slice(lo, hi)
        here = begins[lo:hi]
        try:
            made.append(level.make_batch([part], here))
        except NoBatch as stop:
            stopped = stop.failure
            break
        firsts.append(here[0])
    return ElementRun(made, firsts, None), stopped
