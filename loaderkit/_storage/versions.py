"""Whether a shard is still the one that was expected, by what the storage says of it."""

import threading
from collections.abc import Callable, Sequence

from loaderkit._system.shared_memory import goes_to_a_worker
from loaderkit.errors import FileChangedError

from .range_reader import ObjectVersion, RangeReader

# Called with the reader, the shard and what was seen of it.
OnOtherVersion = Callable[[RangeReader, int, ObjectVersion], None]


class VersionCheck:
    """Compares each version that is seen with the expected one; safe for threads.

    Args:
        names: of the shards, as they may be shown.
        expected: by shard; None, or None at a shard, takes the first version that is seen.
        on_other_version: called with the reader, the shard and the version seen where the size is the expected one
            and the tag isn't, or the storage gives none. It returns to accept that version and raises FileChangedError
            to refuse it, and may read the shard with the reader meanwhile; None refuses another tag.
    """

    def __init__(
        self,
        names: Sequence[str],
        expected: Sequence[ObjectVersion | None] | None,
        on_other_version: OnOtherVersion | None,
    ) -> None:
        self._names, self._given, self._on_other = names, expected, on_other_version
        self._prepare()

    def _prepare(self) -> None:
        # By shard; several tags are accepted where servers of one name have tags of their own.
        self._known: dict[int, tuple[int, frozenset[str]]] = {}
        self._asked: set[int] = set()
        self._lock = threading.RLock()

    def expected(self, shard: int) -> ObjectVersion | None:
        """What was given for a shard, or was seen first; None before."""
        if (given := self._given[shard] if self._given is not None else None) is not None:
            return given
        known = self._known.get(shard)
        return None if known is None else ObjectVersion(known[0], min(known[1]))

    def check(self, ranges: RangeReader, shard: int, seen: ObjectVersion) -> None:
        """Raises FileChangedError where what is seen isn't what is expected.

        Args:
            ranges: the reader that saw it.
            shard: its number.
            seen: what the storage says of it now.
        """
        known = self._known.get(shard)
        if known is not None and seen.size == known[0] and (seen.tag in known[1] or not seen.tag):
            return
        with self._lock:
            self._compare(ranges, shard, seen)

    def _compare(self, ranges: RangeReader, shard: int, seen: ObjectVersion) -> None:
        known = self._known.get(shard)
        if known is None:
            given = self._given[shard] if self._given is not None else None
            size, tags = (
                (seen.size, frozenset((seen.tag,)))
                if given is None
                else (given.size, frozenset((given.tag,)))
            )
        else:
            size, tags = known
        if seen.size != size:
            raise other_shard(self._names[shard], f"it had {size:,} bytes and has {seen.size:,} now")
        if shard in self._asked:  # on_other_version reads the shard to decide
            return
        is_first = known is None and self._given is not None and self._given[shard] is not None
        # An answer without a tag says nothing: it is accepted where another one was.
        other = seen.tag not in tags and "" not in tags if seen.tag else is_first
        if other and self._on_other is not None:
            self._asked.add(shard)
            try:
                self._on_other(ranges, shard, seen)
            finally:
                self._asked.discard(shard)
        elif other and seen.tag:
            raise other_shard(self._names[shard], f"its version was {min(tags)!r} and is {seen.tag!r} now")
        self._known[shard] = (size, tags | {seen.tag} if seen.tag else tags)

    def __getstate__(self) -> tuple[object, ...]:
        # What was seen first holds for this run only.
        return self._names, self._given, self._on_other, self._known if goes_to_a_worker() else {}

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self._names, self._given, self._on_other, known = state  # type: ignore[assignment]
        self._prepare()
        self._known.update(known)  # type: ignore[call-overload]


def ends_early(name: str, size: int, end: int) -> FileChangedError:
    """The error for a shard that ends before a range that was asked for.

    Args:
        name: the shard's, as it may be shown.
        size: its bytes now.
        end: of the range.
    """
    return other_shard(name, f"it ends at byte {size:,}, before byte {end:,}, which was asked for")


def other_shard(name: str, what: str) -> FileChangedError:
    """The error for a shard that isn't the one that was indexed or read before.

    Args:
        name: the shard's, as it may be shown.
        what: what has changed.
    """
    return FileChangedError(
        f"{name}: the file isn't the one that was indexed or read first: {what}. A run must read the same data from "
        "beginning to end: put the old file back, or index the data again and start a new run"
    )
