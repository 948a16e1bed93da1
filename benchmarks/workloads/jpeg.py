"""Real photographs in ArrayRecord: decode, random resized crop to 224x224, flip; shuffled, Batch(64).

The photographs are those of LOADERKIT_IMAGENET_SAMPLE (334 of ImageNet, typically 500x375) or, without them, 334 crops
of 500x375 of scikit-learn's two sample photographs. All contenders run the same two functions: `decode` (OpenCV,
IMREAD_COLOR) and `augment` (an area of 8 to 100%, bilinear, flipped half of the time), with OpenCV's own threads set to
one. tf.data runs its own decode_and_crop_jpeg, resize and flip, from the compressed bytes in memory. The bare loops
with 2 processes or threads each work alone on their own share and drop what they made: no transport, perfect balance.
"loaderkit image" runs loaderkit.transforms.image instead of the two functions: the same crops from the same
distribution, decoded at a reduced scale where the crop allows, and with simplejpeg only as far down as it reaches.
Steady images a second, over a window four times the usual one.
"""

import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np

import loaderkit as lk
from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.files import array_record_reader, record_file
from benchmarks.measure import stream
from benchmarks.photographs import encoded_photographs
from benchmarks.pipeline import Draw, Each, Pipeline
from loaderkit.transforms.image import DecodeRandomResizedCrop, RandomFlip

cv2.setNumThreads(1)

BATCH = 64
SIDE = 224


def decode(data: bytes) -> np.ndarray:
    """The compressed bytes as uint8 (height, width, 3)."""
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)


