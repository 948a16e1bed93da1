"""Reads records from a source: in bulk where the source can, with several reads in flight where that pays.

A bulk read that fails is repeated, and then in halves (bulk_read.py), so that the error is that of the first record
that fails, with its key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import at_least
from loaderkit._base.tree import own_each
from loaderkit._order.facts import Failure
from loaderkit._source.naming import kind_of, namer_of, shown_key
from loaderkit._source.optional import advised_calls, each_reader, many_reader
from loaderkit._source.protocol import read_only
from loaderkit.transforms.run import ElementRun, Singles

from .bulk_read import BulkRead, MiscountedError, SourceEndedError
from .read_ahead import READER_NAME, Read, ReadAhead, ReadRecords
from .retrying import Retry, Retrying


@refusing_foreign_arguments
@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a worker reads.

    Args:
        num_threads: number of reading threads in each worker, and of reads in flight: each reads one record, or many
            in one call of the source's `__getitems__`. 0 reads in the thread that transforms. None, the default, is
            the source's own `read_ahead`: 0 where it has none, as a local source, 4 for a remote one. Threads help
            where a read waits (an object store, a spinning disk).
        prefetch_buffer_size: greatest number of records that are read ahead of the one being transformed.
        retry: how a failed read is retried; None for no retry.

    >>> ReadOptions(num_threads=-1)
    Traceback (most recent call last):
        ...
    ValueError: num_threads: expected 0 or more, got -1
    """

    num_threads: int | None = None
    prefetch_buffer_size: int = 500
    retry: Retry | None = None

    def __post_init__(self) -> None:
        for name in ("num_threads", "prefetch_buffer_size"):
            value = getattr(self, name)
            if name != "num_threads" or value is not None:
                object.__setattr__(self, name, at_least(name, value, 0))
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise TypeError(f"retry: expected a Retry or None, got {self.retry!r}")


class ReadAheadLimits(NamedTuple):
    """How far a worker reads ahead.

    threads: reads in flight. records: greatest number of records that are in flight, or read and not taken.
    call_records: greatest number of records of a read, 1 where the source reads them one at a time.
    """

    threads: int
    records: int
    call_records: int


