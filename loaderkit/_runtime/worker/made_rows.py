"""What a task made, looked at from outside: what is done of it, how much that is, and what its rows look like."""

from typing import Any

from loaderkit._base.tree import structure_of
from loaderkit._engine.task import ReadRows, RowsPart, RowsRead, StreamRead, Task, TaskResult
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit.transforms.stack import Block, RowSpec, collect


def keys_in_order(firsts: list[Any], block: Block) -> bool:
    """Whether these rows have the keys of a block in its order: a batch's dicts have those of its own first row."""
    return all(structure_of(row).same_order(block.structure) for row in firsts)


def done_targets(task: ReadRows, parts: list[RowsPart]) -> int:
    """How many of the task's targets are done; one of several batches may have a part for those before its failure."""
    if not parts:
        return 0
    target, part = task.targets[len(parts) - 1], parts[-1]
    done = not target.whole or part.in_place or part.size * target.batch >= target.rows
    return len(parts) if done else len(parts) - 1


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


def spec_of(rows: list[Any]) -> RowSpec | None:
    """What each of the rows looks like; None where they differ."""
    block = collect(rows)
    return None if block is None else block.spec()
