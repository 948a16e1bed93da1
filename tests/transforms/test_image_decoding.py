"""Decoding: the fast path against the plain one, both libraries, every kind of file."""

import io
import pickle

import cloudpickle
import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_files import IMAGENET_SAMPLE, by_pillow, encoded, generator, photograph

import loaderkit as lk
from loaderkit.transforms.image import Decode, DecodeCenterCrop, DecodeRandomResizedCrop
from loaderkit.transforms.image.decoders import decode_jpeg
from loaderkit.transforms.image.header import read_header
from loaderkit.transforms.image.region import Region, random_region

BOTH = pytest.mark.parametrize("decoder", ["opencv", "simplejpeg"])

# How far a reduction by the decoder may be from the mean of the same pixels, in levels of 255: on average over a
# picture, and at the worst pixel.
MEAN_LEVELS, WORST_LEVELS = 4, 64


def plain(data: bytes, size: int, seed: int) -> np.ndarray:
    """Decode it all, crop, resize: nothing of ours but the region."""
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    region = random_region(*pixels.shape[:2], scale=(0.08, 1), ratio=(3 / 4, 4 / 3), rng=generator(seed))
    crop = pixels[region.top : region.top + region.height, region.left : region.left + region.width]
    return cv2.resize(crop, (size, size), interpolation=cv2.INTER_AREA)


def distances(one: np.ndarray, other: np.ndarray) -> tuple[float, int]:
    apart = np.abs(one.astype(int) - other.astype(int))
    return float(apart.mean()), int(apart.max())


@BOTH
@pytest.mark.parametrize("name", ["china", "flower"])
def test_reduced_pixels_are_near_those_of_the_plain_path(name, decoder):
    """At 1/2, 1/4 and 1/8: within 4 levels of 255 on average, 64 at the worst pixel."""
    data = encoded(photograph(name), quality=90)
    for size in (24, 60, 120):
        for seed in range(12):
            fast = DecodeRandomResizedCrop(size, decoder=decoder).random_map(data, generator(seed))
            slow = DecodeRandomResizedCrop(size, decoder=decoder, reduced=False).random_map(
                data, generator(seed)
            )
            mean, worst = distances(fast, slow)
            assert mean <= MEAN_LEVELS and worst <= WORST_LEVELS


@pytest.mark.parametrize("name", ["china", "flower"])
def test_the_whole_operation_is_near_decode_crop_resize(name):
    """Against means of areas of the crop as it was drawn: a reduced one is off by less than a pixel of the output,
    which is 6 levels in the middle of 40 crops of a photograph full of edges, and 16 at most."""
    data = encoded(photograph(name), quality=90)
    apart = [
        distances(
            DecodeRandomResizedCrop(96, interpolation="area").random_map(data, generator(seed)),
            plain(data, 96, seed),
        )[0]
        for seed in range(40)
    ]
    assert np.median(apart) <= 6 and max(apart) <= 16


def test_without_a_reduction_it_is_decode_crop_resize():
    """The same pixels where the crop is less than twice the output."""
    data = encoded(photograph())
    for seed in range(10):
        fast = DecodeRandomResizedCrop(300, interpolation="area").random_map(data, generator(seed))
        np.testing.assert_array_equal(fast, plain(data, 300, seed))


@BOTH
def test_reduced_pixels_are_near_on_a_sample_of_imagenet(decoder):
    """The same bound on photographs from many cameras, some of them gray."""
    files = sorted(IMAGENET_SAMPLE.glob("*.JPEG"))[::5]
    if not files:
        pytest.skip(f"no JPEGs in {IMAGENET_SAMPLE.name}; LOADERKIT_IMAGENET_SAMPLE names a folder of them")
    for seed, file in enumerate(files):
        data = file.read_bytes()
        fast = DecodeRandomResizedCrop(96, decoder=decoder).random_map(data, generator(seed))
        slow = DecodeRandomResizedCrop(96, decoder=decoder, reduced=False).random_map(data, generator(seed))
        mean, worst = distances(fast, slow)
        assert mean <= MEAN_LEVELS and worst <= WORST_LEVELS, file.name


