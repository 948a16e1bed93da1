"""What to install where an optional library is missing: one text for all errors."""

from importlib import import_module
from typing import Any


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


def missing_library(needs: str, library: str, extra: str) -> ImportError:
    """The error of a part whose library isn't installed.

    Args:
        needs: which part it is, with the verb: "CBOR fields need".
        library: its name.
        extra: of `pyproject.toml`, that brings it.

    >>> str(missing_library("lk.interop.tqdm.progress needs", "tqdm", "progress"))
    "lk.interop.tqdm.progress needs tqdm: pip install '.[progress]' in a clone of loaderkit"
    """
    return ImportError(f"{needs} {library}: pip install '.[{extra}]' in a clone of loaderkit")
