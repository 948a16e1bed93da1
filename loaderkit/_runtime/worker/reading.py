"""Records from a source: batched where it can, with several reads in flight where asked, kept whole for others.

A failing batched read is repeated record by record, so that the error is that of the first record that fails, with
its key, whatever else was in the same call; each of those reads is tried again as `ReadOptions.retry` says.
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
        num_threads: reads in flight inside one worker; 0 reads in the thread that transforms. Worth it where a read
            waits (an object store, a spinning disk); sources that read many records in one call need none.
        prefetch_buffer_size: records that may be read ahead of the one being transformed.
        retry: how often a read that failed is tried again; not at all, if not given.

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
    """How many records of a source a worker reads at once; 0 where it reads in the thread that transforms.

    >>> reads_in_flight([1, 2], ReadOptions(num_threads=4))
    4
    """
    if many_reader(source) is not None:  # reads many in one call, and knows best how
        return 0
    return min(options.num_threads, options.prefetch_buffer_size)


class RecordReader:
    """Reads from one source, for one worker.

    Args:
        source: anything with `__getitem__`.
        options: how many reads at once.
        copy: give operations containers of their own, so that they can't change the source's.

    name: says what the source calls a record.
    """

    def __init__(self, source: Any, options: ReadOptions, *, copy: bool) -> None:
        self._source = source
        self.name = namer_of(source)
        self._batched = many_reader(source)
        self._guard = _guard_of(source) if copy else None
        self._one: Callable[[int], Any] = source.__getitem__
        if options.retry is not None:
            self._one = Retrying(self._one, options.retry, self.name)
        self._waited_for = False  # whether who transforms waits for a read
        self._ahead: ReadAhead | None = None
        if reads_in_flight(source, options):
            self._ahead = ReadAhead(
                self._one, threads=options.num_threads, records=options.prefetch_buffer_size
            )

    def begin(self, task: int, keys: np.ndarray) -> None:
        """Puts the reads of a task in flight that will be asked for later."""
        if self._ahead is not None:
            self._ahead.begin(task, keys.tolist())

    def forget(self, task: int) -> None:
        """Nobody will ask for the reads of a task that `begin` was told of."""
        if self._ahead is not None:
            self._ahead.forget(task)

    def read(self, task: int, keys: np.ndarray, indices: np.ndarray) -> tuple[list[Any], Failure | None]:
        """The records of a task; a failure comes with the records before it.

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
            # Where a source miscounts, nobody knows whose record is missing.
            place = len(records)
            of = indices if isinstance(error, _Miscounted) else indices[place : place + 1]
            failure = Failure(error, f"source {type(self._source).__qualname__}", tuple(of.tolist()))
        return (records if self._guard is None else self._guard(records)), failure

    def tell_of_waits(self, waits: Callable[[], None]) -> None:
        """From now on that is called again and again while somebody waits for a read that is to be tried again.

        By any thread; not for reads ahead of the one that is waited for.
        """
        if isinstance(self._one, Retrying):
            self._one.waits = lambda: waits() if self._waited_for else None

    @property
    def retries(self) -> bool:
        """Whether a read that fails is tried again."""
        return isinstance(self._one, Retrying)

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
                return [], _Miscounted(f"__getitems__ gave {len(records)} records for {len(wanted)} keys")
            return records, None
        return self._one_by_one(wanted)

    def _one_by_one(self, wanted: list[int]) -> tuple[list[Any], Exception | None]:
        records: list[Any] = []
        try:
            records.extend(map(self._one, wanted))
        except Exception as error:  # noqa: BLE001 - a source may raise anything
            return records, error
        if len(records) != len(wanted):
            return records, RuntimeError("the source raised StopIteration")
        return records, None

    def close(self) -> None:
        """Ends the reading threads."""
        if self._ahead is not None:
            self._ahead.close()


class _Miscounted(ValueError):  # noqa: N818 - for its users a ValueError
    """A batched read gave another number of records than it was asked for."""


def _until_error(reads: Generator[Future[Any], None, None]) -> tuple[list[Any], Exception | None]:
    records: list[Any] = []
    with closing(reads):  # the error's traceback would hold it open, and the task may be read again
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
    return own_each
