"""Grain as a contender, by its DataLoader or its MapDataset.

Options of a contender: `api`, "DataLoader" or "MapDataset"; `read`, (num_threads, prefetch_buffer_size);
`worker_buffer_size`. By default they are Grain's.

absl's flags are marked as parsed, without which Grain's workers don't start outside an absl application, and
prometheus_client is kept out (`without_prometheus/`): its counters take much of its time for a cheap record.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grain.python as grain
from absl import flags, logging

from benchmarks.contender import Contender
from benchmarks.pipeline import Draw, Pipeline

flags.FLAGS.mark_as_parsed()
logging.set_verbosity(logging.ERROR)


class _Map(grain.MapTransform):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def map(self, element: Any) -> Any:
        return self._function(element)


class _RandomMap(grain.RandomMapTransform):
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def random_map(self, element: Any, rng: Any) -> Any:
        return self._function(element, rng)


@contextmanager
def open_loader(pipeline: Pipeline, contender: Contender) -> Iterator[Any]:
    """The loader; Grain ends its workers with the last iterator."""
    make = make_data_loader if contender.options["api"] == "DataLoader" else make_dataset
    yield make(pipeline, contender)


def make_data_loader(pipeline: Pipeline, contender: Contender, *filters: Any) -> grain.DataLoader:
    """Grain's DataLoader of the pipeline, its operations behind the filters."""
    source = pipeline.source("grain")
    operations: list[Any] = [
        *filters,
        *(
            _RandomMap(step.function) if isinstance(step, Draw) else _Map(step.function)
            for step in pipeline.steps
        ),
    ]
    if pipeline.batch is not None:
        operations.append(grain.Batch(pipeline.batch))
    return grain.DataLoader(
        data_source=source,
        sampler=grain.IndexSampler(
            len(source),
            shard_options=grain.NoSharding(),
            shuffle=pipeline.shuffle,
            seed=pipeline.seed,
            num_epochs=None,
        ),
        operations=operations,
        worker_count=contender.workers,
        worker_buffer_size=contender.options.get("worker_buffer_size", 1),
        read_options=read_options(contender),
    )


def make_dataset(pipeline: Pipeline, contender: Contender) -> grain.IterDataset:
    """Grain's MapDataset of the pipeline, batched before it is iterated, so that its threads make whole batches."""
    dataset = grain.MapDataset.source(pipeline.source("grain")).seed(pipeline.seed)
    if pipeline.shuffle:
        dataset = dataset.shuffle()
    dataset = dataset.repeat()
    for step in pipeline.steps:
        dataset = (dataset.random_map if isinstance(step, Draw) else dataset.map)(step.function)
    if pipeline.batch is not None:
        dataset = dataset.batch(pipeline.batch)
    iterable = dataset.to_iter_dataset(read_options(contender))
    if contender.workers:
        options = grain.MultiprocessingOptions(
            num_workers=contender.workers,
            per_worker_buffer_size=contender.options.get("worker_buffer_size", 1),
        )
        iterable = iterable.mp_prefetch(options)
    return iterable


def read_options(contender: Contender) -> grain.ReadOptions:
    """Grain's read options of a contender."""
    return grain.ReadOptions(*contender.options.get("read", ()))
