"""The fields of a record decoded by their extensions, without any pickle."""

import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from reprlib import repr as _short
from typing import Any

import numpy as np

from loaderkit._base.extras import missing_library
from loaderkit._base.numbers import true_or_false
from loaderkit.transforms.base import Map

from .image_spec import IMAGES, SPECS, ImageSpec


@dataclass(frozen=True)
class ByExtension(Map):
    """Decodes the fields of a record, a dict of name -> bytes as lk.TarDataSource gives it, by their last extension.

        jpg png webp ...    by `image`       npy            an array
        txt text transcript str              npz            a dict of arrays
        cls cls2 index id   int              mp msg         msgpack (extra `tar`)
        json jsn            parsed           cbor           CBOR (extra `tar`)

    The bytes of `name.gz` are unpacked, then decoded as `name`. Names that begin with "__", values that aren't bytes
    and other extensions stay as they are. Pickles (pyd, pkl, pickle, pth) are refused, as reading one runs its code.

    Args:
        image: what a picture becomes: None leaves its bytes; "l8", "rgb8", "rgba8" uint8 (height, width) or (height,
            width, channels); "l", "rgb", "rgba" the same as float32 from 0 to 1; with "torch" in front, (channels,
            height, width), as arrays; "pil", "pill", "pilrgb", "pilrgba" a PIL.Image. Pillow decodes "rgba" and "pil",
            OpenCV the others. "l" is within one level of Pillow's.
        only: the names of the fields to decode, in a sequence or with spaces between; None for all.
        handlers: name or end of a name, such as "seg.png" -> a function of bytes, before all others.
        upright: True turns pictures as EXIF says, as `image.Decode` does; False takes the pixels as stored, as
            webdataset does.

    Raises ValueError with the record's `__key__` and the field's name for bytes that can't be decoded.

    >>> record = {"__key__": "a/17", "cls": b"3", "json": b'{"x": [1, 2]}', "mp4": b"..."}
    >>> ByExtension().map(record)
    {'__key__': 'a/17', 'cls': 3, 'json': {'x': [1, 2]}, 'mp4': b'...'}
    >>> ByExtension().map({"__key__": "a/18", "cls": b"cat"})
    Traceback (most recent call last):
    ValueError: record 'a/18', field 'cls': expected an int, got 3 bytes that begin with b'cat' (ValueError: invalid \
literal for int() with base 10: b'cat')
    """

    image: str | None = None
    _: KW_ONLY  # webdataset's second is another kind of pictures
    only: str | Iterable[str] | None = None
    handlers: Mapping[str, Callable[[bytes], Any]] | None = field(default=None, hash=False)
    upright: bool = True

    def __post_init__(self) -> None:
        if self.image is not None:
            _spec(self.image).check_installed(self.image)
        if self.only is not None:
            object.__setattr__(self, "only", _names(self.only))
        if self.handlers is not None:
            object.__setattr__(self, "handlers", _handlers(self.handlers))
        true_or_false("upright", self.upright)

    def map(self, element: Any) -> dict[str, Any]:
        """The record with its fields decoded."""
        if not isinstance(element, dict):
            raise TypeError(
                f"ByExtension: expected a record as lk.TarDataSource gives it, a dict of fields, "
                f"got {type(element).__name__}"
            )
        decoded = dict(element)
        for name, value in element.items():
            if isinstance(value, bytes | bytearray | memoryview) and self._is_asked_for(name):
                decoded[name] = self._field(element.get("__key__"), name, name.lower(), bytes(value))
        return decoded

    def _is_asked_for(self, name: Any) -> bool:
        return (
            isinstance(name, str) and not name.startswith("__") and (self.only is None or name in self.only)
        )

    def _field(self, key: Any, name: str, left: str, data: bytes) -> Any:
        """A field's value. left: the part of its name that says what the bytes are."""
        if (handler := self._handler(left)) is not None:
            try:
                return handler(data)
            except Exception as error:
                error.add_note(f"raised by a handler of ByExtension for record {key!r}, field {name!r}")
                raise
        extension = left.rpartition(".")[2]
        if extension in _PICKLES:
            raise ValueError(
                f"record {key!r}, field {name!r}: expected a format that holds data alone, got a pickle by its name, "
                f"and reading a pickle runs the code in it. Leave it out by only=, or, if you trust every file of the "
                f"set, give a function of your own: handlers={{{extension!r}: pickle.loads}}"
            )
        try:
            if extension == "gz":
                unpacked = _gunzipped(data)
            elif extension in IMAGES:
                return data if self.image is None else SPECS[self.image].decoded(data, upright=self.upright)
            else:
                decoder = _DECODERS.get(extension)
                return data if decoder is None else decoder(data)
        except ImportError:
            raise
        # Libraries raise errors of many types for bytes that aren't of their format.
        except Exception as error:
            begin = f" that begin with {data[:12]!r}" if data else ""
            raise ValueError(
                f"record {key!r}, field {name!r}: expected {_described(extension)}, got {len(data)} bytes{begin} "
                f"({type(error).__name__}: {error})"
            ) from error
        return self._field(key, name, left.removesuffix("gz").removesuffix("."), unpacked)

    def _handler(self, name: str) -> Callable[[bytes], Any] | None:
        """The handler with the longest name that is the end of this one."""
        while name and self.handlers:
            if (found := self.handlers.get(name)) is not None:
                return found
            name = name.partition(".")[2]
        return None


