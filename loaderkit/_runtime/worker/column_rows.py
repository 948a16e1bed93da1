"""Rows of a columnar source that no operation needs: gathered leaf by leaf, without a Python object for each row."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loaderkit._base.tree import flatten
from loaderkit._engine.task import ReadRows, RowsPart, Slot, Target
from loaderkit._order.facts import Cursor, Failure
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit.transforms.run import ElementRun, Singles
from loaderkit.transforms.stack import Block

# Of several small batches that the source gives at once: more saves calls, until the columns don't stay in the cache.
_GATHERED_NBYTES = 256 << 10

# For each target begun: its part, and what of it is in the output. Then the failure behind them, and the rows' layout.
RowsMade = tuple[list[RowsPart], list[Any], Failure | None, BatchLayout | None]
# Finished elements of rows, their cursors and the rows of a batch; a last, smaller one only if `partial`.
BatchUp = Callable[..., tuple[ElementRun, Failure | None]]


class ColumnRows:
    """Reads the rows of a task from a source that gives columns.

    Args:
        take: the source's `take(record_keys, out=None)`.
        token: gives an object over a slot's bytes.
        batch_up: `Pipeline.batch_up`.
        verify: whether slots have checksums.
    """

    def __init__(
        self, take: Callable[..., Any], token: Callable[[Slot], Any], batch_up: BatchUp, *, verify: bool
    ) -> None:
        self._take = take
        self._token = token
        self._batch_up = batch_up
        self._verify = verify

    def read(self, task: ReadRows, before_target: Callable[[int, int], None] | None) -> RowsMade:
        """The rows of each target, in place where it has a slot.

        Args:
            task: what to read.
            before_target: called with the first and last of the task's records that a target takes, before it is read.
        """
        parts: list[RowsPart] = []
        output: list[Any] = []
        layout: BatchLayout | None = None
        first = 0
        for target in task.targets:
            last = first + target.rows
            keys, indices = task.keys[first:last], task.indices[first:last]
            if before_target is not None:
                before_target(first, last)
            first = last
            made: Block | list[Any] = []
            failure: Failure | None = None
            if target.slot is not None:
                failure = self._in_place(target, keys, indices)
                part = RowsPart(0, in_place=True)
            elif target.whole:
                made, failure, seen = self._batches(target, keys, indices)
                part = RowsPart(len(made))
                layout = layout or seen
            else:
                block, failure = self._block(keys, indices)
                made, part, layout = block or [], RowsPart(target.rows), layout or self._layout_of(block)
            if failure is None or (target.whole and part.size):
                parts.append(part)
                output.append(made)
            if failure is not None:
                return parts, output, failure, layout
        return parts, output, None, layout

    def _in_place(self, target: Target, keys: np.ndarray, indices: np.ndarray) -> Failure | None:
        assert target.slot is not None and isinstance(target.layout, BatchLayout)
        token, last = self._token(target.slot), target.first + target.rows
        leaves = target.layout.leaves(token, target.batch)
        try:
            self._take(keys, out=[leaf[target.first : last] for leaf in leaves])
        except Exception as error:  # noqa: BLE001 - a source may raise anything
            return Failure(error, "source", tuple(indices.tolist()))
        target.layout.seal(token, target.batch, target.first, last)
        return None

    def _batches(
        self, target: Target, keys: np.ndarray, indices: np.ndarray
    ) -> tuple[list[Any], Failure | None, BatchLayout | None]:
        made: list[Any] = []
        layout: BatchLayout | None = None
        size = target.batch
        lo = 0
        while lo < target.rows:
            here = slice(lo, lo + size)
            block, failure = self._block(keys[here], indices[here])
            if failure is not None and size > target.batch:
                size = target.batch  # batch by batch, the failure comes with the batch it belongs to
                continue
            if block is not None:
                cursors: Sequence[Cursor] = Singles(indices[here])
                run, failure = self._batch_up(block, cursors, target.batch, partial=True)
                made += run.values
                if layout is None:  # the first batch: from here on as many at once as stay in the cache
                    layout = self._layout_of(block)
                    size *= 1 if layout is None else max(1, _GATHERED_NBYTES // max(layout.nbytes(size), 1))
            if failure is not None:
                return made, failure, layout
            lo = here.stop
        return made, None, layout

    def _block(self, keys: np.ndarray, indices: np.ndarray) -> tuple[Block | None, Failure | None]:
        try:
            leaves, structure = flatten(self._take(keys))
        except Exception as error:  # noqa: BLE001 - a source may raise anything
            return None, Failure(error, "source", tuple(indices.tolist()))
        return Block(structure, tuple(leaves), len(keys)), None

    def _layout_of(self, block: Block | None) -> BatchLayout | None:
        """What a next batch's rows will probably look like: as these."""
        spec = None if block is None else block.spec()
        return None if spec is None else BatchLayout(spec, self._verify)
