"""Pictures as they are found: of 16 bits, four inks, turned, cut off, of one pixel, huge, gray; and their targets."""

import cv2
import numpy as np
import pytest
from image_files import by_pillow, encoded, generator

import loaderkit as lk
from loaderkit.transforms import image as lki
from loaderkit.transforms.image.header import read_header

COLOUR = generator(0).integers(0, 256, (24, 36, 3), np.uint8)
CROPS = [lki.DecodeCenterCrop(8, key="x"), lki.DecodeRandomResizedCrop(8, key="x")]


def read(*files, operations=(CROPS[0],), **how):
    """The pictures of a batch that a loader makes of files."""
    records = [{"x": file} for file in files]
    with (
        lk.load(
            records, operations=[*operations], batch_size=len(files), seed=0, num_epochs=1, **how
        ) as loader,
        iter(loader) as it,
    ):
        return next(it)["x"]


def cmyk() -> bytes:
    from PIL import Image

    return encoded(Image.fromarray(COLOUR).convert("CMYK"))


FOUND = {
    "16 bits": cv2.imencode(".png", COLOUR[..., ::-1].astype(np.uint16) * 257)[1].tobytes,
    "16 bits, TIFF": cv2.imencode(".tif", COLOUR[..., ::-1].astype(np.uint16) * 257)[1].tobytes,
    "four inks": cmyk,
    "turned": lambda: encoded(COLOUR, orientation=6),
    "gray": lambda: encoded(np.ascontiguousarray(COLOUR[..., 0])),
    "transparent": lambda: encoded(np.dstack([COLOUR, COLOUR[..., :1]]), "PNG"),
    "one pixel": lambda: encoded(COLOUR[:1, :1].copy()),
    "a column": lambda: encoded(COLOUR[:, :1].copy()),
}


@pytest.mark.parametrize("kind", FOUND)
def test_each_kind_is_rgb_of_uint8_among_others(kind):
    """It stacks with a colour picture, and its pixels are those that another library reads."""
    data = FOUND[kind]()
    for crop in CROPS:
        both = read(data, encoded(COLOUR), operations=[crop])
        assert (both.shape, both.dtype) == ((2, 8, 8, 3), np.uint8)
    if kind.startswith("16"):
        # The upper eight bits, within one for TIFF.
        assert np.abs(lki.Decode().map(data).astype(int) - COLOUR).max() <= 1
    else:
        expected = by_pillow(data, upright=True).astype(int)
        assert np.abs(lki.Decode().map(data) - expected).mean() <= 2


