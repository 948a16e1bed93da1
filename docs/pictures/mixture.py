"""The shares of a mixture whose weights change in mid-run, counted in the batches."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import loaderkit as lk

from .drawing import BLUE, GREEN, ORANGE, RULE, SOFT, sheet

_STEPS, _BATCH, _WINDOW = 400, 20, 10
_SIZES = {"web": 5000, "code": 1000, "wiki": 400}
_WEIGHTS = {  # by the step from which they hold
    0: {"web": 0.6, "code": 0.3, "wiki": 0.1},
    100: {"web": 0.2, "code": 0.7, "wiki": 0.1},
    250: {"code": 0.4, "wiki": 0.6},
}


def figures() -> dict[str, Any]:
    """How many records of each component each ten steps had."""
    sources = {name: [{"number": number} for number in range(size)] for name, size in _SIZES.items()}
    source, sampler = lk.mix(sources, weights=_WEIGHTS[0], shuffle=True, seed=0, id_key="source")
    loader = lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(_BATCH)])
    counts = np.zeros((_STEPS // _WINDOW, len(_SIZES)), int)  # (windows, components)
    with iter(loader) as it:
        for step in range(_STEPS):
            if step and step in _WEIGHTS:
                it.reweigh(_WEIGHTS[step])
            counts[step // _WINDOW] += np.bincount(next(it)["source"], minlength=len(_SIZES))
    return {
        "window": _WINDOW,
        "records": dict(zip(sampler.names, counts.T.tolist())),
        "weights": [[step, weights] for step, weights in _WEIGHTS.items()],
    }


def draw(figures: dict[str, Any]) -> Figure:
    """A line for each component."""
    figure = sheet(3.4)
    axes = figure.subplots()
    records, window = figures["records"], figures["window"]
    whole = sum(counts[0] for counts in records.values())
    ends = [window * place for place in range(len(records["web"]) + 1)]
    for (name, counts), colour in zip(records.items(), (BLUE, ORANGE, GREEN)):
        shares = [count / whole for count in counts]
        axes.stairs(shares, ends, baseline=None, color=colour, linewidth=2)
        axes.text(ends[-1] + 4, shares[-1], name, color=colour, va="center", weight="bold")
    for step, weights in figures["weights"]:
        said = "\n".join(f"{name} {weight}" for name, weight in weights.items())
        if step:
            axes.axvline(step, color=RULE, linewidth=1, zorder=0)
            said = f"it.reweigh at {step}\n{said}"
        axes.text(step + 3, 1.04, said if step else f"weights\n{said}", color=SOFT, va="top", fontsize=8.5)
    axes.set(
        xlabel="step", ylabel=f"share of {window} steps' records", xlim=(0, ends[-1]), ylim=(-0.01, 1.05)
    )
    return figure
