"""The ratios of a benchmark, with their intervals, from a file that `python -m benchmarks --json` wrote."""

import json
import textwrap
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .drawing import BLUE, INK, ORANGE, RULE, SOFT, sheet


def figures(path: Path) -> dict[str, Any]:
    """How it was measured, and of each ratio the median, the interval and the figure to reach.

    Args:
        path: of the file. A figure that is no ratio, such as a number of bytes, is left out.
    """
    found = json.loads(path.read_text())
    how, machine = found["how"], found["machine"]
    ratios = [
        [
            f"{benchmark['name']}: {row['label']}",
            *(row[name] for name in ("median", "interval", "to reach", "reached")),
        ]
        for benchmark in found["benchmarks"]
        for row in benchmark["comparisons"]
        if " / " in row["label"]
    ]
    return {
        "how": f"{how['repeats']} rounds, windows of {how['seconds']:g} s, load of the machine "
        f"{how['load']['before']} before and {how['load']['after']} after; {machine['processor']}, "
        f"{machine['cores']} cores, {machine['date']}; loaderkit {found['versions']['loaderkit']}",
        "ratios": ratios,
    }


def draw(figures: dict[str, Any]) -> Figure:
    """A line for each ratio: a point for the median, a bar for the interval."""
    ratios = figures["ratios"]
    figure = sheet(1.1 + 0.52 * len(ratios))
    axes = figure.subplots()
    axes.axvline(1, color=SOFT, linewidth=1)
    for row, (label, median, (low, high), bound, reached) in enumerate(ratios):
        colour = {True: BLUE, False: ORANGE, None: INK}[reached]
        axes.plot([low, high], [row, row], color=colour, linewidth=2.5, solid_capstyle="butt")
        axes.plot(median, row, "D" if reached is False else "o", color=colour)
        if bound is not None:
            axes.plot(float(bound.split(",")[0].split()[1]), row, "|", color=colour, markersize=14)
        verdict = "" if bound is None else f", to reach {bound}: {'' if reached else 'not '}reached"
        said = axes.text(0, row - 0.22, textwrap.fill(f"{label}: {median:.3g}{verdict}", 105), va="bottom")
        said.set(transform=axes.get_yaxis_transform(), color=colour, fontsize=8.5)
        said.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0})
    axes.set(xscale="log", yticks=[], ylim=(len(ratios) - 0.5, -0.9), xlabel="ratio; the line is at 1")
    low, high = axes.get_xlim()
    firsts = "1235" if high < 30 * low else "1"  # as many numbers as there is room for
    for each in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        each(lambda value, _: f"{value:g}" if f"{value:e}"[0] in firsts else "")
    axes.set_title(textwrap.fill(figures["how"], 100), fontsize=8.5, color=SOFT)
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    return figure
