"""Loaders for the tests of this room, and what stops a worker at a chosen record."""

import os
from pathlib import Path
from typing import Any

import numpy as np

import loaderkit as lk
from loaderkit.tree import flatten


def numbers(count: int, *operations: Any, **options: Any) -> lk.DataLoader:
    """A loader over 0..count-1, once, in order."""
    task_rows = options.pop("task_rows", None)
    loader = lk.DataLoader(
        data_source=options.pop("data_source", lk.RangeDataSource(0, count, 1)),
        sampler=options.pop("sampler", lk.SequentialSampler(count)),
        operations=operations,
        **options,
    )
    loader._task_rows = task_rows
    return loader


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


def worker_pids(loader: lk.DataLoader) -> list[int]:
    """The pids of a loader's worker processes."""
    pool: Any = loader._crew._hub
    return [worker.process.pid for worker in pool._crew.values()]


class Trap:
    """A Map that stops at one record, the first time that it comes by, until its process is killed or let go.

    It tells its pid and waits by opening pipes, so the test meets it at exactly that place.
    """

    def __init__(self, folder: Path, at: int) -> None:
        self.folder, self.at = folder, at
        os.mkfifo(folder / "here")
        os.mkfifo(folder / "go")

    def __call__(self, x: int) -> dict[str, Any]:
        if x == self.at and self._is_first():
            (self.folder / "here").write_text(str(os.getpid()))
            (self.folder / "go").read_text()
        return row(x)

    def _is_first(self) -> bool:
        try:
            os.close(os.open(self.folder / "sprung", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def caught(self) -> int:
        """Waits until somebody is in; its pid."""
        return int((self.folder / "here").read_text())

    def let_go(self) -> None:
        """Lets it go on."""
        (self.folder / "go").write_text("")
