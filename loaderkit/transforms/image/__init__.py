"""Images: decoding of only the part that a crop needs, and the usual augmentations. Needs the extra `image`."""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
