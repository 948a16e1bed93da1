"""The life of a worker's death: the timeline of a run in which a worker is killed."""

from itertools import cycle
from typing import Any

from matplotlib.figure import Figure

from .drawing import BLUE, GREEN, INK, ORANGE, RED, RULE, SKY, SOFT, bars, sheet
from .killed_run import AROUND


def done_again(tasks: list[list[float]]) -> set[float]:
    """The numbers of the tasks that another worker does again: of its other tasks each number is above the last.

    Args:
        tasks: in the order of time: worker, start, length, number.
    """
    highest: dict[float, float] = {}
    found = set()
    for worker, _, _, task in tasks:
        if task < highest.get(worker, task):
            found.add(task)
        highest[worker] = max(task, highest.get(worker, task))
    return found


def draw(figures: dict[str, Any]) -> Figure:
    """A line for the trainer and for each worker."""
    figure = sheet(3.7)
    axes = figure.subplots()
    bars(axes, [(*step, 0) for step in figures["step"]], 0.6, GREEN)
    bars(axes, [(*wait, 0) for wait in figures["next()"]], 0.2, RULE)
    shades = {worker: cycle((BLUE, SKY)) for worker in (1, 2, 3)}
    again = done_again(figures["task"])
    tasks: dict[str, list[tuple[float, float, int]]] = {BLUE: [], SKY: [], ORANGE: []}
    for worker, at, length, task in figures["task"]:
        tasks[ORANGE if task in again else next(shades[worker])].append((at, length, worker))
    for colour, spans in tasks.items():
        bars(axes, spans, 0.6, colour)
    lost, reason, _ = figures["lost"]
    ((_, hired),), ((_, ready),) = figures["hired"], figures["ready"]
    axes.axvline(0, color=RED, linewidth=1.2)
    axes.text(6, -0.6, "SIGKILL", color=RED, weight="bold", va="center")
    axes.text(lost + 6, 0.87, f"{reason}, noticed after {lost:.0f} ms", color=RED, va="center")
    axes.text(lost + 6, 1.2, f"{len(again)} tasks are done again", color=ORANGE, va="center")
    bars(axes, [(hired, ready - hired, 3)], 0.1, SOFT)
    axes.text(
        hired + 6,
        2.8,
        f"started {hired:.0f} ms after the kill, ready {ready - hired:.0f} ms later",
        color=SOFT,
    )
    names = ["trainer:\nsteps, waiting", "worker 1: tasks", "worker 2: tasks", "worker 3,\nin its place"]
    axes.set(yticks=range(4), yticklabels=names, ylim=(3.5, -0.8), xlabel="ms since the kill")
    axes.set_xlim(-AROUND, ready + AROUND)
    axes.tick_params("y", length=0, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    return figure
