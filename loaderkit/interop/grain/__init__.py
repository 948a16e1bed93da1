"""Grain under its names: `import loaderkit.interop.grain as grain` runs a script written for Grain.

The names are those of `grain` and of `grain.python`. Batches, order, randomness and checkpoints are Grain's, bit for
bit; the engine is loaderkit's. What differs is in docs/moving-from-grain.md.
"""

from typing import Any

from loaderkit._base.lazy_package import lazy_names as _lazy_names

from ._installed import lazily as _lazily

_named, _directory = _lazy_names(globals())


def __getattr__(name: str) -> Any:
    return _named(name) if name in _directory() else _lazily(__name__, name)


def __dir__() -> list[str]:
    return ["__version__", *_directory()]


__version__ = "0.2.18"  # of the Grain whose behaviour this is
__version_info__ = (0, 2, 18)
