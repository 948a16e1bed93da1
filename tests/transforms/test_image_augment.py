"""Augmentations of decoded images: values against plain formulas, what moves with a picture, and bad input."""

import warnings

import numpy as np
import picture_twins as twins
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_files import encoded, generator, photograph

from loaderkit.transforms import image as lki
from loaderkit.transforms.image import adjust, policies


def picture() -> np.ndarray:
    """A part of a photograph, uint8 (61, 83, 3)."""
    return photograph()[100:161, 200:283].copy()


def near(one: np.ndarray, other: np.ndarray, most: float = 1, mean: float = 0.4) -> None:
    """Equal but for rounding: in levels of 255, at most and on average."""
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    apart = np.abs(one.astype(np.float64) - other)
    assert apart.max() <= most and apart.mean() <= mean


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 1.7])
def test_colours_are_those_of_the_formulas(factor):
    """Of uint8 within a level; of floats and of 16 bits the same function; of one colour and of an alpha too."""
    image = picture()
    for name in ("brightness", "contrast", "saturation", "sharpness"):
        made = getattr(adjust, name)(image, factor)
        near(made, getattr(twins, name)(image, factor))
        with_alpha = np.dstack([image, image[..., :1]])
        if name != "sharpness":
            opaque = getattr(adjust, name)(with_alpha, factor)
            near(opaque, np.dstack([made, image[..., :1]]))
            np.testing.assert_array_equal(opaque[..., 3], image[..., 0])
            floats = getattr(adjust, name)((image / 255).astype(np.float32), factor)
            np.testing.assert_allclose(floats * 255, made, atol=1.51)
            wide = getattr(adjust, name)(image.astype(np.uint16) * 257, factor)
            np.testing.assert_allclose(wide / 257, made, atol=1.51)
    one = image[..., 0]
    near(adjust.brightness(one, factor), twins.blend(one, 0.0, factor))
    near(adjust.contrast(one, factor), twins.blend(one, one.mean(), factor))
    assert adjust.saturation(one, factor) is one and adjust.hue(one, 0.1) is one
    near(adjust.grayscale(image), twins.grayscale(image), mean=0.6)


@pytest.mark.parametrize("factor", [-0.5, -0.2, 0.07, 0.5])
def test_a_turned_hue_is_that_of_floats(factor):
    """colorsys turns each pixel; uint8 has 256 hues, so it is a few levels off, floats are exact."""
    colorsys = pytest.importorskip("colorsys")
    image = picture()[::5, ::5]
    flat = [colorsys.rgb_to_hsv(*pixel) for pixel in (image.reshape(-1, 3) / 255).tolist()]
    turned = np.array([colorsys.hsv_to_rgb((h + factor) % 1, s, v) for h, s, v in flat]).reshape(image.shape)
    floats = adjust.hue((image / 255).astype(np.float32), factor)
    np.testing.assert_allclose(floats, turned, atol=1e-4)
    near(adjust.hue(image, factor), np.round(turned * 255).astype(np.uint8), 12, 1.5)


def test_tables_are_those_of_the_formulas():
    """What RandAugment makes of levels, exactly."""
    image = picture() // 2 + 30
    image[..., 2] = 9  # a channel of one value
    np.testing.assert_array_equal(adjust.equalize(image), twins.equalize(image))
    near(adjust.autocontrast(image), twins.autocontrast(image), mean=0.02)
    for bits in (0, 3, 8):
        np.testing.assert_array_equal(adjust.posterize(image, bits), twins.posterize(image, bits))
    for threshold in (0.0, 100.5, 255.0):
        np.testing.assert_array_equal(adjust.solarize(image, threshold), twins.solarize(image, threshold))


