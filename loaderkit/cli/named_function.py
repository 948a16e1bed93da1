"""A user's function that an option names as MODULE:FUNCTION."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from .exit_status import UsageError


def named_function(option: str, name: str) -> Callable[..., Any]:
    """A Python function by its module and name; UsageError where there is none.

    option: that gives it. name: such as "filters:is_cat" or "package.filters:is_cat"; modules of the current folder
    are found, too.

    >>> named_function("--where", "os.path:basename")("a/b")
    'b'
    """
    module, colon, function = name.partition(":")
    if not colon or not module or not function:
        raise UsageError(f"{option}: expected MODULE:FUNCTION, got {name!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in function.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"{option}: expected a function that Python can import, got {name!r}: {error}"
        ) from error
    if not callable(found):
        raise UsageError(f"{option}: expected a function, got {name!r}, which is {type(found).__name__}")
    return found  # type: ignore[no-any-return]
