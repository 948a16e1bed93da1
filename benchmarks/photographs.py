"""Compressed photographs: a folder of real ones if there is one, else crops of scikit-learn's samples."""

import os
from itertools import islice
from pathlib import Path

import cv2
import numpy as np

VARIABLE = "LOADERKIT_IMAGENET_SAMPLE"
# Beside the clone, as in the measurements that the README cites.
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "imagenet-sample"


def folder() -> Path | None:
    """The folder of real photographs, if there is one."""
    path = Path(os.environ.get(VARIABLE) or BESIDE)
    return path if path.is_dir() else None


def encoded_photographs(count: int) -> list[bytes]:
    """So many JPEG files, or as many as the folder has."""
    found = folder()
    if found is not None:
        return [path.read_bytes() for path in islice(sorted(found.glob("*.JPEG")), count)]
    return [_encoded(crop) for crop in _crops(count)]


def _crops(count: int) -> list[np.ndarray]:
    from sklearn.datasets import load_sample_images

    images = load_sample_images().images
    rng = np.random.default_rng(0)
    crops = []
    for place in range(count):
        image = images[place % len(images)]
        top, left = rng.integers(0, image.shape[0] - 375 + 1), rng.integers(0, image.shape[1] - 500 + 1)
        crops.append(image[top : top + 375, left : left + 500])
    return crops


def _encoded(image: np.ndarray) -> bytes:
    return cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes()
