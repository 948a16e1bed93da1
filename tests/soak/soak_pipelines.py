"""Random pipelines of a soak, each from a number, and what every batch of it must be.

The expected stream comes from tests/loader/stream_twin.py, which says slowly, one generator an operation, what a
loader must give, and shares nothing with it but the sampler's order and the users' functions.
"""

import hashlib
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # where pytest finds them too
sys.path.insert(0, str(Path(__file__).parents[1] / "loader"))

from pipelines import RECORDS, Pipeline, Running, Step

import loaderkit as lk

# Large enough that a batch takes pages of its own.
RECORDS["pictures"] = lambda key: {"x": np.full((32, 32, 3), key, np.int32) * np.arange(1, 4, dtype=np.int32)}
_MOST = 4_000  # elements of a stream, so that it ends in reasonable time and many others have their turn
_LEAST = 50


def pipeline_of(number: int) -> Pipeline:
    """The pipeline with that number, the same in every process."""
    draw = random.Random(number)
    changing = draw.random() < 0.4
    kinds = ["add", "wrap", "index", "draw", "draw_globally", *["filter", "fan"] * changing]
    steps = [Step(draw.choice(kinds), draw.randint(1, 3)) for _ in range(draw.randint(0, 4))]
    if draw.random() < 0.3:
        steps.insert(draw.randint(0, len(steps)), Step("batch", draw.randint(1, 3)))
    if draw.random() < 0.85:
        keywords = (("fn", draw.random() < 0.2), ("drop", draw.random() < 0.5))
        steps.append(Step("batch", draw.randint(1, 8), keywords))
        if draw.random() < 0.3:
            steps.append(Step("add", 1))
    return Pipeline(
        records=draw.choice(sorted(RECORDS)),
        count=draw.randint(100, 1500),
        shuffle=draw.random() < 0.8,
        epochs=draw.randint(1, 3),
        steps=tuple(steps),
    )


def expected_of(pipeline: Pipeline) -> list[str] | None:
    """The digest of each element of its stream; None where it fails, or has too few or too many to be worth a run."""
    digests: list[str] = []
    try:
        for element in pipeline.twin():
            if len(digests) == _MOST:
                return None
            digests.append(digest_of(element))
    except (OverflowError, lk.errors.BatchError):  # numbers that grow too large, rows that are unlike
        return None
    return digests if len(digests) >= _LEAST else None


def running_of(draw: random.Random) -> tuple[Running, bool]:
    """A way to run a pipeline, and whether with checksums; none of it may show."""
    kind = draw.choice(["process", "process", "thread"])
    return (
        Running(
            workers=draw.choice([0, 1, 2, 2, 3]),
            kind=kind,
            prefetch=draw.randint(1, 4),
            task_rows=draw.choice([None, None, 1, 3, 8]),
            read_threads=draw.choice([0, 0, 2]),
        ),
        draw.random() < 0.3,
    )


def digest_of(element: Any) -> str:
    """A digest of structure, types, dtypes, shapes and values."""
    digest = hashlib.sha256()
    _feed(digest, element)
    return digest.hexdigest()[:24]


def _feed(digest: Any, node: Any) -> None:
    if isinstance(node, dict):
        digest.update(f"dict {list(node)}".encode())
        for child in node.values():
            _feed(digest, child)
    elif isinstance(node, list | tuple):
        digest.update(f"{type(node).__name__} {len(node)}".encode())
        for child in node:
            _feed(digest, child)
    elif isinstance(node, np.ndarray) and node.dtype.hasobject:
        digest.update(f"objects {node.shape}".encode())
        _feed(digest, node.ravel().tolist())
    elif isinstance(node, np.ndarray | np.generic):
        digest.update(f"{type(node).__name__} {node.dtype.str} {node.shape}".encode())
        digest.update(np.ascontiguousarray(node).tobytes())
    else:
        digest.update(f"{type(node).__name__} {node!r}".encode())
