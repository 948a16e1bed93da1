"""loaderkit with its default options."""

from typing import Any

import loaderkit as lk
from benchmarks.conformance.subjects import Asked, source_of


def make(asked: Asked, workers: int) -> Any:
    """Its DataLoader."""
    return lk.DataLoader(
        data_source=source_of(asked),
        sampler=lk.IndexSampler(asked.length, shuffle=asked.shuffle, seed=0, num_epochs=1),
        operations=[asked.function, lk.Batch(asked.batch)],
        worker_count=workers,
    )


def state(loader: Any, it: Any) -> bytes:
    """The saved position."""
    saved: bytes = it.get_state()
    return saved


def restore(loader: Any, saved: Any) -> Any:
    """An iterator at a saved position."""
    it = iter(loader)
    it.set_state(saved)
    return it
