"""`cpu=`: worker processes compute as a processor of a level does, and the state says so."""

import contextlib
import functools
import hashlib
import importlib
import json
import os
import platform
import signal
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hosts import together
from memory_store import MemoryStore

import loaderkit as lk
from loaderkit._base.system.platform import worker_environment
from loaderkit._base.system.processor_level import LEVELS, levelled, present_level
from loaderkit.testing import check_pipeline

PRESENT = present_level()
HERE = [*LEVELS][: [*LEVELS].index(PRESENT) + 1] if PRESENT else []
LOWEST = "x86-64-v2"
NUMERICS = """
import contextlib, json
with contextlib.suppress(ImportError):
    import cv2
from loaderkit._base.system.numerics import numerics
print(json.dumps(numerics()))
"""

needs_levels = pytest.mark.skipif(not HERE, reason="no x86-64 processor")
needs_two = pytest.mark.skipif(len(HERE) < 2, reason="the processor has no level but the lowest")


def waves(number: float) -> Any:
    x = (np.arange(97 * 89).reshape(97, 89) % 101 / 103 + number).astype(np.float32)
    return {"exp": np.exp(x), "product": x @ x.T, "log": np.log1p(x.astype(float))}


def loading_cv2(number: float) -> Any:
    with contextlib.suppress(ImportError):
        importlib.import_module("cv2")
    return number


def loader_of(level: str | None, *operations: Any, **how: Any) -> "lk.DataLoader":
    given = {"num_epochs": 1, "batch_size": 2, "worker_count": 1, **how}
    return lk.load(np.arange(12.0), operations=[*operations] or [waves], cpu=level, **given)


def sha(batches: Any) -> str:
    return hashlib.sha256(b"".join(x.tobytes() for batch in batches for x in batch.values())).hexdigest()


@needs_levels
def test_levelled_workers_compute_as_a_process_with_these_variables() -> None:
    """Digests of all libraries are those, and none of these says a word of its variables when it is loaded.

    Levels differ at least in numpy and BLAS.
    """
    found = []
    for level in HERE:
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", NUMERICS],
            env=worker_environment(level),
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stderr == ""
        with iter(loader_of(level, loading_cv2)) as it:
            assert json.loads(it.get_state())["numerics"] == {"cpu": level}
            next(it)
            found.append(json.loads(it.get_state())["numerics"])
        assert found[-1] == {"cpu": level, **json.loads(ran.stdout)}
    for lower, higher in pairwise(found):
        assert {"cpu", "numpy", "BLAS"} <= {name for name in higher if lower[name] != higher[name]}


def once_killed(number: float, flag: Path) -> Any:
    if number == 5 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return waves(number)


@needs_levels
def test_a_level_has_one_stream(tmp_path: Path) -> None:
    """For any number of workers, behind a kill and behind a restore; another one than that of a higher level."""
    flag = tmp_path / "killed"
    killing = functools.partial(once_killed, flag=flag)
    with loader_of(LOWEST, killing) as killed, loader_of(LOWEST, killing, worker_count=2) as loader:
        alone = sha(loader_of(LOWEST))
        with iter(killed) as it, iter(loader) as other:
            before = [next(it), next(it)]
            state = it.get_state()
            assert sha([*before, *it]) == alone
            assert flag.exists()
            other.set_state(state)
            assert sha([*before, *other]) == alone
    if len(HERE) > 1:
        assert sha(loader_of(HERE[-1])) != alone


@needs_two
def test_a_restore_under_another_level_is_one_warning_with_the_argument_to_give() -> None:
    """Under none, too, where the results differ; under the same, nothing."""
    with iter(loader_of(LOWEST)) as it:
        next(it)
        saved = it.get_state()
        it.set_state(saved)  # a warning would be an error
        assert it.get_state() == saved
        next(it)
    for level in (None, HERE[-1]):
        with warnings.catch_warnings(record=True) as told, iter(loader_of(level)) as it:
            warnings.simplefilter("always")
            it.set_state(saved)
            next(it), next(it)
        [text] = [str(one.message) for one in told]
        assert text.startswith(f"cpu={level!r} of this process" if level else "BLAS, ")
        assert text.endswith(f"It was saved with cpu={LOWEST!r}: give it to this loader, too")


@needs_two
def test_processes_with_other_levels_are_told() -> None:
    stores = MemoryStore.of(2, timeout=60)

    def start(host: int) -> str:
        loader = loader_of(HERE[host], shard_options=lk.ShardOptions(host, 2, store=stores[host]))
        try:
            iter(loader).close()
        except UserWarning as told:  # warnings are errors in the tests
            return str(told)
        return "nothing"

    for text in together(start, 2):
        assert f"cpu: {HERE[0]} on process 0; {HERE[1]} on process 1" in text


@pytest.mark.slow
@needs_levels
def test_check_pipeline_compares_without_the_level() -> None:
    """Its first run is in this process, which has none."""
    assert check_pipeline(loader_of(LOWEST), batches=3).batches == 3


@needs_levels
@pytest.mark.parametrize("how", [{"worker_count": 0}, {"worker_count": 3, "worker_kind": "thread"}])
def test_a_level_needs_worker_processes(how: dict[str, Any]) -> None:
    """The error has the line to paste."""
    count = how["worker_count"] or 1
    write = f"write cpu='{LOWEST}', worker_kind='process', worker_count={count}$"
    with pytest.raises(ValueError, match=f"^cpu: expected None without worker processes.*{write}"):
        loader_of(LOWEST, **how)
    assert loader_of(LOWEST, worker_count=None) is not None


@needs_levels
def test_a_level_that_this_processor_has_not_is_refused() -> None:
    for level in [*LEVELS][len(HERE) :]:
        with pytest.raises(
            ValueError, match=f"^cpu: .* at most '{PRESENT}', got '{level}': numpy finds no .*, .* here$"
        ):
            loader_of(level)
    with pytest.raises(ValueError, match=r"^cpu: expected None or one of 'x86-64-v2', .*, got 'avx2'$"):
        loader_of("avx2")


def test_other_architectures_have_no_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert present_level() is None
    with pytest.raises(ValueError, match=r"^cpu: expected None on aarch64, .*, got 'x86-64-v3'$"):
        loader_of("x86-64-v3")


@needs_levels
def test_variables_of_the_user_hold_beside_those_of_a_level() -> None:
    """What is switched off stays off, kernels that the user names stay, and so does all else."""
    users = {
        "NPY_DISABLE_CPU_FEATURES": "X86_V3",
        "OPENCV_CPU_DISABLE": "FP16",
        "OPENBLAS_CORETYPE": "Prescott",
        "GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.cpu.hwcaps=-ERMS",
        "HOME": "/home",
    }
    found = levelled(LOWEST, users)
    assert found["NPY_DISABLE_CPU_FEATURES"].startswith("X86_V3,")
    # What numpy was told not to see may be there: all that is above the level is switched off.
    assert found["OPENCV_CPU_DISABLE"].startswith("FP16,AVX,FP16,FMA3,AVX2,AVX512-COMMON,AVX512-SKX,")
    assert found["GLIBC_TUNABLES"] == "glibc.malloc.check=1:glibc.cpu.hwcaps=-ERMS,-AVX,-AVX2,-FMA,-FMA4"
    assert (found["OPENBLAS_CORETYPE"], found["OPENCV_IPP"], found["HOME"]) == ("Prescott", "sse42", "/home")
    # numpy refuses to be loaded with both.
    assert "NPY_ENABLE_CPU_FEATURES" not in levelled(LOWEST, {"NPY_ENABLE_CPU_FEATURES": "X86_V3"})