def _spec(image: Any) -> ImageSpec:
    if not isinstance(image, str) or image not in SPECS:
        raise ValueError(f"image: expected None or one of {sorted(SPECS)}, got {_short(image)}")
    return SPECS[image]


def _names(only: Any) -> tuple[str, ...]:
    names = (
        tuple(only.split()) if isinstance(only, str) else tuple(only) if isinstance(only, Iterable) else None
    )
    if names is None or not all(isinstance(name, str) for name in names):
        raise TypeError(f"only: expected names of fields, got {_short(only)}")
    return names


def _handlers(handlers: Any) -> dict[str, Callable[[bytes], Any]]:
    if not isinstance(handlers, Mapping) or not all(
        isinstance(name, str) and callable(function) for name, function in handlers.items()
    ):
        raise TypeError(
            f"handlers: expected a dict of a field's name -> a function of bytes, got {_short(handlers)}"
        )
    return {name.lower().lstrip("."): function for name, function in handlers.items()}


def _text(data: bytes) -> str:
    return data.decode("utf-8")


def _array(data: bytes) -> Any:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def _arrays(data: bytes) -> dict[str, Any]:
    if not data.startswith(b"PK"):
        raise ValueError("not a zip archive")
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return dict(found)


def _msgpack(data: bytes) -> Any:
    try:
        import msgpack
    except ImportError as error:
        raise missing_library("msgpack fields need", "msgpack", "tar") from error
    return msgpack.unpackb(data)


def _cbor(data: bytes) -> Any:
    try:
        import cbor2
    except ImportError as error:
        raise missing_library("CBOR fields need", "cbor2", "tar") from error
    return cbor2.loads(data)


def _gunzipped(data: bytes) -> bytes:
    import gzip

    return gzip.decompress(data)


_PICKLES = frozenset(("pkl", "pickle", "pyd", "pth"))
# What the bytes are, the function that decodes them, the extensions: those of webdataset.
_KINDS: tuple[tuple[str, Callable[[bytes], Any], tuple[str, ...]], ...] = (
    ("text in UTF-8", _text, ("txt", "text", "transcript")),
    ("an int", int, ("cls", "cls2", "index", "inx", "id")),
    ("JSON", json.loads, ("json", "jsn")),
    ("an array in the format npy, without objects", _array, ("npy",)),
    ("arrays in the format npz, without objects", _arrays, ("npz",)),
    ("msgpack", _msgpack, ("mp", "msg", "msgpack")),
    ("CBOR", _cbor, ("cbor",)),
)
_DECODERS = {extension: function for _, function, extensions in _KINDS for extension in extensions}
_DESCRIBED = {extension: what for what, _, extensions in _KINDS for extension in extensions}


def _described(extension: str) -> str:
    return _DESCRIBED.get(extension) or ("gzip" if extension == "gz" else "an image")
