"""Photographs by torchvision's reference recipe: decode, random resized crop to 176, flip, TrivialAugment, erasing.

The photographs are those of `jpeg`, in ArrayRecord, shuffled, Batch(64). torchvision runs its v2 transforms on PIL's
pictures, as its reference scripts do, in torch's DataLoader with 2 workers, and ends with tensors of uint8. loaderkit
runs `DecodeRandomResizedCrop`, `RandomFlip`, `TrivialAugment` and `RandomErasing`. What is done to whole batches (MixUp
or CutMix, normalising on the device) is left out on both sides. Steady images a second, over a window four times the
usual one.
"""

import io
import random

import numpy as np

import loaderkit as lk
from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Size, speedup
from benchmarks.contender import Contender
from benchmarks.files import array_record_reader
from benchmarks.measure import steady
from benchmarks.photographs import encoded_photographs
from benchmarks.pipeline import Each, Pipeline
from benchmarks.workloads.jpeg import photographs
from loaderkit.transforms import image

SIDE, BATCH = 176, 64
US = "us a record"


def by_torchvision(data: bytes) -> object:
    """A photograph's bytes as a tensor (3, 176, 176) of uint8."""
    from PIL import Image

    return _compose()(Image.open(io.BytesIO(data)).convert("RGB"))


_composed: list[object] = []


def _compose() -> object:
    if not _composed:
        from torchvision.transforms import v2

        steps = [v2.RandomResizedCrop(SIDE), v2.RandomHorizontalFlip(), v2.TrivialAugmentWide()]
        _composed.append(v2.Compose([*steps, v2.PILToTensor(), v2.RandomErasing(0.1)]))
    return _composed[0]


def ours(decoder: str) -> list[lk.transforms.Transformation]:
    """The same steps of loaderkit."""
    crop = image.DecodeRandomResizedCrop(SIDE, decoder=decoder, upright=False)
    return [crop, image.RandomFlip(), image.TrivialAugment(), image.RandomErasing(0.1)]


def recipe(contender: Contender, size: Size) -> Metrics:
    """The usual measurement."""
    path = photographs(size)
    pipeline = Pipeline(
        {"": lambda: array_record_reader(path), "loaderkit": lambda: lk.ArrayRecordDataSource(str(path))},
        (Each(by_torchvision),),
        size.pick(BATCH, 4),
        records=len(encoded_photographs(size.pick(334, 4))),
        transforms={name: lambda name=name: ours(name) for name in ("opencv", "simplejpeg")},  # type: ignore[misc]
    )
    return steady(pipeline, contender, size, windows=4).metrics()


def draws(x: int) -> float:
    """A transform that draws from the global generators."""
    return x + random.random() + np.random.random()  # noqa: NPY002 - the point is the global generator


def seeded(contender: Contender, size: Size) -> Metrics:
    """Microseconds a record."""
    pipeline = Pipeline(
        {"": lambda: range(1_000_000)},
        batch=256,
        transforms={"bare": lambda: [lk.Map(draws)], "seeded": lambda: [lk.transforms.Seeded(draws)]},
    )
    seen = steady(pipeline, contender, size)
    return {US: seen.seconds / seen.records * 1e6}


OURS, SIMPLE = (by.ours(2, label=f"({name})", transforms=name) for name in ("opencv", "simplejpeg"))
TORCHVISION = Contender("torchvision v2 with torch's loader, 2 workers", "torchvision", 2)
MAP, SEEDED = by.ours(label="Map", transforms="bare"), by.ours(label="Seeded", transforms="seeded")

BENCHMARKS = (
    Benchmark(
        "recipe",
        __doc__,
        (OURS, SIMPLE, TORCHVISION),
        recipe,
        (speedup(OURS, TORCHVISION, bound=Bound(">=", 1.2)), speedup(SIMPLE, TORCHVISION)),
    ),
    Benchmark(
        "recipe, Seeded",
        """What seeding the generators from the record costs: a function that draws from Python's and numpy's global
generators, in a Map and in Seeded, with batches of 256 and no workers.
""",
        (MAP, SEEDED),
        seeded,
        (
            Comparison(
                f"{SEEDED.name} less {MAP.name}: {US}",
                lambda results: results[SEEDED.name][US] - results[MAP.name][US],
                Bound("<=", 25),
            ),
        ),
    ),
)
