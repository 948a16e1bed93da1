"""Which module's import runs, in a process that unpickles a program: it imports the modules that the program names."""

import contextlib
import sys
import threading
from collections.abc import Iterator

_unpickling = threading.Event()


@contextlib.contextmanager
def unpickling_program() -> Iterator[None]:
    """Around the unpickling of a program, in the main thread of a process that was started for it."""
    _unpickling.set()
    try:
        yield
    finally:
        _unpickling.clear()


def module_of_program() -> str | None:
    """The module whose import runs because a program is unpickled; None where none is.

    >>> module_of_program() is None
    True
    """
    # Of the main thread: an import may wait for a thread that it starts.
    frame = sys._current_frames().get(threading.main_thread().ident or 0) if _unpickling.is_set() else None
    while frame is not None:
        if frame.f_code.co_name == "<module>" and (name := frame.f_globals.get("__name__")) != "__main__":
            return str(name)
        frame = frame.f_back
    return None
