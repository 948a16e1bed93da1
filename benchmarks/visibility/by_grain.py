"""Grain: the execution summary of its Dataset API, which it logs each 60 seconds in its debug mode.

So that this takes no minutes, the module's period is set to the length of the run. Grain 0.2.18 names
`grain.experimental.get_execution_summary` in its documents and doesn't have it, so the log is read.
"""

import logging
import time

import grain.python as grain
from absl import flags
from absl import logging as absl_logging
from grain import config
from grain._src.python.dataset import stats

from .pipelines import BATCH, Decode, Pipeline, Source, train

_REPORT_SECONDS = 5  # its workers report so often
_MOST_PERIODS = 6  # that are waited for


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def said(pipeline: Pipeline, seconds: float) -> str:
    """What it logs."""
    flags.FLAGS.mark_as_parsed()
    absl_logging.set_verbosity(absl_logging.INFO)
    kept = _Kept()
    logger = absl_logging.get_absl_logger()
    logger.handlers[:], logger.propagate = [kept], False
    config.update("py_debug_mode", True)
    stats._LOG_EXECUTION_SUMMARY_PERIOD_SEC = max(seconds, 2 * _REPORT_SECONDS)  # type: ignore[attr-defined]
    dataset = (
        grain.MapDataset.source(Source(pipeline.read))
        .map(Decode(pipeline.decode))
        .batch(BATCH)
        .to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=1))
        .mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
    )
    batches = iter(dataset)
    summaries: list[str] = []
    begun = time.perf_counter()
    while not summaries and time.perf_counter() < begun + _MOST_PERIODS * seconds:
        train(batches, pipeline, 1)
        # Parts of its pipeline log one of their own.
        summaries = [text for text in kept.texts if "Execution Summary" in text and "source=Source" in text]
    return summaries[-1] if summaries else "no execution summary was logged"
