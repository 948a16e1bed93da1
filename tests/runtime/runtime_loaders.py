"""Loaders for the tests of this room, and what stops a worker at a chosen record."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from internals import variant_of

import loaderkit as lk
from loaderkit._base.tree import flatten


def numbers(count: int, *operations: Any, **options: Any) -> "lk.DataLoader":
    """A loader over 0..count-1, once, in order."""
    task_rows = options.pop("task_rows", None)
    loader = lk.DataLoader(
        data_source=options.pop("data_source", lk.RangeDataSource(0, count, 1)),
        sampler=options.pop("sampler", lk.SequentialSampler(count)),
        operations=operations,
        **options,
    )
    return variant_of(loader, task_rows=task_rows)


def row(x: int) -> dict[str, Any]:
    """A row that batches in place."""
    return {"key": x, "x": np.full(16, x, np.float32)}


def same(one: Any, other: Any) -> bool:
    """Whether two elements are equal in structure, types, dtypes, shapes and values."""
    leaves, structure = flatten(one)
    others, other_structure = flatten(other)
    return structure == other_structure and all(map(_same_leaf, leaves, others))


def _same_leaf(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if not isinstance(one, np.ndarray | np.generic):
        return bool(one == other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.hasobject or one.dtype.char in "gG":
        # Object arrays have no bytes that say anything, those of a long double have some that say nothing.
        return bool(one.tolist() == other.tolist())
    return one.tobytes() == other.tobytes()  # NaNs and the signs of zeros included


def all_same(ones: list[Any], others: list[Any]) -> bool:
    """Whether two streams are the same."""
    return len(ones) == len(others) and all(map(same, ones, others))


def until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    """Waits for something that happens elsewhere."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.005)


def write_to(fifo: Path, text: str = "") -> None:
    """Writes to a FIFO that a process or thread reads from, or will in a while.

    Opened without blocking: where the reader was given up, a blocking open would never return.
    """
    opened: list[int] = []

    def has_a_reader() -> bool:
        try:
            opened.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        return bool(opened)

    until(has_a_reader, f"a reader of {fifo.name}")
    try:
        os.write(opened[0], text.encode())
    finally:
        os.close(opened[0])


class Trap:
    """A Map that stops at one record, the first time that it comes by, until its process is killed or let go.

    It tells its pid by a file and waits for another, so the test meets it at exactly that place. Neither side can wait
    for ever: where the other is gone, it ends with an error.
    """

    def __init__(self, folder: Path, at: int) -> None:
        self.folder, self.at = folder, at

    def __call__(self, x: int) -> dict[str, Any]:
        if x == self.at and self._is_first():
            self._stay()
        return row(x)

    def _stay(self) -> None:
        told = self.folder / "here.partial"
        told.write_text(str(os.getpid()))
        told.rename(self.folder / "here")
        until((self.folder / "go").exists, "the word to go on", 240.0)

    def _is_first(self) -> bool:
        try:
            os.close(os.open(self.folder / "sprung", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def caught(self) -> int:
        """Waits until a worker is in; its pid."""
        until((self.folder / "here").exists, "a worker in the trap")
        return int((self.folder / "here").read_text())

    def let_go(self) -> None:
        """Lets it go on."""
        (self.folder / "go").touch()
