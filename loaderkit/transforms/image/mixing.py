"""MixUp and CutMix: rows of a batch mixed within groups, by torchvision's formulas."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit.transforms.base import RandomMap
from loaderkit.transforms.leaf import leaf_key, with_leaf

from .arguments import finite, installed
from .decoded import native
from .move import Pixels

Generators = Callable[[int], np.random.Generator]
Images = Pixels  # (rows, height, width) or (rows, height, width, channels)


@dataclass(frozen=True)
class _Mix(RandomMap):
    """What both share: groups of rows, of which each is mixed with the row before it, the first with the last."""

    key: Hashable
    labels: Hashable
    num_classes: int | None = None
    alpha: float = 1.0
    group: int = 8

    @property
    def _group(self) -> int:  # type: ignore[override]
        return self.group

    def __post_init__(self) -> None:
        for name, key in (("key", self.key), ("labels", self.labels)):
            leaf_key(name, key)
            if key is None:
                raise ValueError(f"{name}: expected a place in the batch, got None")
        if self.num_classes is not None:
            at_least("num_classes", self.num_classes, 1)
        if finite("alpha", self.alpha) <= 0:
            raise ValueError(f"alpha: expected a positive number, got {self.alpha}")
        at_least("group", self.group, 1)
        installed(type(self).__name__, "cv2")

    def random_map(self, element: Any, rng: Any) -> Any:
        """The batch with its images and labels mixed; rng: gives the generator of a row by its number."""
        shares: list[float] = []  # of each group's own rows
        rows = 0

        def change(leaf: Any) -> Pixels:
            nonlocal rows
            given = _array("key", "images (rows, height, width, ...)", leaf, (3, 4))
            images = np.ascontiguousarray(native(given))
            out: Pixels = images.copy()
            rows = len(images)
            for first in range(0, rows, self.group):
                part = slice(first, first + self.group)
                shares.append(self._mixed(images[part], out[part], rng(first)))
            return out

        element = with_leaf(element, self.key, change)
        return with_leaf(element, self.labels, lambda labels: self._shared(labels, shares, rows))

    def _mixed(self, images: Images, out: Images, rng: np.random.Generator) -> float:
        """Writes a group's mixed images to `out`, a copy of them; returns the share of each row's own image."""
        raise NotImplementedError

    def _shared(self, labels: Any, shares: list[float], rows: int) -> Pixels:
        labels = _array("labels", "an array (rows,) or (rows, classes)", labels, (1, 2))
        if len(labels) != rows:
            raise ValueError(f"labels: expected one for each of {rows} images, got {len(labels)}")
        if labels.ndim == 1:
            count = self.num_classes or 0
            if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= count:
                got = f"{count} for {labels.dtype} from {labels.min()} to {labels.max()}"
                raise ValueError(
                    f"num_classes: expected ints from 0 on as labels, and more than each, got {got}"
                )
            labels = np.eye(count, dtype=np.float32)[labels]
        out: Pixels = np.empty(labels.shape, labels.dtype if labels.dtype.kind == "f" else np.float32)
        for number, share in enumerate(shares):
            part = slice(number * self.group, (number + 1) * self.group)
            out[part] = labels[part] * share + np.roll(labels[part], 1, axis=0) * (1 - share)
        return out


def _array(name: str, expected: str, leaf: Any, axes: tuple[int, int]) -> Pixels:
    if not isinstance(leaf, np.ndarray) or leaf.ndim not in axes:
        raise TypeError(f"{name}: expected {expected}, got {getattr(leaf, 'shape', type(leaf).__name__)}")
    return leaf


@dataclass(frozen=True)
class MixUp(_Mix):
    """Mixes each image of a batch with another one, and their labels; directly behind the Batch.

    Groups of consecutive rows are mixed in themselves, each row with the one before it by one share that the first
    record's generator draws. So a stream is the same for any number of hosts; a batch whose groups a shard would cut is
    an error when iteration begins.

    Args:
        key: place of the images (rows, height, width, channels), of integers or floats; a dict's key, a position, the
            name of a field, or a path of these as a tuple.
        labels: place of the labels: ints (rows,), or floats (rows, classes). They become float (rows, classes).
        num_classes: the number of classes; needed for ints.
        alpha: of the beta distribution of the share, positive.
        group: rows of a group; the rows of each shard's batch must be a multiple.

    >>> batch = {"image": np.array([[[0.0]], [[1.0]]]), "label": np.array([0, 1])}
    >>> mixed = MixUp("image", "label", 2).random_map(
    ...     batch, lambda row: np.random.Generator(np.random.Philox(key=1))
    ... )
    >>> bool(mixed["label"][0, 1] == np.float32(mixed["image"][0, 0, 0])), mixed["label"].sum().item()
    (True, 2.0)
    """

    def _mixed(self, images: Images, out: Images, rng: np.random.Generator) -> float:
        import cv2

        share = float(rng.beta(self.alpha, self.alpha))
        for row, image in enumerate(images):
            flat, other = image.reshape(len(image), -1), images[row - 1].reshape(len(image), -1)
            try:
                cv2.addWeighted(flat, share, other, 1 - share, 0, dst=out[row].reshape(len(image), -1))
            except cv2.error:
                raise TypeError(f"key: expected a dtype that OpenCV adds, got {image.dtype}") from None
        return share


@dataclass(frozen=True)
class CutMix(_Mix):
    """Puts a rectangle of another image into each image of a batch, and mixes their labels; directly behind the Batch.

    Groups of consecutive rows are mixed in themselves, as by `MixUp`: the rectangle is drawn by the first record's
    generator, and labels are shared as the areas are.

    Args:
        key: place of the images (rows, height, width, channels) of any dtype; a dict's key, a position, the name of a
            field, or a path of these as a tuple.
        labels: place of the labels: ints (rows,), or floats (rows, classes). They become float (rows, classes).
        num_classes: the number of classes; needed for ints.
        alpha: of the beta distribution of the area, positive.
        group: rows of a group; the rows of each shard's batch must be a multiple.

    >>> batch = {"image": np.array([np.zeros((8, 8)), np.ones((8, 8))]), "label": np.array([0, 1])}
    >>> mixed = CutMix("image", "label", 2).random_map(
    ...     batch, lambda row: np.random.Generator(np.random.Philox(key=3))
    ... )
    >>> bool(mixed["label"][0, 1] == mixed["image"][0].mean())
    True
    """

    def _mixed(self, images: Images, out: Images, rng: np.random.Generator) -> float:
        height, width = images.shape[1:3]
        half = 0.5 * sqrt(1 - rng.beta(self.alpha, self.alpha))
        x, y = int(rng.integers(width)), int(rng.integers(height))
        wide, tall = int(half * width), int(half * height)
        rows = slice(max(y - tall, 0), min(y + tall, height))
        columns = slice(max(x - wide, 0), min(x + wide, width))
        out[:, rows, columns] = np.roll(images[:, rows, columns], 1, axis=0)
        share: float = (rows.stop - rows.start) * (columns.stop - columns.start) / (height * width)
        return 1 - share
