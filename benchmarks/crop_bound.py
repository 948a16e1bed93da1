"""What `DecodeRandomResizedCrop` could gain if its decoder skipped all that lies outside the crop.

Crops of 224 x 224 of photographs, decoded by simplejpeg, which stops below the crop. The Huffman codes of a JPEG
follow one another without an index, so that those above and beside the crop have to be read in any case; what can be
skipped there are the frequencies' transform and the colours. Their time is about that of the decoding less that of one
at 1/8, which reads all codes and computes one pixel for each block of 64. `outside` is the part of that time that
belongs to what is above and beside the crop, `gain` the operation's time divided by itself without it.
"""

import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

import numpy as np

from benchmarks.clock import least_seconds
from benchmarks.photographs import encoded_photographs
from loaderkit.transforms.image import DecodeRandomResizedCrop
from loaderkit.transforms.image.decoders import decode_jpeg
from loaderkit.transforms.image.header import read_header
from loaderkit.transforms.image.region import Region, random_region, reduction

SIZE = 224
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
COLUMNS = ("operation, us", "decoding", "codes, at most", "outside, about", "gain, about")


def measured(jpeg: bytes, crop: int, *, times: int) -> list[float]:
    """The figures of COLUMNS for one crop: microseconds, three shares of these, and a ratio."""
    header = read_header(jpeg)
    assert header is not None
    height, width = header.height, header.width
    region = random_region(height, width, scale=AREA, ratio=RATIO, rng=_rng(crop))
    by = reduction(region, (SIZE, SIZE))
    part = region.divided(by, height, width)
    below = min(-(-height // 8), -(-(region.top + region.height) // 8))

    operation = DecodeRandomResizedCrop(SIZE, scale=AREA, ratio=RATIO, decoder="simplejpeg")
    whole = _least(lambda: operation.random_map(jpeg, _rng(crop)), times)
    decoding = _least(lambda: decode_jpeg(jpeg, header, part, by, decoder="simplejpeg"), times)
    to_row = Region(0, 0, below, width // 8)
    codes = min(decoding, _least(lambda: decode_jpeg(jpeg, header, to_row, 8, decoder="simplejpeg"), times))
    inside = region.height * region.width / (min(height, region.top + region.height) * width)
    outside = (decoding - codes) * (1 - inside)
    return [whole, decoding / whole, codes / whole, outside / whole, whole / (whole - outside)]


def _rng(crop: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=crop))


def _least(run: Callable[[], Any], times: int) -> float:
    return least_seconds(run, times, time.process_time) * 1e6


def run(*, repeats: int, smoke: bool, say: Callable[[str], None]) -> str:
    """The table, in Markdown: medians over all crops, and the middle half of them."""
    photographs = encoded_photographs(2 if smoke else 64)
    rows = []
    for number, jpeg in enumerate(photographs):
        say(f"crop-bound: photograph {number + 1} of {len(photographs)}")
        rows += [measured(jpeg, 8 * number + crop, times=repeats) for crop in range(1 if smoke else 8)]
    lines = ["## crop-bound: what skipping all outside a crop could gain", ""]
    lines += ["| figure | median | half of the crops |", "|---|---|---|"]
    for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=True):
        low, _, high = quantiles(values, n=4)
        lines.append(f"| {name} | {median(values):.3g} | {low:.3g} to {high:.3g} |")
    total = sum(row[0] for row in rows)
    lines.append(f"| all crops: gain, about | {total / sum(row[0] / row[4] for row in rows):.3g} | |")
    return "\n".join([*lines, "", __doc__ or ""])
