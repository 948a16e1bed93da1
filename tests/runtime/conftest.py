"""Tests of a worker's end without pidfds too, as on macOS, under gVisor and on old kernels."""

import os
import zlib

import pytest

import loaderkit._runtime.executors.process_worker as process_worker

OF_ENDS = ("test_workers", "test_worker_losses")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both ways in the nightly run; by day each test runs in one of them, by its name."""
    if metafunc.module.__name__ in OF_ENDS:
        own = zlib.crc32(metafunc.function.__name__.encode()) % 2 == 0
        nightly = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
        ways = [True, False] if nightly else [own]
        ids = ["pidfds" if way else "no pidfds" for way in ways]
        metafunc.parametrize("pidfds", ways, ids=ids, indirect=True)


@pytest.fixture(autouse=True)
def pidfds(request, monkeypatch):
    """Whether the trainer can have some."""
    if not getattr(request, "param", True):
        monkeypatch.setattr(process_worker, "open_process", lambda pid: None)
