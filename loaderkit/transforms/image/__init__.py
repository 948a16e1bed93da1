"""Images: decoding of only the part that a crop needs, and the usual augmentations. Needs the extra `image`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .crops import DecodeCenterCrop as DecodeCenterCrop
    from .crops import DecodeRandomResizedCrop as DecodeRandomResizedCrop
    from .decode import Decode as Decode
    from .geometry import RandomCrop as RandomCrop
    from .geometry import RandomFlip as RandomFlip
    from .geometry import Resize as Resize
    from .pixels import HWCToCHW as HWCToCHW
    from .pixels import Normalize as Normalize
    from .pixels import ToFloat as ToFloat
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "Decode": "loaderkit.transforms.image.decode",
        "DecodeCenterCrop": "loaderkit.transforms.image.crops",
        "DecodeRandomResizedCrop": "loaderkit.transforms.image.crops",
        "HWCToCHW": "loaderkit.transforms.image.pixels",
        "Normalize": "loaderkit.transforms.image.pixels",
        "RandomCrop": "loaderkit.transforms.image.geometry",
        "RandomFlip": "loaderkit.transforms.image.geometry",
        "Resize": "loaderkit.transforms.image.geometry",
        "ToFloat": "loaderkit.transforms.image.pixels",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
