"""The order of values, of which some are in memory at a time."""

import contextlib
import heapq
import pickle
import tempfile
from collections.abc import Iterable, Iterator
from itertools import count, islice
from operator import itemgetter
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

VALUES_IN_MEMORY = 1 << 20  # some 100 MB of short texts


def order_of(
    values: Iterable[Any], *, reverse: bool = False, in_memory: int = VALUES_IN_MEMORY
) -> NDArray[np.int64]:
    """The places of the values in ascending order; equal ones stay in theirs.

    values: that can be compared, and pickled. reverse: the greatest first. in_memory: how many; sorted runs of as many
    are kept in a temporary file each.

    >>> order_of("cab"), order_of([1, 2, 1, 2], reverse=True, in_memory=2)
    (array([1, 2, 0]), array([1, 3, 0, 2]))
    """
    numbered = zip(values, count())
    with contextlib.ExitStack() as stack:
        runs: list[Iterator[tuple[Any, int]]] = []
        while run := sorted(islice(numbered, in_memory), key=itemgetter(0), reverse=reverse):
            if len(run) < in_memory:
                runs.append(iter(run))
                break
            runs.append(_spilled(run, stack))
        merged = heapq.merge(*runs, key=itemgetter(0), reverse=reverse)
        return np.fromiter((place for _, place in merged), np.int64)


def _spilled(run: list[tuple[Any, int]], stack: contextlib.ExitStack) -> Iterator[tuple[Any, int]]:
    file = stack.enter_context(tempfile.TemporaryFile(prefix="loaderkit-"))  # noqa: SIM115 - the stack closes it
    for begin in range(0, len(run), 1 << 10):
        pickle.dump(run[begin : begin + (1 << 10)], file, 5)
    file.seek(0)
    return _read_back(file)


def _read_back(file: IO[bytes]) -> Iterator[tuple[Any, int]]:
    with contextlib.suppress(EOFError):
        while True:
            yield from pickle.load(file)