def test_no_colour_operation_of_a_policy_changes_the_alpha():
    """The colours are changed as those of a picture without one."""
    alpha = np.arange(61 * 83).reshape(61, 83, 1).astype(np.uint8)
    for channels in (1, 3):
        image = picture()[..., :channels]
        for name, change in policies._COLOURS.items():
            made, _ = lki.RandAugment()._apply(np.concatenate([image, alpha], axis=2), name, 0.5)
            np.testing.assert_array_equal(made[..., channels:], alpha, name)
            expected = change(np.ascontiguousarray(image), 0.5)
            np.testing.assert_array_equal(made[..., :channels], expected.reshape(image.shape), name)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_blur_is_a_gaussian(dtype):
    """Of a mirrored border, in both axes."""
    image = picture().astype(dtype)
    made = lki.GaussianBlur((5, 9), 1.3).random_map(image, generator(0))
    near(made, twins.gaussian_blur(image, (5, 9), 1.3))


def element(image: np.ndarray) -> dict:
    """A picture with a box, a mask and a point of its own, and what is outside or has no pixels."""
    mask = np.zeros(image.shape[:2], np.int64)
    mask[10:30, 20:60] = 1 << 40
    boxes = np.array([[20, 10, 60, 30], [-9, -9, -1, 4], [30, 30, 30, 50], [70, 50, 999, 999.0]])
    return {
        "image": image,
        "boxes": boxes,
        "mask": mask,
        "masks": np.stack([mask > 0] * 4),
        "points": np.array([[[20.5, 10.5]]]),
        "label": ["a", "b", "c", "d"],
    }


PLACES = {
    "key": "image",
    "boxes": "boxes",
    "masks": ["mask", "masks"],
    "keypoints": "points",
    "labels": "label",
}
MIDDLE = (83 / 2, 61 / 2)
WARPS = [
    (lki.RandomRotate, {"degrees": (33, 33)}, (MIDDLE, -33, (0, 0), 1, (0, 0))),
    (
        lki.RandomRotate,
        {"degrees": (-120, -120), "center": (10, 7)},
        ((10, 7), 120, (0, 0), 1, (0, 0)),
    ),
    (
        lki.RandomAffine,
        {"degrees": (20, 20), "scale": (1.3, 1.3), "shear": (5, 5, 9, 9)},
        (MIDDLE, 20, (0, 0), 1.3, (5, 9)),
    ),
]


@pytest.mark.parametrize("way", ["nearest", "linear"])
@pytest.mark.parametrize(("kind", "given", "map_"), WARPS)
def test_a_warp_is_one_matrix_for_pixels_and_coordinates(kind, given, map_, way):
    """Pixels come from where the matrix says, boxes, masks and points go there."""
    matrix, image = twins.affine_matrix(*map_), picture()
    given_one = element(image)
    made = kind(**given, interpolation=way, **PLACES).random_map(given_one, generator(0))
    expected = twins.warp(image, matrix, image.shape[:2], way)
    assert np.mean(np.abs(made["image"].astype(int) - expected) > 1) < 1e-3
    np.testing.assert_allclose(
        made["boxes"], twins.boxes_after(given_one["boxes"], matrix, (61, 83)), atol=1e-9
    )
    assert len(made["boxes"]) == len(made["label"]) == len(made["masks"])
    mask = twins.warp(given_one["mask"][..., None].astype(float), matrix, (61, 83), "nearest")[..., 0]
    assert np.mean(made["mask"] != mask) < 1e-3 and made["mask"].dtype == np.int64
    x, y, one = matrix @ [20.5, 10.5, 1]
    np.testing.assert_allclose(made["points"], [[[x / one, y / one]]])
    assert given_one["boxes"].shape == (4, 4) and given_one["image"] is image


def test_an_expanded_turn_holds_the_whole_picture():
    """Every pixel of a picture turned by a quarter is there; at other angles its size is the bounding box's."""
    image = picture()
    for angle, turns in ((90, 1), (180, 2), (270, 3)):
        turned = lki.RandomRotate((angle, angle), expand=True).random_map(image, generator(0))
        np.testing.assert_array_equal(turned, np.rot90(image, turns))
    wide = lki.RandomRotate((30, 30), expand=True).random_map(image, generator(0))
    assert wide.shape == (95, 103, 3)


