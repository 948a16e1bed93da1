"""A benchmark: what is measured, its contenders, and the ratios that are reported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contender import Contender

Metrics = Mapping[str, float]  # of one contender, by a name that says the unit
Round = Mapping[
    str, Metrics
]  # of one round, by the contender's name; a missing one failed or isn't installed

PER_SECOND = "records/s"  # what `measure.steady` reports
CPU = "CPU us/record"
FIRST = "first batch ms"


@dataclass(frozen=True, slots=True)
class Size:
    """How much to measure.

    Args:
        seconds: of the steady window; a benchmark with slow batches takes a multiple of it.
        smoke: only check that it runs: few records, one batch.
        folder: for data files, shared by all contenders of a run.
        latency_s: how long each answer of a server takes.
        megabytes: of the data on a server.
    """

    seconds: float
    smoke: bool
    folder: Path
    latency_s: float = 0.02
    megabytes: int = 1_200

    def pick(self, full: int, smoke: int) -> int:
        """`full`, or the small number for a smoke run."""
        return smoke if self.smoke else full


@dataclass(frozen=True, slots=True)
class Bound:
    """A figure to reach: the median at least (">=") or at most ("<=") `value`, and the interval's end `floor`.

    >>> Bound(">=", 0.95, floor=0.9).holds(0.97, (0.91, 1.0)), str(Bound("<=", 0.6))
    (True, '<= 0.6')
    """

    sense: str
    value: float
    floor: float | None = None

    def holds(self, median: float, interval: tuple[float, float]) -> bool:
        """Whether a measured median and interval reach it."""
        if self.sense == "<=":
            return median <= self.value
        return median >= self.value and (self.floor is None or interval[0] >= self.floor)

    def __str__(self) -> str:
        floor = "" if self.floor is None else f", low >= {self.floor:g}"
        return f"{self.sense} {self.value:g}{floor}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A number that each round gives, reported as median and interval over the rounds.

    Args:
        label: what is over what, in words that name both.
        value: from a round; KeyError if a contender that it needs isn't in it.
        bound: the figure to reach, if one was set.
        beside: the peer's name where 1 means "as good as the peer", so that the table can list where a peer is ahead.
    """

    label: str
    value: Callable[[Round], float]
    bound: Bound | None = None
    beside: str | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One table.

    Args:
        name: unique in the suite.
        what: exactly what is measured, in prose.
        contenders: in the order of the table.
        measure: runs in a fresh process of the contender; gives its metrics.
        comparisons: the ratios to report.
    """

    name: str
    what: str
    contenders: tuple[Contender, ...]
    measure: Callable[[Contender, Size], Metrics]
    comparisons: tuple[Comparison, ...]


def speedup(
    of: Contender, *to: Contender, bound: Bound | None = None, best_of: str = "", metric: str = PER_SECOND
) -> Comparison:
    """The rate of `of` over the rate of the others; of several others the fastest of each round counts.

    Args:
        of, to: contenders; where their worker counts differ the label says so.
        bound: the figure to reach.
        best_of: names the others in the label if they are several.
        metric: its name; more is better.
    """

    def value(results: Round) -> float:
        return results[of.name][metric] / max(results[other][metric] for other in _present(to, results))

    return Comparison(_label(of, to, best_of, metric), value, bound, _peer_of(to))


def shortening(
    of: Contender, *to: Contender, metric: str, bound: Bound | None = None, best_of: str = ""
) -> Comparison:
    """As `speedup`, for a metric where less is better: the others' best time over that of `of`."""

    def value(results: Round) -> float:
        return min(results[other][metric] for other in _present(to, results)) / results[of.name][metric]

    return Comparison(_label(of, to, best_of, f"1 / {metric}"), value, bound, _peer_of(to))


def cost(
    of: Contender, *to: Contender, metric: str, bound: Bound | None = None, best_of: str = ""
) -> Comparison:
    """The inverse of `shortening`: the time of `of` over the others' best one, for figures in that form."""

    def value(results: Round) -> float:
        return results[of.name][metric] / min(results[other][metric] for other in _present(to, results))

    return Comparison(_label(of, to, best_of, f"{metric}, less is better"), value, bound)


def plain(of: Contender, metric: str, bound: Bound | None = None) -> Comparison:
    """A metric itself."""
    return Comparison(f"{of.name}: {metric}", lambda results: results[of.name][metric], bound)


def _present(to: tuple[Contender, ...], results: Round) -> list[str]:
    names = [contender.name for contender in to if contender.name in results]
    if not names:
        raise KeyError(to[0].name)
    return names


def _label(of: Contender, to: tuple[Contender, ...], best_of: str, metric: str) -> str:
    others = best_of or " or ".join(contender.name for contender in to)
    differ = any(other.workers != of.workers for other in to)
    note = " [worker counts differ]" if differ else ""
    measured = "" if metric == PER_SECOND else f" ({metric})"
    return f"{of.name} / {others}{measured}{note}"


def _peer_of(to: tuple[Contender, ...]) -> str | None:
    peer = to[0].peer
    return None if peer in ("bare", "loaderkit") else peer
