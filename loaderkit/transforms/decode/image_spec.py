"""Pictures as an image spec asks for them: "rgb8", "torchl", "pil", ... as webdataset names them."""

import io
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from loaderkit._base.extras import missing_library
from loaderkit._base.system.dataclasses import dataclass
from loaderkit.transforms.image.decode import Decode

# Extension: the formats that both OpenCV and Pillow read. Pillow is asked for no other: it would start Ghostscript for
# a PostScript file.
IMAGES = frozenset(
    "bmp dib gif j2k jfif jp2 jpe jpeg jpg pbm pgm png pnm ppm tif tiff webp".split()  # noqa: SIM905
)
_PILLOW_FORMATS = ("BMP", "DIB", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """What a picture becomes.

    mode: "L", "RGB" or "RGBA". pillow: a PIL.Image instead of an array. real: float32 from 0 to 1 instead of uint8.
    channels_first: (channels, height, width) instead of (height, width, channels). "L" has no axis for the channel.
    """

    mode: str
    pillow: bool = False
    real: bool = False
    channels_first: bool = False

    @property
    def by_pillow(self) -> bool:
        """Whether Pillow decodes, which alone gives every format's transparency."""
        return self.pillow or self.mode == "RGBA"

    def check_installed(self, name: str) -> None:
        """ImportError where the library that decodes isn't installed; imports nothing."""
        module, package, extra = ("PIL", "pillow", "tar") if self.by_pillow else ("cv2", "OpenCV", "image")
        if find_spec(module) is None:
            raise missing_library(f"ByExtension({name!r}) needs", package, extra)

    def decoded(self, data: bytes, *, upright: bool) -> Any:
        """The picture; an error of any type for bytes that aren't one."""
        if self.by_pillow:
            picture = _by_pillow(data, self.mode, upright=upright)
            if self.pillow:
                return picture
            pixels = np.array(picture)
        else:
            pixels = _decode(upright).map(data)
            if self.mode == "L":
                import cv2

                pixels = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY))
        if self.channels_first and pixels.ndim == 3:
            pixels = np.ascontiguousarray(pixels.transpose(2, 0, 1))
        return pixels.astype(np.float32) / np.float32(255) if self.real else pixels


@cache
def _decode(upright: bool) -> Decode:
    return Decode(upright=upright)


def _by_pillow(data: bytes, mode: str, *, upright: bool) -> Any:
    from PIL import Image, ImageOps

    picture: Any = Image.open(io.BytesIO(data), formats=_PILLOW_FORMATS)
    if upright:
        picture = ImageOps.exif_transpose(picture)
    return picture.convert(mode)


SPECS: dict[str, ImageSpec] = {
    **{mode.lower() + "8": ImageSpec(mode) for mode in ("L", "RGB", "RGBA")},
    **{mode.lower(): ImageSpec(mode, real=True) for mode in ("L", "RGB", "RGBA")},
    **{f"torch{mode.lower()}8": ImageSpec(mode, channels_first=True) for mode in ("L", "RGB", "RGBA")},
    **{
        f"torch{mode.lower()}": ImageSpec(mode, real=True, channels_first=True)
        for mode in ("L", "RGB", "RGBA")
    },
    "torch": ImageSpec("RGB", real=True, channels_first=True),
    **{f"pil{mode.lower()}": ImageSpec(mode, pillow=True) for mode in ("L", "RGB", "RGBA")},
    "pil": ImageSpec("RGB", pillow=True),
}
