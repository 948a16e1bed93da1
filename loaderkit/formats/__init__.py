"""Formats of data files: those of loaderkit, and how another package adds its own."""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
