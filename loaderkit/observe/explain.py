"""`it.explain()` from what was counted, and `loader.explain()` by experiments."""

import sys
from typing import Any

from loaderkit._base.numbers import number
from loaderkit._loader.loader import DataLoader, is_in_use, settings_of
from loaderkit._loader.settings import LoaderSettings
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._stats.stats import Stats
from loaderkit._stats.text import duration, percent
from loaderkit._system.resources import available_cpus
from loaderkit.sources.optional import advised_calls

from .analysis import ENOUGH, Change, Limit, advice_of, is_bottleneck, limit_of, rate_at
from .experiments import Measured, measure, reads_alone, time_step
from .explanation import Explanation

_MOST_WORKERS = 64  # that an experiment starts


def explain_run(stats: Stats, program: Program) -> Explanation:
    """What the counters of a run say; no experiment is made, so no gain is told.

    Args:
        stats: of its iterator.
        program: what its workers run.
    """
    workers, processors, threads = (
        stats.workers,
        available_cpus(),
        _threads(program.read_options, program.source),
    )
    synchronous = "jax" not in sys.modules
    bottleneck = is_bottleneck(stats, synchronous=synchronous)
    limit = limit_of(stats, processors=processors, threads=threads)
    if limit.kind == "trainer":
        bottleneck = False
    advice = advice_of(limit, workers=workers, processors=processors, threads=threads)
    why = [
        f"next() blocked for {percent(stats.waiting)} of the time, and was ready for {percent(stats.ready)} of steps."
    ]
    if stats.exposed_waiting is not None:
        why.append(
            f"The device had nothing to do meanwhile for {percent(stats.exposed_waiting)} of the time."
        )
    elif bottleneck is None:
        why.append("The device may have been busy meanwhile: JAX dispatches ahead.")
    if stats.busy is not None and stats.workers:
        why.append(
            f"Workers were busy for {percent(stats.busy)}, with a processor for {percent(stats.cpu)} of that."
        )
    notes = _notes(stats)
    return Explanation(bottleneck, limit, "" if bottleneck is False else advice, tuple(why), (), tuple(notes))


def _notes(stats: Stats) -> list[str]:
    notes = []
    if stats.pool.lost:
        notes.append(f"{stats.pool.lost} workers were lost: their work was done again.")
    if stats.pool.copied:
        notes.append("Batches were copied for want of memory: hold fewer, or give a larger max_memory.")
    if stats.trainer is not None and stats.trainer.paused:
        notes.append(f"Pauses of {duration(stats.trainer.paused / 1e9)} in all are left out.")
    if stats.handing is not None and stats.handing > ENOUGH:
        notes.append(f"The loader's own code takes {percent(stats.handing)}: larger batches need less of it.")
    return notes


def explain_loader(loader: DataLoader[Any], step: Any = None, seconds: float = 20.0) -> Explanation:
    """Measures a loader with other numbers of workers, its reads alone, and the step, and says what limits it.

    The loader's stream, state and quarantine aren't touched, and no store is asked: everything runs on copies.

    Args:
        loader: none of its iterators may be open: RuntimeError.
        step: a function of a batch, called 64 times on copies of one; what it returns is waited for. Without it nothing
            is said of the trainer's demand.
        seconds: for all experiments together, 1 or more.

    >>> import loaderkit as lk
    >>> loader = lk.load(range(1000), transformations=[lambda x: x + 1], batch_size=10)
    >>> print(explain_loader(loader, seconds=1).first_line)  # doctest: +ELLIPSIS
    Whether the loader is the bottleneck is unknown: give step=. Limit: ...
    """
    number("seconds", seconds, "a number of seconds")
    if seconds < 1:
        raise ValueError(f"seconds: expected 1 or more, got {seconds}")
    if step is not None and not callable(step):
        raise TypeError(f"step: expected a function of a batch, or None, got {step!r:.80}")
    if is_in_use(loader):
        raise RuntimeError(
            "explain: expected a loader without an open iterator, got one; close it, or use it.explain()"
        )
    settings, processors = settings_of(loader), available_cpus()
    counts = _counts(settings.worker_count, processors)
    share = seconds / (len(counts) + 1 + (step is not None))
    runs = {count: measure(loader, share, worker_count=count) for count in counts}
    here = runs[settings.worker_count]
    reads = reads_alone(loader, share)
    demand = None if step is None else time_step(loader, step, share)
    return _conclude(settings, runs, here, reads, demand, processors)


