"""Clocks around a loader: time to the first batch, steady rate, CPU seconds, memory of all processes."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from benchmarks.benchmark import CPU, FIRST, PER_SECOND, Metrics, Size
from benchmarks.contender import Contender
from benchmarks.pipeline import Pipeline


class Made(int):
    """A bare parallel loop gives it in place of a batch: the number of rows that were made, and dropped."""


def open_loader(pipeline: Pipeline, contender: Contender) -> AbstractContextManager[Any]:
    """The contender's loader of a pipeline: `iter()` of it begins, leaving the context ends its workers."""
    peer = import_module(f"benchmarks.peers.{contender.peer}")
    opened: AbstractContextManager[Any] = peer.open_loader(pipeline, contender)
    return opened


def warm_up_library(contender: Contender) -> None:
    """Imports the peer's library, so that no clock measures that."""
    import_module(f"benchmarks.peers.{contender.peer}")


@dataclass(frozen=True, slots=True)
class Steady:
    """The result of `steady`."""

    first_s: float
    records: int
    seconds: float
    cpu_s: float

    def metrics(self) -> Metrics:
        """The metrics, by the names that the tables use."""
        return {
            PER_SECOND: self.records / self.seconds,
            CPU: self.cpu_s / self.records * 1e6,
            FIRST: self.first_s * 1e3,
        }


def stream(make: Callable[[Size], Pipeline], *, windows: float = 1.0) -> Callable[[Contender, Size], Metrics]:
    """The usual measurement, of a pipeline: its time to the first batch, then its steady rate and CPU."""

    def measure(contender: Contender, size: Size) -> Metrics:
        return steady(make(size), contender, size, windows=windows).metrics()

    return measure


def steady(pipeline: Pipeline, contender: Contender, size: Size, *, windows: float = 1.0) -> Steady:
    """Runs a pipeline: the first batch, a warm-up, then a window in which it only takes batches.

    Args:
        windows: length of the window in `size.seconds`; the warm-up is half of it.

    The first batch's clock starts before the source is opened and the loader is made, with the library imported;
    workers start inside it. CPU seconds are those of this process and all its children.
    """
    warm_up_library(contender)
    window = size.seconds * windows
    begin = time.perf_counter()
    with open_loader(pipeline, contender) as loader:
        batches = iter(loader)
        rows_of(next(batches), pipeline)
        first_s = time.perf_counter() - begin
        take(batches, pipeline, seconds=window / 2, least=0 if size.smoke else 2)
        cpu = cpu_seconds()
        records, seconds = take(batches, pipeline, seconds=window, least=1 if size.smoke else 3)
        return Steady(first_s, records, seconds, cpu_seconds() - cpu)


def take(batches: Iterator[Any], pipeline: Pipeline, *, seconds: float, least: int) -> tuple[int, float]:
    """Takes batches for `seconds`, at least `least`; gives the number of their records and the seconds."""
    records = taken = 0
    begin = now = time.perf_counter()
    while now - begin < seconds or taken < least:
        batch = next(batches)  # kept until the next one is there, as a training loop keeps it
        records += rows_of(batch, pipeline)
        taken += 1
        now = time.perf_counter()
    return records, now - begin


def rows_of(batch: Any, pipeline: Pipeline) -> int:
    """Number of records in an element of an iterator."""
    return int(batch) if type(batch) is Made else pipeline.rows


def cpu_seconds() -> float:
    """User and system seconds of this process and all its descendants."""
    children = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            spent = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        children += spent.user + spent.system
    return time.process_time() + children


def pss_bytes() -> int:
    """Proportional set size of this process and all its descendants: shared pages count once."""
    me = psutil.Process()
    return sum(_pss_of(process.pid) for process in [me, *me.children(recursive=True)])


def _pss_of(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it ended in between
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
