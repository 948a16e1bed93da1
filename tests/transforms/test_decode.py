"""Fields decoded by extension: webdataset's values, no pickle, clean errors for any bytes."""

import gzip
import io
import json
import pickle
import struct
import zlib

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_files import by_pillow, encoded, photograph

import loaderkit as lk
from loaderkit.transforms.decode.by_extension import _DECODERS, _PICKLES
from loaderkit.transforms.decode.image_spec import IMAGES, SPECS

# By how many levels of 255 the builds of libjpeg-turbo in OpenCV and in Pillow may differ, and a gray value's rounding.
JPEG_LEVELS, GRAY_LEVELS = 2, 1


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def equal(one: object, other: object) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and [*one] == [*other] and all(equal(one[k], other[k]) for k in one)
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and one == other


def small() -> np.ndarray:
    return photograph()[100:141, 200:267]


def webdataset_decoder(*specs: str):
    webdataset = pytest.importorskip("webdataset")
    if any(spec.startswith("torch") for spec in specs):
        pytest.importorskip("torch")  # webdataset makes these in torch, we in numpy
    return webdataset.autodecode.Decoder([webdataset.autodecode.imagehandler(spec) for spec in specs])


def test_values_are_those_of_webdataset():
    """Every extension but images and CBOR, through the same decoders."""
    import msgpack

    record = {
        "__key__": "a/b.17",
        "txt": "Grüße\n".encode(),
        "text": b"",
        "transcript": b"a",
        **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), b" -17\n"),
        "json": b'{"x": [1, 2.5, null], "y": "\\u00fc"}',
        "meta.JSN": b"3",
        "npy": npy(np.arange(6, dtype=">i2").reshape(2, 3)),
        "left.npy": npy(np.asfortranarray(np.ones((2, 3), bool))),
        "npz": npz(a=np.arange(3), b=np.array(1.5, np.float32)),
        **dict.fromkeys(("mp", "msg"), msgpack.packb({"x": [1, b"2", "3"]})),
        "txt.gz": gzip.compress(b"packed"),
        "bin.gz": gzip.compress(b"packed"),
        "mp4": b"\x00\x01",
        "noextension": b"x",
    }
    ours = lk.decode.ByExtension().map(record)
    theirs = webdataset_decoder().decode({**record, "meta.jsn": record["meta.JSN"]})
    theirs["meta.JSN"] = theirs.pop("meta.jsn")
    assert [*ours] == [*record]
    assert {name for name in record if not equal(ours[name], theirs[name])} == set()
    assert ours["npy"].flags.writeable
    assert record["cls"] == b" -17\n"  # the element itself isn't changed


def test_msgpack_and_cbor():
    """What went in comes out."""
    cbor2, msgpack = pytest.importorskip("cbor2"), pytest.importorskip("msgpack")
    value = {"x": [1, 2.5, None, True, "ü", b"\x00"], "y": {"z": -(2**40)}}
    record = {"msgpack": msgpack.packb(value), "cbor": cbor2.dumps(value)}
    assert lk.decode.ByExtension().map(record) == {"msgpack": value, "cbor": value}


