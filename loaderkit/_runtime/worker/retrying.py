"""Retries of failed reads, after a pause.

The loop is tenacity's. Tenacity's random pauses draw from the global `random`; ours draw from a generator of their
own, so that retries don't change the user's random numbers.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loaderkit._base.extras import missing_library
from loaderkit._base.notes import annotate, keyed, repr_of
from loaderkit._base.numbers import at_least, number
from loaderkit._runtime.transport.exceptions import shortened
from loaderkit._source.naming import Namer
from loaderkit.errors import DataFormatError, FileChangedError

_MOST_TEXT = 1_000  # characters of each attempt's error in the note
_LONGEST_WAIT = 60.0  # seconds between two attempts: the doubled pause grows no further
_FOR_GOOD = (FileChangedError, DataFormatError)
_SIGN_SECONDS = 0.1  # between two calls of `waits`, far below usual values of `worker_timeout`


@dataclass(frozen=True, slots=True)
class Retry:
    """How a failed read is retried; needs tenacity, which the extra `retry` installs.

    Args:
        attempts: total number of reads of a record, 1 or more.
        wait: seconds; before attempt k + 1 is a random pause of up to `wait * 2**(k - 1)`, at most 60 s.
        deadline: seconds for all attempts of one record, or of the records of one call of `__getitems__` together;
            none begins later. None for no limit.
        errors: exception types to retry. Others fail at once, and so do FileChangedError and DataFormatError.

    A failed call of `__getitems__` is repeated as a whole. When its attempts end, or at once for other errors, its
    records are read in halves without a pause, until the first that can't be read is found: that one is retried by
    itself. The last error is raised, with a note of the record key and of every attempt. Raises TypeError and
    ValueError for an argument, and ImportError if tenacity isn't installed.

    >>> Retry(attempts=3)
    Retry(attempts=3, wait=0.1, deadline=60.0, errors=(<class 'OSError'>,))
    >>> Retry(attempts=0)
    Traceback (most recent call last):
        ...
    ValueError: attempts: expected 1 or more, got 0
    """

    attempts: int = 5
    wait: float = 0.1
    deadline: float | None = 60.0
    # ConnectionError and TimeoutError are OSErrors.
    errors: tuple[type[Exception], ...] = (OSError,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attempts", at_least("attempts", self.attempts, 1))
        _check_seconds("wait", self.wait)
        if self.deadline is not None:
            _check_seconds("deadline", self.deadline)
        kinds: Any = self.errors
        if not isinstance(kinds, tuple) or not all(
            isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds
        ):
            raise TypeError(f"errors: expected a tuple of exception types, got {kinds!r}")
        _tenacity()


def _check_seconds(name: str, value: Any) -> None:
    if not number(name, value, "a number of seconds") >= 0:
        raise ValueError(f"{name}: expected 0 seconds or more, got {value!r}")


def _tenacity() -> Any:
    try:
        import tenacity
    except ModuleNotFoundError as error:
        raise missing_library("lk.Retry needs", "tenacity", "retry") from error
    return tenacity


class Retrying:
    """A source's read with retries; may be called from several threads.

    Args:
        read: takes a record key, or those of a bulk read.
        retry: attempts, pauses and errors.
        name: a function of a record key, the source's name for the record or None.

    waits: called every tenth of a second during a pause, so that the worker isn't taken for stuck.
    retried: reads that were tried again, in all.

    >>> def read(key, failing=[OSError("timed out"), OSError("refused")]):
    ...     if failing:
    ...         raise failing.pop()
    ...     return key
    >>> Retrying(read, Retry(wait=0.001))(7)
    7
    """

    def __init__(self, read: Callable[[Any], Any], retry: Retry, name: Namer = lambda _: None) -> None:
        self._read = read
        self._name = name
        self._retry = retry
        self._jitter = random.Random()
        self.waits: Callable[[], None] = lambda: None
        self.retried = 0
        self._counting = threading.Lock()

    def __call__(self, key: Any, *, begun: float | None = None) -> Any:
        """What `read` gives. begun: when the time of the deadline began, by time.monotonic(); None for now."""
        if begun is None:
            begun = time.monotonic()
        try:
            return self._read(key)
        except self._retry.errors as error:
            if not self._may_pass(error):
                raise
            first = error
        return self._again(key, first, begun)

    def _again(self, key: Any, first: Exception, begun: float) -> Any:
        tenacity = _tenacity()
        retry = self._retry
        attempts: list[str] = []  # a text for each failed one

        def attempt() -> Any:
            try:
                if not attempts:  # the first read was made by `__call__`
                    raise first
                with self._counting:
                    self.retried += 1
                return self._read(key)
            except Exception as error:
                what = shortened(repr_of(error), _MOST_TEXT)
                attempts.append(
                    f"{len(attempts) + 1} ended after {time.monotonic() - begun:.3f} s with {what}"
                )
                raise

        stops = [tenacity.stop_after_attempt(retry.attempts)]
        if retry.deadline is not None:
            stops.append(tenacity.stop_before_delay(max(0.0, retry.deadline - (time.monotonic() - begun))))
        calls = tenacity.Retrying(
            sleep=self._sleep,
            stop=tenacity.stop_any(*stops),
            wait=lambda state: self._pause(state.attempt_number),
            retry=tenacity.retry_if_exception(self._may_pass),
            reraise=True,
        )
        try:
            return calls(attempt)
        except Exception as last:
            which = keyed(key, self._name(key))
            annotate(last, f"read of record_key {which}: attempt " + "; attempt ".join(attempts))
            raise

    def _may_pass(self, error: BaseException) -> bool:
        # A replaced file stays replaced, and a malformed one malformed.
        return isinstance(error, self._retry.errors) and not isinstance(error, _FOR_GOOD)

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.waits()
            time.sleep(min(left, _SIGN_SECONDS))
        self.waits()

    def _pause(self, attempt: int) -> float:
        return self._jitter.uniform(0, min(self._retry.wait * 2.0 ** min(attempt - 1, 64), _LONGEST_WAIT))
