"""Ctrl-C at any line of the package."""

import sys
from collections.abc import Callable
from linecache import getline
from pathlib import Path
from typing import Any

import loaderkit

PACKAGE = str(Path(loaderkit.__file__).parent)


class InterruptAt:
    """Raises KeyboardInterrupt at the n-th line of the package that this thread comes to, as a signal would.

    Not at a `with`: its line comes again before its block is left, where an exception would leave the lock taken, and
    where the interpreter hears no signal.

    inside: the name of a function from whose first call on lines count, None for all.
    """

    def __init__(self, line: int, inside: str | None = None) -> None:
        self.left = line
        self.inside = inside

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if self.inside == frame.f_code.co_name:
            self.inside = None
        if self.inside is not None:
            return None
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line" and not getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(
            "with "
        ):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def next_interrupted(it: Any, line: int) -> bool:
    """Asks for an element and interrupts that at a line; False if the call ended before that line."""
    return interrupted(lambda: next(it), line)


def interrupted(act: Callable[[], Any], line: int, inside: str | None = None) -> bool:
    """Runs a function and interrupts it at a line, counted as in InterruptAt; False if it ended before that line."""
    tracer = sys.gettrace()
    sys.settrace(InterruptAt(line, inside))
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracer)
    return False
