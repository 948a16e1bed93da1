"""tf.data with AUTOTUNE as a contender: its own parallel map, interleave and prefetch, in C++ threads.

It takes part if the pipeline has columns and, for steps, a graph: tf.data isn't made for a Python function per record.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from benchmarks.contender import Contender
from benchmarks.pipeline import Pipeline


@contextmanager
def open_loader(pipeline: Pipeline, contender: Contender) -> Iterator[Any]:
    """A shuffled, repeated, mapped, batched and prefetched dataset, as numpy arrays."""
    assert pipeline.columns is not None
    columns = pipeline.columns()
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    if pipeline.shuffle:
        dataset = dataset.shuffle(len(next(iter(columns.values()))), seed=pipeline.seed)
    dataset = dataset.repeat()
    if pipeline.graph is not None:
        dataset = dataset.map(pipeline.graph, num_parallel_calls=tf.data.AUTOTUNE)
    if pipeline.batch is not None:
        dataset = dataset.batch(pipeline.batch, num_parallel_calls=tf.data.AUTOTUNE)
    yield dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator()