MOVES = [
    lki.CenterCrop((30, 91), **PLACES),
    lki.Pad((3, 1, 4, 2), fill=7, **PLACES),
    lki.Pad(5, padding_mode="symmetric", **PLACES),
    lki.RandomCrop(padding=9, size=(40, 50), fill=3, **PLACES),
    lki.RandomFlip(1, **PLACES),
    lki.RandomFlip(1, "vertical", **PLACES),
    lki.RandomRotate((90, 90), expand=True, **PLACES),
    lki.RandomRotate(40, **PLACES),
    lki.RandomAffine(20, (0.2, 0.2), (0.7, 1.4), 10, **PLACES),
    lki.RandomPerspective(0.5, 1, **PLACES),
    lki.Resize((122, 166), "nearest", **PLACES),
    lki.RandomResizedCrop((122, 166), (0.5, 1), interpolation="nearest", **PLACES),
    lki.RandAugment(**PLACES),
    lki.TrivialAugment(**PLACES),
]


def apply(operation, one, number=0):
    if hasattr(operation, "random_map"):
        return operation.random_map(one, generator(number))
    return operation.map(one)


@pytest.mark.parametrize("operation", MOVES, ids=repr)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_boxes_masks_and_points_move_with_the_picture(operation, seed):
    """A bright rectangle is found again within the box, and where the mask is; a point is at its pixel."""
    image = np.zeros((61, 83), np.uint8)
    image[10:30, 20:60] = 200
    one = element(image)
    one["boxes"][3] = (0, 0, 83, 61)
    made = apply(operation, one, seed)
    moved = type(operation) not in (lki.RandAugment, lki.TrivialAugment)  # others change values too
    if isinstance(operation, lki.Pad) and operation.padding_mode == "symmetric":
        return
    assert made["mask"].shape == made["image"].shape
    height, width = made["image"].shape
    assert (made["boxes"] >= 0).all() and (made["boxes"] <= (width, height, width, height)).all()
    if not moved:
        return
    bright = made["image"] == 200 if operation.__dict__.get("interpolation") != "linear" else made["mask"] > 0
    if type(operation) is not lki.Pad:
        np.testing.assert_array_equal(bright, made["mask"] > 0)
    rows, columns = np.nonzero(bright)
    if "a" in made["label"]:
        x1, y1, x2, y2 = made["boxes"][made["label"].index("a")]
        assert x1 - 1 <= columns.min() and columns.max() + 1 <= x2 + 1
        assert y1 - 1 <= rows.min() and rows.max() + 1 <= y2 + 1
        assert made["masks"][made["label"].index("a")].sum() == bright.sum()
    x, y = made["points"][0, 0]
    if 1 <= x < width - 1 and 1 <= y < height - 1:
        assert bright[int(y) - 1 : int(y) + 2, int(x) - 1 : int(x) + 2].any()


@pytest.mark.parametrize("kind", [lki.DecodeRandomResizedCrop, lki.DecodeCenterCrop])
def test_boxes_and_masks_move_with_a_decoded_crop(kind):
    """A bright rectangle of a PNG is where its box and its mask are after the crop, as of the decoded picture."""
    image = np.zeros((120, 160, 3), np.uint8)
    image[40:80, 60:110] = 255
    one = {"image": encoded(image, "PNG"), "mask": image[..., 0], "boxes": np.array([[60, 40, 110, 80.0]])}
    places = {"key": "image", "boxes": "boxes", "masks": "mask"}
    made = apply(kind(64, **places), one, 3)
    assert made["image"].shape == (64, 64, 3) and made["mask"].shape == (64, 64)
    assert np.mean((made["image"][..., 0] > 127) != (made["mask"] > 127)) < 0.05
    rows, columns = np.nonzero(made["mask"])
    box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    np.testing.assert_allclose(made["boxes"], [box], atol=1.5)
    if kind is lki.DecodeRandomResizedCrop:
        of_pixels = apply(lki.RandomResizedCrop(64, **places), one | {"image": image}, 3)
        for name, leaf in made.items():
            np.testing.assert_array_equal(of_pixels[name], leaf)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32))
