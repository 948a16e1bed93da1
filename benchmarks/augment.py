"""Augmentations of pictures in memory, each and as a whole recipe, beside torchvision v2 and albumentations.

CPU time on one thread for uint8 pictures of 224 x 224 pixels, cut from photographs (`--data`). Ours and albumentations
take arrays (height, width, channels), torchvision tensors (channels, height, width). In each round every contender
makes all pictures, one after the other. A column of a peer has its time divided by ours: the median of the rounds, and
the smallest and the largest. Above 1 ours is faster. Drawing parameters is part of it, with a generator keyed by the
record for ours.
"""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import cv2
import numpy as np

from benchmarks.contender import installed
from benchmarks.photographs import encoded_photographs
from loaderkit._order.rng import RecordRng
from loaderkit.transforms import image as lki
from loaderkit.transforms.base import group_of

SIDE = 224
GROUP = 8
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PEERS = ("torchvision", "albumentations")

Call = Callable[[Any], Any]


def pictures(count: int) -> list[np.ndarray]:
    """So many pictures, uint8 (224, 224, 3); photographs repeat."""
    decode = lki.DecodeCenterCrop((SIDE, SIDE), fraction=1)
    made = [decode.map(data) for data in encoded_photographs(count)]
    return [made[place % len(made)].copy() for place in range(count)]


def ours() -> dict[str, list[Any]]:
    """Our operations by the name of a row."""
    half = {"p": 1.0}
    return {
        "CenterCrop": [lki.CenterCrop(192)],
        "Pad": [lki.Pad(16, padding_mode="reflect")],
        "RandomRotate": [lki.RandomRotate(30)],
        "RandomRotate, linear": [lki.RandomRotate(30, "linear")],
        "RandomAffine, linear": [lki.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10, "linear")],
        "RandomPerspective": [lki.RandomPerspective(0.5, 1.0)],
        "ColorJitter": [lki.ColorJitter(0.4, 0.4, 0.4, 0.1)],
        "ColorJitter without hue": [lki.ColorJitter(0.4, 0.4, 0.4)],
        "RandomGrayscale": [lki.RandomGrayscale(1.0)],
        "GaussianBlur": [lki.GaussianBlur(5)],
        "RandomErasing": [lki.RandomErasing(**half)],
        "RandAugment": [lki.RandAugment()],
        "TrivialAugment": [lki.TrivialAugment()],
        "MixUp": [lki.MixUp(0, 1, 10, group=GROUP)],
        "CutMix": [lki.CutMix(0, 1, 10, group=GROUP)],
        "crop, flip, jitter, erase, normalise": [
            lki.RandomCrop(padding=28),
            lki.RandomFlip(),
            lki.ColorJitter(0.4, 0.4, 0.4),
            lki.RandomErasing(0.25),
            lki.Normalize(MEAN, STD),
        ],
    }


def torchvision() -> dict[str, list[Any]]:
    """torchvision's by the name of a row."""
    import torch
    from torchvision.transforms import v2

    linear = v2.InterpolationMode.BILINEAR
    return {
        "CenterCrop": [v2.CenterCrop(192)],
        "Pad": [v2.Pad(16, padding_mode="reflect")],
        "RandomRotate": [v2.RandomRotation(30)],
        "RandomRotate, linear": [v2.RandomRotation(30, linear)],
        "RandomAffine, linear": [v2.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10, linear)],
        "RandomPerspective": [v2.RandomPerspective(0.5, 1.0)],
        "ColorJitter": [v2.ColorJitter(0.4, 0.4, 0.4, 0.1)],
        "ColorJitter without hue": [v2.ColorJitter(0.4, 0.4, 0.4)],
        "RandomGrayscale": [v2.RandomGrayscale(1.0)],
        "GaussianBlur": [v2.GaussianBlur(5)],
        "RandomErasing": [v2.RandomErasing(1.0)],
        "RandAugment": [v2.RandAugment()],
        "TrivialAugment": [v2.TrivialAugmentWide()],
        "MixUp": [v2.MixUp(num_classes=10)],
        "CutMix": [v2.CutMix(num_classes=10)],
        "crop, flip, jitter, erase, normalise": [
            v2.RandomCrop(SIDE, padding=28),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(0.4, 0.4, 0.4),
            v2.RandomErasing(0.25),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ],
    }


