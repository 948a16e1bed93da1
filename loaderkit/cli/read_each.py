"""Records one after the other, also where some can't be read."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit.errors import FileChangedError, StorageError
from loaderkit.samplers import IndexSampler

from .exit_status import UsageError
from .open_source import OpenedSource

TOGETHER = 256  # records of one read; fewer cost more of Python for each


def read_each(
    opened: OpenedSource, keys: NDArray[np.int64], advance: Callable[[int], None]
) -> Iterator[tuple[int, Any]]:
    """Gives each key with its record, or with the error of reading it.

    keys: (n,). advance: told the number of records after each read. An error of the storage, or of a file that was
    changed, is raised: it isn't the record's.
    """
    for begin in range(0, len(keys), TOGETHER):
        part = keys[begin : begin + TOGETHER]
        yield from zip(part.tolist(), _read(opened, part))
        advance(len(part))


def read_all(
    opened: OpenedSource, keys: NDArray[np.int64], advance: Callable[[int], None] = lambda more: None
) -> Iterator[tuple[int, Any]]:
    """As `read_each`; the first error of reading a record is raised as an OSError that names its place."""
    for key, record in read_each(opened, keys, advance):
        if isinstance(record, Exception):
            raise OSError(f"{opened.location(key)}: {record}")
        yield key, record


def shuffled_keys(total: int, seed: int, number: int | None = None) -> NDArray[np.int64]:
    """(number,) int64: the first keys in the order of `lk.IndexSampler` with this seed, all where no number is given.

    UsageError for another seed than `lk.IndexSampler` takes.
    """
    if not 0 <= seed < 1 << 64:
        raise UsageError(f"--shuffle: expected a seed in [0, 2**64), got {seed}")
    sampler = IndexSampler(total, shuffle=True, seed=seed, num_epochs=1)
    return np.asarray(sampler.record_keys(range(total if number is None else number)), np.int64)


def _read(opened: OpenedSource, keys: NDArray[np.int64]) -> list[Any]:
    try:
        return opened.read(keys)
    except (FileChangedError, StorageError):
        raise
    except (OSError, ValueError) as error:
        if len(keys) == 1:
            return [error]
        return [record for key in keys for record in _read(opened, np.array([key]))]
