"""How rows become a batch: what each Batch takes, the task that makes it, and its place in a queue.

Where several streams give rows, those of the first come first. Rows that are zeros come after the real ones of their
stream, and their cursors are those of the stream's end.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.facts import Cursor, Fill

from .element_queue import ElementQueue, QueuedRun, QueueSlice
from .task import MakeBatch


@dataclass(frozen=True, slots=True)
class Grouping:
    """A Batch or Window for the StreamScheduler: rows it takes of each stream, what becomes of a last, short one.

    keep   it is smaller; only of a single stream
    drop   there is none
    pad    zeros take the missing rows' places; several streams end with the last of them
    wrap   a single stream begins again and fills it up
    fail   a stream that ends at all is an error
    """

    rows: int
    short: Literal["keep", "drop", "pad", "wrap", "fail"]


def batch_of(
    taken: Mapping[int, QueueSlice],
    queue: ElementQueue,
    *,
    task_id: int,
    level: int,
    start: Cursor,
    padded_to: int | None,
    stop: int | None,
) -> tuple[MakeBatch, QueuedRun]:
    """The task that makes one batch, and its place at the end of a queue.

    Args:
        taken: its rows, by stream.
        queue: of the batches of its level.
        task_id: a new one.
        level: of the Batch.
        start: where the stream was entered, for the first batch of a level.
        padded_to: rows that each stream's part has with zeros; None for none.
        stop: the number after the last index; None without an end.
    """
    there = [part for part in taken.values() if part.spans]
    begins = np.concatenate([part.begins for part in there])  # (n, depth + 1) int64
    ends = {number: part.end for number, part in taken.items()}
    fill: Fill = ()
    if padded_to is not None:
        after = end_like(begins, stop)
        ends = {n: part.end if len(part.begins) == padded_to else after for n, part in taken.items()}
        fill = tuple((len(part.begins), padded_to - len(part.begins)) for part in taken.values())
    task = MakeBatch(
        id=task_id,
        level=level,
        indices=begins[:, 0].copy(),
        inputs=tuple(span for part in there for span in part.spans),
        begin=tuple(begins[0].tolist()),
        end=next(iter(ends.values())),
        start=start,
        fill=fill,
    )
    run = queue.add(task_id, expected=1)
    run.rows = _spread(begins, fill, stop) if fill else begins
    run.reaches = {number: part.reach for number, part in taken.items()}
    run.after = ends
    run.pass_number = next(iter(taken.values())).pass_number
    run.group_passes = {number: part.end_pass for number, part in taken.items()}
    if len(taken) > 1:
        run.group_ends = ends
    return task, run


def masked_batch(
    shape: QueueSlice,
    queue: ElementQueue,
    *,
    task_id: int,
    level: int,
    streams: Iterable[int],
    rows: int,
    stop: int | None,
) -> tuple[MakeBatch, QueuedRun]:
    """The task that makes a batch without a real row, and its place at the end of a queue.

    Args:
        shape: one row, which its rows look like.
        queue, task_id, level, stop: as `batch_of` takes them.
        streams: of this process.
        rows: of each of them.
    """
    after = end_like(shape.begins, stop)
    fill = tuple((0, rows) for _ in streams)
    task = MakeBatch(
        id=task_id,
        level=level,
        indices=shape.begins[:, 0].copy(),
        inputs=tuple(shape.spans),
        begin=after,
        end=after,
        fill=fill,
    )
    run = queue.add(task_id, expected=1)
    run.masked = True
    run.rows = _spread(shape.begins, fill, stop)
    run.group_ends = dict.fromkeys(streams, after)
    return task, run


def passes_after(task: MakeBatch, run: QueuedRun, ends: np.ndarray) -> np.ndarray:
    """In which pass each element of a run ends: a batch's last child behind all rows, the others in the first."""
    pass_numbers = np.full(len(ends), run.pass_number, np.int64)
    if run.group_passes and task.end is not None:
        behind = (*task.end, *(0,) * (ends.shape[1] - len(task.end)))
        pass_numbers[(ends == behind).all(axis=1)] = next(iter(run.group_passes.values()))
    return pass_numbers


def end_like(begins: np.ndarray, stop: int | None) -> Cursor:
    """The cursor after the last index, as long as the rows of (n, depth + 1) int64.

    >>> end_like(np.array([[3, 0], [4, 1]]), 9)
    (9, 0)
    """
    assert stop is not None
    return (stop, *(0,) * (begins.shape[1] - 1))


def _spread(begins: np.ndarray, fill: Fill, stop: int | None) -> np.ndarray:
    real = np.repeat([True, False] * len(fill), [count for pair in fill for count in pair])
    rows = np.full((len(real), begins.shape[1]), end_like(begins, stop), np.int64)
    rows[real] = begins[: real.sum()]
    return rows
