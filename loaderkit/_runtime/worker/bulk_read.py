"""Reads of many records in one call, and what is done where such a call fails.

The error of a failed call doesn't say which record is bad. So the call is tried again as a whole, as `Retry` says of a
record. When its attempts end, or at once where the error is none that `Retry` covers, the records are read in two
halves, those that fail in halves again, with one attempt each and no pause, until a record is alone. That one is read
by itself, with all attempts of a record, but within the deadline of the whole call; if it fails, its error is that of
the call, and the records after it aren't read. One bad record of 64 costs 6 failed calls more and the pauses of two
records, a server that is down the same; records that fail in turn cost a pause each, up to the deadline.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from .read_ahead import ReadRecords
from .retrying import Retry, Retrying


class MiscountedError(ValueError):
    """A bulk read returned another number of records than of keys: which of them are wrong isn't known."""


class SourceEndedError(RuntimeError):
    """A source raised StopIteration for a record.

    index: of the record.
    """

    index = -1


class BulkRead:
    """Reads records in one call.

    Args:
        many: the source's `__getitems__`.
        one: its `__getitem__`, or that with retries.
        retry: of whole calls, None for none.

    >>> def many(keys):
    ...     return [10 // key for key in keys]
    >>> BulkRead(many, lambda key: 10 // key, None)([5, 2, 0, 1])
    ReadRecords(values=[2, 5], error=ZeroDivisionError('integer division or modulo by zero'))
    """

    def __init__(
        self,
        many: Callable[[Sequence[int]], Sequence[Any]],
        one: Callable[[int], Any] | Retrying,
        retry: Retry | None,
    ) -> None:
        self._many = many
        self._one = one
        self.retrying = None if retry is None else Retrying(many, retry)

    def __call__(self, keys: list[int]) -> ReadRecords:
        """The records, or those before the first that can't be read, and its error; none before a MiscountedError."""
        begun = time.monotonic()
        try:
            return self._read(keys, begun, self.retrying or self._many)
        except MiscountedError as error:
            return ReadRecords([], error)

    def _read(
        self, keys: list[int], begun: float, many: Callable[[Sequence[int]], Sequence[Any]]
    ) -> ReadRecords:
        if len(keys) == 1:
            return self._read_one(keys[0], begun)
        try:
            records = list(many(keys))
        except Exception:  # noqa: BLE001 - raised again by the record that it belongs to
            return self._read_halves(keys, begun)
        if len(records) != len(keys):
            raise MiscountedError(f"__getitems__ gave {len(records)} records for {len(keys)} keys")
        return ReadRecords(records)

    def _read_halves(self, keys: list[int], begun: float) -> ReadRecords:
        middle = len(keys) // 2
        records, error = self._read(keys[:middle], begun, self._many)
        if error is None:
            others, error = self._read(keys[middle:], begun, self._many)
            records += others
        return ReadRecords(records, error)

    def _read_one(self, key: int, begun: float) -> ReadRecords:
        try:
            one = self._one
            return ReadRecords([one(key, begun=begun) if isinstance(one, Retrying) else one(key)])
        except StopIteration:
            return ReadRecords([], SourceEndedError("the source raised StopIteration"))
        except Exception as error:  # noqa: BLE001 - a source may raise anything
            return ReadRecords([], error)
