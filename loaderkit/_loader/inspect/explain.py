"""`it.explain()` from what was counted, and `loader.explain()` by experiments."""

import contextlib
import dataclasses
import math
import sys
from typing import TYPE_CHECKING, Any

from loaderkit._base.numbers import number
from loaderkit._base.system.resources import available_cpus
from loaderkit._engine.stats.stats import Stats
from loaderkit._engine.stats.text import counted, duration, percent
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._source.optional import advised_calls

from .analysis import ENOUGH, Limit, advice_of, is_bottleneck, limit_of, more_reads, reads_to_try
from .conclusion import MOST_WORKERS, Experiments, advice_from, changes_of, is_limiting, limit_from, together
from .experiments import OpenReader, measure, reads_alone, records_of_element, time_step
from .explanation import Explanation
from .tokenising import tokenising_notes

if TYPE_CHECKING:
    from loaderkit._loader.settings import LoaderSettings

_TWICE_SECONDS = 1.0  # an experiment that has so much time is made in two halves


def explain_run(stats: Stats, program: Program) -> Explanation:
    """What the counters of a run say; no experiment is made, so no gain is told.

    Args:
        stats: of its iterator.
        program: what its workers run.
    """
    processors, threads = available_cpus(), _threads(program.read_options, program.source)
    synchronous = "jax" not in sys.modules
    bottleneck = is_bottleneck(stats, synchronous=synchronous)
    limit = limit_of(stats, processors=processors, threads=threads)
    if limit.kind == "unknown":
        return Explanation(None, limit, lacking="take some steps first")
    if limit.kind == "trainer":
        bottleneck = False
    elif bottleneck is False:  # the device has enough to do, however long next() blocks
        limit = Limit("trainer", "the trainer", limit.part)
    advice = advice_of(limit, workers=stats.workers, processors=processors, threads=threads)
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
    if bottleneck is not False:
        notes += tokenising_notes(limit, program.source, program.operations, stats)
        notes += _server_notes(limit, program.source, threads, stats)
    lacking = "use it.watch(loss)"
    if stats.exposed is not None:
        lacking = "it.watch(loss) has seen no blocked next() yet"
    return Explanation(
        bottleneck, limit, "" if bottleneck is False else advice, tuple(why), (), tuple(notes), lacking
    )


def _notes(stats: Stats) -> list[str]:
    notes = []
    if stats.pool.lost:
        notes.append(f"{counted(stats.pool.lost, 'worker')} lost: the work was done again.")
    if stats.pool.copied:
        notes.append("Batches were copied for want of memory: hold fewer, or give a larger max_memory.")
    if stats.trainer is not None and stats.trainer.paused:
        notes.append(f"Pauses of {duration(stats.trainer.paused / 1e9)} in all are left out.")
    if stats.handing is not None and stats.handing > ENOUGH:
        notes.append(f"The loader's own code takes {percent(stats.handing)}: larger batches need less of it.")
    if stats.placing is not None and stats.placing > ENOUGH:
        notes.append(f"Sending batches to devices takes {percent(stats.placing)} of the trainer's time.")
    return notes


def _server_notes(limit: Limit, source: Any, threads: int, stats: Stats) -> list[str]:
    """What more connections would allow, where reads that wait for a server are the limit; else none."""
    flying, each = stats.reads_in_flight, stats.read_latency
    if limit.kind != "reads" or not advised_calls(source) or not flying or not each:
        return []
    count, made = reads_to_try(threads), max(stats.workers, 1) * flying / each
    note = (
        f"Reads wait for a server: in each worker {flying:.1f} are in flight, {duration(each)} each, which makes "
        f"{made:,.0f} round trips a second. num_threads={count} allows at most {count / flying:.2g} times as many."
    )
    return [note]


