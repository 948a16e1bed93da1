"""A compiled pipeline: the operations on records, split into levels, the same in every process."""

import math
from collections.abc import Sequence
from itertools import pairwise, takewhile

from .base import Batch, FlatMap, Transformation, Window
from .level_runner import LevelRunner, compile_levels
from .run import ElementRun


class Pipeline:
    """The levels of a loader's operations, and what runs them in one worker.

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
        self.runners = tuple(map(LevelRunner, self.levels))
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
        made = first.stages or first.mark or first.windows
        return len(self.levels) == 2 and not (made or self.levels[1].window)

    def rows_of(self, run: ElementRun) -> ElementRun:
        """The rows for the last Batch, from the elements after level 0, where operations keep the number of rows."""
        for inner in self.runners[1:-1]:
            assert inner.level.batch is not None and inner.level.batch.batch_size is not None
            run = inner.make_batches(run.values, run.begins, inner.level.batch.batch_size, run.failure)
        return run
