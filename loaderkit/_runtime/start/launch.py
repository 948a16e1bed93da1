"""The command that starts a worker process: an interpreter like the trainer's, whose first words are ours.

A folder of the user's may hold a `types.py` or a `signal.py`, which the trainer never imports because it has the
standard library's already. So a worker looks in the standard library first, then in the folders that hold this package
and what it needs, until it has imported its own code. All else that it takes over comes over its channel
(preparation.py), which has room for a path of any length.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import cloudpickle
import numpy as np

from loaderkit._system.descriptors import above_standard, is_stream
from loaderkit._system.platform import IN_WORKER, dying_with_parent_thread, worker_environment
from loaderkit.errors import WorkerError

_IGNORED = {signal.SIGINT, signal.SIGTERM}  # what a terminal or a scheduler sends to the whole group
# The modules that lead a worker to its own code: of this package, and of those that it needs.
_HERE = os.path.dirname(os.path.dirname(__file__))  # loaderkit/_runtime
_FILES = [_HERE, cloudpickle.__file__, np.__file__]
# Absolute from the first: in a zipapp they may be relative to the folder that the program was started in.
_PACKAGES = [os.path.dirname(os.path.dirname(os.path.abspath(file))) for file in _FILES if file]
_CODE = """\
import os, sys
standard = os.path.dirname(os.__file__)
sys.path[:] = [standard, os.path.join(standard, "lib-dynload"), *{packages!r}, *sys.path]
import signal
for ignored in (signal.SIGINT, signal.SIGTERM):
    signal.signal(ignored, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])
{dying}
from loaderkit._runtime.worker.main import start
start()
"""


def check_start() -> None:
    """Raises WorkerError where this program has no interpreter for worker processes, or must start none."""
    _interpreter()
    process = sys.modules.get("multiprocessing.process")
    script_again = process is not None and getattr(process.current_process(), "_inheriting", False)
    if script_again and IN_WORKER in os.environ:
        raise WorkerError(
            "an operation started a process with multiprocessing's 'spawn' or 'forkserver', which runs the script once "
            "more, and here the script starts workers whose operation would do it again. Put what the script does "
            "under: if __name__ == '__main__':"
        )


def launched(descriptors: Sequence[int]) -> "subprocess.Popen[bytes]":
    """A new worker process.

    Args:
        descriptors: what `worker.main` takes, each 3 or more; the same numbers in the worker.

    Raises OSError where the system starts no more processes, WorkerError where it has nothing to start.
    """
    # Before anything slow: a trainer may be killed while its worker imports, for seconds on a busy machine.
    code = _CODE.format(packages=_in_order(_PACKAGES), dying=dying_with_parent_thread(os.getpid()))
    arguments = map(str, (*descriptors[:3], os.getpid(), *descriptors[3:]))
    # -P: without it the current directory is searched first, also by the interpreter itself before our first statement.
    command = [_interpreter(), *_flags(), "-P", "-c", code, *arguments]
    # Blocked from its first instruction until it ignores them: a Ctrl-C would end an interpreter that is starting.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
    try:
        with above_standard():
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=_stream_for_worker(1),
                stderr=_stream_for_worker(2),
                pass_fds=descriptors,
                env=worker_environment(),
            )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stream_for_worker(number: int) -> int | None:
    return None if is_stream(number) else subprocess.DEVNULL


def _interpreter() -> str:
    # The documented way to say it in a program that embeds Python.
    spawn = sys.modules.get("multiprocessing.spawn")
    chosen = None if spawn is None else spawn.get_executable()
    executable = os.fsdecode(chosen) if chosen else sys.executable
    frozen = getattr(sys, "frozen", False) and executable == sys.executable
    if executable and not frozen:
        return executable
    what = (
        "this program is frozen, and starting it again would run the program"
        if frozen
        else f"sys.executable is {sys.executable!r}, as in a program that embeds Python"
    )
    raise WorkerError(
        f"worker processes need a Python interpreter, and {what}. Write worker_kind='thread' or worker_count=0, or "
        "name an interpreter that has the same packages: multiprocessing.set_executable('/path/to/python')"
    )


def _in_order(folders: list[str]) -> list[str]:
    # As the trainer finds them: one of the folders may hold another copy of what is in the next.
    places = {folder: place for place, folder in reversed([*enumerate(sys.path)])}
    return sorted(dict.fromkeys(folders), key=lambda folder: places.get(folder, -1))


def _flags() -> list[str]:
    """The trainer's, as multiprocessing takes them over, and the -X options that it leaves out."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    for name, value in sys._xoptions.items():
        option = name if value is True else f"{name}={value}"
        if option not in flags:
            flags += ["-X", option]
    return flags
