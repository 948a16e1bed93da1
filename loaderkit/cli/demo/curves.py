"""The demo's picture: the losses of the uninterrupted training and of the killed and resumed one."""

from pathlib import Path

from .experiment import TrainingLog


def draw_curves(path: Path, *, reference: TrainingLog, killed: TrainingLog, resumed: TrainingLog) -> None:
    """Writes a PNG to `path`: loss by step, with the kill marked and the steps around it enlarged."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (whole, near) = pyplot.subplots(1, 2, figsize=(11, 4), width_ratios=[3, 2], layout="constrained")
    hollow = {"marker": "o", "markersize": 7, "markerfacecolor": "none"}
    for axes, killed_marks, resumed_marks in ((whole, {}, {}), (near, hollow, {"marker": "."})):
        axes.plot(*_points(reference), color="0.75", linewidth=5, label="never interrupted")
        axes.plot(*_points(killed), color="tab:red", linewidth=1.2, label="until SIGKILL", **killed_marks)
        axes.plot(*_points(resumed), color="tab:blue", linewidth=1.2, label="resumed", **resumed_marks)
        axes.axvline(killed.last, color="tab:red", linestyle=":", linewidth=1)
        axes.set_xlabel("step")
    whole.set_yscale("log")
    whole.set_ylabel("loss")
    whole.set_title("Loss by step")
    whole.legend()
    around = range(resumed.start - 10, killed.last + 30)
    shown = [loss for step, loss in reference.losses.items() if step in around]
    near.set_xlim(around.start, around.stop)
    near.set_ylim(0, 1.15 * max(shown))
    near.set_title(f"Checkpoint at step {resumed.start}, killed after step {killed.last}")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _points(record: TrainingLog) -> tuple[list[int], list[float]]:
    return list(record.losses.keys()), list(record.losses.values())