@given(
    st.sampled_from(["4:4:4", "4:2:2", "4:2:0", "gray"]),
    st.booleans(),
    st.sampled_from([0, 1, 3]),
    st.sampled_from([1, 2, 4, 8]),
    st.data(),
)
def test_stopping_below_the_region_changes_no_pixel(colours, progressive, restarts, by, data):
    """simplejpeg is told of fewer rows: the rows it gives are exactly those of the whole picture."""
    pixels = photograph()[:211, :173]
    how = {} if colours == "gray" else {"subsampling": colours}
    pixels = pixels[..., 1] if colours == "gray" else pixels
    file = encoded(pixels, progressive=progressive, restart_marker_rows=restarts, quality=85, **how)
    header = read_header(file)
    rows, columns = -(-header.height // by), -(-header.width // by)
    everything = decode_jpeg(file, header, Region(0, 0, rows, columns), by, decoder="simplejpeg")
    assert everything.shape == (rows, columns, 3)
    top = data.draw(st.integers(0, rows - 1))
    region = Region(top, 3, data.draw(st.integers(1, rows - top)), columns - 3)
    part = decode_jpeg(file, header, region, by, decoder="simplejpeg")
    np.testing.assert_array_equal(part, region.of(everything))


def test_simplejpeg_stops_below_the_region():
    """Damage below the crop isn't met, as those rows aren't read."""
    pixels = photograph()
    upper = Region(0, 0, 60, 640)
    file = encoded(pixels)
    damaged = file[: len(file) // 2] + bytes(len(file) // 2 - 2) + b"\xff\xd9"
    header = read_header(file)
    expected = decode_jpeg(file, header, upper, 1, decoder="simplejpeg")
    np.testing.assert_array_equal(decode_jpeg(damaged, header, upper, 1, decoder="simplejpeg"), expected)


@BOTH
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:0"])
def test_decoders_agree_with_pillow(decoder, subsampling):
    """All are libjpeg-turbo; builds may round otherwise by a level or two."""
    data = encoded(photograph(), subsampling=subsampling)
    mean, worst = distances(Decode(decoder=decoder).map(data), by_pillow(data))
    assert mean <= 0.5 and worst <= 8


@BOTH
def test_gray_and_cmyk_become_rgb(decoder):
    """Three channels whatever the file has."""
    from PIL import Image

    gray = encoded(np.ascontiguousarray(photograph()[..., 1]))
    pixels = Decode(decoder=decoder).map(gray)
    assert pixels.shape == (427, 640, 3)
    assert (pixels == pixels[..., :1]).all()
    cmyk = encoded(Image.fromarray(photograph()).convert("CMYK"), quality=95)
    assert distances(Decode(decoder=decoder).map(cmyk), by_pillow(cmyk))[0] <= 2
    crop = DecodeCenterCrop(100, decoder=decoder).map(cmyk)
    assert distances(crop, DecodeCenterCrop(100, decoder=decoder, reduced=False).map(cmyk))[0] <= MEAN_LEVELS


@BOTH
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_as_exif_says(decoder, orientation):
    """The whole picture, and a crop in the coordinates of the picture as it is shown; or neither if not asked."""
    data = encoded(photograph()[:200, :280], orientation=orientation)
    shown = by_pillow(data, upright=True)
    pixels = Decode(decoder=decoder).map(data)
    assert pixels.shape == shown.shape
    assert distances(pixels, shown)[0] <= 0.5
    assert distances(Decode(decoder=decoder, upright=False).map(data), by_pillow(data))[0] <= 0.5

    untagged = encoded(shown, "PNG")
    for size in ((150, 130), (40, 60)):
        crop = DecodeRandomResizedCrop(size, decoder=decoder).random_map(data, generator(orientation))
        twin = DecodeRandomResizedCrop(size).random_map(untagged, generator(orientation))
        assert crop.shape == twin.shape == (*size, 3)
        assert distances(crop, twin)[0] <= 6


@BOTH
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "BMP"])
def test_other_formats_are_read_by_opencv(kind, decoder):
    """Lossless ones give their pixels exactly, and the crops of the JPEG way."""
    how = {"lossless": True} if kind == "WEBP" else {}
    pixels = photograph()[:300, :400]
    data = encoded(pixels, kind, **how)
    np.testing.assert_array_equal(Decode(decoder=decoder).map(data), pixels)
    crop = DecodeRandomResizedCrop(64, decoder=decoder).random_map(data, generator(4))
    jpeg = encoded(pixels, quality=98, subsampling="4:4:4")
    twin = DecodeRandomResizedCrop(64, decoder=decoder, reduced=False).random_map(jpeg, generator(4))
    assert distances(crop, twin)[0] <= 2


def test_transparency_and_sixteen_bits_are_left_out():
    """A PNG with an alpha channel or 16 bits comes as uint8 RGB like any other."""
    rgba = np.dstack([photograph()[:8, :9], np.full((8, 9), 128, np.uint8)])
    np.testing.assert_array_equal(Decode().map(encoded(rgba, "PNG")), rgba[..., :3])
    deep = cv2.imencode(".png", np.full((4, 5), 40_000, np.uint16))[1].tobytes()
    np.testing.assert_array_equal(Decode().map(deep), np.full((4, 5, 3), 40_000 // 256, np.uint8))


OPERATIONS = [
    lambda decoder: Decode(decoder=decoder).map,
    lambda decoder: DecodeCenterCrop(32, decoder=decoder).map,
    lambda decoder: lambda data: DecodeRandomResizedCrop(32, decoder=decoder).random_map(data, generator(0)),
]


@BOTH
@pytest.mark.parametrize("make", OPERATIONS)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.5, 0.99])
def test_a_truncated_jpeg_is_an_error(make, share, decoder):
    """Never gray pixels without an error, at any length of the file."""
    data = encoded(photograph())
    with pytest.raises(ValueError, match=r"truncated|0 bytes"):
        make(decoder)(data[: int(share * len(data))])


