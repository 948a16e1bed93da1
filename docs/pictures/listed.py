"""All pictures."""

from functools import partial

from . import benchmarks, demo, killed_run, mixture, packing, worker_death
from .drawing import ROOT, Picture

_MEASURED = sorted((ROOT / "benchmarks/figures").glob("*.json"))
PICTURES = [
    Picture(ROOT / "docs/demo.svg", demo.figures, demo.draw, repeatable=False),
    Picture(ROOT / "docs/mixtures.svg", mixture.figures, mixture.draw),
    Picture(ROOT / "docs/packing.svg", packing.figures, packing.draw),
    Picture(ROOT / "docs/worker-death.svg", killed_run.figures, worker_death.draw, repeatable=False),
    *(
        Picture(path.with_suffix(".svg"), partial(benchmarks.figures, path), benchmarks.draw)
        for path in _MEASURED
    ),
]
