"""How one range of an object is fetched, whatever library does it: what it gives, and why it didn't."""

import errno
import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Protocol, TypeVar

from loaderkit._base.system.dataclasses import dataclass
from loaderkit.errors import StorageError

from .addresses import redacted
from .range_reader import ObjectVersion


class Refusal(Enum):
    """What can be done about a fetch that failed: the reason decides."""

    AGAIN = "it may succeed when it is tried again"
    SLOW = "it took longer than is allowed; it may succeed when it is tried again"
    DENIED = "the server doesn't give the object to this user, or the link has expired"
    MISSING = "there is no such object"
    PAST_END = "the object ends before the range begins"
    NO_RANGES = "the server gives whole objects only"
    TOO_LARGE = "the object has more bytes than are fetched at once"
    PAGE = "a web server gives an HTML page in place of the object"
    FINAL = "it fails each time"


class FetchError(Exception):
    """A fetch that failed.

    reason: what can be done. cause: a text without addresses and credentials. attempts: how often it was tried.
    """

    def __init__(self, reason: Refusal, cause: str) -> None:
        super().__init__(cause)
        self.reason, self.cause, self.attempts = reason, cause, 1


@dataclass(frozen=True, slots=True)
class Fetched:
    """The bytes that were asked for, fewer only where the object ends before them, and the object's version."""

    data: bytes | memoryview
    version: ObjectVersion


class ObjectFetcher(Protocol):
    """Fetches ranges of objects with one library; safe for threads. Each method raises FetchError."""

    def fetch(self, name: str, begin: int, end: int) -> Fetched:
        """The bytes begin to end of an object, by its whole name."""
        ...

    def fetch_whole(self, name: str, max_bytes: int) -> Fetched:
        """All bytes of an object that has at most `max_bytes`."""
        ...

    def version(self, name: str) -> ObjectVersion:
        """What the storage says of an object now."""
        ...

    def close(self) -> None:
        """Ends the connections; a later fetch makes new ones."""
        ...


def without_secrets(text: str, options: Mapping[str, Any]) -> str:
    """The first line of a library's message, without what may be a credential: values of options, parts of addresses.

    >>> without_secrets("GET https://me:pw@host/a?sig=x failed: key1234", {"key": "key1234"})
    'GET https://host/a failed: ...'
    """
    line = text.strip().partition("\n")[0]
    for value in sorted(_values(options), key=len, reverse=True):
        line = line.replace(value, "...")
    line = re.sub(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+", lambda found: redacted(found[0]), line)
    return line[:200]


def _values(options: Any) -> Iterator[str]:
    if isinstance(options, Mapping):
        for value in options.values():
            yield from _values(value)
    elif isinstance(options, str) and len(options) >= 4:
        yield options


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
    elif refusal.reason is Refusal.PAGE:
        asked = "a data file"
        remedy = (
            ", as web servers give for a folder, a login or a missing file; folders of a web server can't be listed: "
            "name the files, as name-{000..146}.tar, name@64.tar or a list"
        )
    error = StorageError(f"{name}: expected {asked}, got {refusal.cause}{tried_often}{remedy}")
    error.refused = refusal.reason in (Refusal.DENIED, Refusal.FINAL, Refusal.PAGE)
    return error