@BOTH
@pytest.mark.parametrize("make", OPERATIONS)
def test_what_is_no_picture_is_an_error(make, decoder):
    """Bytes of something else show their beginning; what isn't bytes is a TypeError that says what to do."""
    with pytest.raises(
        ValueError, match=r"another format that OpenCV reads, got 21 bytes that start with b'\{\"captio'"
    ):
        make(decoder)(b'{"caption": "a cat" }')
    with pytest.raises(TypeError, match=r"got an array .*; use Resize or RandomResizedCrop"):
        make(decoder)(photograph())
    with pytest.raises(TypeError, match="as bytes, got str"):
        make(decoder)("cat.jpg")
    with pytest.raises(TypeError, match="a dict with the keys"):
        make(decoder)({"image": b""})


@BOTH
def test_a_damaged_scan_gives_an_image_or_a_value_error(decoder, capfd):
    """A decoder's error is named, and no other exception is raised."""
    data = bytearray(encoded(photograph()[:64, :64]))
    rng = generator(8)
    for place in rng.integers(20, len(data) - 2, 60).tolist():
        damaged = bytearray(data)
        damaged[place : place + 2] = b"\xff\xc4"
        try:
            pixels = DecodeCenterCrop(16, decoder=decoder).map(bytes(damaged))
        except ValueError:
            continue
        assert pixels.shape == (16, 16, 3)
    capfd.readouterr()  # OpenCV's decoder prints what it repaired.


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_bytes_come_in_many_kinds(wrap):
    """A source may hand out any buffer."""
    data = encoded(photograph())
    expected = DecodeCenterCrop(50).map(data)
    np.testing.assert_array_equal(DecodeCenterCrop(50).map(wrap(data)), expected)


@BOTH
@given(st.integers(0, 2**63), st.tuples(st.integers(1, 300), st.integers(1, 300)))
def test_a_crop_belongs_to_the_record_and_its_generator(decoder, seed, size):
    """It has the asked size, is uint8 and contiguous, and is the same from a pickled copy of the operation."""
    data = encoded(photograph())
    operation = DecodeRandomResizedCrop(size, key="image", decoder=decoder)
    element = {"image": data, "label": [3]}
    answer = operation.random_map(element, generator(seed))
    assert (answer["image"].shape, answer["image"].dtype) == ((*size, 3), np.uint8)
    assert answer["image"].flags.c_contiguous
    assert element == {"image": data, "label": [3]} and answer["label"] is element["label"]
    again = cloudpickle.loads(pickle.dumps(operation)).random_map(element, generator(seed))
    np.testing.assert_array_equal(answer["image"], again["image"])


def test_the_centre_is_that_of_resize_and_crop():
    """fraction=0.875 at 224 is the usual evaluation: the shorter side to 256, then the middle 224."""
    from PIL import Image

    data = encoded(photograph(), quality=95)
    whole = Image.open(io.BytesIO(data))
    resized = whole.resize((round(640 * 256 / 427), 256), Image.Resampling.BOX)
    left, top = (resized.width - 224) // 2, 16
    twin = np.asarray(resized.crop((left, top, left + 224, top + 224)))
    assert distances(DecodeCenterCrop(224, interpolation="area").map(data), twin)[0] <= 4


def records() -> list[dict]:
    files = [
        encoded(photograph()[: 100 + 7 * n, : 160 - 5 * n], orientation=1 + n % 8, quality=80)
        for n in range(12)
    ]
    return [{"image": file, "label": n} for n, file in enumerate(files)]


@pytest.mark.parametrize("how", [{"worker_count": 2, "worker_kind": "thread"}, {"worker_count": 2}])
@BOTH
def test_every_number_of_workers_gives_the_same_images(how, decoder):
    """Threads and processes, bit for bit: each record's crop is drawn from its own generator."""

    def batches(**workers):
        loader = lk.load(
            records(),
            shuffle=True,
            seed=5,
            num_epochs=2,
            batch_size=4,
            operations=[DecodeRandomResizedCrop(24, key="image", decoder=decoder)],
            **workers,
        )
        with loader, iter(loader) as batch:
            return list(batch)

    for one, other in zip(batches(), batches(**how), strict=True):
        np.testing.assert_array_equal(one["label"], other["label"])
        np.testing.assert_array_equal(one["image"], other["image"])