def albumentations() -> dict[str, list[Any]]:
    """Those that albumentations has, by the name of a row."""
    import albumentations as alb

    jitter = {"brightness": (0.6, 1.4), "contrast": (0.6, 1.4), "saturation": (0.6, 1.4), "p": 1}
    nearest, linear = cv2.INTER_NEAREST, cv2.INTER_LINEAR
    affine = {"rotate": (-30, 30), "translate_percent": (-0.1, 0.1), "scale": (0.8, 1.2), "shear": (-10, 10)}
    return {
        "CenterCrop": [alb.CenterCrop(192, 192)],
        "Pad": [alb.Pad(16, border_mode=cv2.BORDER_REFLECT_101, p=1)],
        "RandomRotate": [alb.Rotate(30, interpolation=nearest, border_mode=0, p=1)],
        "RandomRotate, linear": [alb.Rotate(30, interpolation=linear, border_mode=0, p=1)],
        "RandomAffine, linear": [alb.Affine(**affine, interpolation=linear, p=1)],
        "RandomPerspective": [alb.Perspective((0.05, 0.25), p=1)],
        "ColorJitter": [alb.ColorJitter(**jitter, hue=(-0.1, 0.1))],
        "ColorJitter without hue": [alb.ColorJitter(**jitter, hue=(0, 0))],
        "RandomGrayscale": [alb.ToGray(p=1)],
        "GaussianBlur": [alb.GaussianBlur(blur_limit=(5, 5), sigma_limit=(0.1, 2.0), p=1)],
        "RandomErasing": [alb.Erasing(p=1)],
        "crop, flip, jitter, erase, normalise": [
            alb.Pad(28, p=1),
            alb.RandomCrop(SIDE, SIDE),
            alb.HorizontalFlip(),
            alb.ColorJitter(**jitter, hue=(0, 0)),
            alb.Erasing(p=0.25),
            alb.Normalize(MEAN, STD),
        ],
    }


def _called(operations: list[Any]) -> Call:
    generators = [RecordRng(0, ordinal) for ordinal in range(len(operations))]

    def call(item: tuple[int, Any]) -> Any:
        number, value = item
        for operation, each in zip(operations, generators, strict=True):
            if group_of(operation):
                value = operation.random_map(value, each.at)
            elif hasattr(operation, "random_map"):
                value = operation.random_map(value, each.at(number))
            else:
                value = operation.map(value)
        return value

    return call


def _in_order(operations: list[Any], item: tuple[int, Any], *, named: bool) -> Any:
    value = item[1]
    for operation in operations:
        if named:
            value = operation(image=value)["image"]
        else:
            value = operation(*value) if isinstance(value, tuple) else operation(value)
    return value


def inputs(name: str, images: list[np.ndarray], peer: str) -> list[Any]:
    """What a contender gets in a row: pictures, or batches of floats with labels."""
    values: list[Any] = list(images)
    if name in ("MixUp", "CutMix"):
        batches = [np.stack(images[at : at + GROUP]) for at in range(0, len(images), GROUP)]
        values = [(batch.astype(np.float32) / 255, np.arange(len(batch))) for batch in batches]
    if peer != "torchvision":
        return values
    import torch

    def tensor(value: Any) -> Any:
        if isinstance(value, tuple):
            return (torch.from_numpy(value[0].transpose(0, 3, 1, 2).copy()), torch.from_numpy(value[1]))
        return torch.from_numpy(value.transpose(2, 0, 1).copy())

    return [tensor(value) for value in values]


def _seconds(call: Call, values: list[Any]) -> float:
    begun = time.process_time()
    for item in enumerate(values):
        call(item)
    return time.process_time() - begun


def run(peers: set[str], *, repeats: int, smoke: bool, say: Callable[[str], None]) -> str:
    """The table as Markdown.

    Args:
        peers: those that take part where they are installed.
        repeats: rounds.
        smoke: a few pictures, once.
        say: takes a line of progress.
    """
    count, rounds = (GROUP, 1) if smoke else (128, repeats)
    cv2.setNumThreads(1)
    images, tables = pictures(count), {"loaderkit": ours()}
    if "torchvision" in peers and installed("torchvision"):
        import torch

        torch.set_num_threads(1)
        tables["torchvision"] = torchvision()
    if "albumentations" in peers and installed("albumentations"):
        tables["albumentations"] = albumentations()
    lines = ["## augment: pictures augmented in memory", ""]
    lines += [f"| operation | loaderkit, us | {' | '.join(PEERS)} |", "|---|---|---|---|"]
    for name in tables["loaderkit"]:
        say(f"augment: {name}")
        lines.append(
            _row(name, images, {who: table[name] for who, table in tables.items() if name in table}, rounds)
        )
    return "\n".join([*lines, "", __doc__ or ""])


def _row(name: str, images: list[np.ndarray], by: dict[str, list[Any]], rounds: int) -> str:
    calls = {
        who: (
            _called(made) if who == "loaderkit" else partial(_in_order, made, named=who == "albumentations"),
            inputs(name, images, who),
        )
        for who, made in by.items()
    }
    for call, values in calls.values():
        call((0, values[0]))
    taken = [{who: _seconds(call, values) for who, (call, values) in calls.items()} for _ in range(rounds)]
    cells = [name, f"{median(each['loaderkit'] for each in taken) / len(images) * 1e6:.0f}"]
    for peer in PEERS:
        ratios = sorted(each[peer] / each["loaderkit"] for each in taken if peer in each)
        cells.append(f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else "")
    return f"| {' | '.join(cells)} |"
