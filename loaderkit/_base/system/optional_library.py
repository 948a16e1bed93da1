"""Libraries that an extra installs, imported where they are needed."""

from importlib import import_module
from typing import Any

from loaderkit._base.extras import missing_library


def library(module: str, needs: str, extra: str, *, package: str | None = None) -> Any:
    """A module of an optional library; the error of `missing_library` where it isn't installed.

    Args:
        module: its name.
        needs, extra: as `missing_library` takes them.
        package: the library's name, where the module has another.

    >>> library("json", "texts need", "text").__name__
    'json'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_library(needs, package or module.partition(".")[0], extra) from error
