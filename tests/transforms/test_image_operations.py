"""Operations on decoded images against naive twins, and the arguments of all operations."""

import json
import pickle
import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from image_files import generator, photograph
from PIL import Image

import loaderkit as lk
from loaderkit._base.tree import flatten, structure_of
from loaderkit.transforms import image as lki

dtypes = st.sampled_from(["u1", "i1", "u2", "i2", "u4", "i4", "i8", "f2", "f4", "f8", ">f4", "?"])
shapes = st.one_of(
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=9),
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 6)),
)
images = dtypes.flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), shapes, elements={"allow_nan": False} if "f" in dtype else None)
)
seeds = st.integers(0, 2**64 - 1)


def same(one: np.ndarray, other: np.ndarray) -> None:
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    np.testing.assert_array_equal(one, other)


@given(images, seeds, st.sampled_from(["horizontal", "vertical"]), st.booleans())
def test_flip_is_a_mirror(image, seed, axis, transposed):
    """The first number of the generator chooses between the image and numpy's mirror of it; views work, too."""
    image = image.swapaxes(0, 1) if transposed else image
    mirrored = image[:, ::-1] if axis == "horizontal" else image[::-1]
    expected = mirrored if generator(seed).random() < 0.5 else image
    same(lki.RandomFlip(axis=axis).random_map(image, generator(seed)), expected)
    same(lki.RandomFlip(1, axis=axis).random_map(image, generator(seed)), mirrored)
    same(lki.RandomFlip(0, axis=axis).random_map(image, generator(seed)), image)


def test_half_of_the_images_are_flipped():
    """Near the probability, over many records."""
    image = np.array([[0, 1]], np.uint8)
    flipped = sum(int(lki.RandomFlip(0.25).random_map(image, generator(seed))[0, 0]) for seed in range(4000))
    assert 880 < flipped < 1120


@given(images, seeds, st.integers(0, 5), st.data())
def test_crop_is_pad_and_slice(image, seed, padding, data):
    """numpy pads, then cuts at the place that the generator's two numbers say."""
    height, width = image.shape[:2]
    size = data.draw(
        st.none() | st.tuples(st.integers(1, height + 2 * padding), st.integers(1, width + 2 * padding))
    )
    tall, wide = size or (height, width)
    border = [(padding, padding)] * 2 + [(0, 0)] * (image.ndim - 2)
    padded = np.pad(image, border, constant_values=image.dtype.type(1))
    rng = generator(seed)
    top, left = rng.integers(0, padded.shape[0] - tall + 1), rng.integers(0, padded.shape[1] - wide + 1)
    crop = lki.RandomCrop(padding=padding, size=size, fill=1).random_map(image, generator(seed))
    same(crop, padded[top : top + tall, left : left + wide])


def test_crop_reaches_every_place():
    """All (2 * 2 + 1) squared places of a border of two pixels."""
    image = np.arange(1, 10, dtype=np.uint8).reshape(3, 3)
    crops = {lki.RandomCrop(padding=2).random_map(image, generator(seed)).tobytes() for seed in range(600)}
    assert len(crops) == 25


unit = st.floats(-2, 2, width=32)


@given(
    hnp.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))),
    st.tuples(unit, unit, unit),
    st.tuples(*[st.floats(0.0625, 4, width=32)] * 3),
)
def test_normalize_is_mean_and_deviation(image, mean, std):
    """For integers it is ToFloat and Normalize in one, within float32's rounding of the plain formula."""
    expected = (image / 255 - np.array(mean)) / np.array(std)
    in_one = lki.Normalize(mean, std).map(image)
    in_two = lki.Normalize(mean, std).map(lki.ToFloat().map(image))
    assert in_one.dtype == in_two.dtype == np.float32
    np.testing.assert_allclose(in_one, expected, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(in_two, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "u4", "i8", "f4", "f8"])
