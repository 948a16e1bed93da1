"""Formats of data files: those of loaderkit, and how another package adds its own."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .format import Format as Format
    from .registry import register as register
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {"Format": "loaderkit.formats.format", "register": "loaderkit.formats.registry"}
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
