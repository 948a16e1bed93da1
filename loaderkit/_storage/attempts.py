"""How often a fetch is tried, and the error that says it failed for good."""

import errno
import random
import threading
from collections.abc import Callable
from typing import TypeVar

from loaderkit.errors import StorageError

from .fetching import FetchError, Refusal

T = TypeVar("T")

# One attempt and four more, after pauses of 0.2, 0.4, 0.8 and 1.6 s, each times a random number from 0.5 to 1.5, so
# that readers that failed together don't come back together. They bridge about 3 s of a server that restarts; a longer
# failure is the loader's business (`Retry`).
ATTEMPTS = 5
PAUSE_S = 0.2

_JITTER = random.Random()  # the global generator is the user's


def tried(
    work: Callable[[], T],
    *,
    ended: threading.Event | None = None,
    on_denied: Callable[[], None] | None = None,
) -> T:
    """What `work` gives, after up to four more attempts; else its last FetchError, with the number of attempts.

    Args:
        work: raises FetchError.
        ended: set where the result isn't needed any more.
        on_denied: gets new credentials or links; called once, where the server denies the object.
    """
    ended = ended or threading.Event()
    refusal = FetchError(Refusal.FINAL, "")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return work()
        except FetchError as error:
            refusal = error
        refusal.attempts = attempt
        if refusal.reason is Refusal.DENIED and on_denied is not None:
            on_denied()
            on_denied = None
            continue
        if refusal.reason not in (Refusal.AGAIN, Refusal.SLOW) or ended.is_set():
            break
        if attempt < ATTEMPTS:
            ended.wait(PAUSE_S * 2 ** (attempt - 1) * _JITTER.uniform(0.5, 1.5))
    raise refusal


def storage_error(name: str, asked: str, refusal: FetchError) -> OSError:
    """The error for what couldn't be fetched: FileNotFoundError for a missing object, else StorageError.

    Args:
        name: the object's, as it may be shown.
        asked: what was asked for, such as "bytes 0 to 10".
        refusal: the last one.

    >>> print(storage_error("s3://box/a", "bytes 0 to 10", FetchError(Refusal.FINAL, "HTTP status 400")))
    s3://box/a: expected bytes 0 to 10, got HTTP status 400
    """
    if refusal.reason is Refusal.MISSING:
        return FileNotFoundError(errno.ENOENT, "no such object", name)
    tried_often = "" if refusal.attempts == 1 else f" after {refusal.attempts} attempts"
    remedy = ""
    if refusal.reason is Refusal.DENIED:
        remedy = "; give credentials or skip_signature=True in storage_options, or links that are valid"
    elif refusal.reason is Refusal.SLOW:
        remedy = "; where the server is slow, storage_options timeout='5m' allows a read more time"
    error = StorageError(f"{name}: expected {asked}, got {refusal.cause}{tried_often}{remedy}")
    error.refused = refusal.reason in (Refusal.DENIED, Refusal.FINAL)
    return error
