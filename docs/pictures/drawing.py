"""How all pictures look, and how they are kept: an SVG file that has the figures of which it was drawn.

The ground is opaque, so that a picture is read alike on a light and on a dark page. Text stays text.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

ROOT = Path(__file__).parents[2]
INK, SOFT, RULE = "#0f172a", "#475569", "#cbd5e1"  # text, less important text, lines that only guide the eye
BLUE, SKY, ORANGE, PALE, GREEN, RED = "#1d4ed8", "#7db4f5", "#c2570c", "#fed7aa", "#15803d", "#b91c1c"

_LOOK = {
    "svg.fonttype": "none",
    "svg.hashsalt": "loaderkit",  # the same file each time
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A file.

    path: of it. figures: makes the run, and gives what is drawn, as JSON has it. draw: draws that. repeatable: whether
    another run gives the same figures.
    """

    path: Path
    figures: Callable[[], Any]
    draw: Callable[[Any], Figure]
    repeatable: bool = True

    @property
    def name(self) -> str:
        """Its path in the repository."""
        return self.path.relative_to(ROOT).as_posix()


def sheet(height: float) -> Figure:
    """An empty picture, as wide as all of them.

    Args:
        height: inches.
    """
    figure = Figure(
        figsize=(7.2, height), layout="constrained", facecolor="white", edgecolor=RULE, linewidth=1
    )
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    return figure


def bars(axes: Axes, spans: Sequence[Sequence[float]], height: float, colour: str) -> None:
    """Bars of one colour, as one path: a file with a path for each is twice as large.

    Args:
        spans: of each bar its start, its length and the middle of its row.
        height: of all.
    """
    x, length, y = np.array(spans, float).reshape(-1, 3).T[:, :, None]  # (bars, 1) each
    right, down = np.array([[0, 1, 1, 0, 0], [-0.5, -0.5, 0.5, 0.5, -0.5]])
    corners = np.stack([x + length * right, y + height * down], axis=-1)
    kinds = [Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY]
    outline = Outline(corners.reshape(-1, 2), kinds * len(spans))
    axes.add_patch(PathPatch(outline, facecolor=colour, linewidth=0))


def svg_of(draw: Callable[[Any], Figure], figures: Any) -> str:
    """The text of the file."""
    written = StringIO()
    with matplotlib.rc_context(_LOOK):
        said = json.dumps(figures, separators=(",", ":"))
        draw(figures).savefig(written, format="svg", metadata={"Date": None, "Description": said})
    return "".join(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())


def kept(svg: str) -> Any:
    """The figures of which a file was drawn."""
    (said,) = re.findall(r"<dc:description>(.*?)</dc:description>", svg, re.DOTALL)
    return json.loads(unescape(said))
