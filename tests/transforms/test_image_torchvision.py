"""Augmentations of pictures against torchvision's functional forms at the same parameters."""

import math

import cv2
import numpy as np
import pytest
from image_files import generator

from loaderkit.transforms import image as lki
from loaderkit.transforms.image import adjust, policies
from loaderkit.transforms.image.region import random_region

pytestmark = pytest.mark.torch
# torchvision first, because torch alone is slow to import.
v2 = pytest.importorskip("torchvision.transforms.v2", reason="the values are compared with torchvision's")
torch = pytest.importorskip("torch")
F = v2.functional

NOISE = np.random.default_rng(0).integers(0, 256, (61, 83, 3), dtype=np.uint8)
SMOOTH = np.clip((cv2.GaussianBlur(NOISE, (0, 0), 2).astype(float) - 128) * 5 + 128, 0, 255).astype(np.uint8)
WAYS = {"nearest": v2.InterpolationMode.NEAREST, "linear": v2.InterpolationMode.BILINEAR}


def tensor(image):
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))


def near(ours, theirs, most=0, share=0.0):
    """Equal but for `most` levels, and more in at most a share of the values."""
    theirs = theirs.numpy().transpose(1, 2, 0)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    apart = np.abs(ours.astype(float) - theirs.astype(float))
    assert np.mean(apart > most) <= share, (apart.max(), np.mean(apart > most))


