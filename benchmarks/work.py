"""Work of a known size in CPU seconds, which doesn't depend on the load of the machine."""

import time


def spin(seconds: float) -> None:
    """Keeps the calling thread busy for a number of seconds of its own CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