def read_ahead_limits(source: Any, options: ReadOptions) -> ReadAheadLimits | None:
    """How far a worker reads ahead of a source; None where it reads in the thread that transforms.

    A bulk read takes a whole task, but no more than lets all threads read within `prefetch_buffer_size`.

    >>> read_ahead_limits([1, 2], ReadOptions(num_threads=4))
    ReadAheadLimits(threads=4, records=500, call_records=1)
    """
    records = options.prefetch_buffer_size
    threads = advised_calls(source) if options.num_threads is None else options.num_threads
    if not threads or not records:
        return None
    return ReadAheadLimits(threads, records, 1 if many_reader(source) is None else max(1, records // threads))


class RecordReader:
    """Reads from one source, for one worker.

    Args:
        source: an object with `__getitem__`.
        options: threads, bound and retries.
        copy: return records in containers of their own, so that operations can't change the source's.
        ahead: the name of threads that read ahead, before their number; None where none may.
        ends: whether records have the cursors behind them.

    name: a function of a record key, the source's name for the record or None. shown_key: the key as messages have it.
    waited: seconds for which `read` waited for bytes, in all: for reads ahead, or without using the processor.
    taken, calls: nanoseconds in `read` and `timed`, in all, and how often they were called.
    reads_ahead: whether `begin` starts reads. retries: whether failed reads are retried.
    counts_aside: whether `counted_aside` can be other than zeros.
    """

    def __init__(
        self,
        source: Any,
        options: ReadOptions,
        *,
        copy: bool,
        ahead: str | None = READER_NAME,
        ends: bool = False,
    ) -> None:
        self.waited = 0.0
        self._ends = ends
        self.taken = self.calls = 0
        self._source = source
        self.name = namer_of(source)
        self.shown_key = partial(shown_key, source)
        self._guard = _guard_of(source) if copy else None
        one: Callable[[int], Any] = source.__getitem__
        self._retrying: list[Retrying] = []
        if options.retry is not None:
            one = retrying = Retrying(one, options.retry, self.name)
            self._retrying.append(retrying)
        many = many_reader(source)
        # Reading threads refer to it, so it mustn't refer to this object.
        self._call: Read = partial(_one_by_one, partial(map, one))
        if many is not None:
            self._call = bulk = BulkRead(many, one, options.retry)
            self._retrying += [] if bulk.retrying is None else [bulk.retrying]
        # Where reads are made here, one by one, and none is repeated.
        self._each = each_reader(source) if many is None and options.retry is None else None
        self._waited_for = False  # whether the transforming thread is in `read`
        self._ahead: ReadAhead | None = None
        if ahead is not None and (limits := read_ahead_limits(source, options)) is not None:
            threads, records, calls = limits
            self._ahead = ReadAhead(
                self._call, threads=threads, records=records, call_records=calls, name=ahead
            )
        self.reads_ahead = self._ahead is not None
        self.retries = bool(self._retrying)
        self.counts_aside = self.reads_ahead or self.retries

    def begin(self, task: int, keys: np.ndarray) -> None:
        """Starts reads of a task that `read` will ask for later."""
        if self._ahead is not None:
            self._ahead.begin(task, keys.tolist())

    def forget(self, task: int) -> None:
        """Cancels the reads of a task that were started by `begin` and won't be asked for."""
        if self._ahead is not None:
            self._ahead.forget(task)

    def read(self, task: int, keys: np.ndarray, indices: np.ndarray) -> ElementRun:
        """The records of a task, or those before a failure, with the failure.

        Args:
            task: its id.
            keys, indices: (n,) int64 each.
        """
        ahead = self._ahead
        waited = 0.0 if ahead is None else ahead.waited
        self._waited_for = True
        begun, worked = time.perf_counter_ns(), time.thread_time_ns()  # as `timed`, without its calls
        try:
            if ahead is not None:
                records, error = ahead.take(task, keys.tolist())
            elif self._each is not None:
                records, error = _one_by_one(self._each, keys)
            else:
                records, error = self._call(keys.tolist())
        finally:
            worked = time.thread_time_ns() - worked
            taken = time.perf_counter_ns() - begun
            self._waited_for = False
            if ahead is not None:
                self.waited += ahead.waited - waited
            elif taken > worked:
                self.waited += (taken - worked) / 1e9
            self.taken += taken
            self.calls += 1
        failure = None
        if error is not None:
            of = indices[len(records) : len(records) + 1]
            if isinstance(error, MiscountedError):  # the wrong one of the records isn't known
                records, of = [], indices
            if isinstance(error, SourceEndedError):
                error.index = int(of[0])
            failure = Failure(error, f"source {kind_of(self._source)}", tuple(of.tolist()))
        indices = indices[: len(records)]
        return ElementRun(
            records if self._guard is None else self._guard(records),
            Singles(indices),
            Singles(indices + 1) if self._ends else None,
            failure,
        )

    def timed(self, read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What `read` returns; the time for which it doesn't use the processor counts as waiting."""
        begun, worked = time.perf_counter_ns(), time.thread_time_ns()
        try:
            return read(*arguments, **options)
        finally:
            worked = time.thread_time_ns() - worked
            taken = time.perf_counter_ns() - begun
            if taken > worked:
                self.waited += (taken - worked) / 1e9
            self.taken += taken
            self.calls += 1

    @property
    def counted_aside(self) -> tuple[int, int, int, int, int]:
        """Of the reading threads the nanoseconds and the number of reads, and tokens and places; reads tried again."""
        threads = () if self._ahead is None else self._ahead.counted
        taken, calls, tokens, places = map(sum, zip(*threads)) if threads else (0, 0, 0, 0)
        return taken, calls, tokens, places, sum(retrying.retried for retrying in self._retrying)

    def tell_of_waits(self, waits: Callable[[], None]) -> None:
        """Sets a function that is called repeatedly while `read` waits for the retry of a read.

        It may be called by any thread; not while only reads ahead are retried.
        """
        for retrying in self._retrying:
            retrying.waits = lambda: waits() if self._waited_for else None

    def close(self) -> None:
        """Ends the reading threads."""
        if self._ahead is not None:
            self._ahead.close()


def _one_by_one(read_each: Callable[[Any], Iterable[Any]], keys: Any) -> ReadRecords:
    records: list[Any] = []
    try:
        records.extend(read_each(keys))
    except Exception as error:  # noqa: BLE001 - a source may raise anything
        return ReadRecords(records, error)
    if len(records) != len(keys):
        return ReadRecords(records, SourceEndedError("the source raised StopIteration"))
    return ReadRecords(records)


def _guard_of(source: Any) -> Callable[[list[Any]], list[Any]]:
    # These return the objects that they hold; records of other sources are new, or protected by the source.
    if isinstance(source, list | tuple | dict | np.ndarray):
        return lambda records: [read_only(record) for record in records]
    return own_each