def _threads(options: ReadOptions, source: Any) -> int:
    return advised_calls(source) if options.num_threads is None else options.num_threads


def _counts(workers: int, processors: int) -> list[int]:
    if not workers:
        return sorted({0, 1, max(2, processors)})
    return sorted({max(1, workers // 2), workers, min(2 * workers, _MOST_WORKERS)})


def _conclude(
    settings: LoaderSettings,
    runs: dict[int, Measured],
    here: Measured,
    reads: Measured | None,
    demand: float | None,
    processors: int,
) -> Explanation:
    workers, rate = settings.worker_count, here.rate
    threads = _threads(settings.read_options, settings.source)
    bottleneck = None if demand is None else demand > (1 + ENOUGH) * rate
    limit = _limit(runs, here, reads, workers, processors, threads)
    capped = {count: min(run.rate, demand or run.rate) for count, run in runs.items()}
    changes = [
        Change(
            f"worker_count={count}",
            capped[count],
            None if demand is None else capped[count] / rate,
            "measured",
        )
        for count in sorted(runs)
        if count != workers and capped[count] > (1 + ENOUGH) * rate
    ]
    if bottleneck is not False and changes and limit.kind in ("workers", "operation", "reads"):
        most = max(runs)
        more, known = rate_at(2 * most, {count: run.rate for count, run in runs.items() if count})
        if 2 * most <= _MOST_WORKERS:
            more = min(more, demand or more)
            changes.append(
                Change(f"worker_count={2 * most}", more, None if demand is None else more / rate, known)
            )
    changes.sort(key=lambda change: -(change.rate or 0.0))
    measured = [change for change in changes if change.known == "measured"]
    if measured:
        advice = measured[0].what
    else:
        advice = advice_of(limit, workers=workers, processors=processors, threads=threads)
        if advice.startswith("worker_count"):  # that was tried, and didn't help
            advice = f"a cheaper {limit.part}"
    if bottleneck is False:
        limit, advice, changes = Limit("trainer", "the trainer's step", limit.part), "", []
    why = [f"Alone the loader makes {rate:,.0f} records/s with worker_count={workers}."]
    if demand is not None:
        why.append(f"The step takes {demand:,.0f} records/s.")
    else:
        why.append("Without step= the trainer's demand isn't known, so no gain is told.")
    if reads is not None:
        why.append(f"Reads alone make {reads.rate:,.0f} records/s.")
    return Explanation(
        bottleneck, limit, advice, tuple(why), tuple(changes), tuple(_notes(here.stats)), lacking="give step="
    )


def _limit(
    runs: dict[int, Measured],
    here: Measured,
    reads: Measured | None,
    workers: int,
    processors: int,
    threads: int,
) -> Limit:
    stats, parts = here.stats, here.stats.parts
    if not parts:
        return Limit("unknown", "nothing was made")
    part = max(parts, key=lambda name: parts[name])
    on_cpu = (stats.cpu or 0.0) >= 0.6
    where = f"{part} {'on CPU' if on_cpu else 'waiting'}"
    best = max(runs, key=lambda count: runs[count].rate)
    gains = runs[best].rate > 1.1 * here.rate and best > workers
    if part == "read" and reads is not None:
        return Limit("reads", f"reads {'on CPU' if on_cpu else 'waiting'}", part)
    if not workers and gains:
        return Limit(
            "calling thread", f"the thread that calls next() does all the work, most of it {where}", part
        )
    if gains:
        return Limit("workers", where, part)
    if on_cpu:
        return Limit("processors", where, part)
    return Limit("operation", where, part)
