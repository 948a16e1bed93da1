"""Grain's DataLoader with its default options; absl's flags are marked as parsed, or its workers don't start."""

from collections.abc import Callable
from typing import Any

import grain.python as grain
from absl import flags

from benchmarks.conformance.subjects import Asked, source_of

flags.FLAGS.mark_as_parsed()


class Function(grain.MapTransform):
    """A function as Grain wants it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def map(self, element: Any) -> Any:
        """The result of the function."""
        return self._function(element)


def make(asked: Asked, workers: int) -> Any:
    """Its DataLoader."""
    return grain.DataLoader(
        data_source=source_of(asked),
        sampler=grain.IndexSampler(
            asked.length, shard_options=grain.NoSharding(), shuffle=asked.shuffle, seed=0, num_epochs=1
        ),
        operations=[Function(asked.function), grain.Batch(asked.batch)],
        worker_count=workers,
    )


def state(loader: Any, it: Any) -> Any:
    """The saved position."""
    return it.get_state()


def restore(loader: Any, saved: Any) -> Any:
    """An iterator at a saved position."""
    it = iter(loader)
    it.set_state(saved)
    return it
