"""Records from a source: batched where it can, with several reads in flight where asked, kept whole for others.

A failing batched read is repeated record by record, so that the error is that of the first record that fails, with
its key, whatever else was in the same call.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit.sources import read_only
from loaderkit.transforms.program import Failure
from loaderkit.tree import copy_each

from .ahead import ReadAhead


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a worker reads.

    Args:
        num_threads: reads in flight inside one worker; 0 reads in the thread that transforms. Worth it where a read
            waits (an object store, a spinning disk); sources that read many records in one call need none.
        prefetch_buffer_size: records that may be read ahead of the one being transformed.

    >>> ReadOptions(num_threads=-1)
    Traceback (most recent call last):
        ...
    ValueError: num_threads must be 0 or more, got -1
    """

    num_threads: int = 0
    prefetch_buffer_size: int = 500

    def __post_init__(self) -> None:
        for name in ("num_threads", "prefetch_buffer_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an int, got {value!r}")
            if value < 0:
                raise ValueError(f"{name} must be 0 or more, got {value}")


def reads_in_flight(source: Any, options: ReadOptions) -> int:
    """How many records of a source a worker reads at once; 0 where it reads in the thread that transforms.

    >>> reads_in_flight([1, 2], ReadOptions(num_threads=4))
    4
    """
    if hasattr(source, "__getitems__"):  # reads many in one call, and knows best how
        return 0
    return min(options.num_threads, options.prefetch_buffer_size)


class Reader:
    """Reads from one source, for one worker.

    Args:
        source: anything with `__getitem__`.
        options: how many reads at once.
        copy: give operations containers of their own, so that they can't change the source's.
    """

    def __init__(self, source: Any, options: ReadOptions, *, copy: bool) -> None:
        self._source = source
        self._batched: Callable[[Sequence[int]], Sequence[Any]] | None = getattr(source, "__getitems__", None)
        self._guard = _guard_of(source) if copy else None
        self._ahead: ReadAhead | None = None
        if reads_in_flight(source, options):
            self._ahead = ReadAhead(
                source.__getitem__, threads=options.num_threads, records=options.prefetch_buffer_size
            )

    def begin(self, task: int, keys: np.ndarray) -> None:
        """Puts the reads of a task in flight that will be asked for later."""
        if self._ahead is not None:
            self._ahead.begin(task, keys.tolist())

    def read(self, task: int, keys: np.ndarray, indices: np.ndarray) -> tuple[list[Any], Failure | None]:
        """The records of a task; a failure comes with the records before it.

        Args:
            task: its id.
            keys, indices: (n,) int64 each.
        """
        records, error = self._read(task, keys)
        failure = None
        if error is not None:
            failure = Failure(
                error, f"source {type(self._source).__qualname__}", (int(indices[len(records)]),)
            )
        return (records if self._guard is None else self._guard(records)), failure

    def _read(self, task: int, keys: np.ndarray) -> tuple[list[Any], Exception | None]:
        if self._ahead is not None:
            return _until_error(self._ahead.take(task, keys.tolist()))
        wanted: list[int] = keys.tolist()
        if self._batched is not None and len(wanted) > 1:
            try:
                records = list(self._batched(wanted))
            except Exception:  # noqa: BLE001 - said again, and by the record that it belongs to
                return self._one_by_one(wanted)
            if len(records) != len(wanted):
                return [], ValueError(f"__getitems__ gave {len(records)} records for {len(wanted)} keys")
            return records, None
        return self._one_by_one(wanted)

    def _one_by_one(self, wanted: list[int]) -> tuple[list[Any], Exception | None]:
        records: list[Any] = []
        try:
            records.extend(map(self._source.__getitem__, wanted))
        except Exception as error:  # noqa: BLE001 - a source may raise anything
            return records, error
        if len(records) != len(wanted):
            return records, RuntimeError("the source raised StopIteration")
        return records, None

    def close(self) -> None:
        """Ends the reading threads."""
        if self._ahead is not None:
            self._ahead.close()


def _until_error(reads: Iterator[Future[Any]]) -> tuple[list[Any], Exception | None]:
    records: list[Any] = []
    for read in reads:
        try:
            records.append(read.result())
        except Exception as error:  # noqa: BLE001 - a source may raise anything
            return records, error
    return records, None


def _guard_of(source: Any) -> Callable[[list[Any]], list[Any]]:
    # These hand out the very objects that they hold; what other sources give is new, or guarded by them.
    if isinstance(source, list | tuple | dict | np.ndarray):
        return lambda records: [read_only(record) for record in records]
    return copy_each