@pytest.mark.parametrize(
    "spec", [pytest.param(s, marks=pytest.mark.torch) if s.startswith("torch") else s for s in sorted(SPECS)]
)
@pytest.mark.parametrize(
    "kind", ["jpg", "png", "gray.png", "alpha.png", "palette.gif", "webp", "ppm", "tif", "bmp"]
)
def test_pictures_are_those_of_webdataset(spec, kind):
    """Each spec and format: type, dtype, layout and range; pixels equal but for JPEG's and gray's rounding."""
    pixels = small()
    alpha = np.dstack([pixels, np.arange(pixels[..., 0].size).reshape(pixels.shape[:2]).astype(np.uint8)])
    data = {
        "jpg": lambda: encoded(pixels, quality=90),
        "gray.png": lambda: encoded(pixels[..., 1], "PNG"),
        "alpha.png": lambda: encoded(alpha, "PNG"),
        "palette.gif": lambda: encoded(pixels, "GIF"),
        "webp": lambda: encoded(pixels, "WEBP", lossless=True),
        "tif": lambda: encoded(pixels, "TIFF"),
    }.get(kind, lambda: encoded(pixels, kind.upper()))()
    if kind == "ppm":
        data = encoded(pixels, "PPM")
    ours = lk.decode.ByExtension(spec).map({"__key__": "k", kind: data})[kind]
    theirs = webdataset_decoder(spec).decode({"__key__": "k", kind: data})[kind]
    if SPECS[spec].pillow:
        assert (ours.mode, ours.size, ours.tobytes()) == (theirs.mode, theirs.size, theirs.tobytes())
        return
    theirs = np.asarray(theirs)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    assert ours.flags.c_contiguous and ours.flags.writeable
    levels = JPEG_LEVELS if kind == "jpg" and not SPECS[spec].by_pillow else 0
    levels = max(levels, GRAY_LEVELS if SPECS[spec].mode == "L" else 0)
    scale = 255 if SPECS[spec].real else 1
    assert np.abs(ours.astype(np.float64) - theirs).max() * scale <= levels + 1e-4


@pytest.mark.parametrize("spec", ["rgb8", "l8", "rgba8", "torchrgb8", "pil"])
def test_pictures_are_turned_as_exif_says(spec):
    """As lk.transforms.image.Decode does; upright=False takes the pixels as stored, as webdataset does."""
    data = encoded(small(), quality=95, orientation=6)
    turned = lk.decode.ByExtension(spec).map({"jpg": data})["jpg"]
    stored = lk.decode.ByExtension(spec, upright=False).map({"jpg": data})["jpg"]
    turned, stored = np.asarray(turned), np.asarray(stored)
    if spec.startswith("torch"):
        turned, stored = turned.transpose(1, 2, 0), stored.transpose(1, 2, 0)
    np.testing.assert_array_equal(turned, np.rot90(stored, -1))
    if spec == "pil":
        np.testing.assert_array_equal(turned, by_pillow(data, upright=True))


@pytest.mark.parametrize("extension", sorted(IMAGES))
def test_no_extension_of_pictures_is_missed(extension):
    """Without a spec their bytes stay; with one, bytes that aren't a picture are an error."""
    assert lk.decode.ByExtension().map({extension: b"x"}) == {extension: b"x"}
    with pytest.raises(ValueError, match=f"record None, field '{extension}': expected an image, got 1 bytes"):
        lk.decode.ByExtension("rgb8").map({extension: b"x"})


def test_ghostscript_is_never_asked():
    """PostScript under a picture's name: Pillow would run a program for it."""
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"
    with pytest.raises(ValueError, match="expected an image"):
        lk.decode.ByExtension("pil").map({"png": script})


class Trap:
    """Unpickling it fails the test."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was read",)


@pytest.mark.parametrize("field", [*sorted(_PICKLES), "x.PYD", "pkl.gz", "npy", "npz", "npy.gz"])
def test_no_pickle_is_ever_read(field):
    """Under its own extension the error says why and what to do; within npy and npz it is numpy's error."""
    data = pickle.dumps(Trap())
    if field.startswith("npy"):
        data = npy(np.array([Trap()], object))
    if field == "npz":
        data = npz(a=np.array([Trap()], object))
    if field.endswith(".gz"):
        data = gzip.compress(data)
    expected = "without objects" if field.startswith("np") else "runs the code in it.*handlers="
    with pytest.raises(ValueError, match=f"record 'k', field '{field}': expected .*{expected}"):
        lk.decode.ByExtension("rgb8").map({"__key__": "k", field: data})


