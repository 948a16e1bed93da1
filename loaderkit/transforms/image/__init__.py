"""Images: decoding only what a crop needs, and the usual augmentations. Needs the extra `image`."""

from loaderkit._base.lazy_package import public_names as _public_names

from .crops import DecodeCenterCrop as DecodeCenterCrop
from .crops import DecodeRandomResizedCrop as DecodeRandomResizedCrop
from .decode import Decode as Decode
from .geometry import RandomCrop as RandomCrop
from .geometry import RandomFlip as RandomFlip
from .geometry import Resize as Resize
from .pixels import HWCToCHW as HWCToCHW
from .pixels import Normalize as Normalize
from .pixels import ToFloat as ToFloat


def __dir__() -> list[str]:
    return _public_names(globals())
