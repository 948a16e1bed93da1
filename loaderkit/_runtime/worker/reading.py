"""Reads records from a source: in bulk where the source can, with several reads in flight where the options say so.

A bulk read that fails is repeated record by record, so that the error is that of the first record that fails, with its
key; each of these reads is retried according to `ReadOptions.retry`.
"""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit._base.integers import at_least
from loaderkit._base.tree import own_each
from loaderkit._order.failure import Failure
from loaderkit.sources.naming import namer_of
from loaderkit.sources.optional import many_reader
from loaderkit.sources.protocol import read_only

from .read_ahead import ReadAhead
from .retrying import Retry, Retrying


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a worker reads.

    Args:
        num_threads: number of reading threads in each worker; 0 reads in the thread that transforms. Useful where a
            read waits (an object store, a spinning disk); not used for sources that read many records in one call.
        prefetch_buffer_size: greatest number of records that are read ahead of the one being transformed.
        retry: how a failed read is retried; None for no retry.

    >>> ReadOptions(num_threads=-1)
    Traceback (most recent call last):
        ...
    ValueError: num_threads: expected 0 or more, got -1
    """

    num_threads: int = 0
    prefetch_buffer_size: int = 500
    retry: Retry | None = None

    def __post_init__(self) -> None:
        for name in ("num_threads", "prefetch_buffer_size"):
            object.__setattr__(self, name, at_least(name, getattr(self, name), 0))
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise TypeError(f"retry: expected a Retry or None, got {self.retry!r}")


def reads_in_flight(source: Any, options: ReadOptions) -> int:
    """The number of records that a worker reads at once; 0 where it reads in the thread that transforms.

    >>> reads_in_flight([1, 2], ReadOptions(num_threads=4))
    4
    """
    if many_reader(source) is not None:  # it reads many records in one call, by its own method
        return 0
    return min(options.num_threads, options.prefetch_buffer_size)


class RecordReader:
    """Reads from one source, for one worker.

    Args:
        source: an object with `__getitem__`.
        options: threads, bound and retries.
        copy: return records in containers of their own, so that operations can't change the source's.

    name: a function of a record key, the source's name for the record or None.
    """

    def __init__(self, source: Any, options: ReadOptions, *, copy: bool) -> None:
        self._source = source
        self.name = namer_of(source)
        self._batched = many_reader(source)
        self._guard = _guard_of(source) if copy else None
        self._one: Callable[[int], Any] = source.__getitem__
        if options.retry is not None:
            self._one = Retrying(self._one, options.retry, self.name)
        self._waited_for = False  # whether the transforming thread is in `read`
        self._ahead: ReadAhead | None = None
        if reads_in_flight(source, options):
            self._ahead = ReadAhead(
                self._one, threads=options.num_threads, records=options.prefetch_buffer_size
            )

    def begin(self, task: int, keys: np.ndarray) -> None:
        """Starts reads of a task that `read` will ask for later."""
        if self._ahead is not None:
            self._ahead.begin(task, keys.tolist())

    def forget(self, task: int) -> None:
        """Cancels the reads of a task that were started by `begin` and won't be asked for."""
        if self._ahead is not None:
            self._ahead.forget(task)

    def read(self, task: int, keys: np.ndarray, indices: np.ndarray) -> tuple[list[Any], Failure | None]:
        """The records of a task, or those before a failure, and the failure.

        Args:
            task: its id.
            keys, indices: (n,) int64 each.
        """
        self._waited_for = True
        try:
            records, error = self._read(task, keys)
        finally:
            self._waited_for = False
        failure = None
        if error is not None:
            # Where a source returned too few or too many records, the wrong one isn't known.
            place = len(records)
            of = indices if isinstance(error, _Miscounted) else indices[place : place + 1]
            failure = Failure(error, f"source {type(self._source).__qualname__}", tuple(of.tolist()))
        return (records if self._guard is None else self._guard(records)), failure

    def tell_of_waits(self, waits: Callable[[], None]) -> None:
        """Sets a function that is called repeatedly while `read` waits for the retry of a read.

        It may be called by any thread; not while only reads ahead are retried.
        """
        if isinstance(self._one, Retrying):
            self._one.waits = lambda: waits() if self._waited_for else None

    @property
    def retries(self) -> bool:
        """Whether failed reads are retried."""
        return isinstance(self._one, Retrying)

    def _read(self, task: int, keys: np.ndarray) -> tuple[list[Any], Exception | None]:
        if self._ahead is not None:
            return _until_error(self._ahead.take(task, keys.tolist()))
        listed: list[int] = keys.tolist()
        if self._batched is not None and len(listed) > 1:
            try:
                records = list(self._batched(listed))
            except Exception:  # noqa: BLE001 - raised again by the record that it belongs to
                return self._one_by_one(listed)
            if len(records) != len(listed):
                return [], _Miscounted(f"__getitems__ gave {len(records)} records for {len(listed)} keys")
            return records, None
        return self._one_by_one(listed)

    def _one_by_one(self, keys: list[int]) -> tuple[list[Any], Exception | None]:
        records: list[Any] = []
        try:
            records.extend(map(self._one, keys))
        except Exception as error:  # noqa: BLE001 - a source may raise anything
            return records, error
        if len(records) != len(keys):
            return records, RuntimeError("the source raised StopIteration")
        return records, None

    def close(self) -> None:
        """Ends the reading threads."""
        if self._ahead is not None:
            self._ahead.close()


class _Miscounted(ValueError):  # noqa: N818 - users see a ValueError
    """A bulk read returned another number of records than of keys."""


def _until_error(reads: Generator[Future[Any], None, None]) -> tuple[list[Any], Exception | None]:
    records: list[Any] = []
    with closing(reads):  # an error's traceback would keep the generator open, and the task may be read again
        for read in reads:
            try:
                records.append(read.result())
            except Exception as error:  # noqa: BLE001 - a source may raise anything
                return records, error
    return records, None


def _guard_of(source: Any) -> Callable[[list[Any]], list[Any]]:
    # These return the objects that they hold; records of other sources are new, or protected by the source.
    if isinstance(source, list | tuple | dict | np.ndarray):
        return lambda records: [read_only(record) for record in records]
    return own_each
