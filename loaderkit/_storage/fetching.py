"""How one range of an object is fetched, whatever library does it: what it gives, and why it didn't."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

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
