"""Work of a known size: seconds of CPU, however busy the machine is."""

import time


def spin(seconds: float) -> None:
    """Keeps the calling thread busy for so many seconds of its own CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
