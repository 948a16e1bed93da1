"""The names of grain.python, which are names of grain too."""

from typing import Any

from loaderkit._base.lazy_package import lazy_names as _lazy_names
from loaderkit.interop.grain._installed import lazily as _lazily

_named, __dir__ = _lazy_names(globals())
__all__ = list(__dir__())  # a star import brings `experimental`, too


def __getattr__(name: str) -> Any:
    return _named(name) if name in __all__ else _lazily(__name__, name)
