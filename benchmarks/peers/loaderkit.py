"""loaderkit as a contender.

Options of a contender: `source` names one of the pipeline's sources instead of "loaderkit"; `transforms` one of its
lists of loaderkit's own transforms instead of the steps; `reads_in_flight` is `ReadOptions(num_threads=...)`; `remote`
is the number of workers on other hosts, which are this one, `delay_s` as their `WorkersHere` has it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import loaderkit as lk
from benchmarks.contender import Contender
from benchmarks.hosts_here import WorkersHere, findable
from benchmarks.pipeline import Draw, Pipeline

# The package imports a name when it is first asked for: here, before any clock starts.
for _name in lk.__all__:
    getattr(lk, _name)


def make_loader(pipeline: Pipeline, contender: Contender) -> lk.DataLoader:
    """An endless loader of the pipeline."""
    source = pipeline.source(contender.options.get("source", "loaderkit"))
    own = contender.options.get("transforms")
    operations: list[lk.transforms.Transformation] = (
        [
            lk.RandomMap(step.function) if isinstance(step, Draw) else lk.Map(step.function)
            for step in pipeline.steps
        ]
        if own is None
        else pipeline.transforms[own]()
    )
    if pipeline.batch is not None:
        operations.append(lk.Batch(pipeline.batch))
    remote = contender.options.get("remote")
    if remote is not None:
        findable()
    return lk.DataLoader(
        data_source=source,
        sampler=lk.IndexSampler(len(source), shuffle=pipeline.shuffle, seed=pipeline.seed, num_epochs=None),
        operations=operations,
        worker_count=contender.workers,
        worker_kind=contender.kind,
        remote_workers=None if remote is None else WorkersHere(remote, contender.options["delay_s"]),
        read_options=lk.ReadOptions(num_threads=contender.options.get("reads_in_flight", 0)),
    )


@contextmanager
def open_loader(pipeline: Pipeline, contender: Contender) -> Iterator[lk.DataLoader]:
    """The loader; its workers end with the context."""
    with make_loader(pipeline, contender) as loader:
        yield loader
