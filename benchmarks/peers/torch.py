"""torch.utils.data.DataLoader as a contender, with default options and its own collate function: batches are tensors.

Its sampler is endless, which spares it a new start at the end of each epoch, and workers persist. Steps that draw get
one generator a worker: less work than a generator that is a function of the record, and not repeatable.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from benchmarks.contender import Contender
from benchmarks.peers.bare import read
from benchmarks.pipeline import Draw, Pipeline

# As in torch's own workers. On a machine of two cores two threads that stack a batch compete with the rest: in a
# trainer with 0 workers the rate fell to a third.
torch.set_num_threads(1)

# Arrays that belong to a source are read-only, and default_collate copies them anyway.
warnings.filterwarnings("ignore", message="The given NumPy array is not writ")


class _Dataset:
    def __init__(self, pipeline: Pipeline) -> None:
        # Each process opens files itself, as ArrayRecord's threads don't exist in a forked worker; data in memory
        # is made before the fork, so that workers share it.
        self._pipeline = pipeline
        self._opened: tuple[int, Any] | None = None
        if pipeline.records is None:
            self._opened = (0, pipeline.source("torch"))
        self._steps = [(step.function, isinstance(step, Draw)) for step in pipeline.steps]
        self._generator: tuple[int, np.random.Generator] | None = None

    def __len__(self) -> int:
        return len(self._source()) if self._pipeline.records is None else self._pipeline.records

    def __getitem__(self, key: int) -> Any:
        return self._row(self._source()[key])

    def __getitems__(self, keys: list[int]) -> list[Any]:
        return [self._row(record) for record in read(self._source(), keys)]

    def _source(self) -> Any:
        pid = os.getpid()
        if self._opened is None or self._opened[0] not in (0, pid):
            self._opened = (pid, self._pipeline.source("torch"))
        return self._opened[1]

    def _row(self, record: Any) -> Any:
        for function, draws in self._steps:
            record = function(record, self._rng()) if draws else function(record)
        return record

    def _rng(self) -> np.random.Generator:
        pid = os.getpid()
        if self._generator is None or self._generator[0] != pid:
            self._generator = (pid, np.random.default_rng())
        return self._generator[1]


class _Keys:
    """Endless record keys, one at a time or a list for each batch."""

    def __init__(self, records: int, batch: int | None, shuffle: bool) -> None:
        self._records, self._batch, self._shuffle = records, batch, shuffle

    def __iter__(self) -> Iterator[Any]:
        keys: list[int] = []
        while True:
            order = torch.randperm(self._records) if self._shuffle else torch.arange(self._records)
            if self._batch is None:
                yield from order.tolist()
                continue
            keys += order.tolist()
            whole = len(keys) // self._batch * self._batch
            for low in range(0, whole, self._batch):
                yield keys[low : low + self._batch]
            keys = keys[whole:]


@contextmanager
def open_loader(pipeline: Pipeline, contender: Contender) -> Iterator[Any]:
    """The loader; torch ends its workers with the last iterator."""
    dataset: Any = _Dataset(pipeline)
    keys: Any = _Keys(len(dataset), pipeline.batch, pipeline.shuffle)
    order = {"sampler": keys, "batch_size": None} if pipeline.batch is None else {"batch_sampler": keys}
    yield DataLoader(
        dataset, num_workers=contender.workers, persistent_workers=contender.workers > 0, **order
    )
