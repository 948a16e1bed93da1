"""Restoring a state and making the first batch, at step 10, 10^6 and 10^9, with and without a Filter.

The small pipeline (Batch(256), 0 workers); the Filter keeps every record. Two clocks: `set_state` on a fresh iterator,
and the `next()` after it; the median of 20 fresh iterators of one loader, in milliseconds. The states of far steps are
that of step 10 with its step and index multiplied, as a run that reached that step would have saved it. Also the size
of the state in bytes. Grain's DataLoader is given its state in the same way.
"""

import json
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Size, plain, shortening
from benchmarks.contender import Contender
from benchmarks.pipeline import Each, Pipeline
from benchmarks.workloads.small import double
from benchmarks.workloads.small import pipeline as small

FROM = 10
STEPS = {"10": 10, "10^6": 10**6, "10^9": 10**9}
STATE = "state bytes"


def every(record: Any) -> bool:
    """Keeps all records, so that positions stay comparable; the code path is that of any Filter."""
    return True


def measure(contender: Contender, size: Size) -> Metrics:
    """Both times for each step, and the size of the state."""
    loader, moved = {"loaderkit": _ours, "grain": _grain}[contender.peer](
        contender, small(size, Each(double))
    )
    iterator = iter(loader)
    for _ in range(FROM):
        next(iterator)
    saved = iterator.get_state()
    metrics = {STATE: float(len(saved))}
    for name, step in STEPS.items():
        state = moved(saved, step)
        metrics[restoring(name)], metrics[first_batch(name)] = median_times(loader, state, size)
    return metrics


def restoring(step: str) -> str:
    """The metric for set_state at that step."""
    return f"set_state ms at step {step}"


def first_batch(step: str) -> str:
    """The metric for the first batch after it."""
    return f"first batch ms at step {step}"


def median_times(loader: Any, state: bytes, size: Size) -> tuple[float, float]:
    """Milliseconds of set_state and of the next() after it, each the median of 20 fresh iterators."""
    clocks = [times(loader, state) for _ in range(size.pick(20, 2))]
    restore, first = map(statistics.median, zip(*clocks, strict=True))
    return restore * 1e3, first * 1e3


def times(loader: Any, state: bytes) -> tuple[float, float]:
    """Seconds of set_state and of the next() after it."""
    iterator = iter(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the state was edited, and loaderkit says so
        begin = time.perf_counter()
        iterator.set_state(state)
        restored = time.perf_counter()
        next(iterator)
        return restored - begin, time.perf_counter() - restored


def _ours(contender: Contender, work: Pipeline) -> tuple[Any, Callable[[bytes, int], bytes]]:
    import loaderkit as lk

    source = work.source("loaderkit")
    filters = [lk.Filter(every)] if contender.options["filter"] else []
    loader = lk.DataLoader(
        data_source=source,
        sampler=lk.IndexSampler(len(source), shuffle=True, seed=0, num_epochs=None),
        operations=[*filters, *(lk.Map(step.function) for step in work.steps), lk.Batch(work.rows)],
    )

    def moved(saved: bytes, step: int) -> bytes:
        document = json.loads(saved)
        del document["digest"]
        document["step"] = step
        document["cursors"] = scaled(document["cursors"], step // FROM)
        return json.dumps(document).encode()

    return loader, moved


def scaled(cursors: Any, factor: int) -> Any:
    """Cursors, lists of one index each, multiplied."""
    if isinstance(cursors, dict):
        return {stream: [index * factor] for stream, (index,) in cursors.items()}
    return [[index * factor] for (index,) in cursors]


def _grain(contender: Contender, work: Pipeline) -> tuple[Any, Callable[[bytes, int], bytes]]:
    import grain.python as grain

    from benchmarks.peers.grain import make_data_loader

    class Every(grain.FilterTransform):
        def filter(self, element: Any) -> bool:
            return every(element)

    filters = [Every()] if contender.options["filter"] else []

    def moved(saved: bytes, step: int) -> bytes:
        document = json.loads(saved)
        document["last_seen_indices"] = {"0": step * work.rows - 1}
        return json.dumps(document).encode()

    return make_data_loader(work, contender, *filters), moved


def _contender(base: Contender, has_filter: bool) -> Contender:
    words = "with Filter" if has_filter else "no Filter"
    options = {**base.options, "filter": has_filter}
    return Contender(f"{base.name}, {words}", base.peer, base.workers, base.kind, options)


OURS, OURS_FILTER = (_contender(by.ours(), has) for has in (False, True))
GRAIN, GRAIN_FILTER = (_contender(by.grain_tuned(0)[0], has) for has in (False, True))


def _far_over_near(contender: Contender) -> Comparison:
    near, far = first_batch("10"), first_batch("10^9")
    return Comparison(
        f"{contender.name}: first batch at step 10^9 / at step 10 (1 is the ideal)",
        lambda results: results[contender.name][far] / results[contender.name][near],
    )


BENCHMARKS = (
    Benchmark(
        "resume",
        __doc__,
        (OURS, OURS_FILTER, GRAIN, GRAIN_FILTER),
        measure,
        (
            _far_over_near(OURS),
            _far_over_near(OURS_FILTER),
            plain(OURS, STATE, Bound("<=", 4096)),
            plain(OURS_FILTER, STATE, Bound("<=", 4096)),
            plain(OURS, restoring("10^9"), Bound("<=", 5)),
            plain(OURS_FILTER, restoring("10^9"), Bound("<=", 5)),
            shortening(OURS, GRAIN, metric=first_batch("10^9")),
            shortening(OURS_FILTER, GRAIN_FILTER, metric=first_batch("10^9")),
        ),
    ),
)