def test_floats_are_from_zero_to_one(dtype):
    """Integers by their largest value, floats as they are; a channel axis isn't needed."""
    largest = 1 if dtype[0] == "f" else np.iinfo(dtype).max
    image = np.array([[0, largest]], dtype)
    same(lki.ToFloat().map(image), np.array([[0, 1]], np.float32))
    np.testing.assert_allclose(lki.Normalize([0.5], [0.25]).map(image), [[-2, 2]], rtol=1e-6)


@given(images)
def test_channels_first_is_a_transposition(image):
    """In its own dtype, contiguous; an image without channels is an error."""
    if image.ndim == 2:
        with pytest.raises(ValueError, match=r"\(height, width, channels\), got shape"):
            lki.HWCToCHW().map(image)
        return
    first = lki.HWCToCHW().map(image)
    same(first, np.moveaxis(image, 2, 0))
    assert first.flags.c_contiguous


@pytest.mark.parametrize("channels", [(), (1,), (3,), (4,)])
@pytest.mark.parametrize("interpolation", ["linear", "area", "cubic", "nearest"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_resize_keeps_dtype_and_channels(dtype, interpolation, channels):
    """One int is the shorter side; a pair is both; an image of the size stays as it is."""
    image = generator(1).integers(0, 200, (20, 30, *channels)).astype(dtype)
    for size, shape in [(10, (10, 15)), (40, (40, 60)), ((7, 3), (7, 3)), (20, (20, 30))]:
        out = lki.Resize(size, interpolation).map(image)
        assert (out.shape, out.dtype) == ((*shape, *channels), dtype)
    same(lki.Resize((20, 30), interpolation).map(image), image)


def test_shrinking_far_takes_means():
    """By four in each axis, both smooth interpolations are means of 4 x 4; nearest keeps values of the image."""
    image = photograph()[:400, :640].astype(np.float32)
    means = image.reshape(100, 4, 160, 4, 3).mean((1, 3))
    for interpolation in ("linear", "area"):
        np.testing.assert_allclose(lki.Resize((100, 160), interpolation).map(image), means, atol=1e-3)
    mask = generator(2).choice(np.array([3, 200], np.uint8), (50, 50))
    assert set(np.unique(lki.Resize(20, "nearest").map(mask))) == {3, 200}


ALL = [
    lki.Decode(),
    lki.DecodeCenterCrop(8),
    lki.DecodeRandomResizedCrop((8, 9), decoder="simplejpeg"),
    lki.Resize(8),
    lki.RandomResizedCrop((8, 9), (0.5, 1), masks="mask", key="x"),
    lki.RandomCrop(padding=4, fill=0.5),
    lki.RandomFlip(),
    lki.Normalize([0.5], [0.5]),
    lki.ToFloat(),
    lki.HWCToCHW(),
    lki.CenterCrop((8, 9)),
    lki.Pad((1, 2, 3, 4), (1, 2, 3), key="x", boxes="boxes", labels=["label", "crowd"]),
    lki.RandomRotate(30, expand=True, key="x", masks="mask", keypoints=("points", 0)),
    lki.RandomAffine((-3, 3), (0.1, 0.2), (0.5, 2), (-1, 1, -2, 2)),
    lki.RandomPerspective(fill=7),
    lki.ColorJitter(0.4, (0.5, 1), 0.4, 0.1),
    lki.RandomGrayscale(),
    lki.GaussianBlur((3, 5)),
    lki.RandomErasing(value="random"),
    lki.RandAugment(3),
    lki.TrivialAugment(),
    lki.MixUp("image", "label", 10),
    lki.CutMix(0, 1, group=4),
]


@pytest.mark.parametrize("operation", ALL, ids=repr)
def test_operations_travel_and_show_their_arguments(operation):
    """Equal after pickling, by either pickler, and a repr that makes an equal one."""
    assert isinstance(operation, lk.Map | lk.RandomMap)
    for copy in (pickle.loads(pickle.dumps(operation)), cloudpickle.loads(cloudpickle.dumps(operation))):
        assert copy == operation
    assert eval(repr(operation), vars(lki)) == operation


# The arguments of the operations that need some.
NEEDED = {
    lki.Resize: {"size": 4},
    lki.RandomResizedCrop: {"size": 4},
    lki.DecodeCenterCrop: {"size": 4},
    lki.DecodeRandomResizedCrop: {"size": 4},
    lki.CenterCrop: {"size": 4},
    lki.Pad: {"padding": 1},
    lki.RandomRotate: {"degrees": 20},
    lki.RandomAffine: {"degrees": 20},
    lki.GaussianBlur: {"kernel_size": 3},
}
PIXELS = [
    lki.Resize,
    lki.RandomResizedCrop,
    lki.RandomCrop,
    lki.RandomFlip,
    lki.ToFloat,
    lki.HWCToCHW,
    lki.CenterCrop,
    lki.Pad,
    lki.RandomRotate,
    lki.RandomAffine,
    lki.RandomPerspective,
    lki.ColorJitter,
    lki.RandomGrayscale,
    lki.GaussianBlur,
    lki.RandomErasing,
    lki.RandAugment,
    lki.TrivialAugment,
]


def apply(operation, element):
    if isinstance(operation, lk.RandomMap):
        return operation.random_map(element, generator(0))
    return operation.map(element)


@pytest.mark.parametrize("kind", PIXELS)
def test_other_leaves_stay(kind):
    """With a key only the image changes: the dict keeps its kind, and the given one is left alone."""
    operation = kind(**NEEDED.get(kind, {}), key="x")
    image = photograph()[:6, :8]
    element = OrderedDict(y=[1], x=image, z=None)
    answer = apply(operation, element)
    assert type(answer) is OrderedDict and list(answer) == ["y", "x", "z"]
    assert answer["y"] is element["y"] and element["x"] is image


class Pair(NamedTuple):
    image: Any
    label: int


@dataclass(frozen=True, slots=True)
class Record:
    image: Any
    label: int


@pytest.mark.parametrize("kind", PIXELS)
@pytest.mark.parametrize(
    ("container", "key"),
    [
        (tuple, 0),
        (list, np.int64(0)),
        (tuple, -2),
        (Pair._make, 0),
        (Pair._make, "image"),
        (lambda held: Record(*held), "image"),
        (lambda held: {0: held[0], 1: held[1]}, 0),
        (lambda held: {("left", 0): held[0], "label": held[1]}, ("left", 0)),
        (lambda held: {"inputs": (held[0], {}), "label": held[1]}, ("inputs", 0)),
        (lambda held: [Record(held[0], 0), held[1]], (0, "image")),
    ],
)
def test_an_image_is_where_the_key_says(kind, container, key):
    """In a dict, a tuple, a list, a named tuple or a dataclass: a new one of its kind, with its other leaves."""
    given = NEEDED.get(kind, {})
    image, label = photograph()[:6, :8], object()
    element = container((image, label))
    answer = apply(kind(**given, key=key), element)
    assert type(answer) is type(element) and answer is not element
    (found, *_, other), structure = flatten(answer)
    assert other is label and structure == structure_of(element)
    np.testing.assert_array_equal(found, apply(kind(**given), image))
    assert flatten(element)[0][0] is image


@pytest.mark.parametrize("kind", [*PIXELS, lki.Decode, lki.DecodeCenterCrop, lki.DecodeRandomResizedCrop])
def test_what_can_be_no_key_is_refused_at_once(kind):
    """When the operation is made, not in a worker."""
    given = NEEDED.get(kind, {})
    with pytest.raises(
        TypeError, match=r"key: expected a dict's key, a position, the name of a field, .* got \[0\]"
    ):
        kind(**given, key=[0])


@pytest.mark.parametrize("kind", PIXELS)
def test_elements_that_do_not_fit_are_named(kind):
    """A missing key or position, a container without a key argument, bytes that weren't decoded, no pixels."""
    given = NEEDED.get(kind, {})
    image = np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(
        KeyError, match=r"leaf 'image': expected a place in the element, got a dict with the keys \['img'\]"
    ):
        apply(kind(**given, key="image"), {"img": image})
    with pytest.raises(
        TypeError, match=r"key: expected the place of a leaf in a dict .*, got None; give key=\.\.\."
    ):
        apply(kind(**given), {"img": image})
    with pytest.raises(TypeError, match=r"leaf 'image': .* got a tuple with the positions 0 to 1"):
        apply(kind(**given, key="image"), (image, 1))
    for key in (2, -3):
        with pytest.raises(IndexError, match=rf"leaf {key}: .* got a list with the positions 0 to 1"):
            apply(kind(**given, key=key), [image, 1])
    with pytest.raises(TypeError, match=r"leaf True: .* got a tuple with the positions 0 to 1"):
        apply(kind(**given, key=True), (image, 1))
    with pytest.raises(KeyError, match=r"leaf 'img': .* got a Pair with the fields \['image', 'label'\]"):
        apply(kind(**given, key="img"), Pair(image, 1))
    with pytest.raises(KeyError, match=r"leaf 0: .* got a Record with the fields \['image', 'label'\]"):
        apply(kind(**given, key=0), Record(image, 1))
    with pytest.raises(
        TypeError, match=r"leaf 0: expected a place in the element, got ndarray itself; leave the key"
    ):
        apply(kind(**given, key=0), image)
    with pytest.raises(TypeError, match=r"expected a decoded image, got bytes; put Decode\(\)"):
        apply(kind(**given), b"\xff\xd8")
    for held in ([image, 2], (image, 2), Pair(image, 2), Record(image, 2)):
        with pytest.raises(TypeError, match=r"expected the place of a leaf in a \w+ with the .*, got None"):
            apply(kind(**given), held)
    with pytest.raises(TypeError, match=r"expected an array \(height, width, channels\), got float"):
        apply(kind(**given), 1.0)
    with pytest.raises(ValueError, match=r"with pixels, got shape \(0, 4, 3\)"):
        apply(kind(**given), image[:0])
    with pytest.raises(ValueError, match=r"got shape \(1, 4, 4, 3\); for a batch write .* before lk.Batch"):
        apply(kind(**given), image[None])
    with pytest.raises(TypeError, match=r"got Image; write lk\.Map\(np\.asarray\) before"):
        apply(kind(**given), Image.fromarray(image))


BAD_ARGUMENTS = [
    (lambda: lki.DecodeRandomResizedCrop(0), ValueError, "size: expected 1 or more, got 0"),
    (lambda: lki.DecodeRandomResizedCrop(224.0), TypeError, "size: expected an int, got 224.0"),
    (
        lambda: lki.DecodeRandomResizedCrop((1, 2, 3)),
        ValueError,
        r"size: expected an int or \(height, width\)",
    ),
    (
        lambda: lki.DecodeRandomResizedCrop(8, scale=(0.5, 1.5)),
        ValueError,
        r"scale: .* high <= 1, got \(0.5, 1.5\)",
    ),
    (
        lambda: lki.DecodeRandomResizedCrop(8, scale=0.5),
        TypeError,
        "scale: expected a pair of numbers, got 0.5",
    ),
    (
        lambda: lki.DecodeRandomResizedCrop(8, ratio=(2, 1)),
        ValueError,
        r"ratio: .* 0 < low <= high, got \(2, 1\)",
    ),
    (
        lambda: lki.DecodeRandomResizedCrop(8, ratio=(1, np.inf)),
        ValueError,
        "ratio: expected a finite number",
    ),
    (lambda: lki.DecodeCenterCrop(8, fraction=0), ValueError, "fraction: expected 0 < fraction <= 1, got 0"),
    (
        lambda: lki.DecodeCenterCrop(8, interpolation="bilinear"),
        ValueError,
        r"interpolation: .*'linear'.*got 'bilinear'",
    ),
    (
        lambda: lki.DecodeCenterCrop(8, decoder="pillow"),
        ValueError,
        r"decoder: .*\['opencv', 'simplejpeg'\], got 'pillow'",
    ),
    (lambda: lki.DecodeCenterCrop(8, reduced=1), TypeError, "reduced: expected True or False, got 1"),
    (lambda: lki.Decode(upright=None), TypeError, "upright: expected True or False, got None"),
    (lambda: lki.RandomCrop(padding=-1), ValueError, "padding: expected 0 or more, got -1"),
    (lambda: lki.RandomCrop(padding=1, fill="black"), TypeError, "fill: expected a number, got 'black'"),
    # torchvision's and Keras' first argument is the size, here it was the padding.
    (
        lambda: lki.RandomCrop(24),
        TypeError,
        r"takes keyword arguments: RandomCrop\(size=24\) .*RandomCrop\(padding=4",
    ),
    (lambda: lki.RandomCrop(32, 4), TypeError, "takes keyword arguments"),
    (lambda: lki.RandomCrop(padding=4, pad=1), TypeError, "has no argument pad"),
    (lambda: lki.RandomFlip("horizontal"), TypeError, "probability: expected a number, got 'horizontal'"),
    (lambda: lki.Resize(24, 24), ValueError, "interpolation: expected one of"),
    (lambda: lki.DecodeCenterCrop(24, 24), ValueError, "fraction: expected 0 < fraction <= 1, got 24"),
    (lambda: lki.DecodeRandomResizedCrop(24, 24), TypeError, "scale: expected a pair of numbers, got 24"),
    (lambda: lki.RandomFlip(p=1), TypeError, r"RandomFlip\(\) has no argument p; write instead: probability"),
    (lambda: lki.Resize(4, "bicubic"), ValueError, "got 'bicubic'; write 'cubic'"),
    (lambda: lki.Resize(4, "box"), ValueError, "got 'box'; write 'area'"),
    (lambda: lki.RandomFlip(1.5), ValueError, "probability: expected 0 <= probability <= 1, got 1.5"),
    (
        lambda: lki.RandomFlip(axis=1),
        ValueError,
        r"axis: expected one of \['horizontal', 'vertical'\], got 1",
    ),
    (lambda: lki.Normalize([0.5], [0.5, 0.5]), ValueError, "one number each for each channel, got 1 and 2"),
    (lambda: lki.Normalize([0.5], [0.0]), ValueError, r"std: expected positive numbers, got \(0.0,\)"),
    (lambda: lki.Normalize(["a"], [1]), TypeError, "mean: expected a number, got 'a'"),
    (lambda: lki.Resize(True), TypeError, "size: expected an int, got True"),
    (lambda: lki.Resize(4, boxes="boxes"), ValueError, "key: expected the picture's place beside boxes"),
    (
        lambda: lki.Resize(4, key="x", labels="y"),
        ValueError,
        "labels: expected entries for each box of one leaf, got boxes=None",
    ),
    (lambda: lki.Resize(4, key="x", boxes=[[]]), TypeError, r"boxes: expected a dict's key.*got \[\]"),
    (
        lambda: lki.Pad((1, 2, 3)),
        ValueError,
        r"padding: expected an int, or 2 or 4 for the sides, got \(1, 2, 3\)",
    ),
    (lambda: lki.Pad(-1), ValueError, "padding: expected 0 or more, got -1"),
    (lambda: lki.Pad(1, padding_mode="wrap"), ValueError, "padding_mode: expected one of"),
    (lambda: lki.Pad(1, fill=(1, "a")), TypeError, "fill: expected a number, got 'a'"),
    (lambda: lki.RandomRotate(-3), ValueError, "degrees: expected 0 or more, or"),
    (lambda: lki.RandomRotate((3, 1)), ValueError, r"degrees: .*low <= high, got \(3, 1\)"),
    (lambda: lki.RandomRotate(3, center=4), TypeError, "center: expected a pair of numbers, got 4"),
    (
        lambda: lki.RandomRotate(3, "bilinear"),
        ValueError,
        "interpolation: .*'linear'.*got 'bilinear'; write 'linear'",
    ),
    (lambda: lki.RandomAffine(3, (0.5, 2)), ValueError, "translate: expected 0 <= translate <= 1, got 2"),
    (lambda: lki.RandomAffine(3, scale=(0, 2)), ValueError, "scale: expected .* 0 < low"),
    (lambda: lki.RandomAffine(3, shear=(1, 2, 3)), TypeError, "shear: expected a pair of numbers"),
    (lambda: lki.RandomPerspective(2), ValueError, "distortion_scale: expected 0 <= distortion_scale <= 1"),
    (lambda: lki.ColorJitter(-1), ValueError, "brightness: expected 0 or more"),
    (lambda: lki.ColorJitter(hue=0.6), ValueError, "hue: expected at most 0.5"),
    (lambda: lki.GaussianBlur(4), ValueError, "kernel_size: expected odd numbers, got 4"),
    (lambda: lki.GaussianBlur(3, 0), ValueError, "sigma: expected"),
    (lambda: lki.RandomErasing(value="noise"), TypeError, "value: expected a number, got 'noise'"),
    (lambda: lki.RandomErasing(1.5), ValueError, "p: expected 0 <= p <= 1, got 1.5"),
    (lambda: lki.RandAugment(magnitude=31), ValueError, "magnitude: expected"),
    (lambda: lki.MixUp(None, "y"), ValueError, "key: expected a place in the batch, got None"),
    (lambda: lki.CutMix("x", "y", alpha=0), ValueError, "alpha: expected a positive number, got 0"),
]


@pytest.mark.parametrize(("make", "error", "text"), BAD_ARGUMENTS)
def test_bad_arguments_are_named(make, error, text):
    """When the operation is made, not in a worker."""
    with pytest.raises(error, match=text):
        make()


def test_images_that_do_not_fit_the_arguments_are_named():
    """The error has both sides of the mismatch."""
    image = np.zeros((4, 5, 3), np.uint8)
    with pytest.raises(ValueError, match=r"size: expected at most the image of \(4, 5\) with padding=1"):
        lki.RandomCrop(padding=1, size=9).random_map(image, generator(0))
    with pytest.raises(ValueError, match=r"expected 3 numbers for an image of shape \(4, 5, 3\), got 1"):
        lki.Normalize([0.5], [0.5]).map(image)
    with pytest.raises(TypeError, match="expected an image of integers or floats, got bool"):
        lki.ToFloat().map(image > 0)
    with pytest.raises(TypeError, match="OpenCV can't resize complex64"):
        lki.Resize(2).map(image.astype(np.complex64))


@pytest.mark.parametrize("missing", ["cv2", "simplejpeg"])
def test_a_decoder_that_is_not_installed_is_never_replaced(monkeypatch, missing):
    """Another decoder would be another stream: the error says what to install."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"DecodeCenterCrop\(decoder='simplejpeg'\) needs .*: pip install"):
        lki.DecodeCenterCrop(8, decoder="simplejpeg")
    if missing == "simplejpeg":
        assert lki.DecodeCenterCrop(8) == lki.DecodeCenterCrop(8, decoder="opencv")
        return
    for make in (lki.Decode, lki.RandomFlip, lambda: lki.Resize(8), lambda: lki.DecodeRandomResizedCrop(8)):
        with pytest.raises(ImportError, match=r"needs opencv-python-headless: pip install '\.\[image\]'"):
            make()


def test_operations_import_their_libraries_where_they_run():
    """A script that makes them for its workers loads no decoder itself."""
    script = (
        "import json, sys; from loaderkit.transforms import image; "
        "image.DecodeRandomResizedCrop(8, decoder='simplejpeg'); print(json.dumps(sorted(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"cv2", "simplejpeg"} & set(json.loads(ran.stdout))