@pytest.mark.parametrize("kind", [".jpg", ".png", ".webp", ".bmp", ".tif"])
def test_a_file_that_is_cut_off_is_named(kind, capfd):
    """By its key and its first bytes; where bad records are left out, the others are the batch."""
    whole = cv2.imencode(kind, COLOUR)[1].tobytes()
    half = whole[: len(whole) // 2]
    with pytest.raises(ValueError, match="truncated") as error:
        read(whole, half, whole)
    assert "record_key 1" in "\n".join(error.value.__notes__)
    kept = read(whole, half, whole, on_record_error="skip", max_bad_records=1)
    np.testing.assert_array_equal(kept, read(whole, whole))
    capfd.readouterr()  # OpenCV prints what it found


def test_floats_in_a_tiff_are_an_error(capfd):
    """Which values would be 0 and 255 isn't known."""
    data = cv2.imencode(".tif", COLOUR.astype(np.float32))[1].tobytes()
    with pytest.raises(
        ValueError, match=r"another format that OpenCV reads, got .* bytes that start with b'II"
    ):
        read(data)
    capfd.readouterr()


def test_gray_arrays_among_colours_are_named():
    """Decoded ones aren't made RGB: the error has both shapes, or the picture's."""
    gray = COLOUR[..., 0]
    with pytest.raises(ValueError, match=r"leaf \['x'\] has shape \(24, 36, 3\) in the first and \(24, 36\)"):
        read(COLOUR, gray, operations=[])
    with pytest.raises(ValueError, match=r"expected 1 numbers for an image of shape \(24, 36\), got 3"):
        read(COLOUR, gray, operations=[lki.Normalize((0, 0, 0), (1, 1, 1), key="x")])


def huge(side: int) -> bytes:
    """A gray JPEG of side x side pixels of 128: each block is six bits, so four are three bytes."""
    small = encoded(np.full((8, 8), 128, np.uint8), quality=75)
    at, scan = read_header(small).height_at, small.rindex(b"\xff\xda")
    head = bytearray(small[: scan + 2 + int.from_bytes(small[scan + 2 : scan + 4])])
    head[at : at + 4] = side.to_bytes(2) * 2
    return bytes(head) + b"\x28\xa2\x8a" * ((side // 8) ** 2 // 4) + b"\xff\xd9"


@pytest.mark.parametrize("decoder", ["opencv", "simplejpeg"])
def test_a_huge_picture_is_reduced_while_it_is_decoded(decoder, nightly):
    """20,000 x 20,000, by day 4,000: an eighth of it is in memory, and its middle is found."""
    data = huge(20_000 if nightly else 4_000)
    for crop in (lki.DecodeCenterCrop(64, decoder=decoder).map, None):
        random = lki.DecodeRandomResizedCrop(64, scale=(0.9, 1), decoder=decoder)
        pixels = crop(data) if crop else random.random_map(data, generator(1))
        assert pixels.shape == (64, 64, 3) and (pixels == 128).all()


def test_a_large_part_is_a_view_of_its_picture():
    """A copy would take half of a crop's time; a small part doesn't keep the picture in memory."""
    for part, shared in ((22, True), (8, False)):
        made = lki.CenterCrop(part).map(COLOUR)
        assert np.shares_memory(made, COLOUR) == shared
        middle = slice(12 - part // 2, 12 + part // 2), slice(18 - part // 2, 18 + part // 2)
        np.testing.assert_array_equal(made, COLOUR[middle])


def test_boxes_outside_and_empty_masks_have_a_result():
    """Clipped, left out with their labels, or still none: documented in docs/images.md."""
    boxes = np.array([[-5.0, -5, 50, 50], [40, 30, 60, 50], [9, 9, 3, 20], [4, 4, 12, 12]])
    one = {
        "x": COLOUR,
        "boxes": boxes,
        "labels": np.arange(4),
        "masks": np.zeros((4, 24, 36), bool),
        "mask": np.zeros((24, 36), np.uint8),
    }
    places = {"key": "x", "boxes": "boxes", "labels": "labels", "masks": ["masks", "mask"]}
    flipped = lki.RandomFlip(1, **places).random_map(one, generator(0))
    assert flipped["boxes"].tolist() == [[0, 0, 36, 24], [24, 4, 32, 12]]
    assert flipped["labels"].tolist() == [0, 3] and flipped["masks"].shape == (2, 24, 36)
    assert not flipped["masks"].any() and not flipped["mask"].any()
    none = one | {"boxes": boxes[:0], "labels": np.arange(0), "masks": one["masks"][:0]}
    for operation in (
        lki.RandomRotate(30, **places),
        lki.RandomPerspective(0.5, 1, **places),
        lki.CenterCrop(8, **places),
    ):
        made = (
            operation.map(none)
            if isinstance(operation, lki.CenterCrop)
            else operation.random_map(none, generator(0))
        )
        assert made["boxes"].shape == (0, 4) and made["labels"].shape == (0,)
        assert made["masks"].shape == (0, *made["x"].shape[:2])
    decoded = lki.DecodeCenterCrop(8, **places).map(one | {"x": encoded(COLOUR)})
    assert decoded["masks"].shape[1:] == (8, 8) and len(decoded["masks"]) == len(decoded["boxes"])
