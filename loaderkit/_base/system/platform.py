"""What differs between operating systems for a worker process: its descriptor, the death of its parent, its state.

Linux has all of it. macOS lacks pidfds and the parent-death signal; there the trainer and its workers learn of each
other's end a moment later, when their channel closes.
"""

import contextlib
import os
import signal
import sys

from .limits import above_standard
from .processor_level import levelled

LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
IN_WORKER = "LOADERKIT_WORKER"  # set in the environment of workers and of their child processes


def open_process(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where the system has none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        with above_standard():
            return os.pidfd_open(pid)
    except OSError:  # an old kernel, or the process has ended: the closing of its channel tells
        return None


def dying_with_parent_thread(parent: int) -> str:
    """Statements for the start of a new interpreter: the kernel kills it when the thread that started it ends.

    The kernel does so even during a stuck C call. Where the parent has ended already, the interpreter exits.

    Args:
        parent: pid of the process of that thread.
    """
    if not LINUX:
        return ""
    return (
        f"import ctypes, os; ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)}, 0, 0, 0);"
        f"os.getppid() == {parent} or os._exit(0);"
    )


def process_state(pid: int) -> str:
    """The state of a process according to the kernel, as text for an error.

    >>> process_state(os.getpid()).startswith("the kernel says")
    True
    """
    try:
        with open(f"/proc/{pid}/status") as file:
            status = file.read().splitlines()
        state = next(line.partition(":")[2].strip() for line in status if line.startswith("State:"))
    except OSError:
        return "the kernel says nothing about it"
    inside = ""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/wchan") as file:
        inside = file.read().strip()
    return f"the kernel says {state}" + (f", in {inside}" if inside not in ("", "0") else "")


# Before the first import, since libraries read them once: no accelerator is seen, and libraries start no threads.
WORKER_SETTINGS = {
    IN_WORKER: "1",
    **dict.fromkeys(
        ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"), ""
    ),
    "JAX_PLATFORMS": "cpu",
    **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")},
    "VECLIB_MAXIMUM_THREADS": "1",
    "OPENCV_FOR_THREADS_NUM": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def worker_environment(level: str | None = None) -> dict[str, str]:
    """The trainer's environment, with the settings of workers; those of a level of processors, too."""
    # With PYTHONHASHSEED sets of texts have one order.
    environment = {"PYTHONHASHSEED": "0", **os.environ, **WORKER_SETTINGS}
    return environment if level is None else levelled(level, environment)