def explain_loader(
    settings: "LoaderSettings", plan: SeekablePlan, open_reader: OpenReader, *, step: Any, seconds: float
) -> Explanation:
    """Measures a loader with other numbers of workers, its reads alone, and the step, and says what limits it.

    The loader's stream, state and quarantine aren't touched, and no store is asked: everything runs on copies.

    Args:
        settings: the loader's. None of its iterators may be open.
        plan: of its stream.
        open_reader: of copies of it.
        step: a function of a batch, called on copies of one and on the batches of the experiments; what it returns is
            waited for. Without it nothing is said of the trainer's demand.
        seconds: for all experiments together, 1 or more.

    >>> import loaderkit as lk
    >>> loader = lk.load(range(1000), operations=[lambda x: x + 1], batch_size=10)
    >>> print(loader.explain(seconds=1).first_line)  # doctest: +ELLIPSIS
    Whether the loader is the bottleneck is unknown: give step=. Limit: ...
    """
    number("seconds", seconds, "a number of seconds")
    if not 1 <= seconds < math.inf:
        raise ValueError(f"seconds: expected 1 or more, got {seconds}")
    if step is not None and not callable(step):
        raise TypeError(f"step: expected a function of a batch, or None, got {step!r:.80}")
    counts = _counts(settings.worker_count, available_cpus())
    share = seconds / (len(counts) + 3 + (step is not None))
    demand = None if step is None else time_step(open_reader, step, share)
    # Twice, in opposite order: a machine that grows slower or faster meanwhile changes no gain.
    orders = [counts, counts[::-1]] if share >= _TWICE_SECONDS else [counts]
    passes = [
        {count: measure(open_reader, share / len(orders), step, worker_count=count) for count in order}
        for order in orders
    ]
    runs = {count: together([one[count] for one in passes]) for count in counts}
    here = runs[settings.worker_count]
    alone = here if step is None else measure(open_reader, share)
    each = records_of_element(plan, here.stats)
    made = Experiments(
        settings.worker_count,
        available_cpus(),
        _threads(settings.read_options, settings.source),
        {count: run.times(each) for count, run in runs.items()},
        alone.times(each),
        reads_alone(open_reader, plan, share),
        None if demand is None else each * demand,
    )
    if is_limiting(made) is not False:
        for what, changes in _settings_for(limit_from(made), settings, made.threads):
            with contextlib.suppress(Exception):  # a setting that this loader can't have, such as its pickle
                made = made.plus(what, measure(open_reader, share, step, **changes).times(each))
    said = _conclude(made)
    stats = made.here.stats
    notes = tokenising_notes(said.limit, settings.source, settings.operations, stats)
    notes += _server_notes(said.limit, settings.source, made.threads, stats)
    return said if said.bottleneck is False else dataclasses.replace(said, notes=(*said.notes, *notes))


def _settings_for(limit: Limit, settings: "LoaderSettings", threads: int) -> list[tuple[str, dict[str, Any]]]:
    """Settings other than the number of workers that may lift a limit: as they are written, and as fields."""
    workers = settings.worker_count
    if (reads := more_reads(limit, threads)) is not None:
        options = dataclasses.replace(settings.read_options, num_threads=reads)
        return [(f"read_options=lk.ReadOptions(num_threads={reads})", {"read_options": options})]
    match limit.kind:
        case "bursts" if settings.prefetch:
            ahead = 4 * settings.prefetch
            return [(f"prefetch_batches={ahead}", {"prefetch": ahead})]
        case "memory" if settings.max_memory is not None:
            return [("max_memory=None", {"max_memory": None})]
        case "interpreter lock":
            return [('worker_kind="process"', {"worker_kind": "process", "worker_count": workers})]
    return []


def _threads(options: ReadOptions, source: Any) -> int:
    return advised_calls(source) if options.num_threads is None else options.num_threads


def _counts(workers: int, processors: int) -> list[int]:
    if not workers:
        return sorted({0, 1, max(2, processors)})
    return sorted({max(1, workers // 2), workers, min(2 * workers, MOST_WORKERS)})


def _conclude(made: Experiments) -> Explanation:
    bottleneck, limit, changes = is_limiting(made), limit_from(made), changes_of(made)
    if bottleneck is False:
        changes = []
    why = [f"Alone the loader makes {made.alone.rate:,.0f} records/s with worker_count={made.workers}."]
    if made.demand is None:
        why.append("Without step= the trainer's demand isn't known, so no gain is told.")
    else:
        why.append(
            f"The step by itself takes {made.demand:,.0f} records/s; with the loader {made.here.rate:,.0f} records/s."
        )
    if made.reads is not None:
        why.append(f"Reads alone make {made.reads.rate:,.0f} records/s.")
    return Explanation(
        bottleneck,
        limit,
        advice_from(made, limit, changes),
        tuple(why),
        tuple(changes),
        tuple(_notes(made.here.stats)),
        lacking="give step=",
    )
