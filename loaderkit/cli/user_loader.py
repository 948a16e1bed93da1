"""A loader of the user's, for commands: of a script's first iter(loader), or of a function module:function."""

import os
import runpy
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from loaderkit._loader.loader import DataLoader

from .exit_status import ExitStatus, UsageError
from .named_function import named_function

OnLoader = Callable[[DataLoader[Any], Any], int]


def with_loader(name: str, arguments: list[str], work: OnLoader) -> int:
    """Does something with the loader that is named.

    A script has no finally, no exit handler and no last checkpoint: the process ends within its iter(loader). What it
    did before has happened.

    Args:
        name: a script's path, or module:function.
        arguments: the script's.
        work: takes the loader, and the step where the function gave one; gives the exit status.
    """
    if ":" in name and not os.path.exists(name):
        loader, step = _of_function(name)
        return work(loader, step)
    if not os.path.isfile(name):
        raise UsageError(f"SCRIPT: expected a script or module:function, got {name}, which isn't there")
    iterate = DataLoader.__iter__

    def hook(loader: DataLoader[Any]) -> NoReturn:
        status = int(ExitStatus.UNREADABLE)
        DataLoader.__iter__ = iterate  # type: ignore[method-assign]
        try:
            status = work(loader, None)
        except UsageError as error:
            print(f"loaderkit: {error}", file=sys.stderr)
            status = int(ExitStatus.USAGE)
        except BaseException as error:  # noqa: BLE001 - the process ends here
            print(f"loaderkit: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    DataLoader.__iter__ = hook  # type: ignore[method-assign]
    sys.argv = [name, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
    try:
        runpy.run_path(name, run_name="__main__")
    finally:
        DataLoader.__iter__ = iterate  # type: ignore[method-assign]
    raise UsageError(
        f"SCRIPT: expected one that iterates over a loader, got {name}, which ended without iter(loader)"
    )


def _of_function(name: str) -> tuple[DataLoader[Any], Any]:
    made = named_function("MODULE:FUNCTION", name)()
    loader, step = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(loader, DataLoader):
        raise UsageError(
            f"MODULE:FUNCTION: expected one that returns a loader, got a {type(loader).__name__}"
        )
    return loader, step
