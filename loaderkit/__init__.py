"""A deterministic, checkpointable data loading engine for training in JAX."""

import atexit as _atexit
import logging as _logging  # noqa: F401 - so that its exit handler runs after ours, which may log
import os as _os
import sys as _sys
from importlib import import_module as _import_module
from typing import Any

from loaderkit._base.lazy_package import lazy_names as _lazy_names
from loaderkit._base.system import start_folder as _start_folder  # noqa: F401 - records the current directory
from loaderkit._base.version import __version__ as __version__

# Names are imported later, when the program may be in another folder and a relative path would be wrong.
__path__[:] = map(_os.path.abspath, __path__)

# module -> the package to install, for modules that a name of ours may lack.
_PACKAGES = {"orbax": "orbax-checkpoint", "jax": "jax"}


@_atexit.register
def _end_workers() -> None:
    # Registered here and not by the first loader: exit handlers that a script registers later run before this one, and
    # may still use iterators.
    if (module := _sys.modules.get("loaderkit._loader.shared_executor")) is not None:
        module.end_workers()


# Imported when it is first used, so that a worker or a script imports what it needs only; the list is __init__.pyi.
# `open` would hide Python's own, `decode` and `features` are modules, `load` is a short form of Dataset and DataLoader;
# the others need JAX or Orbax.
_NOT_STARRED = (
    "CheckpointHandler CheckpointRestore CheckpointSave ShardByJaxProcess ShardBySharding device_iterator "
    "decode features load open"
)
_named, _directory = _lazy_names(globals(), not_starred=_NOT_STARRED.split())


def __getattr__(name: str) -> Any:
    if name == "combine":
        return _import_module("loaderkit.combine")
    if name not in _directory():
        from loaderkit._base.former import former_name

        return former_name("loaderkit", name)
    try:
        return _named(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        package = _PACKAGES.get(missing, missing)
        raise ImportError(
            f"lk.{name} needs {package}, which isn't installed: pip install {package}"
        ) from error


def __dir__() -> list[str]:
    return ["__version__", *_directory()]
