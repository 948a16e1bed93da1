"""Grain's DataLoader under its names: `import loaderkit.interop.grain as grain` runs a script written for Grain.

The names are those of `grain` and of `grain.python`. Batches, order, randomness and checkpoints are Grain's, bit for
bit; the engine is loaderkit's. The Dataset side of Grain (MapDataset, IterDataset) isn't here. What differs is in
docs/moving-from-grain.md.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .python import *  # noqa: F403, I001 - first: its `experimental` is another module with the same names
    from . import checkpoint as checkpoint
    from . import constants as constants
    from . import experimental as experimental  # type: ignore[no-redef]
    from . import multiprocessing as multiprocessing
    from . import python as python
    from . import samplers as samplers
    from . import sharding as sharding
    from . import sources as sources
    from . import transforms as transforms
    from .data_loader import DataLoaderIterator as DataLoaderIterator

    PyGrainCheckpointRestore: Any
    PyGrainCheckpointSave: Any
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    from . import python as _python
    from ._lazy import lazily as _lazily

    _MODULES = "checkpoint constants experimental multiprocessing python samplers sharding sources transforms"
    _named, _directory = _lazy_names(
        globals(),
        {**_python._HOMES, "DataLoaderIterator": "loaderkit.interop.grain.data_loader"},
        _MODULES.split(),
    )

    def __getattr__(name: str) -> Any:
        return _named(name) if name in _directory() else _lazily(__name__, name)

    def __dir__() -> list[str]:
        return ["__version__", *_directory()]


__version__ = "0.2.18"  # of the Grain whose behaviour this is
__version_info__ = (0, 2, 18)
