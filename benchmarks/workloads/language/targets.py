"""Rows of 4,096 tokens with targets and a mask of the loss, from a mapped file of 24,000,000 uint16 tokens, in order.

Lengths of documents are lognormal with a mean of 1,000 tokens; batches have 32 rows. loaderkit reads the columns of a
`concat_then_split` plan: tokens, segment ids and positions, those of the targets, and the mask. *GPTDataset* is a twin
of Megatron's samples in numpy: pieces of documents from a table of samples, `np.concatenate` of one token more than a
row, tokens, labels, the loss mask (float32) and positions (int64) that begin anew in each document, then a stack of 32.
The bare loop copies a piece at a time into new arrays of the leaves that loaderkit has. Steady rows a second.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import PER_SECOND, Benchmark, Bound, Metrics, Size, speedup
from benchmarks.contender import Contender
from benchmarks.workloads.packing.rows import BATCH, ROW, data, rate_of

OURS = Contender("loaderkit columns, 0 workers", "loaderkit")
MEGATRON = by.bare("GPTDataset, a twin", of="megatron")
BARE = by.bare(of="loop")


def measure(contender: Contender, size: Size) -> Metrics:
    """Rows a second, after a warm-up of half the time."""
    tokens, offsets = data(1000, size)
    mapped, places = np.load(tokens, mmap_mode="r"), np.load(offsets)
    if contender.peer == "loaderkit":
        batches = _ours(tokens, offsets)
    elif contender.options["of"] == "megatron":
        batches = megatron(mapped, places)
    else:
        batches = _loop(mapped, places)
    with closing(batches):  # type: ignore[type-var]
        return {PER_SECOND: rate_of(batches, size)}


def _ours(tokens: Any, offsets: Any) -> Iterator[Any]:
    import loaderkit as lk

    source = lk.TokenDataSource(tokens, offsets)
    plan = lk.plan_packing(source.lengths, ROW, how="concat_then_split", worker_count=0)
    rows = lk.PackedDataSource(source, plan, targets=True, mask="mask")
    while True:
        for row in range(0, len(rows) - BATCH, BATCH):
            yield rows.take(np.arange(row, row + BATCH))


def megatron(tokens: np.ndarray, offsets: np.ndarray) -> Iterator[Any]:
    """Batches of samples, each a row and one token more, of documents one behind the other.

    Args:
        tokens: of all documents.
        offsets: of the documents (documents + 1,).
    """
    places = np.arange(0, int(offsets[-1]) - ROW, ROW)
    documents = np.searchsorted(offsets, places, "right") - 1  # the document in which each sample begins
    starts = places - offsets[documents]
    while True:
        for first in range(0, len(places) - BATCH - 1, BATCH):
            samples = [
                _sample(tokens, offsets, int(documents[sample]), int(starts[sample]))
                for sample in range(first, first + BATCH)
            ]
            yield {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}


def _sample(tokens: np.ndarray, offsets: np.ndarray, document: int, start: int) -> dict[str, np.ndarray]:
    parts, left, lengths = [], ROW + 1, []
    while left and document < len(offsets) - 1:
        begin = offsets[document] + start
        part = tokens[begin : min(offsets[document + 1], begin + left)]
        parts.append(part)
        lengths.append(len(part))
        left -= len(part)
        document, start = document + 1, 0
    text = np.concatenate(parts).astype(np.int64)
    positions, mask, place = np.arange(ROW, dtype=np.int64), np.ones(ROW, np.float32), 0
    for length in lengths:
        place += length
        if place < ROW:
            mask[place - 1] = 0
            positions[place:] -= length
    return {"tokens": text[:-1], "labels": text[1:], "loss_mask": mask, "position_ids": positions}


def _loop(tokens: np.ndarray, offsets: np.ndarray) -> Iterator[Any]:
    flat, places = np.asarray(tokens), np.arange(ROW, dtype=np.int32)
    ends, document = offsets[1:].tolist(), 0
    begin, last = 0, int(offsets[-1])
    while True:
        if last - begin < BATCH * ROW:
            begin = document = 0
        ids, nexts = np.zeros((2, BATCH, ROW), flat.dtype)
        segments, positions, next_segments = np.zeros((3, BATCH, ROW), np.int32)
        mask = np.zeros((BATCH, ROW), np.bool_)
        for line in range(BATCH):
            place, segment = 0, 1
            while place < ROW:
                stop = min(ends[document], begin + ROW - place)
                end = place + stop - begin
                ids[line, place:end] = flat[begin:stop]
                nexts[line, place : end - 1] = flat[begin + 1 : stop]
                segments[line, place:end] = segment
                next_segments[line, place : end - 1] = segment
                positions[line, place:end] = places[: end - place]
                mask[line, place : end - 1] = True
                document += stop == ends[document]
                place, begin, segment = end, stop, segment + 1
        yield ids, nexts, segments, positions, next_segments, positions.copy(), mask


BENCHMARKS = (
    Benchmark(
        "language: targets and mask",
        __doc__ or "",
        (OURS, MEGATRON, BARE),
        measure,
        (
            speedup(OURS, MEGATRON, bound=Bound(">=", 1.5)),
            speedup(OURS, BARE, bound=Bound(">=", 0.7)),
        ),
    ),
)
