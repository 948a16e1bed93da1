"""What follows from experiments with a loader: its limit, and what each change gains. Pure."""

from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._engine.stats.stats import Stats

from .analysis import ENOUGH, Change, Limit, advice_of, is_on_cpu, limit_of, rate_at

MOST_WORKERS = 64  # that an experiment starts
_LOST = 0.05  # of the step's own rate: less can't be told from the noise of two experiments
_HELPS = 1.1  # a change that gains this factor lifts the limit
_NO_LOCK = 1.5  # threads that gain this factor by twice as many don't share one interpreter lock
_AS_GOOD = 0.95  # of the best change: then the cheaper one is advised


@dataclass(frozen=True, slots=True)
class Measured:
    """How fast a loader was in an experiment.

    rate: elements a second, and in `Experiments` records a second. stats: of the time that was measured.
    """

    rate: float
    stats: Stats

    def times(self, factor: float) -> "Measured":
        """The same in another unit, of which an element has so many."""
        return replace(self, rate=factor * self.rate)


def together(same: list[Measured]) -> Measured:
    """The same experiment, made several times for as long: the mean rate, and the figures of the first."""
    return Measured(sum(one.rate for one in same) / len(same), same[0].stats)


@dataclass(frozen=True, slots=True)
class Experiments:
    """What was measured of a loader.

    workers, processors, threads: worker_count, processors there are, reading threads of each worker.
    runs: by number of workers, that of the loader among them; with the step where one was given, else without.
    alone: without the step, with the loader's workers. reads: without operations; None where that can't be done.
    demand: records a second that the step takes; None where no step was given.
    others: other settings, as they are written, with the step.
    """

    workers: int
    processors: int
    threads: int
    runs: dict[int, Measured]
    alone: Measured
    reads: Measured | None = None
    demand: float | None = None
    others: tuple[tuple[str, Measured], ...] = ()

    @property
    def here(self) -> Measured:
        """With the loader's own settings."""
        return self.runs[self.workers]

    def plus(self, what: str, measured: Measured) -> "Experiments":
        """With one more setting."""
        return replace(self, others=(*self.others, (what, measured)))


def is_limiting(made: Experiments) -> bool | None:
    """Whether the step is slower with the loader than by itself; None without a step.

    Under JAX next() may block while the device works, so both count: time in next(), and steps that are lost.
    """
    if made.demand is None:
        return None
    stats = made.here.stats
    in_next = (stats.waiting or 0.0) + (stats.handing or 0.0)
    return in_next > ENOUGH and made.here.rate < (1 - _LOST) * made.demand


def limit_from(made: Experiments) -> Limit:
    """What limits the loader: what its counters say, checked against what more workers gained."""
    if is_limiting(made) is False:
        return Limit("trainer", "the trainer's step", limit_of_alone(made).part)
    limit = limit_of(made.here.stats, processors=made.processors, threads=made.threads)
    # next() never blocks, although steps are slower; or too few steps were made
    if limit.kind in ("trainer", "unknown"):
        limit = limit_of_alone(made)
    more = [run.rate for count, run in made.runs.items() if count > made.workers > 0]
    if not more:
        return limit
    gains, near = max(more) > _HELPS * made.here.rate, (made.demand or 0.0) < 1.3 * made.here.rate
    if limit.kind in ("processors", "operation") and gains:
        return replace(limit, kind="workers")
    if limit.kind == "interpreter lock" and max(more) > _NO_LOCK * made.here.rate:
        return replace(limit, kind="workers")
    if limit.kind == "workers" and not gains and not (near and made.demand):
        return replace(limit, kind="processors" if is_on_cpu(made.here.stats) else "operation")
    return limit


def limit_of_alone(made: Experiments) -> Limit:
    """What limits the loader without a step: nothing takes time then but the loader."""
    limit = limit_of(made.alone.stats, processors=made.processors, threads=made.threads)
    if limit.kind == "trainer":  # epochs of a few steps: what blocks next() is their opening
        stats = replace(made.alone.stats, trainer=None)
        limit = limit_of(stats, processors=made.processors, threads=made.threads)
    return limit


def changes_of(made: Experiments) -> list[Change]:
    """What each change gives, the best first; no gain without a demand."""
    base, workers = made.here.rate, made.workers
    rates = {count: run.rate for count, run in made.runs.items() if count}
    found = [(f"worker_count={count}", rate, "measured") for count, rate in rates.items() if count != workers]
    found += [(what, run.rate, "measured") for what, run in made.others]
    most = max(made.runs)
    if rates and workers > 1 and most > workers:
        middle = (workers + most) // 2
        found.append((f"worker_count={middle}", *rate_at(middle, rates)))
    if rates and most and 2 * most <= MOST_WORKERS:
        rate, known = rate_at(2 * most, rates)
        allowed = min(rate, processors_allow(made), made.demand or rate)
        if allowed > (1 + ENOUGH) * max(rates.values()) and rates[most] > (1 + ENOUGH) * base:
            found.append((f"worker_count={2 * most}", allowed, known))
    changes = [
        Change(what, rate, None if made.demand is None else rate / base, known)
        for what, rate, known in found
        if rate > (1 + ENOUGH) * base
    ]
    return sorted(changes, key=lambda change: -(change.rate or 0.0))


def processors_allow(made: Experiments) -> float:
    """Records a second if all processors worked for the loader alone."""
    fewest = min((count for count in made.runs if count), default=0)
    stats = (made.runs[fewest] if fewest else made.here).stats
    computing = (stats.seconds_per_record or 0.0) * (stats.cpu or 0.0)
    return made.processors / computing if computing else float("inf")


def advice_from(made: Experiments, limit: Limit, changes: list[Change]) -> str:
    """What to try: the cheapest of the measured changes that gain about as much as the best."""
    if is_limiting(made) is False:
        return ""
    if limit.kind == "unknown":  # so few elements tell no gain either
        return "a larger seconds"
    measured = [change for change in changes if change.known == "measured"]
    if not measured:
        advice = advice_of(limit, workers=made.workers, processors=made.processors, threads=made.threads)
        tried = [what for what, _ in made.others] + [f"worker_count={count}" for count in made.runs]
        return f"a cheaper {limit.part}" if advice in tried and limit.part else advice
    enough = [
        change.what for change in measured if (change.rate or 0.0) >= _AS_GOOD * (measured[0].rate or 0.0)
    ]
    others = [what for what, _ in made.others]
    return min(
        enough,
        key=lambda what: (what not in others, int(what.partition("=")[2]) if what not in others else 0),
    )