def augment(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random resized crop, flipped half of the time: uint8 (224, 224, 3)."""
    top, left, height, width = random_crop(image.shape[0], image.shape[1], rng)
    crop = cv2.resize(image[top : top + height, left : left + width], (SIDE, SIDE))
    return cv2.flip(crop, 1) if rng.random() < 0.5 else crop


def random_crop(height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """(top, left, height, width) of 8 to 100% of the area and a ratio of 3:4 to 4:3, as is usual for ImageNet."""
    for _ in range(10):
        area = height * width * rng.uniform(0.08, 1.0)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(0, height - h + 1)), int(rng.integers(0, width - w + 1)), h, w
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


def in_graph(element: dict[str, Any]) -> Any:
    """The same in TensorFlow: only the crop is decoded."""
    import tensorflow as tf

    data = element["data"]
    shape = tf.io.extract_jpeg_shape(data)
    begin, extent, _ = tf.image.sample_distorted_bounding_box(
        shape,
        tf.zeros((1, 1, 4)),
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    top, left, _ = tf.unstack(begin)
    height, width, _ = tf.unstack(extent)
    crop = tf.image.decode_and_crop_jpeg(data, tf.stack([top, left, height, width]), channels=3)
    image = tf.image.random_flip_left_right(tf.image.resize(crop, (SIDE, SIDE)))
    return tf.cast(image, tf.uint8)


def photographs(size: Size) -> Path:
    """The file of compressed photographs."""
    count = size.pick(334, 4)
    return record_file(size.folder / "jpeg.array_record", lambda: encoded_photographs(count))


def pipeline(size: Size) -> Pipeline:
    """Decode and augment."""
    path = photographs(size)
    return Pipeline(
        {
            "": lambda: array_record_reader(path),
            "loaderkit": lambda: lk.ArrayRecordDataSource(str(path)),
        },
        (Each(decode), Draw(augment)),
        size.pick(BATCH, 4),
        records=len(encoded_photographs(size.pick(334, 4))),
        columns=lambda: {"data": np.array(list(encoded_photographs(size.pick(334, 4))), object)},
        graph=in_graph,
        transforms={
            decoder: lambda decoder=decoder: [  # type: ignore[misc]
                DecodeRandomResizedCrop(SIDE, decoder=decoder, upright=False),
                RandomFlip(),
            ]
            for decoder in ("opencv", "simplejpeg")
        },
    )


def noise(count: int) -> list[bytes]:
    """JPEG files (quality 75) of 256x256 noise."""
    rng = np.random.default_rng(0)
    images = (rng.integers(0, 256, (256, 256, 3), np.uint8) for _ in range(count))
    return [cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 75])[1].tobytes() for image in images]


def decode_pipeline(size: Size) -> Pipeline:
    """Decode alone."""
    path = record_file(size.folder / "noise.array_record", lambda: noise(size.pick(2_000, 4)))
    return Pipeline(
        {
            "": lambda: array_record_reader(path),
            "loaderkit": lambda: lk.ArrayRecordDataSource(str(path)),
        },
        (Each(decode),),
        size.pick(BATCH, 4),
        records=size.pick(2_000, 4),
    )


BARE, BARE_2, BARE_2_THREADS = by.bare(), by.bare_parallel(2, "process"), by.bare_parallel(2, "thread")
OURS, OURS_2, OURS_2_THREADS = by.ours(), by.ours(2), by.ours(2, "thread")
IMAGE_2, IMAGE_2_SIMPLE = (
    by.ours(2, label=f"image ({decoder})", transforms=decoder) for decoder in ("opencv", "simplejpeg")
)
GRAIN_0, GRAIN_2 = by.grain(0), by.grain(2)
TUNED_2 = by.grain_tuned(2)
DATASET = by.named((*GRAIN_0, *GRAIN_2), "MapDataset")
(TWO_READERS,) = by.named(GRAIN_0, "MapDataset", "(2,16)")
TORCH, TORCH_2 = by.torch(0, 2)

CONTENDERS = (
    BARE, BARE_2, BARE_2_THREADS, OURS, OURS_2, OURS_2_THREADS, *GRAIN_0, *GRAIN_2, TORCH, TORCH_2,
)  # fmt: skip

BENCHMARKS = (
    Benchmark(
        "jpeg",
        __doc__,
        (*CONTENDERS, IMAGE_2, IMAGE_2_SIMPLE, by.TFDATA),
        stream(pipeline, windows=4),
        (
            speedup(OURS, BARE),
            speedup(OURS_2, BARE_2, bound=Bound(">=", 0.95, floor=0.9)),
            speedup(OURS_2_THREADS, BARE_2_THREADS, bound=Bound(">=", 0.95, floor=0.9)),
            speedup(OURS, TORCH),
            speedup(OURS_2, TORCH_2, bound=Bound(">=", 1.0)),
            speedup(
                OURS_2, *TUNED_2, best_of="best of grain DataLoader tuned, 2 workers", bound=Bound(">=", 1.5)
            ),
            speedup(BARE_2, *TUNED_2, best_of="best of grain DataLoader tuned, 2 workers"),
            speedup(OURS_2, *DATASET, best_of="best of grain MapDataset, 0 or 2 workers"),
            speedup(OURS_2, by.TFDATA),
            speedup(IMAGE_2, by.TFDATA),
            speedup(IMAGE_2_SIMPLE, by.TFDATA, bound=Bound(">=", 1.0)),
            speedup(IMAGE_2_SIMPLE, OURS_2),
        ),
    ),
    Benchmark(
        "jpeg, decode only",
        """As jpeg, with decoding alone: 2,000 JPEG files (quality 75) of 256x256 noise in ArrayRecord.

Grain's MapDataset runs its steps in its reader threads: with 0 workers and (2,16) it has two threads that decode, its
best setting here. The fastest of all settings in each round is more than any one of them reaches.
""",
        CONTENDERS,
        stream(decode_pipeline, windows=2),
        (
            speedup(OURS_2, BARE_2),
            speedup(OURS_2_THREADS, BARE_2_THREADS),
            speedup(OURS_2, TWO_READERS, bound=Bound(">=", 1.0)),
            speedup(OURS_2, *GRAIN_0, *GRAIN_2, best_of="best of grain, any setting", bound=Bound(">=", 1.0)),
            speedup(
                OURS_2_THREADS,
                *GRAIN_0,
                *GRAIN_2,
                best_of="best of grain, any setting",
                bound=Bound(">=", 1.0),
            ),
            speedup(OURS_2, TORCH_2),
        ),
    ),
)
