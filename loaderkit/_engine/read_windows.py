"""Tasks that read whole windows: what their results say beside the elements."""

import numpy as np

from .element_queue import QueuedRun
from .task import ReadStream, StreamRead


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
