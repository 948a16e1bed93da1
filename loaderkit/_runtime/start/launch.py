"""The command that starts a worker process: an interpreter like the trainer's, with our first statements.

A folder of the user's may hold a `types.py` or a `signal.py`, which the trainer never imports because it has the
standard library's already. So until a worker has imported its own code, it searches the standard library first, then
the folders of this package and its dependencies. Everything else that it takes over arrives over its channel
(preparation.py), which isn't limited in length as a command line is.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

import cloudpickle
import numpy as np

from loaderkit._base.system.limits import above_standard, is_stream, naming_limits
from loaderkit._base.system.module_import import module_of_program
from loaderkit._base.system.platform import IN_WORKER, dying_with_parent_thread, worker_environment
from loaderkit.errors import WorkerError

_IGNORED = {signal.SIGINT, signal.SIGTERM}  # a terminal or a scheduler sends these to the whole process group
# Files of the packages that a worker imports first: this one and its dependencies.
_HERE = os.path.dirname(os.path.dirname(__file__))  # loaderkit/_runtime
_FILES = [_HERE, cloudpickle.__file__, np.__file__]
# Made absolute at import: in a zipapp they may be relative to the folder in which the program was started.
PACKAGES = [os.path.dirname(os.path.dirname(os.path.abspath(file))) for file in _FILES if file]
_CODE = """\
import gc, os, sys
gc.disable()  # of what is imported here nothing is garbage, and looking for it takes a tenth of a start
standard = os.path.dirname(os.__file__)
sys.path[:] = [standard, os.path.join(standard, "lib-dynload"), *{packages!r}, *sys.path]
import signal
ends, masks = (signal.SIGINT, signal.SIGTERM), []
def blocked():  # one that comes before a forked child has its own handlers waits for them
    masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ends))
def unblocked():
    signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop())
def default():
    for end in ends:
        signal.signal(end, signal.SIG_DFL)
    unblocked()
for ignored in ends:
    # Not SIG_IGN, which the programs that it starts would inherit, and which no terminate() of theirs would end.
    signal.signal(ignored, lambda *_: None)
    signal.siginterrupt(ignored, False)
os.register_at_fork(before=blocked, after_in_parent=unblocked, after_in_child=default)
signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)
{dying}
from {module} import start
gc.freeze()  # nor do later collections look at it
gc.enable()
start()
"""
_WORKER = "loaderkit._runtime.worker.main"


def check_start() -> None:
    """Raises WorkerError where this program has no interpreter for worker processes, or would start them endlessly."""
    _interpreter()
    process = sys.modules.get("multiprocessing.process")
    script_again = process is not None and getattr(process.current_process(), "_inheriting", False)
    if script_again and IN_WORKER in os.environ:
        raise WorkerError(
            "an operation started a process with multiprocessing's 'spawn' or 'forkserver', which runs the script "
            "again, and the script starts workers, in which the operation would do the same without end. Put the "
            "script's statements under: if __name__ == '__main__':"
        )


def check_import() -> None:
    """Raises WorkerError where this process, one of a loader, imports a module that starts worker processes."""
    module = module_of_program()
    if module is not None:
        raise WorkerError(
            f"the import of module {module!r} in a process of a loader starts worker processes, and where these import "
            f"it as well they would start more, without end. Put what starts them in {module!r} into a function, or "
            "under: if __name__ == '__main__':"
        )


def launched(
    descriptors: Sequence[int],
    module: str = _WORKER,
    level: str | None = None,
    *,
    ends_with_thread: bool = True,
    settings: dict[str, str] | None = None,
) -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    """A new worker process, or another process of a loader: this side of a channel to it, and the process.

    Args:
        descriptors: those that `worker.main.start` takes, each 3 or more; they keep their numbers in the process. None
            where they are sent later.
        module: has the `start` that the process calls, with the other side of the channel, the pid of this process and
            the descriptors in `sys.argv`.
        level: of processors, as which its libraries compute.
        ends_with_thread: whether the kernel kills it when the calling thread ends; else it has to look for its caller.
        settings: environment variables that it has where the trainer's environment lacks them.

    Raises OSError where the system starts no more processes, and WorkerError where there is no interpreter to start.
    """
    # `dying` comes before slow imports: the trainer may be killed during them, which take seconds on a busy machine.
    dying = dying_with_parent_thread(os.getpid()) if ends_with_thread else ""
    code = _CODE.format(packages=_in_order(PACKAGES), dying=dying, module=module)
    # -P: without it the current directory is searched first, also by the interpreter itself before our first statement.
    command = [_interpreter(), *_flags(), "-P", "-c", code]
    with naming_limits("a channel to a child process"), above_standard():
        ours, theirs = socket.socketpair()
    # The worker inherits the blocked signals, until its code ignores them: a Ctrl-C would end a starting interpreter.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
    try:
        with theirs, above_standard():
            process = subprocess.Popen(
                [*command, *map(str, (theirs.fileno(), os.getpid(), *descriptors))],
                stdin=subprocess.DEVNULL,
                stdout=_stream_for_worker(1),
                stderr=_stream_for_worker(2),
                pass_fds=(theirs.fileno(), *descriptors),
                env=(settings or {}) | worker_environment(level),
            )
    except BaseException:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    ours.setblocking(False)
    return ours, process


def how_it_ended(code: int | None) -> str:
    """A process's exit code as text; None where it hasn't ended."""
    if code is None:
        return "no end: it can't be killed"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"exit code {code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"exit code {code}"


def _stream_for_worker(number: int) -> int | None:
    return None if is_stream(number) else subprocess.DEVNULL


def _interpreter() -> str:
    # multiprocessing.set_executable is the documented way for programs that embed Python.
    spawn = sys.modules.get("multiprocessing.spawn")
    chosen = None if spawn is None else spawn.get_executable()
    executable = os.fsdecode(chosen) if chosen else sys.executable
    frozen = getattr(sys, "frozen", False) and executable == sys.executable
    if executable and not frozen:
        return executable
    got = (
        "a frozen program, which would run again as a whole"
        if frozen
        else f"{sys.executable!r}, as in a program that embeds Python"
    )
    raise WorkerError(
        f"sys.executable: expected a Python interpreter for worker processes, got {got}. Write worker_kind='thread' "
        "or worker_count=0, or set an interpreter that has the same packages: "
        "multiprocessing.set_executable('/path/to/python')"
    )


def _in_order(folders: list[str]) -> list[str]:
    # In the trainer's order: a folder may hold another copy of a package of the next folder.
    places = {folder: place for place, folder in reversed([*enumerate(sys.path)])}
    return sorted(dict.fromkeys(folders), key=lambda folder: places.get(folder, -1))


def _flags() -> list[str]:
    """The trainer's interpreter flags, as multiprocessing passes them on, and the -X options that it leaves out."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    for name, value in sys._xoptions.items():
        option = name if value is True else f"{name}={value}"
        if option not in flags:
            flags += ["-X", option]
    return flags