@pytest.mark.parametrize("image", [NOISE, SMOOTH], ids=["noise", "smooth"])
def test_colours(image):
    """Integers within a level, but for the hue; floats equal."""
    floats = image.astype(np.float32) / 255
    for factor in (0.3, 1.7):
        for name, most in (("brightness", 0), ("contrast", 1), ("saturation", 1), ("sharpness", 0)):
            ours, theirs = getattr(adjust, name), getattr(F, f"adjust_{name}")
            near(ours(image, factor), theirs(tensor(image), factor), most)
            if name != "sharpness":
                near(ours(floats, factor), theirs(tensor(floats), factor), 1e-5)
    for factor in (-0.3, 0.07, 0.5):
        near(adjust.hue(image, factor), F.adjust_hue(tensor(image), factor), 10)
        near(adjust.hue(floats, factor), F.adjust_hue(tensor(floats), factor), 1e-3)
    near(adjust.grayscale(image), F.rgb_to_grayscale(tensor(image), 3), 1)
    near(adjust.autocontrast(image // 2 + 20), F.autocontrast(tensor(image // 2 + 20)))
    near(adjust.equalize(image), F.equalize(tensor(image)))
    blurred = lki.GaussianBlur((5, 9), 1.3).random_map(image, generator(0))
    near(blurred, F.gaussian_blur(tensor(image), [9, 5], [1.3, 1.3]), 1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("image", [NOISE, SMOOTH], ids=["noise", "smooth"])
def test_warps(image, way):
    """But for pixels that come from between two, which rounding decides."""
    theirs, given = tensor(image), {"interpolation": way}
    for more, same in (
        ({}, {}),
        ({"expand": True}, {"expand": True}),
        ({"center": (10, 7)}, {"center": [10, 7]}),
    ):
        ours = lki.RandomRotate((33, 33), **given, **more).random_map(image, generator(0))
        near(ours, F.rotate(theirs, 33, WAYS[way], **same), 1, 1e-3)
    for angle in (0, 90, 180, 270):
        ours = lki.RandomRotate((angle, angle), expand=True, **given).random_map(image, generator(0))
        near(ours, F.rotate(theirs, angle, WAYS[way], expand=True))
    ours = lki.RandomAffine((20, 20), scale=(1.3, 1.3), shear=(5, 5, 9, 9), **given).random_map(
        image, generator(0)
    )
    near(ours, F.affine(theirs, 20, [0, 0], 1.3, [5, 9], WAYS[way]), 1, 1e-3)
    rng = generator(5)
    rng.random()
    right, down = int(0.6 * 41) + 1, int(0.6 * 30) + 1
    starts = np.array([(0, 0), (82, 0), (82, 60), (0, 60)])
    ends = np.abs(starts - rng.integers(0, [(right, down)] * 4))
    ours = lki.RandomPerspective(0.6, 1, **given).random_map(image, generator(5))
    near(ours, F.perspective(theirs, starts.tolist(), ends.tolist(), WAYS[way]), 1, 1e-3)


def test_frames():
    """Exactly, but for the rounding of a resized part."""
    theirs = tensor(NOISE)
    for size in ((70, 50), (30, 91), (61, 83), (20, 20)):
        near(lki.CenterCrop(size).map(NOISE), F.center_crop(theirs, list(size)))
    for mode in ("constant", "edge", "reflect", "symmetric"):
        ours = lki.Pad((3, 1, 4, 2), 7, mode).map(NOISE)
        near(ours, F.pad(theirs, [3, 1, 4, 2], fill=7, padding_mode=mode))
    for number in range(3):
        part = random_region(61, 83, scale=(0.1, 0.5), ratio=(0.5, 2), rng=generator(number))
        ours = lki.RandomResizedCrop((64, 90), (0.1, 0.5), (0.5, 2)).random_map(NOISE, generator(number))
        corner = (part.top, part.left, part.height, part.width)
        near(ours, F.resized_crop(theirs, *corner, [64, 90], WAYS["linear"], antialias=False), 1)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", policies._NAMES)
def test_policies(name, sign):
    """Each operation at a magnitude, and the magnitudes of all bins."""
    ours, theirs = lki.TrivialAugment(), v2.TrivialAugmentWide()
    sign = sign if name in policies._SIGNED else 1
    magnitude = sign * policies.magnitude_of(name, 0.7, (61, 83), wide=True)
    for image in (NOISE, SMOOTH):
        made = theirs._apply_image_or_video_transform(
            tensor(image), name, magnitude, WAYS["nearest"], vars(theirs)["_fill"]
        )
        near(ours._apply(image, name, magnitude)[0], made, 1, 1e-3)
    for wide, policy in ((True, v2.TrivialAugmentWide), (False, v2.RandAugment)):
        bins, signed = policy._AUGMENTATION_SPACE[name]
        assert signed == (name in policies._SIGNED)
        for index, expected in enumerate(() if bins(31, 61, 83) is None else bins(31, 61, 83).tolist()):
            assert math.isclose(
                policies.magnitude_of(name, index / 30, (61, 83), wide=wide), expected, abs_tol=1e-4
            )


def test_boxes():
    """Moved, clipped and left out as by the functional form and SanitizeBoundingBoxes."""
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    boxes = np.array(
        [[5, 6, 30, 40], [60, 1, 82, 9], [0, 0, 83, 61], [2, 3, 4, 5], [-9, 2, -3, 8]], np.float32
    )
    theirs = tv_tensors.BoundingBoxes(torch.from_numpy(boxes), format="XYXY", canvas_size=(61, 83))
    places = {"key": 0, "boxes": 1}
    pairs = [
        (lki.RandomRotate((33, 33), **places), lambda it: F.rotate(it, 33)),
        (
            lki.RandomAffine((20, 20), scale=(1.3, 1.3), shear=(5, 5, 9, 9), **places),
            lambda it: F.affine(it, 20, [0, 0], 1.3, [5, 9]),
        ),
        (lki.RandomFlip(1, **places), F.horizontal_flip),
        (lki.RandomFlip(1, "vertical", **places), F.vertical_flip),
        (lki.CenterCrop(30, **places), lambda it: F.center_crop(it, [30, 30])),
        (lki.Resize((30, 40), **places), lambda it: F.resize(it, [30, 40])),
        (lki.Pad(4, **places), lambda it: F.pad(it, [4, 4, 4, 4])),
    ]
    for operation, functional in pairs:
        one = (NOISE, boxes)
        ours = (
            operation.random_map(one, generator(0))
            if hasattr(operation, "random_map")
            else operation.map(one)
        )
        expected = F.sanitize_bounding_boxes(F.clamp_bounding_boxes(functional(theirs)))[0]
        np.testing.assert_allclose(ours[1], expected.numpy(), atol=1e-4)


@pytest.mark.parametrize("kind", [lki.MixUp, lki.CutMix])
def test_groups_are_mixed_as_batches(kind):
    """Each group is torchvision's batch, at the share that was drawn."""
    images = np.random.default_rng(1).random((8, 12, 10, 3), np.float32)
    labels = np.arange(8)
    ours = kind(0, 1, 9, alpha=0.7, group=4).random_map((images, labels), generator)
    for first in (0, 4):
        rng, part = generator(first), slice(first, first + 4)
        share = rng.beta(0.7, 0.7)
        if kind is lki.MixUp:
            theirs, given = v2.MixUp(num_classes=9), {"lam": share}
        else:
            theirs, half = v2.CutMix(num_classes=9), 0.5 * math.sqrt(1 - share)
            x, y, wide, tall = int(rng.integers(10)), int(rng.integers(12)), int(half * 10), int(half * 12)
            x1, y1, x2, y2 = max(x - wide, 0), max(y - tall, 0), min(x + wide, 10), min(y + tall, 12)
            given = {"box": (x1, y1, x2, y2), "lam_adjusted": 1 - (x2 - x1) * (y2 - y1) / 120}
        batch = torch.from_numpy(images[part].transpose(0, 3, 1, 2).copy())
        numbers = torch.from_numpy(labels[part])
        given |= {"labels": numbers, "batch_size": 4}
        np.testing.assert_allclose(
            ours[0][part], theirs.transform(batch, given).numpy().transpose(0, 2, 3, 1), atol=1e-5
        )
        np.testing.assert_allclose(ours[1][part], theirs.transform(numbers, given).numpy(), atol=1e-6)
