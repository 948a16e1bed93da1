"""Short pieces of work, each timed several times."""

import time
from collections.abc import Callable


def least_seconds(
    run: Callable[[], object], times: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds of the fastest of so many calls: a disturbance can only make a call slower."""
    taken = []
    for _ in range(times):
        begin = clock()
        run()
        taken.append(clock() - begin)
    return min(taken)
