"""Archives of format="webdataset" are those that webdataset reads, and the other way round."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loaderkit as lk

PIL = pytest.importorskip("PIL.Image")
wds = pytest.importorskip("webdataset")

# webdataset leaves the files that it reads to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
PICTURE = np.stack([*np.meshgrid(*([np.arange(0, 256, 8)] * 2)), np.full((32, 32), 90)], 2).astype(np.uint8)
OTHER_INTS, OTHER_TEXTS = ["cls2", "index", "inx", "id"], ["text", "transcript"]
UNREAD_INTS = {"class": b"7", "count": b"7"}  # webdataset writes them, and reads them as bytes
PLAIN = ("json", "jsn", "cls", "txt", "bin", *OTHER_INTS, *OTHER_TEXTS)  # equal in both directions


def record(number: int) -> dict[str, Any]:
    return {
        "__key__": f"a/{number:03}",
        "jpg": PICTURE,
        "png": PICTURE,
        "webp": PICTURE,
        "gray.png": PICTURE[:, :, 0],
        "npy": np.arange(number, dtype=np.float32),
        "json": {"é": [number, None]},
        "cls": number,
        "txt": f"é {number}",
        **dict.fromkeys(OTHER_INTS, number),
        **dict.fromkeys(OTHER_TEXTS, "é"),
        **dict.fromkeys(UNREAD_INTS, 7),
        "jsn": [number],
        "jpeg": PICTURE,
        "bin": b"\0",
    }


@pytest.fixture
def shards(tmp_path):
    return lk.write(
        map(record, range(7)), tmp_path / "train-%06d.tar", format="webdataset", quality=95, shard_records=3
    )


def test_webdataset_reads_each_extension(shards):
    """Pictures without loss are equal, others near; all other values are equal."""
    assert [os.path.basename(each) for each in shards] == [f"train-{k:06}.tar" for k in range(3)]
    found = [*wds.WebDataset(shards, shardshuffle=False).decode("rgb8")]
    assert [each["__key__"] for each in found] == [f"a/{number:03}" for number in range(7)]
    for number, each in enumerate(found):
        expected = record(number)
        for name in PLAIN:
            assert each[name] == expected[name]
        assert {name: each[name] for name in UNREAD_INTS} == UNREAD_INTS
        assert (each["npy"] == expected["npy"]).all() and each["npy"].dtype == np.float32
        assert (each["png"] == PICTURE).all() and (each["gray.png"] == PICTURE[:, :, :1]).all()
        for name in ("jpg", "jpeg", "webp"):
            assert np.abs(each[name].astype(int) - PICTURE).mean() < 4


def test_loaderkit_reads_its_own_and_those_of_webdataset(shards, tmp_path):
    """`ByExtension` decodes both alike."""
    path = str(tmp_path / "theirs.tar")
    with wds.TarWriter(path) as writer:
        for number in range(7):
            writer.write({name: value for name, value in record(number).items() if name != "webp"})
    ours, theirs = lk.TarDataSource(shards), lk.TarDataSource(path)
    decode = lk.decode.ByExtension("rgb8")
    for number in range(7):
        one, other = decode.map(ours[number]), decode.map(theirs[number])
        for name in ("__key__", *PLAIN):
            assert one[name] == other[name] == record(number)[name]
        for name, value in UNREAD_INTS.items():
            assert one[name] == other[name] == value
        for name in ("npy", "png", "gray.png"):
            assert (one[name] == other[name]).all()


def test_quality_and_kinds_of_pictures(tmp_path):
    """A worse picture has fewer bytes; floats, one channel and PIL images are taken as webdataset takes them."""
    sizes = []
    for quality in (20, 95):
        (path,) = lk.write(
            [{"jpg": PICTURE}], tmp_path / f"{quality}.tar", format="webdataset", quality=quality
        )
        sizes.append(len(lk.TarDataSource(path)[0]["jpg"]))
    assert sizes[0] < sizes[1]
    kinds = [
        PICTURE / 255,
        PICTURE[:, :, :1],
        PIL.fromarray(PICTURE).convert("RGBA"),
        np.zeros((1, 1), np.uint8),
    ]
    (path,) = lk.write([{"png": each} for each in kinds], tmp_path / "kinds.tar", format="webdataset")
    found = [np.asarray(PIL.open(io.BytesIO(each["png"]))) for each in lk.TarDataSource(path)]
    assert (found[0] == PICTURE).all() and (found[1] == PICTURE[:, :, 0]).all()
    assert found[2].shape == (32, 32, 4) and found[3].shape == (1, 1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"pyd": b"x"}, r"field 'pyd': expected another extension than those of pickles"),
        ({"x.pickle": 3}, r"field 'x.pickle': expected another extension than those of pickles"),
        ({"pth": b""}, "pickles"),
        ({"jpg": np.zeros((4, 4), np.uint16)}, r"field 'jpg': expected a picture .*, got uint16 \(4, 4\)"),
        ({"jpg": np.zeros((4, 4, 4), np.uint8)}, "expected a picture of 1 or 3 channels for JPEG.*write png"),
        ({"png": np.full((4, 4), np.nan)}, "field 'png': expected floats from 0 to 1, got nan"),
        ({"png": np.zeros((0, 4), np.uint8)}, r"expected a picture.*\(0, 4\)"),
        ({"png": "x"}, "expected bytes, an array or a PIL image, got str"),
        ({"npy": [1]}, "field 'npy': expected a numpy array, got list"),
        ({"json": {1, 2}}, "field 'json': .*set"),
        ({"json": float("nan")}, "field 'json': "),
        ({"cls": 1.5}, "field 'cls': expected an int, got float"),
        ({"txt": 3}, "field 'txt': expected a str, got int"),
        ({"mp4": [1]}, "field 'mp4': expected bytes, or one of the extensions jpg"),
        ({"JPG": b"1", "jpg": b"2"}, "expected names that stay apart in lower case, got 'jpg' twice"),
        ([1], "expected a dict with a value for each extension, got list"),
    ],
)
def test_what_an_extension_cannot_hold_is_named(bad, message, tmp_path):
    """The field, what was expected, and what came; no file is left."""
    with pytest.raises((TypeError, ValueError), match=message):
        lk.write([bad], tmp_path / "x.tar", format="webdataset")
    assert not [*tmp_path.iterdir()]


def test_arguments_are_checked(tmp_path):
    """A quality of another format, one out of range, and numbers of shards that contradict each other."""
    for options, message in [
        ({"quality": 90}, "quality: expected None but for format='webdataset', got 90"),
        ({"format": "webdataset", "quality": 0}, "quality"),
        ({"format": "webdataset", "quality": 101}, "quality: expected 1 to 100, got 101"),
        ({"shards": 2, "shard_records": 2}, "shards: expected None beside shard_records"),
        ({"format": "tfrecord"}, "format: expected 'tar'"),
    ]:
        with pytest.raises(ValueError, match=message):
            lk.write([{"cls": 1}], tmp_path / "x-%d.tar", **options)
    with pytest.raises(ValueError, match=r"write the number of a file into it, as in 'train-%06d.tar'"):
        lk.write([{"cls": 1}], tmp_path / "x.tar", shard_records=3)


def test_numbered_files_for_any_workers_are_one_set(tmp_path):
    """A source, several workers, a number of shards: the files of one process, beside others that stay."""
    (tmp_path / "x-notes.tar").touch()
    records = [{"cls": k} for k in range(7)]
    sets = [
        lk.write(records, tmp_path / f"{name}-%d.tar", shards=3, worker_count=workers, worker_kind="thread")
        for name, workers in (("x", 0), ("y", 2))
    ]
    one, other = ([Path(path).read_bytes() for path in paths] for paths in sets)
    assert one == other and len(one) == 3
    assert [each["cls"] for each in lk.TarDataSource(str(tmp_path / "x-{0..2}.tar"))] == [*range(7)]
    with pytest.raises(FileExistsError, match=r"x-0.tar; move or delete the 3 files"):
        lk.write(records, tmp_path / "x-%d.tar", overwrite=True)
    assert (tmp_path / "x-notes.tar").exists()
