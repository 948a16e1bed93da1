"""Other libraries, one a room, each imported when it is first asked for."""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
