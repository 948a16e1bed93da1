"""A compiled pipeline: what is run on the records, cut into levels, the same in every process."""

import math
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from loaderkit._order.cursor import Cursor
from loaderkit._order.failure import Failure
from loaderkit._order.fill import Fill

from .base import Batch, FlatMap, Transformation
from .level import Level, NoBatch, compile_levels
from .run import ElementRun, Singles
from .stack import Block


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
    ) -> tuple[ElementRun, Failure | None]:
        """The rows that enter the last Batch, for a pipeline that never changes their number.

        Args:
            records: what the source gave.
            indices: (n,) int64, the records' indices.
            unread: why there are no more records, where reading the next one failed.
        """
        run, failure = self.levels[0].run(ElementRun(records, Singles(indices), None), ())
        return self.rows_of(run, failure or unread)

    def rows_of(self, run: ElementRun, failure: Failure | None) -> tuple[ElementRun, Failure | None]:
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
    ) -> tuple[ElementRun, Failure | None]:
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
        except NoBatch as stop:
            return ElementRun([], [], None if end is None else []), stop.failure
        begins = [begin[: self.levels[level].depth + 1]]
        return self.levels[level].run(ElementRun([batch], begins, None if end is None else [end]), start)

    def batch_up(
        self, rows: Block | list[Any], begins: Sequence[Cursor], size: int, *, partial: bool
    ) -> tuple[ElementRun, Failure | None]:
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
) -> tuple[ElementRun, Failure | None]:
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
        except NoBatch as stop:
            stopped = stop.failure
            break
        firsts.append(here[0])
    return ElementRun(made, firsts, None), stopped
