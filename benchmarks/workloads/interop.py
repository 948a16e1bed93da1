"""What it costs to hand batches of small images to PyTorch and Keras, over the loader that is used directly.

Each record is a PNG of 28x28 in memory, decoded to RGB, flipped at random and normalised, with its label; shuffled,
Batch(64), 0 workers. In one process, epochs of the bare loader and of the hand-over take turns; the ratio of each pair
is taken, and its median reported. PyTorch: `tensors(loader)`, and `LoaderDataset(loader)` under torch's DataLoader with
0 workers, whose own work counts. Keras, on JAX: `fit` with LoaderPyDataset over `fit` with a generator of the loader's
batches, for a model of one dense layer.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, plain
from benchmarks.contender import Contender

BATCH = 64
RATIO, TIME = "time over the bare loader's", "ms/epoch"

TENSORS = Contender("torch tensors", "torch")
TORCH_LOADER = Contender("LoaderDataset in torch's DataLoader", "torch")
FIT = Contender("Keras fit", "keras")


def pair(record: dict[str, Any]) -> tuple[Any, Any]:
    """As Keras takes it."""
    return record["image"].astype(np.float32) / 255, record["label"]


def loader_of(records: int, num_epochs: int | None) -> Any:
    """The loader that all of them use."""
    import cv2

    import loaderkit as lk
    from loaderkit.transforms import image

    noise = np.random.default_rng(0).integers(0, 256, (records, 28, 28), np.uint8)
    rows = [{"image": cv2.imencode(".png", x)[1].tobytes(), "label": k % 10} for k, x in enumerate(noise)]
    steps: list[Any] = [image.Decode(key="image"), image.RandomFlip(key="image"), pair]
    return lk.load(rows, batch_size=BATCH, shuffle=True, seed=0, num_epochs=num_epochs, operations=steps)


def measure(contender: Contender, size: Size) -> Metrics:
    """The median ratio, and the median time of an epoch that is handed over."""
    records = size.pick(4096, 4 * BATCH)
    bare, handed = PAIRS[contender.name](records)
    bare(), handed()  # compiles, and fills caches
    ratios: list[float] = []
    times: list[float] = []
    end = time.perf_counter() + 2 * size.seconds
    while len(ratios) < size.pick(6, 1) or (time.perf_counter() < end and not size.smoke):
        first, second = (bare, handed) if len(ratios) % 2 else (handed, bare)
        taken = {first: _seconds(first), second: _seconds(second)}
        ratios.append(taken[handed] / taken[bare])
        times.append(taken[handed] * 1e3)
    return {RATIO: statistics.median(ratios), TIME: statistics.median(times)}


def _seconds(run: Callable[[], None]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _exhausted(batches: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for _ in batches():
            pass

    return run


def _tensors(records: int) -> tuple[Callable[[], None], Callable[[], None]]:
    from loaderkit.interop.torch import tensors

    loader = loader_of(records, 1)
    return _exhausted(lambda: loader.epoch(0)), _exhausted(lambda: tensors(loader.epoch(0)))


def _torch_loader(records: int) -> tuple[Callable[[], None], Callable[[], None]]:
    from torch.utils.data import DataLoader

    from loaderkit.interop.torch import LoaderDataset

    loader = loader_of(records, 1)
    handed = lambda: DataLoader(LoaderDataset(loader.epoch(0)), batch_size=None)  # noqa: E731
    return _exhausted(lambda: loader.epoch(0)), _exhausted(handed)


def _fit(records: int) -> tuple[Callable[[], None], Callable[[], None]]:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import keras

    from loaderkit.interop.keras import LoaderPyDataset

    layers = keras.layers
    model = keras.Sequential([layers.Input((28, 28, 3)), layers.Flatten(), layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    loader, steps = loader_of(records, None), records // BATCH
    dataset = LoaderPyDataset(loader)

    def batches() -> Iterator[Any]:
        yield from loader

    generator = batches()
    return (
        lambda: model.fit(generator, steps_per_epoch=steps, shuffle=False, verbose=0),
        lambda: model.fit(dataset, verbose=0),
    )


PAIRS = {TENSORS.name: _tensors, TORCH_LOADER.name: _torch_loader, FIT.name: _fit}

BENCHMARKS = (
    Benchmark(
        "interop",
        __doc__,
        (TENSORS, TORCH_LOADER, FIT),
        measure,
        (
            plain(TENSORS, RATIO, Bound("<=", 1.03)),
            plain(TORCH_LOADER, RATIO),
            plain(FIT, RATIO, Bound("<=", 1.03)),
        ),
    ),
)