def test_fields_that_were_not_asked_for_stay():
    """`only` names whole fields, in a list or in a string."""
    record = {"__key__": "k", "cls": b"1", "a.cls": b"2", "pyd": b"3"}
    expected = {"__key__": "k", "cls": 1, "a.cls": b"2", "pyd": b"3"}
    assert lk.decode.ByExtension(only="cls").map(record) == expected
    assert lk.decode.ByExtension(only=["cls", "absent"]).map(record) == expected


def test_handlers_come_first_the_longest_name_before_others():
    """They may also take over what is refused."""
    decode = lk.decode.ByExtension(
        handlers={"seg.png": len, "PNG": bytes.upper, ".pyd": pickle.loads, "gz": lambda data: "gz"}
    )
    record = {"left.seg.png": b"abc", "a.png": b"abc", "seg": b"x", "pyd": pickle.dumps(7), "txt.gz": b"?"}
    assert decode.map(record) == {"left.seg.png": 3, "a.png": b"ABC", "seg": b"x", "pyd": 7, "txt.gz": "gz"}


def test_an_error_of_a_handler_keeps_its_type():
    """And names the record and the field."""
    with pytest.raises(ZeroDivisionError) as raised:
        lk.decode.ByExtension(handlers={"x": lambda data: 1 // 0}).map({"__key__": "k/1", "a.x": b""})
    assert "record 'k/1', field 'a.x'" in "\n".join(raised.value.__notes__)


def test_decoded_fields_stay():
    """A value that isn't bytes was decoded before."""
    assert lk.decode.ByExtension().map({"cls": 3, "txt": "x", 7: b"x"}) == {"cls": 3, "txt": "x", 7: b"x"}
    assert lk.decode.ByExtension().map({"cls": memoryview(b"3"), "txt": bytearray(b"x")}) == {
        "cls": 3,
        "txt": "x",
    }


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"image": "rgb16"}, ValueError, "image: expected None or one of"),
    ({"image": 3}, ValueError, "image: expected None or one of"),
    ({"only": 3}, TypeError, "only: expected names of fields, got 3"),
    ({"only": [3]}, TypeError, "only: expected names of fields"),
    ({"handlers": len}, TypeError, "handlers: expected a dict"),
    ({"handlers": {"x": 3}}, TypeError, "handlers: expected a dict"),
    ({"upright": 1}, TypeError, "upright: expected True or False, got 1"),
])  # fmt: skip
def test_wrong_arguments(arguments, error, message):
    """They are named before any record is read."""
    with pytest.raises(error, match=message):
        lk.decode.ByExtension(**arguments)


def test_an_element_that_is_no_record():
    """Bytes come of a source of another kind."""
    with pytest.raises(TypeError, match=r"ByExtension: expected a record .*, got bytes"):
        lk.decode.ByExtension().map(b"x")


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    """Pictures when the operation is made; msgpack and CBOR when a field of theirs comes."""
    monkeypatch.setattr("importlib.util._find_spec", lambda *_: None)
    for name, extra in (("rgb8", "image"), ("pil", "tar"), ("rgba", "tar")):
        monkeypatch.setattr("loaderkit.transforms.decode.image_spec.find_spec", lambda _: None)
        with pytest.raises(ImportError, match=rf"pip install '\.\[{extra}\]' in a clone"):
            lk.decode.ByExtension(name)
    for module, field in (("msgpack", "mp"), ("cbor2", "cbor")):
        monkeypatch.setitem(__import__("sys").modules, module, None)
        with pytest.raises(ImportError, match=r"(CBOR|msgpack) fields need .*'\.\[tar\]'"):
            lk.decode.ByExtension().map({field: b"x"})


