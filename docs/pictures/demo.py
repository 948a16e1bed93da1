"""The demo's trainings: one that is never interrupted, and one that is killed and resumed with other workers."""

import tempfile
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from loaderkit.cli.demo import AFTER, BEFORE
from loaderkit.cli.demo.digits import write_digits
from loaderkit.cli.demo.experiment import compare, train

from .drawing import BLUE, RED, RULE, sheet

_EPOCHS, _KILL = 10, 124  # in the middle of an epoch, and 24 steps behind a checkpoint


def figures() -> dict[str, Any]:
    """Of each training the step behind which it begins, and its losses; all batches have to be the same."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        data.mkdir()
        write_digits(data)
        runs = {"whole": (BEFORE, None), "killed": (BEFORE, _KILL), "resumed": (AFTER, None)}
        logs = {}
        for name, (workers, kill_at) in runs.items():
            run = Path(folder, "whole" if name == "whole" else "killed")
            logs[name] = train(data, run, workers, epochs=_EPOCHS, title=name, kill_at=kill_at)
    if not compare(*logs.values()).equal:
        raise ValueError("expected the batches and the parameters of the uninterrupted training, got others")
    return {
        name: [str(runs[name][0]), log.start, [round(loss, 3) for loss in log.losses.values()]]
        for name, log in logs.items()
    }


def draw(figures: dict[str, Any]) -> Figure:
    """A line for each training: all of it, and the steps around the kill, where each step has a mark."""
    figure = sheet(3.2)
    whole, near = figure.subplots(1, 2, width_ratios=[3, 2])
    checkpoint, last = figures["resumed"][1], len(figures["killed"][2])
    looks = {
        "whole": ("never interrupted", "", {"color": RULE, "linewidth": 6}),
        "killed": ("until SIGKILL", "o", {"color": RED, "markerfacecolor": "none"}),
        "resumed": ("resumed", ".", {"color": BLUE}),
    }
    for name, (said, mark, look) in looks.items():
        workers, start, losses = figures[name]
        steps = dict(enumerate(losses, start + 1))
        whole.plot([*steps], [*steps.values()], label=f"{said}: {workers}", **look)
        around = {step: loss for step, loss in steps.items() if checkpoint - 10 < step < last + 15}
        near.plot([*around], [*around.values()], marker=mark, **look)
    for axes in (whole, near):
        axes.axvline(last, color=RED, linestyle=":", linewidth=1)
        axes.set(xlabel="step", ylim=(0, None))
    whole.set(ylabel="loss", title="Loss by step")
    whole.legend(edgecolor="none", framealpha=1)  # above the line of the kill
    near.set_title(f"Saved at step {checkpoint}, killed after {last}")
    return figure
