"""loaderkit: the statistics and the explanation of the run, and the experiments."""

import time

import loaderkit as lk

from .pipelines import BATCH, Decode, Pipeline, Source, train


def said(pipeline: Pipeline, seconds: float) -> str:
    """What it prints."""
    loader = lk.load(
        Source(pipeline.read),
        operations=[Decode(pipeline.decode)],
        batch_size=BATCH,
        shuffle=False,
        worker_count=1,
    )
    with loader:
        with iter(loader) as batches:
            train(batches, pipeline, seconds / 2)
            of_run = f"it.explain():\n{batches.explain()}\n\nit.stats():\n{batches.stats()}"
        tried = loader.explain(lambda batch: time.sleep(pipeline.step / 1e3), seconds=max(1.0, seconds))
    return f"{of_run}\n\nloader.explain(step):\n{tried}"