def test_it_travels_to_workers_and_is_in_states():
    """Pickled, and by name and parameters in what a state compares; a default isn't written."""
    from loaderkit.transforms.parameters import parameters_of

    decode = lk.decode.ByExtension("rgb8", only="jpg cls")
    assert pickle.loads(pickle.dumps(decode)) == decode and hash(decode) == hash(
        pickle.loads(pickle.dumps(decode))
    )
    with_function = cloudpickle.loads(
        cloudpickle.dumps(lk.decode.ByExtension(handlers={"x": lambda data: 5}))
    )
    assert with_function.map({"x": b""}) == {"x": 5}
    assert parameters_of([decode]) == [
        {"op": "Map", "name": "ByExtension", "parameters": {"image": "rgb8", "only": ["jpg", "cls"]}}
    ]
    assert parameters_of([lk.decode.ByExtension()]) == [{"op": "Map", "name": "ByExtension"}]


@pytest.mark.parametrize("worker_count", [0, 2])
def test_in_a_loader(worker_count):
    """Batches of decoded records; an error of one has the loader's note too."""
    records = [
        {"__key__": f"{n:03}", "jpg": encoded(np.full((8, 8, 3), n, np.uint8)), "cls": b"%d" % n}
        for n in range(12)
    ]
    how = {"worker_count": worker_count, **({"worker_kind": "thread"} if worker_count else {})}
    operations = [lk.decode.ByExtension("rgb8"), lk.Map(lambda record: (record["jpg"], record["cls"]))]
    with lk.load(records, num_epochs=1, operations=operations, batch_size=4, **how) as loader:
        batches = list(loader)
    assert [batch[1].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert batches[0][0].shape == (4, 8, 8, 3)


def any_bytes() -> st.SearchStrategy[bytes]:
    """Random bytes, and true files that are cut or have a byte changed."""
    msgpack = pytest.importorskip("msgpack")
    files = [
        encoded(small()), encoded(small(), "PNG"), encoded(small(), "GIF"), encoded(small(), "TIFF"),
        npy(np.arange(40.0)), npz(a=np.arange(40)), msgpack.packb({"x": [1] * 20}), gzip.compress(b"x" * 99),
        b'{"x": [1, 2, {"y": null}]}', b"[" * 100_000, b"9" * 5_000, b"\xc1" * 4, b"\x9f" * 4_000,
    ]  # fmt: skip

    def damaged(data: bytes, at: int, byte: int, cut: bool) -> bytes:
        at %= len(data)
        return data[:at] if cut else data[:at] + bytes([byte]) + data[at + 1 :]

    files_damaged = st.builds(
        damaged, st.sampled_from(files), st.integers(0, 1 << 20), st.integers(0, 255), st.booleans()
    )
    return st.binary(max_size=200) | files_damaged


@given(st.data())
def test_any_bytes_give_a_value_or_a_clean_error(data):
    """Whatever the extension says, and in every kind of picture: nothing but ValueError with record and field."""
    extension = data.draw(
        st.sampled_from(sorted({*_DECODERS, *_PICKLES, "gz", "json.gz", "jpg", "png", "tif", "gif"}))
    )
    decode = lk.decode.ByExtension(data.draw(st.sampled_from(["rgb8", "l", "rgba8", "pil"])))
    message = ""
    try:
        decode.map({"__key__": "k", extension: data.draw(any_bytes())})
    except ValueError as error:
        message = str(error)
    assert not message or message.startswith(f"record 'k', field '{extension}': expected ")


def test_a_header_that_promises_too_much():
    """A .npy with 2^62 values, a PNG with 10^9 rows: an error at once, no memory taken."""
    header = repr({"descr": "<f8", "fortran_order": False, "shape": (1 << 59,)}).encode().ljust(117) + b"\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    ihdr = b"IHDR" + struct.pack(">IIBBBBB", 1 << 30, 1 << 30, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + ihdr + struct.pack(">I", zlib.crc32(ihdr))
    for spec in ("rgb8", "pil"):
        for field, data in (("npy", array), ("png", png), ("json", json.dumps(["x"] * 3)[:-1].encode())):
            with pytest.raises(ValueError, match=f"record 'k', field '{field}': expected "):
                lk.decode.ByExtension(spec).map({"__key__": "k", field: data})
