"""tf.data: the input pipeline analysis of TensorFlow's profiler, as xprof reads it."""

import json
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf
from xprof.convert import raw_to_tool_data

from .pipelines import BATCH, Decode, Pipeline, Source, train

_SHOWN = 6  # rows of its table


class _Traced:
    """Each element inside a step of the profiler, which otherwise knows of none."""

    def __init__(self, batches: Any) -> None:
        self._batches, self._step, self._trace = batches, 0, None

    def __next__(self) -> Any:
        if self._trace is not None:
            self._trace.__exit__(None, None, None)
        self._step += 1
        self._trace = tf.profiler.experimental.Trace("train", step_num=self._step, _r=1)
        self._trace.__enter__()
        return next(self._batches)


def said(pipeline: Pipeline, seconds: float) -> str:
    """What it shows."""
    read, decode = Source(pipeline.read).__getitem__, Decode(pipeline.decode)

    def called(function: Any) -> Any:
        return lambda x: tf.ensure_shape(tf.numpy_function(function, [x], tf.float32), [16])

    dataset = (
        tf.data.Dataset.range(1_000_000)
        .map(called(read), name="read")
        .map(called(decode), name="decode")
        .batch(BATCH)
        .prefetch(2)
    )
    batches = iter(dataset)
    train(batches, pipeline, 1)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        train(_Traced(batches), pipeline, seconds)
        tf.profiler.experimental.stop()
        files = [str(path) for path in Path(folder).rglob("*.xplane.pb")]
        tables = json.loads(raw_to_tool_data.xspace_to_tool_data(files, "input_pipeline_analyzer", {})[0])
    lines = []
    for table in tables:
        lines += [
            text for name, text in table.get("p", {}).items() if name.endswith(("conclusion", "nextstep"))
        ]
        columns = [column["label"] for column in table["cols"]]
        if "Input Op" in columns:
            shown = [columns.index(name) for name in ("Input Op", "Count", "Total Self Time (in ms)")]
            lines += [
                " | ".join(str(row["c"][place]["v"]) for place in shown) for row in table["rows"][:_SHOWN]
            ]
    return "\n".join(lines)
