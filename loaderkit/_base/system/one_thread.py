"""One thread for BLAS and OpenMP while operations run: the order in which they add depends on the number of threads.

Worker processes have one by their environment. In the trainer the libraries keep their numbers between tasks. OpenBLAS
and BLIS have one number for the process, so they compute in one thread as long as any worker thread is at work; OpenMP
and MKL have one for each thread. PyTorch computes with OpenMP and MKL.
"""

import contextlib
import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")

_NAMES = ("blas", "blis", "mkl", "omp", "torch_cpu")  # in names of files of libraries that have such numbers


# Of each kind of library: what gets and sets its number, whether there is one number for the process, and what `set`
# returns: the number that it has replaced, or nothing.
_KINDS: tuple[tuple[str, str, bool, Any], ...] = (
    *(
        (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}", True, None)
        for prefix, suffix in product(("", "scipy_"), ("", "64_", "_64"))
    ),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads", True, None),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads_Local", False, ctypes.c_int),
    ("omp_get_max_threads", "omp_set_num_threads", False, None),
)


class _Library(NamedTuple):
    get: Any  # the C functions
    set: Any
    shared: bool  # one number for the process
    several: bool  # whether it had more threads than one when it was found


_Replaced = list[tuple[_Library, int]]  # what to put back


class _Process:
    """The libraries of this process, and who needs one thread now."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal handler may call next()
        self.libraries: list[_Library] = []
        self.inside: set[OneThread] = set()
        self.replaced: _Replaced = []  # of shared libraries
        self.modules = -1  # imported when it looked last
        self._addresses: set[int | None] = set()

    def look(self) -> None:
        """Finds the libraries that were loaded since the last time; an import brings them."""
        first, modules = self.modules < 0, len(sys.modules)
        for path in _loaded():
            if any(name in os.path.basename(path) for name in _NAMES):
                with contextlib.suppress(OSError):  # its file was replaced
                    self._add(ctypes.PyDLL(path, mode=os.RTLD_NOLOAD))
        self.modules = (
            modules  # last: threads that end meanwhile read it without the lock, and look, too, until then
        )
        if first and all(library.get.__name__ == "omp_get_max_threads" for library in self.libraries):
            _warn_of_blas()

    def _add(self, library: ctypes.PyDLL) -> None:
        for get_name, set_name, shared, returns in _KINDS:
            get, put = getattr(library, get_name, None), getattr(library, set_name, None)
            # Also found in a library that is linked with the one that defines it.
            address = ctypes.cast(put, ctypes.c_void_p).value if put else None
            if get and put and address not in self._addresses:
                self._addresses.add(address)
                get.argtypes, put.argtypes, put.restype = (), (ctypes.c_int,), returns
                self.libraries.append(_Library(get, put, shared, several=get() > 1))


class OneThread:
    """Calls functions while BLAS and OpenMP compute in one thread; for one thread at a time.

    >>> OneThread().run(lambda: np.ones(3) @ np.ones(3), again=True)
    np.float64(3.0)
    """

    def __init__(self) -> None:
        self._replaced: _Replaced = []  # in this thread
        self._known = 0

    def run(self, function: Callable[[], T], *, again: bool) -> T:
        """What the function returns.

        Args:
            function: has no arguments.
            again: whether it is called a second time where a library with several threads was loaded in the first call.
        """
        try:
            self.begin()
            result = function()
            if again and self.was_late():
                self.begin()
                result = function()
            return result
        finally:
            self.end()

    def begin(self) -> None:
        """Sets one thread; again, where a library was loaded since."""
        process = _process
        with process.lock:
            process.inside.add(self)
            if len(sys.modules) != process.modules:
                process.look()
            torch = sys.modules.get("torch")
            if torch is not None and hasattr(torch, "get_num_threads"):
                torch.get_num_threads()  # sets the number of a thread that hasn't used it yet: before us
            self._known = len(process.libraries)
            for library in process.libraries:
                if (before := library.get()) != 1:
                    replaced = library.set(1)
                    to_put_back = process.replaced if library.shared else self._replaced
                    to_put_back.append((library, before if replaced is None else replaced))

    def end(self) -> None:
        """Puts all back, also where `begin` was interrupted."""
        process = _process
        with process.lock:
            process.inside.discard(self)
            _put_back(self._replaced)
            if not process.inside:
                _put_back(process.replaced)

    def was_late(self) -> bool:
        """Whether a library with several threads was loaded since `begin`."""
        process = _process
        if len(sys.modules) == process.modules and len(process.libraries) == self._known:
            return False
        with process.lock:
            process.look()
            return any(library.several for library in process.libraries[self._known :])


def _put_back(replaced: _Replaced) -> None:
    while replaced:
        library, before = replaced.pop()
        library.set(before)


def _loaded() -> set[str]:
    """The files of the libraries in this process."""
    if sys.platform == "darwin":
        system = ctypes.CDLL(None)
        system._dyld_get_image_name.restype = ctypes.c_char_p
        return {os.fsdecode(system._dyld_get_image_name(k)) for k in range(system._dyld_image_count())}
    try:
        with open("/proc/self/maps", "rb") as file:
            return {os.fsdecode(line[line.index(b"/") :].rstrip()) for line in file if b".so" in line}
    except (OSError, ValueError):
        return set()


def _warn_of_blas() -> None:
    blas: Any = np.show_config(mode="dicts")
    name = blas.get("Build Dependencies", {}).get("blas", {}).get("name", "none")
    told = {"VECLIB_MAXIMUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}
    if name in ("none", "blas") or any(os.environ.get(variable) == "1" for variable in told):
        return
    warnings.warn(
        f"numpy's BLAS, {name}, can't be told to compute in one thread here, as it does in worker processes: the last "
        "bits of sums and products may depend on worker_count. Start the program with its variable set to 1: "
        "VECLIB_MAXIMUM_THREADS for Accelerate, OPENBLAS_NUM_THREADS or OMP_NUM_THREADS for others",
        stacklevel=2,
    )


_process = _Process()


def _forked() -> None:
    # The worker threads aren't in the child, and one may have held the lock.
    _process.lock = threading.RLock()
    _process.inside.clear()
    OneThread().end()


os.register_at_fork(after_in_child=_forked)
