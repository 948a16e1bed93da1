"""HF datasets as a contender: an Arrow table of the columns, shuffled each epoch, read by batch as numpy arrays.

Steps run on each row of a batch, inside its transform; the last, shorter batch of an epoch is left out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import datasets

from benchmarks.contender import Contender
from benchmarks.peers.bare import stacked
from benchmarks.pipeline import Draw, Pipeline


class _Epochs:
    def __init__(self, pipeline: Pipeline) -> None:
        assert pipeline.columns is not None and pipeline.batch is not None
        assert not any(isinstance(step, Draw) for step in pipeline.steps)
        self._pipeline = pipeline
        columns = {name: list(column) for name, column in pipeline.columns().items()}
        self._dataset = datasets.Dataset.from_dict(columns).with_format("numpy")

    def __iter__(self) -> Iterator[Any]:
        epoch = 0
        while True:
            dataset = self._dataset.shuffle(seed=epoch) if self._pipeline.shuffle else self._dataset
            for batch in dataset.iter(self._pipeline.rows, drop_last_batch=True):
                yield self._stepped(batch)
            epoch += 1

    def _stepped(self, batch: dict[str, Any]) -> Any:
        if not self._pipeline.steps:
            return batch
        rows: list[Any] = [dict(zip(batch, row)) for row in zip(*batch.values())]
        for step in self._pipeline.steps:
            rows = [step.function(row) for row in rows]
        return stacked(rows)


@contextmanager
def open_loader(pipeline: Pipeline, contender: Contender) -> Iterator[Any]:
    """Batches without end."""
    yield _Epochs(pipeline)
