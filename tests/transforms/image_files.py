"""Photographs and files made of them, for the tests of loaderkit.transforms.image."""

import io
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

# Where the sample of ImageNet is: one JPEG a class.
IMAGENET_SAMPLE = Path(
    os.environ.get("LOADERKIT_IMAGENET_SAMPLE")
    or Path(__file__).parents[2].parent / "shared" / "data" / "imagenet-sample"
)


def generator(number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=number))


@cache
def photograph(name: str = "flower") -> np.ndarray:
    """One of scikit-learn's two photographs, uint8 (427, 640, 3)."""
    images = pytest.importorskip("sklearn.datasets").load_sample_images()
    names = [Path(file).stem for file in images.filenames]
    return np.ascontiguousarray(images.images[names.index(name)])


def encoded(pixels: np.ndarray, kind: str = "JPEG", *, orientation: int | None = None, **how) -> bytes:
    """The pixels (or a picture of Pillow's mode "CMYK") as a file of a kind, written by Pillow."""
    image_module = pytest.importorskip("PIL.Image")
    image = pixels if isinstance(pixels, image_module.Image) else image_module.fromarray(pixels)
    if orientation is not None:
        exif = image_module.Exif()
        exif[0x0112] = orientation
        how["exif"] = exif
    file = io.BytesIO()
    image.save(file, kind, **how)
    return file.getvalue()


def by_pillow(data: bytes, *, upright: bool = False) -> np.ndarray:
    """The picture as another library sees it, uint8 RGB."""
    from PIL import Image, ImageOps

    image = Image.open(io.BytesIO(data))
    return np.asarray((ImageOps.exif_transpose(image) if upright else image).convert("RGB"))
