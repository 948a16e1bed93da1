"""A training step of 33 ms, and 32 ms of work a batch for 2 workers: does the trainer ever wait for data?

Batch(16), each record 2 ms of CPU. Two kinds of step: one that waits without the GIL, as for an accelerator
(time.sleep), and one that holds the GIL throughout (usleep through ctypes.PyDLL), in which no other thread of the
trainer can run. Milliseconds from step to step, `next()` included, averaged over the window, after a warm-up of ten
steps. The ideal is the same step without a loader.
"""

import ctypes
import time
from collections.abc import Callable

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, cost, shortening
from benchmarks.contender import Contender
from benchmarks.measure import open_loader, warm_up_library
from benchmarks.pipeline import Each, Pipeline
from benchmarks.work import spin

STEP_S = 0.033
BATCH = 16
WARM_UP = 10
FREE, HELD = "step ms, GIL free", "step ms, GIL held"

_libc = ctypes.PyDLL(None)  # unlike CDLL it keeps the GIL during a call


def free_step() -> None:
    """Waits as for an accelerator."""
    time.sleep(STEP_S)


def held_step() -> None:
    """Waits with the GIL."""
    _libc.usleep(int(STEP_S * 1e6))


def work(key: int) -> int:
    """One record's share of the 32 ms."""
    spin(0.032 / BATCH)
    return key


def measure(contender: Contender, size: Size) -> Metrics:
    """Milliseconds a step for both kinds."""
    return {name: step_ms(step, contender, size) for name, step in ((FREE, free_step), (HELD, held_step))}


def step_ms(step: Callable[[], None], contender: Contender, size: Size) -> float:
    """Milliseconds from step to step."""
    steps = max(2, int(size.seconds / STEP_S))
    if contender.peer == "bare":
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - begin) / steps * 1e3
    warm_up_library(contender)
    pipeline = Pipeline({"": lambda: range(100_000)}, (Each(work),), BATCH)
    with open_loader(pipeline, contender) as loader:
        batches = iter(loader)
        batch = next(batches)
        for _ in range(size.pick(WARM_UP, 1)):
            step()
            batch = next(batches)
        begin = time.perf_counter()
        for _ in range(steps):
            batch = next(batches)
            step()
        del batch
        return (time.perf_counter() - begin) / steps * 1e3


IDEAL = by.bare("the step alone")
OURS_2 = by.ours(2)
GRAIN_2 = (by.grain_default(2), *by.grain_tuned(2))
(TORCH_2,) = by.torch(2)


BENCHMARKS = (
    Benchmark(
        "busy",
        __doc__,
        (IDEAL, OURS_2, *GRAIN_2, TORCH_2),
        measure,
        (
            *(cost(OURS_2, IDEAL, metric=metric, bound=Bound("<=", 1.05)) for metric in (FREE, HELD)),
            *(cost(TORCH_2, IDEAL, metric=metric) for metric in (FREE, HELD)),
            *(shortening(OURS_2, TORCH_2, metric=metric) for metric in (FREE, HELD)),
            *(
                shortening(OURS_2, *GRAIN_2, metric=metric, best_of="best of grain DataLoader, 2 workers")
                for metric in (FREE, HELD)
            ),
        ),
    ),
)
