"""What a stream scheduler reads next: the stream that lacks most for the next elements, and how many of its records.

It follows from what came of each stream's records and batches so far (`Yield`). Where no task is out and no element
can be made, some stream lacks records: so there is always a task, or an outcome. Until a first element is made nothing
is read ahead of it but two tasks a worker.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from .element_queue import ElementQueue, QueuedRun
from .grouping import Grouping
from .logical_stream import LogicalStream, Masks, Outlook, Yield
from .pace import Pace
from .scheduler import AHEAD_NBYTES, Reserve
from .task import ReadStream, StreamRead

# Of a stream's first task: what an element takes is only known when some records are done. A task of cheap rows that is
# so short costs 0.1 ms; of 2 ms each, as large pictures have, the first ones of two workers are 32 ms.
_FIRST_ROWS = 32


class ReadSelection:
    """Selects the stream to read from, and how many records.

    Args:
        streams: this process's logical streams, by number.
        last: the queue that is handed out.
        groupings: one for each Batch.
        prefetch: elements to make ahead of the one handed out last.
        masks: what masked batches look like, None where there are none.
        reserve: of tasks that read.
        pace: how long things take.
        window: records of which a task reads a multiple, 1 for any number.

    begun: whether a first element was made.
    last_yield: of the last Batch's batches.
    """

    def __init__(
        self,
        streams: Mapping[int, LogicalStream],
        last: ElementQueue,
        *,
        groupings: Sequence[Grouping],
        prefetch: int,
        masks: Masks | None,
        reserve: Reserve,
        pace: Pace,
        window: int = 1,
    ) -> None:
        self.begun = False
        self.last_yield = Yield()
        self._streams = streams
        self._last = last
        self._groupings = groupings
        self._prefetch = prefetch
        self._masks = masks
        self._reserve = reserve
        self._pace = pace
        self._window = window

    def next(self) -> tuple[LogicalStream, int] | None:
        """The stream that lacks most, and how many records to read of it; None where all have enough."""
        if self._last.ended:
            return None
        if self._masks is not None and self._masks.stream is not None:
            stream = self._masks.lacking(self._masks.stream)
            return None if stream is None else (stream, self._task_rows(stream, stream.outlook(1, 1)))
        of_batch, made = 1.0, 0.0
        wanted: float = self._prefetch if self.begun else 1
        if self._groupings:
            of_batch = self.last_yield.estimate(1)
            made = self._last.size(of_batch)
            wanted = math.ceil(max(wanted - made, 0) / of_batch)
        going_on = [
            (stream, stream.outlook(wanted, of_batch))
            for stream in self._streams.values()
            if not stream.ended
        ]
        if not going_on:
            return None
        stream, outlook = min(going_on, key=_lack)
        rows = self._task_rows(stream, outlook)
        # What a stream lacks can't be told before some of its records are done.
        known = stream.yields[0].entered or not stream.on_their_way
        if known and outlook.lacking > 0:
            return stream, rows
        each = sum(outlook.each for _, outlook in going_on)
        coming = sum(outlook.coming for _, outlook in going_on) + made * each
        if self.begun:
            enough = coming >= self._ahead(rows)
        else:
            enough = coming + rows > self._pace.least_ahead(rows) + (each if known else 0)
        return None if enough else (stream, rows)

    def _task_rows(self, stream: LogicalStream, outlook: Outlook) -> int:
        """Records of a next task: what is lacking, a first Batch's rows or as many as were done, whichever is least."""
        lacking = math.ceil(outlook.lacking or outlook.each)
        batch = self._groupings[0].rows if self._groupings else 1
        known = max(_FIRST_ROWS, stream.yields[0].entered)
        rows = self._reserve.task_rows(max(1, min(lacking, batch, known)))
        return -(-rows // self._window) * self._window

    def _ahead(self, task_rows: int) -> float:
        """Records to have on their way when none is lacking, in tasks of so many."""
        ahead = self._pace.rows_ahead(task_rows)
        affordable = self._reserve.rows_in(AHEAD_NBYTES)
        return max(self._pace.least_ahead(task_rows), ahead if affordable is None else min(ahead, affordable))


def _lack(stream_and_outlook: tuple[LogicalStream, Outlook]) -> tuple[float, float]:
    outlook = stream_and_outlook[1]
    return -outlook.lacking, outlook.coming / outlook.each


def note_windows(
    task: ReadStream, result: StreamRead, run: QueuedRun, *, size: int, stream: int | None
) -> None:
    """Notes the last record of each element's window, and where the stream goes on after a window that failed.

    Args:
        task, result: what was read, from the begin of a window on.
        run: the place of its elements in a queue.
        size: records of a window.
        stream: number of the stream; None for the sample that masked batches look like.
    """
    indices = task.indices
    if result.begins is not None:
        windows = np.searchsorted(indices, result.begins[:, 0]) // size
        run.lasts = indices[np.minimum((windows + 1) * size, len(indices)) - 1]
    if result.failure is not None and len(result.failure.indices) > 1 and stream is not None:
        run.after = {stream: (int(result.failure.indices[-1]) + 1,)}
