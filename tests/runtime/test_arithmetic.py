"""Equal bits with 0 workers, threads and processes: threads of BLAS and OpenMP, control words, contexts, sets."""

import contextvars
import ctypes
import decimal
import hashlib
import locale
import platform
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from child_scripts import run
from runtime_loaders import numbers

import loaderkit as lk
import loaderkit._base.system.one_thread as one_thread
from loaderkit._base.system.arithmetic import Arithmetic
from loaderkit._base.system.one_thread import OneThread, _process
from loaderkit._base.system.platform import worker_environment

WAYS = [{}, {"worker_count": 2, "worker_kind": "thread"}, {"worker_count": 1}]


@pytest.fixture
def two_threads(request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    """The libraries of this process, each with two threads, on one processor too; `name` is imported before."""
    name = getattr(getattr(request.node, "callspec", None), "params", {}).get("name", "numpy")
    pytest.importorskip({"scipy": "scipy.linalg"}.get(name, name))
    _process.look()
    before = [(library, library.get()) for library in _process.libraries]
    for library, _ in before:
        library.set(2)
    if not any(library.shared for library, _ in before):
        pytest.skip("numpy's BLAS has no number of threads here")
    yield _process.libraries
    for library, number in before:
        library.set(number)


def of_numpy(generator: "np.random.Generator") -> list[Any]:
    a = generator.standard_normal((300, 299)).astype(np.float32)
    square = a[:299]
    parts = [
        a @ square,
        square @ a[0, :299],
        np.dot(a.ravel(), a.ravel()),
        np.linalg.solve(square, a[:299, :9]),
    ]
    return [*parts, *np.linalg.svd(a[:99]), np.linalg.eigh(square + square.T)[0], np.fft.fft2(a)]


def of_scipy(generator: "np.random.Generator") -> list[Any]:
    import scipy.fft
    import scipy.linalg

    a = generator.standard_normal((299, 299))
    return [*scipy.linalg.lu(a), scipy.linalg.expm(a / 99), scipy.fft.fft2(a)]


def of_cv2(generator: "np.random.Generator") -> list[Any]:
    import cv2

    f = generator.random((299, 301, 3)).astype(np.float32)
    turn = np.array([[0.9, 0.1, 3], [-0.1, 0.9, 2]])
    parts = [cv2.resize(f, (100, 77)), cv2.GaussianBlur(f, (7, 7), 1.3), cv2.warpAffine(f, turn, (200, 100))]
    square = f[:, :299, 0].copy()
    return [
        *parts,
        cv2.cvtColor(f, cv2.COLOR_RGB2HSV),
        *cv2.SVDecomp(square),
        *cv2.meanStdDev(f),
        cv2.dft(square),
    ]


def of_jax(generator: "np.random.Generator") -> list[Any]:
    import jax

    a = generator.standard_normal((299, 299)).astype(np.float32)
    with jax.default_device(jax.devices("cpu")[0]):
        return [jax.jit(lambda x: jax.numpy.tanh(x @ x).sum(0))(a), jax.jit(jax.numpy.linalg.svd)(a)[1]]


def of_torch(generator: "np.random.Generator") -> list[Any]:
    import torch

    a = torch.from_numpy(generator.standard_normal((700, 299)).astype(np.float32))
    image = a[:290].reshape(1, 10, 29, 299)
    parts = [a.sum(), a @ a.T, torch.softmax(a, 1), torch.fft.fft2(a), torch.linalg.svdvals(a[:200])]
    return [*parts, torch.nn.functional.conv2d(image, torch.ones(4, 10, 3, 3)), a.std(), a.cumsum(0)]


FUNCTIONS = {"numpy": of_numpy, "scipy": of_scipy, "cv2": of_cv2, "jax": of_jax, "torch": of_torch}


@pytest.mark.parametrize(
    "name",
    [
        "numpy",
        pytest.param("scipy", marks=pytest.mark.slow),
        pytest.param("cv2", marks=pytest.mark.slow),
        pytest.param("jax", marks=pytest.mark.slow),
        pytest.param("torch", marks=[pytest.mark.slow, pytest.mark.torch]),
    ],
)
def test_the_same_bits_with_any_workers(name, two_threads):
    """Products, decompositions, transforms, pictures; the trainer's libraries have more threads than one."""
    function = FUNCTIONS[name]

    def digest(_: int, generator: "np.random.Generator") -> str:
        made = [np.ascontiguousarray(part) for part in function(generator)]
        return " ".join(hashlib.sha256(part.tobytes()).hexdigest()[:9] for part in made)

    found = []
    for way in WAYS:
        sampler = lk.IndexSampler(2, shuffle=False, seed=0, num_epochs=1)
        with numbers(2, lk.RandomMap(digest), sampler=sampler, **way) as loader:
            found.append([*loader])
    assert found[0] == found[1] == found[2]
    assert all(library.get() > 1 for library in two_threads if library.shared)


def numbers_of_threads(*_: Any) -> list[int]:
    return [library.get() for library in _process.libraries]


@pytest.mark.parametrize("way", WAYS[:2], ids=["no workers", "threads"])
def test_operations_run_with_one_thread_and_the_trainer_keeps_its_own(way, two_threads):
    """Also where an operation raises, is interrupted, or has a loader of its own."""

    def fails(x: int) -> list[int]:
        if x == 1:
            raise OSError("broken")
        return inner(x)

    def inner(_: int) -> list[int]:
        with numbers(1, numbers_of_threads) as loader:
            return [*next(iter(loader)), *numbers_of_threads()]

    before = numbers_of_threads()
    with numbers(3, fails, **way) as loader:
        it = iter(loader)
        assert {*next(it)} == {1}
        with pytest.raises(OSError, match="broken"):
            next(it)
        it.close()
    assert numbers_of_threads() == before
    with pytest.raises(KeyboardInterrupt):
        next(iter(numbers(1, interrupted)))
    assert numbers_of_threads() == before


def interrupted(_: int) -> None:
    raise KeyboardInterrupt


def test_one_that_is_interrupted_as_it_begins_puts_all_back(two_threads, monkeypatch):
    """And one that ends while another one computes leaves the shared numbers to that."""
    before = numbers_of_threads()
    first, second = OneThread(), OneThread()
    first.begin()
    assert second.run(numbers_of_threads, again=False) == [1] * len(two_threads) == numbers_of_threads()
    first.end()
    assert numbers_of_threads() == before
    monkeypatch.setattr(_process, "look", lambda: interrupted(0))
    monkeypatch.setattr(_process, "modules", -2)
    with pytest.raises(KeyboardInterrupt):
        first.run(int, again=False)
    assert numbers_of_threads() == before and not _process.inside


@pytest.mark.slow
def test_a_library_that_an_operation_imports_computes_in_one_thread_from_the_first_record_on(tmp_path):
    """What was computed meanwhile is computed again."""
    pytest.importorskip("scipy")
    out = run(
        tmp_path,
        "import os\n"
        "os.environ.pop('OPENBLAS_NUM_THREADS', None)\n"
        "import loaderkit as lk\n"
        "from loaderkit._base.system.one_thread import _process\n"
        "calls = []\n"
        "def several(x):\n"
        "    import scipy.linalg\n"
        "    calls.append(x)\n"
        "    _process.look()\n"
        "    return [library.get() for library in _process.libraries]\n"
        "_process.look()\n"
        "_process.libraries[0].set(2)\n"
        "known = len(_process.libraries)\n"
        "first = next(iter(lk.load(range(4), num_epochs=1, operations=[several])))\n"
        "late = [library for library in _process.libraries[known:] if library.several]\n"
        "print(set(first) == {1}, calls.count(0) == (2 if late else 1))\n",
    )
    assert out == "True True\n"


def test_a_blas_that_has_no_number_is_said_once(monkeypatch):
    """As Accelerate's; where the environment gives it one thread, nothing is to be said."""
    monkeypatch.setattr(one_thread, "_loaded", set)
    config = {"Build Dependencies": {"blas": {"name": "accelerate"}}}
    monkeypatch.setattr(np, "show_config", lambda mode: config)
    for name in ("VECLIB_MAXIMUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    fresh = one_thread._Process()
    with pytest.warns(UserWarning, match="accelerate, can't be told to compute in one thread"):
        fresh.look()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh.look()
        monkeypatch.setenv("VECLIB_MAXIMUM_THREADS", "1")
        one_thread._Process().look()


def environment_of_arithmetic(_: int) -> list[Any]:
    import decimal
    import locale

    tiny = np.array([1e-38], np.float32) * np.float32(0.1)
    third = str(decimal.Decimal(1) / 3)
    return [bool(tiny[0]), third, np.geterr(), locale.setlocale(locale.LC_ALL), np.sqrt(np.float64(2)).hex()]


@pytest.fixture
def changed_arithmetic() -> Iterator[None]:
    """Flush to zero and rounding upwards where the machine's words are known, and every context another one."""
    before = Arithmetic.of_this_thread()
    words = bytearray(before.words)
    if words and sys.platform == "linux" and platform.machine() == "x86_64":
        words[28:32] = (int.from_bytes(words[28:32], "little") | 0x8040 | 0x4000).to_bytes(4, "little")
    with np.errstate(divide="raise", under="ignore"), decimal.localcontext(decimal.Context(prec=5)):
        locale.setlocale(locale.LC_ALL, "C.UTF-8" if before.locale == "C" else "C")
        if words:
            ctypes.CDLL(None).fesetenv(bytes(words))
        yield
    before.apply()


def test_workers_take_over_the_arithmetic_of_the_trainer(changed_arithmetic):
    """Control words, numpy's error state, decimal's context, the locale."""
    expected = environment_of_arithmetic(0)
    assert expected[1] == "0.33333" and expected[2]["divide"] == "raise"
    found = []
    for way in WAYS:
        with numbers(1, environment_of_arithmetic, **way) as loader:
            found.append(next(iter(loader)))
    assert found == [expected] * 3


def test_the_trainers_context_gets_no_entry() -> None:
    """With one, each of its ufuncs looks for numpy's own: decimal's, made by the loader, cost small records 2%."""

    def entries_after_a_batch() -> set[str]:
        next(iter(lk.load([1, 2], operations=[float], batch_size=2)))
        return {variable.name for variable in contextvars.copy_context()}

    assert contextvars.Context().run(entries_after_a_batch) == set()


def test_what_numpy_calls_for_an_error_stays_in_the_trainer() -> None:
    """Workers, which haven't the function, warn; their operations ended with numpy's NameError."""
    with np.errstate(divide="call", over="log"):
        assert {Arithmetic.of_this_thread().errors[kind] for kind in ("divide", "over")} == {"warn"}


def test_sets_of_texts_have_one_order_in_all_workers(monkeypatch):
    """Where the environment says no seed of hash(); the trainer's own is another one."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    assert worker_environment()["PYTHONHASHSEED"] == "0"

    def ordered(_: int) -> list[str]:
        return [*{*map(str, range(40))}]

    with numbers(1, ordered, worker_count=1) as one, numbers(1, ordered, worker_count=1) as other:
        assert next(iter(one)) == next(iter(other))
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert worker_environment()["PYTHONHASHSEED"] == "7"


def test_a_child_that_is_forked_while_a_thread_computes_has_the_trainers_numbers(two_threads):
    """The thread isn't there, and may have held the lock."""
    before, computing = numbers_of_threads(), OneThread()
    held = threading.Thread(target=lambda: (_process.lock.acquire(), computing.begin()))
    held.start()
    held.join()
    shared = [n for n, library in zip(before, two_threads, strict=True) if library.shared]
    lock = _process.lock
    try:
        one_thread._forked()
        now = [library.get() for library in two_threads if library.shared]
        assert now == shared and OneThread().run(int, again=False) == 0
    finally:
        assert _process.lock is not lock and not _process.inside


def test_a_thread_that_ends_while_another_looks_for_libraries_looks_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both imported the library: the second took it for looked at before it was found, and kept its first result."""
    process, seen = one_thread._Process(), []

    def loaded() -> set[str]:
        seen.append(process.modules)
        return set()

    monkeypatch.setattr(one_thread, "_loaded", loaded)
    monkeypatch.setattr(one_thread, "_warn_of_blas", lambda: None)
    process.look()
    assert seen == [-1] and process.modules == len(sys.modules)
