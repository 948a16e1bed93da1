"""What the rows of masked batches look like: the first element of the whole data, read for it.

They follow where the streams of this process are exhausted and other processes may have more rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from .element_queue import ElementQueue, QueueSlice
from .logical_stream import LogicalStream, RecordInput, stream_of


class Masks:
    """The stream of the whole data, of which one row is taken.

    Args:
        sample: makes its feed.
        takes: rows that each Batch takes of it.
    """

    def __init__(self, sample: Callable[[], RecordInput], takes: Sequence[int]) -> None:
        self._sample = sample
        self._takes = takes
        self.stream: LogicalStream | None = None  # once a row was needed
        self.shape: QueueSlice | None = None  # that row

    def find(self, last: ElementQueue) -> QueueSlice | None:
        """The row, as soon as it is made; where there is none, ends the queue of the batches that need it."""
        if self.shape is not None:
            return self.shape
        if self.stream is None:
            self.stream = stream_of(self._sample(), (), self._takes)
        queue = self.stream.queues[-1]
        queue.count()
        if queue.ready:
            self.shape = queue.take(1)
        elif (failure := queue.failure()) is not None:
            last.fail(replace(failure, cursors=None))  # of the sample, not of this place in the streams
        elif queue.at_end():
            last.ended = True  # no process has a row
        return self.shape

    def lacking(self, stream: LogicalStream) -> LogicalStream | None:
        """The stream, if more of it has to be read for the row."""
        enough = stream.on_their_way or stream.queues[-1].size() or self.shape is not None
        return None if enough or stream.ended else stream
