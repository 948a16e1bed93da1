"""From rounds to a median and an interval."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from benchmarks.benchmark import Comparison, Round

CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True)
class Summary:
    """The values of a comparison, one for each round, with median and interval.

    Args:
        values: in the order of the rounds.
        median: of them.
        interval: two of the values, which enclose the true median with probability `confidence`.
        confidence: needs no assumption about how the values are distributed.
    """

    values: tuple[float, ...]
    median: float
    interval: tuple[float, float]
    confidence: float


def summarised(comparison: Comparison, rounds: Sequence[Round]) -> Summary | None:
    """The comparison over the rounds that have all values it needs; None if no round does."""
    values = []
    for results in rounds:
        try:
            values.append(comparison.value(results))
        except KeyError:
            continue
    if not values:
        return None
    inset, confidence = _inset(len(values))
    ordered = sorted(values)
    interval = (ordered[inset], ordered[-1 - inset])
    return Summary(tuple(values), statistics.median(values), interval, confidence)


def _inset(count: int) -> tuple[int, float]:
    """How many values may be left out at each end, and the confidence of the rest: at least CONFIDENCE, if possible.

    >>> _inset(5), _inset(9)
    ((0, 0.9375), (1, 0.9609375))
    """
    inset = 0
    while inset + 1 < count / 2 and _confidence(count, inset + 1) >= CONFIDENCE:
        inset += 1
    return inset, _confidence(count, inset)


def _confidence(count: int, inset: int) -> float:
    # The median lies outside where at most `inset` values fall on one side of it.
    return 1 - sum(comb(count, k) for k in range(inset + 1)) / 2.0 ** (count - 1)


def medians(rounds: Sequence[Round], contender: str) -> dict[str, float]:
    """The median of each metric of a contender over the rounds that it ran in."""
    ran = [results[contender] for results in rounds if contender in results]
    if not ran:
        return {}
    return {metric: statistics.median(metrics[metric] for metrics in ran) for metric in ran[0]}
