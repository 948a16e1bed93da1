"""A level: a Batch and the operations after it up to the next Batch, each of them a stage.

Level 0 has no Batch; its elements are the source's records.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .base import Batch, FlatMap, Transformation, Window, draws, operation_name
from .padding import with_valid
from .stages import MapStage, Stage, WindowStage, stage_of


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
        stage = stage_of(op, label, seed, drawn, depth)
        if isinstance(stage, WindowStage):
            levels.append(Level(Batch(stage.size, batch_fn=list), label, (), depth, window=stage))
        else:
            levels[-1] = replace(last, stages=(*last.stages, stage))
        drawn += draws(op)
        depth += isinstance(op, FlatMap | Window)
    if reads_windows:
        levels[:2] = [replace(levels[0], windows=levels[1])]
    return tuple(levels)
