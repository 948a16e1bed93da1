"""`lk.interop.prometheus.PrometheusCollector`: a loader's counters for prometheus_client."""

import weakref
from collections.abc import Iterable
from typing import Any

from loaderkit._base.extras import missing_library
from loaderkit._engine.stats.counters import WorkerCounters
from loaderkit._engine.stats.stats import Stats

_NS = 1e9  # in a second

# Name, without the prefix and without _total; help; whether it is a counter; labels besides `loader`.
_FAMILIES = (
    ("steps", "elements handed out", True, ()),
    ("step", "the position of the iterator", False, ()),
    ("elapsed_seconds", "since the first element was handed out", True, ()),
    ("wait_seconds", "next() was blocked, openings left out", True, ()),
    (
        "opening_seconds",
        "next() was blocked until the first element of an opening, a seek or a restore",
        True,
        (),
    ),
    ("handing_seconds", "in the loader's own code in the calling thread", True, ()),
    ("placing_seconds", "sending batches to devices", True, ()),
    ("paused_seconds", "gaps between calls that were far longer than usual", True, ()),
    ("blocked_calls", "calls of next() that were blocked", True, ()),
    ("bad_records", "bad records", True, ()),
    ("workers_lost", "workers that died or were killed", True, ()),
    ("tasks_repeated", "tasks that were begun again after a loss", True, ()),
    ("memory_mapped_bytes", "shared memory", False, ()),
    ("memory_held_bytes", "shared memory of batches that the user holds", False, ()),
    ("worker_busy_seconds", "a worker was at work", True, ("worker",)),
    ("worker_starving_seconds", "a worker had no task", True, ("worker",)),
    ("worker_cpu_seconds", "a worker's tasks used a processor", True, ("worker",)),
    ("worker_records", "records that a worker read", True, ("worker",)),
    ("worker_bytes", "bytes that a worker made", True, ("worker",)),
    ("worker_read_retries", "reads that were tried again", True, ("worker",)),
    (
        "operation_seconds",
        "workers were in an operation, in reads, or in making batches",
        True,
        ("operation",),
    ),
)


class PrometheusCollector:
    """Gives the counters of loaders to a registry of prometheus_client, which reads them when it is scraped.

    It opens no port, starts no thread, and holds no iterator: one that is gone has no samples any more. Names are
    `loaderkit_..._total` for what only grows; the label `loader` is the name given here. `worker` is a worker's place,
    from 0 on: one that replaces another goes on counting where that ended.

    Args:
        loaders: iterators, `device_iterator`s or loaders by name. TypeError for others or for none.

    ImportError naming the extra where prometheus_client isn't installed.

    >>> from prometheus_client import CollectorRegistry
    >>> import loaderkit as lk
    >>> it = iter(lk.load(range(64), batch_size=8))
    >>> registry = CollectorRegistry()
    >>> registry.register(PrometheusCollector(train=it))
    >>> batch = next(it)
    >>> registry.get_sample_value("loaderkit_steps_total", {"loader": "train"})
    1
    """

    def __init__(self, *unnamed: Any, **loaders: Any) -> None:
        if unnamed or not loaders:
            got = "one without a name" if unnamed else "none"
            raise TypeError(
                f"loaders: expected an iterator or a loader by name, got {got}; write "
                "lk.interop.prometheus.PrometheusCollector(train=it)"
            )
        for name, loader in loaders.items():
            if not callable(getattr(loader, "stats", None)):
                raise TypeError(
                    f"{name}: expected an iterator of a loader or a loader, got {type(loader).__name__}; write "
                    f"{name}=iter(loader)"
                )
        try:
            from prometheus_client import core
        except ImportError as error:
            raise missing_library(
                "lk.interop.prometheus.PrometheusCollector needs", "prometheus_client", "prometheus"
            ) from error
        self._core = core
        self._loaders = {name: weakref.ref(loader) for name, loader in loaders.items()}

    def describe(self) -> Iterable[Any]:
        """The families without samples, so that a registry needn't collect to know their names."""
        return list(self._families().values())

    def collect(self) -> Iterable[Any]:
        """The families with the samples of now. A figure that isn't known has none."""
        families = self._families()
        for name, held in self._loaders.items():
            if (loader := held()) is not None:
                for family, labels, value in _samples(loader.stats()):
                    families[family].add_metric([name, *labels], value)
        return list(families.values())

    def _families(self) -> dict[str, Any]:
        made = {}
        for name, text, grows, labels in _FAMILIES:
            kind = self._core.CounterMetricFamily if grows else self._core.GaugeMetricFamily
            made[name] = kind(f"loaderkit_{name}", text, labels=["loader", *labels])
        return made


def _samples(stats: Stats) -> Iterable[tuple[str, list[str], float]]:
    trainer, pool = stats.trainer, stats.pool
    if trainer is not None:
        yield "steps", [], trainer.elements
        yield "elapsed_seconds", [], trainer.elapsed / _NS
        yield "wait_seconds", [], trainer.waiting / _NS
        yield "opening_seconds", [], trainer.opening / _NS
        yield "handing_seconds", [], trainer.handing / _NS
        yield "placing_seconds", [], trainer.placing / _NS
        yield "paused_seconds", [], trainer.paused / _NS
        yield "blocked_calls", [], trainer.blocked_calls
    if stats.step is not None:
        yield "step", [], stats.step
    if stats.bad_records is not None:
        yield "bad_records", [], stats.bad_records
    yield "workers_lost", [], pool.lost
    yield "tasks_repeated", [], pool.repeated
    yield "memory_mapped_bytes", [], pool.mapped
    yield "memory_held_bytes", [], pool.leased
    for worker in pool.places:
        yield from _of_worker(str(worker.number), worker)
    work = pool.all
    named = [
        ("read", work.read),
        *((each.name, each.nanoseconds) for each in work.operations),
        ("batch", work.batch),
    ]
    for operation, nanoseconds in named:
        yield "operation_seconds", [operation], nanoseconds / _NS


def _of_worker(number: str, worker: WorkerCounters) -> Iterable[tuple[str, list[str], float]]:
    yield "worker_busy_seconds", [number], (worker.working + worker.telling) / _NS
    yield "worker_starving_seconds", [number], worker.starving / _NS
    if worker.cpu is not None:
        yield "worker_cpu_seconds", [number], worker.cpu / _NS
    yield "worker_records", [number], worker.records
    yield "worker_bytes", [number], worker.nbytes
    yield "worker_read_retries", [number], worker.retries