@settings(max_examples=30)
def test_an_erased_rectangle_is_the_only_change(height, width, seed):
    """Of one value, within the asked shares of the area, and the given picture stays as it was."""
    image = np.ones((height, width, 3), np.float32)
    made = lki.RandomErasing(1, value=(0, 2, 3)).random_map(image, generator(seed))
    rows, columns = np.nonzero(made[..., 0] == 0)
    assert (image == 1).all()
    if made is image:
        return
    if len(rows):
        part = made[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert (part == (0, 2, 3)).all() and len(rows) == part.shape[0] * part.shape[1]
    assert np.mean(made[..., 0] == 0) <= 0.33 + (height + width) / (height * width)


def test_magnitudes_are_the_papers():
    """The largest of each table of torchvision; half of the signed ones are negative."""
    ends = {name: policies.magnitude_of(name, 1.0, (331, 662), wide=True) for name in policies._NAMES}
    assert (ends["ShearX"], ends["TranslateY"], ends["Rotate"], ends["Color"]) == (0.99, 32.0, 135.0, 0.99)
    assert (ends["Posterize"], ends["Solarize"]) == (2.0, 0.0)
    ends = {name: policies.magnitude_of(name, 1.0, (331, 662), wide=False) for name in policies._NAMES}
    assert (ends["ShearX"], ends["TranslateX"], ends["Rotate"], ends["Color"]) == (0.3, 300.0, 30.0, 0.9)
    assert (ends["Posterize"], ends["Solarize"], len(ends)) == (4.0, 0.0, 14)


def test_policies_reach_every_operation():
    """In many draws a gray picture with an edge is changed in as many ways, and stays by the identity."""
    image = picture()
    made = {lki.TrivialAugment(3).random_map(image, generator(seed)).tobytes() for seed in range(400)}
    assert len(made) > 30 and image.tobytes() in made
    assert lki.RandAugment(0).random_map(image, generator(0)) is image


@pytest.mark.parametrize("kind", [lki.MixUp, lki.CutMix])
def test_rows_are_mixed_within_their_groups(kind):
    """Each with the one before it in its group, by one share, which its labels have too."""
    rows = np.arange(10)
    images = np.broadcast_to(rows[:, None, None, None] * 10.0, (10, 8, 8, 1)).astype(np.float32)
    asked: list[int] = []

    def rng(row):
        asked.append(row)
        return generator(row)

    made = kind(0, 1, 10, group=4).random_map((images, rows), rng)
    assert asked == [0, 4, 8] and (images[3] == 30).all()
    for first, last in ((0, 4), (4, 8), (8, 10)):
        for row in range(first, last):
            before = row - 1 if row > first else last - 1
            share = made[1][row, row]
            assert made[1][row, before] == pytest.approx(1 - share) and 0 <= share <= 1
            assert made[0][row].mean() == pytest.approx(
                row * 10 * share + before * 10 * (1 - share), abs=1e-4
            )
            if kind is lki.CutMix:
                assert set(np.unique(made[0][row])) <= {row * 10, before * 10}


def test_labels_of_classes_are_mixed_as_they_are():
    """Floats keep their dtype; labels beyond num_classes, and what is no batch, are named."""
    images, labels = np.zeros((2, 4, 4, 3), np.uint8), np.eye(2)
    made = lki.MixUp("x", "y").random_map({"x": images, "y": labels}, generator)
    assert made["y"].dtype == np.float64 and made["x"].dtype == np.uint8
    for batch, text in (
        ({"x": images, "y": np.array([0, 2])}, "num_classes: .* got 2 for int64 from 0 to 2"),
        ({"x": images[0, 0], "y": labels}, "key: expected images"),
        ({"x": images, "y": [0, 1]}, "labels: expected an array"),
        ({"x": images > 0, "y": labels}, "key: expected a dtype that OpenCV adds, got bool"),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            lki.MixUp("x", "y", 2).random_map(batch, generator)


ONE_PIXEL = [
    lki.RandomResizedCrop(3),
    lki.CenterCrop(3),
    lki.Pad(2, padding_mode="symmetric"),
    lki.RandomRotate(180),
    lki.RandomAffine(30, (0.5, 0.5), (0.5, 2), 10),
    lki.RandomPerspective(1, 1),
    lki.ColorJitter(0.5, 0.5, 0.5, 0.5),
    lki.RandomGrayscale(1),
    lki.GaussianBlur(9),
    lki.RandomErasing(1),
    lki.RandAugment(9),
    lki.TrivialAugment(),
]


@pytest.mark.parametrize("operation", ONE_PIXEL, ids=repr)
def test_small_and_strange_pictures(operation):
    """One pixel, strips, views and each number of channels: a picture of the kind, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((1, 1), (1, 1, 3), (1, 7, 1), (9, 1, 2), (5, 6, 4)):
            for number in range(6):
                image = generator(number).integers(0, 256, shape, np.uint8)
                made = apply(operation, image[::-1], number)
                assert made.dtype == np.uint8 and made.ndim == len(shape) and made.shape[2:] == shape[2:]


@pytest.mark.parametrize("operation", ONE_PIXEL, ids=repr)
def test_views_of_any_order_of_memory_are_pictures_as_their_copies_are(operation):
    """Such as one of torch, whose channels come first in memory, and a mirrored one: equal, and none is changed."""
    only_bytes = isinstance(operation, lki.RandAugment | lki.TrivialAugment)
    for dtype in (np.uint8,) if only_bytes else (np.uint8, np.uint16, np.float32):
        given = np.ascontiguousarray(picture()[:20, :24].transpose(2, 0, 1)).astype(dtype)
        if dtype == np.float32:
            given /= 255
        before = given.copy()
        for image in (given.transpose(1, 2, 0), given.transpose(2, 1, 0)[::-1, 1:]):
            for number in range(3):
                expected = apply(operation, image.copy(order="C"), number)
                np.testing.assert_array_equal(apply(operation, image, number), expected)
        assert np.array_equal(given, before)


@pytest.mark.parametrize("dtype", [">u2", ">f4"])
def test_pixels_of_another_byte_order_have_their_values(dtype):
    """As files of other machines have them: OpenCV reads all bytes in the order of this one."""
    given = photograph()[:40, :40].astype(dtype)
    same = given.astype(dtype[1:])
    for operation in (
        lki.Resize(9),
        lki.RandomRotate(30, "linear"),
        lki.GaussianBlur(3),
        lki.ColorJitter(0.5),
    ):
        np.testing.assert_array_equal(apply(operation, given, 1), apply(operation, same, 1))
    for kind in (lki.MixUp, lki.CutMix):
        one, other = (
            kind("x", "y", 2).random_map({"x": np.stack([each, each[::-1]]), "y": np.arange(2)}, generator)
            for each in (given, same)
        )
        np.testing.assert_array_equal(one["x"], other["x"])


def test_a_large_picture_is_cut_without_a_copy_of_it():
    """20,000 x 20,000: memory that is never touched stays untouched."""
    image = np.zeros((20_000, 20_000), np.uint8)
    image[10_000, 10_000] = 9
    one = {"x": image, "b": np.array([[9_990, 9_990, 19_999, 20_000]])}
    made = lki.CenterCrop(64, key="x", boxes="b").map(one)
    assert made["x"][32, 32] == 9 and made["b"].tolist() == [[22, 22, 64, 64]]
    strip = lki.RandomRotate((180, 180)).random_map(image[9_999:10_001], generator(0))
    assert strip.shape == (2, 20_000) and strip[0, 9_999] == 9


def test_what_does_not_fit_is_named():
    """Boxes, masks and labels of other shapes, channels and dtypes that OpenCV can't take, values without a mean."""
    one = element(picture())
    cases = [
        (one | {"boxes": np.zeros((2, 5))}, r"boxes: expected an array of numbers \(n, 4\), got float64"),
        (one | {"boxes": [[1, 2, 3, 4]]}, r"boxes: .* got list; make it one in a Map"),
        (
            one | {"mask": one["mask"][1:]},
            r"masks: expected an array \(..., 61, 83\), as the picture, got int64 of shape \(60, 83\)",
        ),
        (one | {"points": np.zeros(3)}, r"keypoints: expected an array of numbers \(n, 2\)"),
        (one | {"label": ["a"]}, "labels: expected an entry for each of 4 boxes, got 1"),
        (one | {"masks": one["masks"][:3]}, "masks: expected one for each of 4 boxes, got 3"),
    ]
    for bad, text in cases:
        with pytest.raises((TypeError, ValueError), match=text):
            lki.RandomFlip(**PLACES).random_map(bad, generator(0))
    batch = {"image": np.zeros((2, 4, 4)), "label": np.array([0, 1, 1])}
    with pytest.raises(ValueError, match="labels: expected one for each of 2 images, got 3"):
        lki.MixUp("image", "label", 2).random_map(batch, generator)
    five = np.zeros((4, 4, 5), np.uint8)
    for operation in (lki.RandomRotate(9), lki.ColorJitter(1), lki.TrivialAugment(), lki.RandomGrayscale(1)):
        with pytest.raises(ValueError, match=r"image of 1 to 4 channels, got shape \(4, 4, 5\)"):
            operation.random_map(five, generator(0))
    with pytest.raises(TypeError, match=r"image of uint8, got float32; put ToFloat behind"):
        lki.RandAugment().random_map(np.zeros((4, 4), np.float32), generator(0))
    with pytest.raises(TypeError, match="OpenCV can't warp complex64"):
        lki.RandomRotate(9).random_map(np.zeros((4, 4), np.complex64), generator(0))
    with pytest.raises(TypeError, match="OpenCV can't blur int64"):
        lki.GaussianBlur(3).random_map(np.zeros((4, 4), np.int64), generator(0))
    with pytest.raises(ValueError, match="fill: expected one number or 1, one for each channel, got 3"):
        lki.Pad(1, (1, 2, 3)).map(np.zeros((4, 4), np.uint8))
    with pytest.raises(ValueError, match="finite numbers, got NaN or infinite ones"):
        lki.ColorJitter(contrast=0.5).random_map(np.full((4, 4, 3), np.nan, np.float32), generator(0))


def test_nan_stays_where_no_mean_is_taken():
    """Crops, flips and colours of a pixel keep it; boxes with NaN are left out, and empty ones stay empty."""
    image = np.zeros((6, 6, 3), np.float32)
    image[2, 3, 1] = np.nan
    for operation in (lki.CenterCrop(6), lki.RandomFlip(1), lki.ColorJitter(brightness=0.5), lki.Pad(1)):
        assert np.isnan(apply(operation, image)).sum() == 1
    for boxes in (np.full((2, 4), np.nan), np.zeros((0, 4), np.int32)):
        for operation in (lki.RandomFlip(1, key=0, boxes=1), lki.RandomRotate(30, key=0, boxes=1)):
            made = operation.random_map((image, boxes), generator(0))[1]
            assert made.shape == (0, 4) and made.dtype == boxes.dtype
    masks = np.zeros((0, 6, 6), bool)
    assert lki.RandomRotate(9, key=0, masks=1).random_map((image, masks), generator(0))[1].shape == (0, 6, 6)
