"""What a call costs, counted in lines of Python: the same on every machine, as seconds are not."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class _LineLimit(BaseException):
    """Passes through an `except Exception` of the call."""


def within_line_limit(call: Callable[[], Any], most: int) -> bool:
    """Whether a call runs at most so many lines and calls of Python in this thread; it is stopped where there are more.

    What compiled code does isn't seen. A trace function of before, such as a debugger's, is not restored.

    >>> (
    ...     within_line_limit(lambda: sum(range(1000)), 100),
    ...     within_line_limit(lambda: sum(n for n in range(1000)), 100),
    ... )
    (True, False)
    """
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += 1
        if lines > most:
            raise _LineLimit
        return count

    sys.settrace(count)
    try:
        call()
    except _LineLimit:
        return False
    finally:
        sys.settrace(None)
    return True
