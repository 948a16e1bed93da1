"""Children that share all memory made so far."""

import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress


def fork(work: Callable[[], object]) -> int:
    """Runs a function in a child, and nothing after it; the child's pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(status)


def wait_for(pid: int) -> None:
    """Waits for a child's end; RuntimeError if it failed."""
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f"a child process ended with {os.waitstatus_to_exitcode(status)}")


def end(children: list[int]) -> None:
    """Kills and reaps children."""
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
