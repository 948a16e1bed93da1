"""`lk.offline.filtered`: the records for which a function is true."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit.sources.subset import SubsetDataSource

from .measuring import measure


def filtered(
    source: Any,
    predicate: Callable[[Any], bool],
    path: str | os.PathLike[str],
    *,
    worker_count: int | None = 0,
    worker_kind: str = "process",
    read_options: ReadOptions | None = None,
) -> SubsetDataSource:
    """The records of a source that a function keeps: a source with a length, which is shuffled and resumed as any.

    The function is called once for each record; its answers are kept in a file, by `lk.offline.measure`, and used
    again. A run that was killed goes on. `lk.Filter` among the operations needs no pass ahead, but reads each record in
    every epoch.

    Args:
        source: any data source.
        predicate: takes a record, gives True for those that are kept; TypeError for another type.
        path: of the file of answers, such as "cats.npy". ValueError where it is of another source or function.
        worker_count, worker_kind, read_options: as DataLoader takes them, for the first pass.

    Raises ValueError where no record is kept.

    >>> import tempfile
    >>> texts = ["a cat", "a dog", "two cats"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cats = filtered(texts, lambda text: "cat" in text, f"{folder}/cats.npy")
    >>> len(cats), cats[1]
    (2, 'two cats')
    """
    if not callable(predicate):
        raise TypeError(f"predicate: expected a function of a record, got {predicate!r:.80}")
    kept = measure(
        source,
        predicate,
        path,
        worker_count=worker_count,
        worker_kind=worker_kind,
        read_options=read_options,
    )
    if kept.dtype != np.bool_:
        raise TypeError(
            f"predicate: expected True or False for each record, got values of {kept.dtype}; for numbers or labels use "
            f"lk.offline.measure and SubsetDataSource(source, np.flatnonzero(condition)), and delete {os.fspath(path)}"
        )
    keys = np.flatnonzero(kept)
    if not len(keys):
        raise ValueError(f"predicate: expected one record or more to be kept of {len(kept)}, got none")
    return SubsetDataSource(source, keys)
