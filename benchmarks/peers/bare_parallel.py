"""The plain loop in several processes or threads at once, and the least that hands arrays from one process to another.

A worker writes one byte to a pipe for each row that it made, so that the count is exact at any moment; without steps it
writes the bytes of a batch at once.
"""

import mmap
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.contender import Contender
from benchmarks.forking import end, fork
from benchmarks.measure import Made
from benchmarks.pipeline import Pipeline

RowsMade = Callable[[Iterable[Any], Iterable[int]], list[Any]]  # records, indices -> rows


class _Rows:
    """Counts the bytes of a pipe: one for each row that was made."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def __iter__(self) -> Iterator[Made]:
        while data := os.read(self._pipe, 1 << 16):
            yield Made(len(data))
        raise RuntimeError("the workers of the bare loop ended")


@contextmanager
def open_parallel(pipeline: Pipeline, contender: Contender, made: RowsMade) -> Iterator[_Rows]:
    """Independent workers, each on its own share of the batches."""
    reading, writing = os.pipe()

    def work(worker: int, ended: Callable[[], bool]) -> None:
        with suppress(BrokenPipeError):
            make_share(pipeline, contender, made, worker, writing, ended)

    begin = _processes if contender.kind == "process" else _threads
    with begin(work, contender.workers, reading, writing):
        yield _Rows(reading)


def make_share(
    pipeline: Pipeline,
    contender: Contender,
    made: RowsMade,
    worker: int,
    pipe: int,
    ended: Callable[[], bool],
) -> None:
    """Makes every batch of one worker, until told to end: each of n workers has every n-th."""
    from benchmarks.peers.bare import batches_of_keys, read, stacked

    source = pipeline.source("bare")  # here, since the threads of a reader don't exist in a forked child
    buffers: deque[Any] = deque(maxlen=contender.options.get("buffers", 0))
    for indices, keys in islice(batches_of_keys(pipeline, len(source)), worker, None, contender.workers):
        records = read(source, keys)
        # Without steps a write for each row would be most of the work.
        several = 1 if pipeline.steps else len(indices)
        rows: list[Any] = []
        for lo in range(0, len(indices), several):
            rows += made(records[lo : lo + several], indices[lo : lo + several])
            os.write(pipe, bytes(several))
        if pipeline.batch:
            full = len(buffers) == buffers.maxlen
            buffers.append(stacked(rows, buffers[0] if full and buffers else None))
        if ended():
            return


@contextmanager
def _processes(
    work: Callable[[int, Callable[[], bool]], None], count: int, reading: int, writing: int
) -> Iterator[None]:
    children = [fork(partial(work, worker, lambda: False)) for worker in range(count)]
    os.close(writing)
    try:
        yield
    finally:
        os.close(reading)
        end(children)


@contextmanager
def _threads(
    work: Callable[[int, Callable[[], bool]], None], count: int, reading: int, writing: int
) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(worker, stop.is_set)) for worker in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        os.close(reading)  # a worker that waits for room in the pipe gets an error now
        for thread in threads:
            thread.join()
        os.close(writing)


@contextmanager
def relay(array: np.ndarray, slots: int) -> Iterator[Iterator[np.ndarray]]:
    """One process copies an array again and again into a ring of shared memory, this one gets views of it.

    A byte in a pipe says "slot filled", one in another "slot free": nothing less than this can move an array that a
    worker holds.
    """
    ring = mmap.mmap(-1, slots * array.nbytes)
    views = np.frombuffer(ring, array.dtype).reshape(slots, *array.shape)
    (filled, say_filled), (free, say_free) = os.pipe(), os.pipe()

    def fill() -> None:
        slot = 0
        while os.read(free, 1):
            np.copyto(views[slot], array)
            os.write(say_filled, b"\0")
            slot = (slot + 1) % slots

    def arrays() -> Iterator[np.ndarray]:
        slot = 0
        while os.read(filled, 1):
            yield views[slot]
            os.write(say_free, b"\0")
            slot = (slot + 1) % slots

    child = fork(fill)
    os.write(say_free, bytes(slots))
    try:
        yield arrays()
    finally:
        end([child])
        for pipe in (filled, say_filled, free, say_free):
            os.close(pipe)
