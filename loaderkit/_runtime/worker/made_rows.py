"""What a task made, as the engine is told: what is done of it, how much that is, and what its rows look like."""

from typing import Any

import numpy as np

from loaderkit._base.structure import structure_of
from loaderkit._base.tree import flatten
from loaderkit._engine.task import ReadRows, RowsPart, RowsRead, StreamRead, Target, Task, TaskResult
from loaderkit._order.facts import Failure
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit.transforms.stack import Block, RowSpec, collect


class MadeRows:
    """What a task made for its targets so far.

    Args:
        task: of which.
        verify: whether slots have checksums.

    parts, output: of each target begun, and what of it is in the task's output. failure: what is behind them, or None.
    layout: of rows like those that weren't written in place.
    """

    def __init__(self, task: ReadRows, *, verify: bool) -> None:
        self._task = task
        self._verify = verify
        self.parts: list[RowsPart] = []
        self.output: list[Any] = []
        self.failure: Failure | None = None
        self.layout: BatchLayout | None = None

    def add(self, size: int, made: Block | list[Any]) -> None:
        """What is made of the next target: so many rows or elements in the output."""
        self.parts.append(RowsPart(size))
        self.output.append(made)

    def placed(self, target: Target, token: Any) -> None:
        """The next target's rows were written to its slot, at `leaves_of`."""
        assert isinstance(target.layout, BatchLayout)
        target.layout.seal(token, target.batch, target.first, target.first + target.rows)
        self.parts.append(RowsPart(0, in_place=True))
        self.output.append([])

    def saw(self, target: Target, rows: Block | list[Any]) -> None:
        """Takes the layout of a next batch's rows from those of a target; of all only one shape has a layout."""
        if self.layout is None and target.shape == self._task.targets[0].shape:
            spec = spec_of(rows)
            self.layout = None if spec is None else BatchLayout(spec, self._verify)

    @property
    def failed_target(self) -> int:
        """The number of the target that a failure ended; one of several batches may have a part before it."""
        if not self.parts:
            return 0
        target, part = self._task.targets[len(self.parts) - 1], self.parts[-1]
        done = not target.whole or part.in_place or part.size * target.batch >= target.rows
        return len(self.parts) - (not done)


def leaves_of(target: Target, token: Any) -> list[np.ndarray]:
    """The arrays of a target's rows in its slot. token: an object over the slot's bytes."""
    assert isinstance(target.layout, BatchLayout)
    last = target.first + target.rows
    return [leaf[target.first : last] for leaf in target.layout.leaves(token, target.batch)]


def spec_of(rows: Block | list[Any]) -> RowSpec | None:
    """What each of the rows looks like; None where they differ."""
    block = rows if isinstance(rows, Block) else collect(rows)
    return None if block is None else block.spec()


def keys_in_order(firsts: list[Any], block: Block) -> bool:
    """Whether these rows have the keys of a block in its order: a batch's dicts have those of its own first row."""
    return all(structure_of(row).same_order(block.structure) for row in firsts)


def made_of(task: Task, result: TaskResult) -> tuple[int, int, int]:
    """The records that a task read, the rows or elements that it made for level 0, and their bytes, about."""
    if isinstance(result, StreamRead):
        return len(task.indices), result.size, result.nbytes
    if not (isinstance(task, ReadRows) and isinstance(result, RowsRead)):
        return 0, 0, 0
    rows, nbytes = 0, result.nbytes
    for target, part in zip(task.targets, result.parts):
        rows += target.rows
        if part.in_place and isinstance(target.layout, BatchLayout):
            nbytes += target.layout.nbytes(target.rows)
    return len(task.indices), rows, nbytes


def weight_of(output: list[Any]) -> int:
    """About the bytes that an output holds; the elements of a list count as much as its first each."""
    nbytes = 0
    for part in output:
        if isinstance(part, Block):
            nbytes += sum(column.nbytes for column in part.columns if isinstance(column, np.ndarray))
        elif part:
            nbytes += len(part) * sum(map(_leaf_nbytes, flatten(part[0])[0]))
    return nbytes


def _leaf_nbytes(leaf: Any) -> int:
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.nbytes
    return len(leaf) if isinstance(leaf, bytes | str) else 0
