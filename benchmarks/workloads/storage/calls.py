"""Steady rates of things that give records by calls: a source, a loop of reads, a peer's iterator."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np

from benchmarks.benchmark import CPU, PER_SECOND, Metrics, Size
from benchmarks.contender import Contender
from benchmarks.measure import cpu_seconds

CALL = 256  # record keys of a call, as the loader's tasks have 64 to 256

# Makes the calls of a contender: an endless iterator of the number of records that a call gave.
Opened = AbstractContextManager[Iterator[int]]


def calls(open_calls: Callable[[Contender, Size], Opened]) -> Callable[[Contender, Size], Metrics]:
    """The measurement of a contender's calls: a warm-up of half a window, then a window."""

    def measure(contender: Contender, size: Size) -> Metrics:
        with open_calls(contender, size) as given:
            next(given)  # workers have started
            _taken(given, size.seconds / 2)
            cpu = cpu_seconds()
            records, seconds = _taken(given, size.seconds)
            return {PER_SECOND: records / seconds, CPU: (cpu_seconds() - cpu) / records * 1e6}

    return measure


def _taken(given: Iterator[int], seconds: float) -> tuple[int, float]:
    records, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds or not records:
        records += next(given)
    return records, now - begin


def shuffled_keys(records: int, call: int = CALL) -> Iterator[list[int]]:
    """Record keys in a new random order each epoch, `call` at a time: lists, as the loader gives them to sources."""
    rng = np.random.default_rng(0)
    call = min(call, records)
    while True:
        order = rng.permutation(records)
        for low in range(0, records - call + 1, call):
            yield order[low : low + call].tolist()


@contextmanager
def pread_calls(
    paths: list[Path], places: list[tuple[int, int, int]], made: Callable[[bytes], object] | None = None
) -> Iterator[Iterator[int]]:
    """A bare loop over records in a random order, one system call each.

    Args:
        paths: the files.
        places: of each record its file's number, its bytes and where they begin.
        made: what is done with the bytes of each, if anything.
    """
    descriptors = [os.open(path, os.O_RDONLY) for path in paths]
    reads = [(descriptors[shard], nbytes, offset) for shard, nbytes, offset in places]

    def calls_of_all() -> Iterator[int]:
        for keys in shuffled_keys(len(reads)):
            if made is None:
                yield len([os.pread(*reads[key]) for key in keys])
            else:
                yield len([made(os.pread(*reads[key])) for key in keys])

    try:
        yield calls_of_all()
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def of_source(source: object, records: int) -> Iterator[int]:
    """Calls of `source.__getitems__` with shuffled keys."""
    read = source.__getitems__  # type: ignore[attr-defined]
    for keys in shuffled_keys(records):
        yield len(read(keys))
