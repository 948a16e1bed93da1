"""Tasks and results, built in one place: a test names only the fields that it is about."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from loaderkit._engine.task import (
    BatchMade,
    Layout,
    MakeBatch,
    ReadRows,
    ReadStream,
    RowsPart,
    RowsRead,
    Span,
    StreamRead,
    Target,
    Task,
    TaskResult,
    failed,
)
from loaderkit._order.facts import Cursor, Failure, Loss


def whole(rows: int, batch: int | None = None) -> Target:
    """A target of whole batches, without a slot."""
    return Target(rows, batch or rows, 0, None, True)


def read_rows(indices: Iterable[int], *targets: Target, task: int = 7) -> ReadRows:
    """Reads these records, with keys that are 100 more, into these targets; without any, into one batch of them."""
    read = np.array([*indices], np.int64)
    return ReadRows(task, read, read + 100, targets or (whole(len(read)),))


def read_stream(indices: Iterable[int], *, task: int = 7, start: Cursor = ()) -> ReadStream:
    """Reads these records of a stream, with keys that are 100 more."""
    read = np.array([*indices], np.int64)
    return ReadStream(task, read, read + 100, start)


def make_batch(indices: Iterable[int], *inputs: Span, task: int = 7, level: int = 1) -> MakeBatch:
    """Makes a batch of rows whose first records are these."""
    first = np.array([*indices], np.int64)
    return MakeBatch(task, level, first, inputs, (int(first[0]),) if len(first) else ())


def rows_read(*parts: RowsPart, layout: Layout | None = None, seconds: float = 0.0) -> RowsRead:
    """What was made for each target, without a failure."""
    return RowsRead(parts, layout=layout, seconds=seconds)


def rows_failed(*parts: RowsPart, error: Any, target: int, layout: Layout | None = None) -> RowsRead:
    """What was made for each target up to the one that failed."""
    return RowsRead(parts, Failure(error), target, layout)


def stream_read(
    begins: np.ndarray | None,
    ends: np.ndarray | None,
    size: int,
    error: Any = None,
    losses: tuple[Loss, ...] = (),
) -> StreamRead:
    """So many elements with their cursors, the failure behind them, and the bad records among those read."""
    return StreamRead(size, begins, ends, _failure(error), losses=losses)


def batch_made(
    begins: np.ndarray | None = None,
    ends: np.ndarray | None = None,
    size: int = 1,
    *,
    error: Any = None,
    layout: Layout | None = None,
) -> BatchMade:
    """A batch, or the elements that it was made into."""
    return BatchMade(size, begins, ends, _failure(error), layout)


def nothing(task: Task, error: Any) -> TaskResult:
    """A failure alone, as the result of a task of any kind."""
    return failed(task, Failure(error))


def _failure(error: Any) -> Failure | None:
    return None if error is None else Failure(error)
