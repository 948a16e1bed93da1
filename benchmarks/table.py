"""The results as Markdown, aligned to be read as plain text, too."""

from collections.abc import Iterable, Sequence

from benchmarks.benchmark import Comparison
from benchmarks.runner import Outcome
from benchmarks.summary import Summary, medians, summarised


def heading(machine: dict[str, str], versions: dict[str, str], *, repeats: int, seconds: float) -> str:
    """Machine, versions, and how the figures were measured."""
    rounds = f"{repeats} round{'' if repeats == 1 else 's'}"
    how = (
        f"{rounds}; each runs every contender once, in a fresh process, after a warm-up, over {seconds:g} s "
        "or the multiple that a benchmark names. Rates and times are medians over the rounds. A ratio is taken inside "
        "each round; the table has the median of the ratios and, in brackets, an interval that contains the true "
        "median with at least 90% confidence (from 5 rounds on; with fewer rounds, the lowest and the highest ratio)."
    )
    lines = ["## Machine and versions", listed(machine), listed(versions), how]
    return "\n\n".join(lines)


def listed(values: dict[str, str]) -> str:
    """Names and values as a sentence."""
    return ", ".join(f"{name} {value}" for name, value in values.items()) + "."


def of_outcome(outcome: Outcome) -> str:
    """One benchmark: what is measured, each contender's medians, the comparisons, and missing contenders."""
    benchmark, rounds = outcome.benchmark, outcome.rounds
    parts = [f"## {benchmark.name}", benchmark.what.strip(), _contenders(outcome)]
    if rows := [
        _comparison_row(comparison, summary)
        for comparison in benchmark.comparisons
        if (summary := summarised(comparison, rounds)) is not None
    ]:
        parts.append(_table(("comparison", "median", "interval", "rounds", "to reach", ""), rows))
    for title, reasons in (("Not run", outcome.left_out), ("Failed", outcome.failures)):
        if reasons:
            parts += [f"{title}: {line}." for line in _by_reason(reasons)]
    return "\n\n".join(parts)


def of_all(outcomes: Sequence[Outcome]) -> str:
    """Every comparison of all benchmarks."""
    rows = [
        (outcome.benchmark.name, *_comparison_row(comparison, summary))
        for outcome in outcomes
        for comparison in outcome.benchmark.comparisons
        if (summary := summarised(comparison, outcome.rounds)) is not None
    ]
    return _table(("benchmark", "comparison", "median", "interval", "rounds", "to reach", ""), rows)


def ahead(outcomes: Sequence[Outcome]) -> str:
    """The rows where a peer is ahead."""
    rows = [
        (outcome.benchmark.name, comparison.label, number(summary.median), _interval(summary))
        for outcome in outcomes
        for comparison in outcome.benchmark.comparisons
        if (summary := summarised(comparison, outcome.rounds)) is not None
        and is_peer_ahead(comparison, summary)
    ]
    title = "## Where a peer is ahead"
    if not rows:
        return f"{title}\n\nIn no comparison of this run."
    return f"{title}\n\n{_table(('benchmark', 'comparison', 'median', 'interval'), rows)}"


def is_peer_ahead(comparison: Comparison, summary: Summary) -> bool:
    """Whether a peer is better in the median."""
    return comparison.beside is not None and summary.median < 1


def number(value: float) -> str:
    """Three or four figures, with separators for thousands.

    >>> number(1234567.0), number(1.2345), number(0.01234)
    ('1,234,567', '1.23', '0.0123')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _contenders(outcome: Outcome) -> str:
    found = {
        contender.name: medians(outcome.rounds, contender.name) for contender in outcome.benchmark.contenders
    }
    metrics = list(dict.fromkeys(metric for values in found.values() for metric in values))
    rows = [
        (name, *(number(values[metric]) if metric in values else "" for metric in metrics))
        for name, values in found.items()
        if values
    ]
    return _table(("contender", *metrics), rows)


def _comparison_row(comparison: Comparison, summary: Summary) -> tuple[str, ...]:
    bound, verdict = comparison.bound, []
    if bound is not None:
        verdict.append("reached" if bound.holds(summary.median, summary.interval) else "not reached")
    if is_peer_ahead(comparison, summary):
        verdict.append("peer ahead")
    return (
        comparison.label,
        number(summary.median),
        _interval(summary),
        str(len(summary.values)),
        "" if bound is None else str(bound),
        ", ".join(verdict),
    )


def _interval(summary: Summary) -> str:
    if len(summary.values) == 1:
        return "one round"
    return f"[{number(summary.interval[0])}, {number(summary.interval[1])}]"


def _by_reason(reasons: dict[str, str]) -> Iterable[str]:
    for reason in dict.fromkeys(reasons.values()):
        names = "; ".join(name for name, why in reasons.items() if why == reason)
        yield f"{names} ({reason})"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines
    )
