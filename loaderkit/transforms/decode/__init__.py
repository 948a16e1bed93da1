"""Decoding of records of data files: the fields of a tar record by their extensions, tf.train.Example, VOC's XML."""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
