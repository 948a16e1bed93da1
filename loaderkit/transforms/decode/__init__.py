"""Decoding of records of data files: the fields of a tar record by their extensions, tf.train.Example, VOC's XML."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .by_extension import ByExtension as ByExtension
    from .example import Example as Example
    from .voc_xml import VocXml as VocXml
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "ByExtension": "loaderkit.transforms.decode.by_extension",
        "Example": "loaderkit.transforms.decode.example",
        "VocXml": "loaderkit.transforms.decode.voc_xml",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
