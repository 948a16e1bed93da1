"""`lk.interop.prometheus.PrometheusCollector`: a loader's counters for prometheus_client."""

import weakref
from collections.abc import Iterable
from typing import Any

from loaderkit._base.extras import missing_library
from loaderkit._engine.stats.counters import OperationCounters
from loaderkit._engine.stats.stats import Stats

_NS = 1e9  # in a second

# Name, without the prefix and without _total; help; whether it is a counter; of what, which is a label where there are
# several; the counters that are summed, nanoseconds where the name says seconds.
_FAMILIES = (
    ("steps", "elements handed out", True, "trainer", "elements"),
    ("step", "the position of the iterator", False, "stats", "step"),
    ("elapsed_seconds", "since the first element was handed out", True, "trainer", "elapsed"),
    ("wait_seconds", "next() was blocked, openings left out", True, "trainer", "waiting"),
    (
        "opening_seconds",
        "next() was blocked until the first element of an opening, a seek or a restore",
        True,
        "trainer",
        "opening",
    ),
    ("handing_seconds", "in the loader's own code in the calling thread", True, "trainer", "handing"),
    ("placing_seconds", "sending batches to devices", True, "trainer", "placing"),
    ("paused_seconds", "gaps between calls that were far longer than usual", True, "trainer", "paused"),
    ("blocked_calls", "calls of next() that were blocked", True, "trainer", "blocked_calls"),
    ("bad_records", "bad records", True, "stats", "bad_records"),
    ("workers_lost", "workers that died or were killed", True, "pool", "lost"),
    ("tasks_repeated", "tasks that were begun again after a loss", True, "pool", "repeated"),
    ("memory_mapped_bytes", "shared memory", False, "pool", "mapped"),
    ("memory_held_bytes", "shared memory of batches that the user holds", False, "pool", "leased"),
    ("worker_busy_seconds", "a worker was at work", True, "worker", "working telling"),
    ("worker_starving_seconds", "a worker had no task", True, "worker", "starving"),
    ("worker_cpu_seconds", "a worker's tasks used a processor", True, "worker", "cpu"),
    ("worker_records", "records that a worker read", True, "worker", "records"),
    ("worker_bytes", "bytes that a worker made", True, "worker", "nbytes"),
    ("worker_tokens", "tokens that a worker packed into rows", True, "worker", "tokens"),
    ("worker_places", "places of these rows, padding included", True, "worker", "places"),
    ("worker_read_retries", "reads that were tried again", True, "worker", "retries"),
    ("corpus_records", "records of a component of a mixture, of all processes", True, "corpus", "records"),
    ("corpus_epochs", "epochs of a component of a mixture", False, "corpus", "epochs"),
    (
        "operation_seconds",
        "workers were in an operation, in reads, or in making batches",
        True,
        "operation",
        "nanoseconds",
    ),
)


class PrometheusCollector:
    """Gives the counters of loaders to a registry of prometheus_client, which reads them when it is scraped.

    It opens no port, starts no thread, and holds no iterator: one that is gone has no samples any more. Names are
    `loaderkit_..._total` for what only grows; the label `loader` is the name given here. `worker` is a worker's place,
    from 0 on: one that replaces another goes on counting where that ended.

    Args:
        loaders: iterators, `device_iterator`s or loaders by name. TypeError for others or for none.
        unnamed: nothing: each needs a name, else a TypeError.

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
        for name, text, grows, of, _ in _FAMILIES:
            kind = self._core.CounterMetricFamily if grows else self._core.GaugeMetricFamily
            labels = [of] if of in ("worker", "operation", "corpus") else []
            made[name] = kind(f"loaderkit_{name}", text, labels=["loader", *labels])
        return made


def _samples(stats: Stats) -> Iterable[tuple[str, list[str], float]]:
    work = stats.pool.all
    reads, batches = OperationCounters("read", work.read), OperationCounters("batch", work.batch)
    counted: dict[str, list[tuple[list[str], Any]]] = {
        "stats": [([], stats)],
        "trainer": [] if stats.trainer is None else [([], stats.trainer)],
        "pool": [([], stats.pool)],
        "worker": [([str(worker.number)], worker) for worker in stats.pool.places],
        "corpus": [([name], corpus) for name, corpus in stats.corpora.items()],
        "operation": [([each.name], each) for each in (reads, *work.operations, batches)],
    }
    for name, _, _, of, attributes in _FAMILIES:
        for labels, counters in counted[of]:
            values = [getattr(counters, attribute) for attribute in attributes.split()]
            if None not in values:
                yield name, labels, sum(values) / _NS if name.endswith("_seconds") else sum(values)
