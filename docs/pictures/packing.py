"""What packing does to padding: the rows of three batches made in three ways of the same documents."""

from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import loaderkit as lk

from .drawing import BLUE, ORANGE, PALE, SKY, bars, sheet

_BATCH, _SHOWN, _ROW = 8, 3, 256
_BOUNDARIES = [64, 128, 256, 512]
_Sizes = Callable[[Mapping[str, Any]], list[list[int]]]  # of each row of a batch: how long its pieces are


def figures() -> dict[str, Any]:
    """The pieces of each row that is shown, and how much of an epoch's batches is tokens."""
    texts = [f"Document {k} says: " + "again and " * (k * k % 31) for k in range(500)]
    documents = lk.MapDataSource(texts, lambda text: np.frombuffer(text.encode(), np.uint8))
    lengths = np.array([len(text) for text in texts])
    words = lk.MapDataSource(documents, lambda tokens: {"tokens": tokens})
    packed = lk.PackedDataSource(documents, lk.plan_packing(lengths, _ROW))
    shuffled = {"shuffle": True, "seed": 1, "num_epochs": 1}
    buckets = lk.samplers.LengthBucketSampler(lengths, _BOUNDARIES, _BATCH, **shuffled)
    by_length = {"tokens": _BOUNDARIES}
    padded = [lk.PadTo(int(lengths.max()), "tokens", mask="mask"), lk.Batch(_BATCH)]
    in_buckets = [lk.PadBatch(global_batch_size=_BATCH, boundaries=by_length, mask={"tokens": "mask"})]
    ways = {
        "One document a row, as long as the longest: lk.PadTo": (
            lk.load(words, operations=padded, **shuffled),
            _by_mask,
        ),
        "One document a row, in batches of like length: LengthBucketSampler and lk.PadBatch": (
            lk.DataLoader(data_source=words, sampler=buckets, operations=in_buckets),
            _by_mask,
        ),
        f"Documents share rows of {_ROW}: lk.plan_packing and lk.PackedDataSource": (
            lk.load(packed, batch_size=_BATCH, **shuffled),
            _by_segment,
        ),
    }
    return {name: _epoch(loader, sizes) for name, (loader, sizes) in ways.items()}


def _by_mask(batch: Mapping[str, Any]) -> list[list[int]]:
    return [[int(row.sum())] for row in batch["mask"]]


def _by_segment(batch: Mapping[str, Any]) -> list[list[int]]:
    return [np.bincount(row)[1:].tolist() for row in batch["tokens_segment_ids"]]  # 0 is padding


def _epoch(loader: Iterable[Mapping[str, Any]], sizes: _Sizes) -> dict[str, Any]:
    rows, tokens, places = [], 0, 0
    for step, batch in enumerate(loader):
        pieces = sizes(batch)
        tokens, places = tokens + sum(map(sum, pieces)), places + batch["tokens"].size
        if step < _SHOWN:
            rows += [[batch["tokens"].shape[1], row] for row in pieces]
    return {"rows": rows, "tokens": tokens, "places": places}


def draw(figures: dict[str, Any]) -> Figure:
    """A bar for each row: its documents, and its padding."""
    figure = sheet(6)
    for axes, (name, found) in zip(figure.subplots(len(figures), sharex=True), figures.items()):
        spans: dict[str, list[tuple[float, float, int]]] = {BLUE: [], SKY: [], PALE: []}
        for row, (length, pieces) in enumerate(found["rows"]):
            ends = np.cumsum([0, *pieces])
            for end, piece, colour in zip(ends, pieces, cycle((BLUE, SKY))):
                spans[colour].append((end, piece, row))
            spans[PALE].append((ends[-1], length - ends[-1], row))
        for colour, each in spans.items():
            bars(axes, each, 0.8, colour)
        rows, share = len(found["rows"]), found["tokens"] / found["places"]
        axes.set(title=name, ylim=(rows, -0.5), yticks=[], xlim=(0, 400), xticks=range(0, 321, 64))
        for line, (said, colour) in enumerate([("tokens", BLUE), ("padding", ORANGE)]):
            part = share if said == "tokens" else 1 - share
            axes.text(330, rows * (0.6 + 0.2 * line), f"{part:.0%} {said}", color=colour, weight="bold")
        axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"tokens of a row: {_SHOWN} batches of {_BATCH} rows each way; shares of a whole epoch")
    return figure
