"""What the rows of masked batches look like: the first element of the whole data, read for it.

They follow where the streams of this process are dry and other processes may have more rows.
"""

from collections.abc import Callable, Sequence

from .element_queue import Line, Taken
from .logical_stream import Feed, Stream, stream_of


class Masks:
    """The stream of the whole data, of which one row is taken.

    Args:
        sample: gives its feed.
        takes: rows that each Batch takes of it.
    """

    def __init__(self, sample: Callable[[], Feed], takes: Sequence[int]) -> None:
        self._sample = sample
        self._takes = takes
        self.stream: Stream | None = None  # once a row was asked for
        self.shape: Taken | None = None  # that row

    def find(self, last: Line) -> Taken | None:
        """The row, as soon as it is there; where it can't come, ends the line of the batches that want it."""
        if self.shape is not None:
            return self.shape
        if self.stream is None:
            self.stream = stream_of(self._sample(), (), self._takes)
        line = self.stream.lines[-1]
        line.count()
        if line.ready:
            self.shape = line.take(1)
        elif (failure := line.failure()) is not None:
            last.fail(failure.failed)
        elif line.at_end():
            last.over = True  # nobody has a row
        return self.shape

    def hungry(self, stream: Stream) -> Stream | None:
        """The stream, if it has to be read on for the row."""
        enough = stream.on_their_way or stream.lines[-1].size() or self.shape is not None
        return None if enough or stream.over else stream
