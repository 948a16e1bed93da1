"""`loader.trace()`: the first steps of a copy of the loader, as a timeline in a file."""

import os
import time
from collections.abc import Callable
from typing import Any

from loaderkit._base.numbers import at_least
from loaderkit._base.system.whole_file import whole_file
from loaderkit._engine.stats.timeline import Timeline

from .experiments import OpenReader, wait


def trace_loader(
    open_reader: OpenReader,
    path: str | os.PathLike[str],
    step: Callable[[Any], Any] | None,
    steps: int,
) -> None:
    """Writes the timeline of the first steps of a copy of a loader, its workers' start included.

    Args:
        open_reader: of copies of the loader.
        path: of the file; one that is there is replaced.
        step: a function of a batch; None for nothing.
        steps: how many, fewer where the stream ends.
    """
    at_least("steps", steps, 1)
    if step is not None and not callable(step):
        raise TypeError(f"step: expected a function of a batch, or None, got {step!r:.80}")
    timeline = Timeline(epoch=time.time_ns() - time.perf_counter_ns())
    with open_reader() as reader:
        reader.trace(timeline)
        result = None
        for _ in range(steps):
            try:
                batch = reader.take().value
            except StopIteration:
                break
            if step is not None:
                begun = time.perf_counter_ns()
                result = step(batch)
                timeline.add("trainer", "step", begun, time.perf_counter_ns())
        wait(result)
    with whole_file(os.fspath(path)) as file:
        file.write(timeline.to_json().encode())
