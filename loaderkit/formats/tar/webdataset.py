"""Tar archives as webdataset's writer makes them: each value is encoded by the extension of its name.

Nothing in the archive says what the values were, so webdataset reads them, and `lk.decode.ByExtension` does.
"""

import io
import json
from collections.abc import Callable
from itertools import pairwise
from types import UnionType
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._base.structure import dict_advice
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.optional_library import library
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter
from loaderkit.formats.npy import encoded_array

from .values import record_key, record_names, stored_name
from .writer import TarShardWriter, members_of

QUALITY = 95
_PICTURES = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "webp": "WEBP"}
_PICKLES = frozenset(("pyd", "pkl", "pickle", "pth"))


@dataclass(frozen=True, slots=True)
class WebDatasetEncoder:
    """A `RecordEncoder`: makes of a dict its key and the bytes of its members, each by its extension.

    quality: of "jpg" and "webp", 1 to 100. pillow: the version that encodes pictures, which another one may encode in
    another way.

    >>> key, members = WebDatasetEncoder(95, "12.0").encode({"cls": 5, "seg.json": [1]}, 17)
    >>> key, members[512:513], members[1024:1042], members[1536:1539]
    ('000000017', b'5', b'000000017.seg.json', b'[1]')
    """

    quality: int
    pillow: str

    def encode(self, record: Any, number: int) -> tuple[str, bytes]:
        """The record's key and its members.

        Args:
            record: a dict of fields.
            number: of the record, its key where it has no "__key__".
        """
        names = record_names(record)
        if names is None:
            got = f"{type(record).__name__}; {dict_advice(record)}"
            raise ValueError(f"expected a dict with a value for each extension, got {got}")
        values = sorted((stored_name(name), self._encoded(name, record[name])) for name in names)
        for (one, _), (other, _) in pairwise(values):
            if one == other:
                raise ValueError(
                    f"fields: expected names that stay apart in lower case, got {one!r} twice; rename one"
                )
        return members_of(record_key(record, number), values)

    def _encoded(self, name: str, value: Any) -> bytes:
        extension = name.lower().rpartition(".")[2]
        if extension in _PICKLES:
            raise ValueError(
                f"field {name!r}: expected another extension than those of pickles, got {extension!r}, as reading one "
                "runs the code in it; write 'npy', 'npz' or 'json'"
            )
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        try:
            if extension in _PICTURES:
                return _encoded_picture(value, _PICTURES[extension], self.quality)
            kind, expected, encode = _BY_EXTENSION.get(extension, _UNKNOWN)
            if not isinstance(value, kind):
                raise TypeError(f"expected {expected}, got {type(value).__name__}")
            encoded: bytes = encode(value)
            return encoded
        except (TypeError, ValueError) as error:
            raise type(error)(f"field {name!r}: {error}") from None


def _encoded_picture(value: Any, kind: str, quality: int) -> bytes:
    image = library("PIL.Image", "pictures need", "tar", package="pillow")
    picture = value if isinstance(value, image.Image) else image.fromarray(_pixels(value))
    if kind == "JPEG" and picture.mode not in ("L", "RGB", "CMYK"):
        raise ValueError(
            f"expected a picture of 1 or 3 channels for JPEG, got one of mode {picture.mode}; write png"
        )
    file = io.BytesIO()
    picture.save(file, kind, **({} if kind == "PNG" else {"quality": quality}))
    return file.getvalue()


def _pixels(value: Any) -> Any:
    """An array as uint8 (height, width) or (height, width, channels); floats are from 0 to 1."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"expected bytes, an array or a PIL image, got {type(value).__name__}")
    if value.dtype.kind == "f" and value.size:
        if not (value.min() >= 0 and value.max() <= 1):  # a NaN is neither
            raise ValueError(f"expected floats from 0 to 1, got {value.min()} to {value.max()}")
        value = np.rint(value * 255).astype(np.uint8)
    channels = value.shape[2:]
    fits = value.ndim in (2, 3) and channels in ((), (1,), (3,), (4,))
    if not fits or not value.size or value.dtype != np.uint8:
        raise ValueError(
            f"expected a picture (height, width) or (height, width, 1, 3 or 4) of uint8 or floats, got {value.dtype} "
            f"{value.shape}"
        )
    return np.ascontiguousarray(value[:, :, 0] if channels == (1,) else value)


_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
# Extensions, what their values are, in words, and how they are encoded.
_KINDS: tuple[tuple[str, type | UnionType, str, Callable[[Any], bytes]], ...] = (
    ("npy", np.ndarray | np.generic, "a numpy array", lambda value: encoded_array(np.asarray(value))),
    ("json jsn", object, "any value", lambda value: _JSON.encode(value).encode()),
    ("cls cls2 class count index inx id", int | np.integer, "an int", lambda value: b"%d" % value),
    ("txt text transcript", str, "a str", str.encode),
)
_BY_EXTENSION = {name: rest for names, *rest in _KINDS for name in names.split()}
_UNKNOWN: Any = ((), f"bytes, or one of the extensions {', '.join([*_PICTURES, *_BY_EXTENSION])}", None)


@dataclass(frozen=True, slots=True)
class WebDatasetWriting:
    """Tar archives of dicts whose names are extensions: pictures, arrays, ints and texts are encoded by them.

        jpg png webp    uint8 or floats from 0 to 1, (height, width) or with channels, or a PIL image
        npy             an array                    cls index id    an int
        json            JSON values                 txt             a str

    Bytes stay as they are, under any name but those of pickles. A record is the members with its "__key__", or with its
    number.

    quality: of "jpg" and "webp", 1 to 100.
    """

    quality: int = QUALITY
    name = "webdataset"
    extension = "tar"
    libraries = ()

    def __post_init__(self) -> None:
        if at_least("quality", self.quality, 1) > 100:
            raise ValueError(f"quality: expected 1 to 100, got {self.quality}")

    def encoder(self, first: Any) -> RecordEncoder:
        """For any records; TypeError or ValueError for a first one that can't be written.

        Args:
            first: the first record of all.
        """
        encoder = WebDatasetEncoder(self.quality, _pillow_version())
        encoder.encode(first, 0)
        return encoder

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new archive.

        Args:
            path: of the file.
            encoder: made by `encoder`.
        """
        return TarShardWriter(path)


def _pillow_version() -> str:
    try:
        return str(library("PIL", "pictures need", "tar", package="pillow").__version__)
    except ImportError:  # there are no pictures, or encoding one raises it
        return ""
