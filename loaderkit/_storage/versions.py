"""Whether a shard is still the one that was expected, by what the storage says of it."""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

from loaderkit._base.system.shared_memory import goes_to_a_worker
from loaderkit.errors import FileChangedError

from .fetch_threads import THREADS
from .range_reader import MODIFIED, ObjectVersion, RangeReader

# Called with the reader, the shard, what was seen of it, and whether nothing was read of it before.
OnOtherVersion = Callable[[RangeReader, int, ObjectVersion, bool], None]

_log = logging.getLogger("loaderkit")


class VersionCheck:
    """Compares each version that is seen with the expected one; safe for threads.

    Args:
        names: of the shards, as they may be shown.
        expected: by shard; None, or None at a shard, takes the first version that is seen.
        on_other_version: called with the reader, the shard, the version seen, and whether it is the first, where the
            size is the expected one and the tag isn't, or the storage gives none. It returns to accept that version and
            raises FileChangedError to refuse it, and may read the shard with the reader meanwhile; None refuses another
            tag.
        any_tag: whether the copies of a shard have tags of their own, so that another one is no other version.
    """

    def __init__(
        self,
        names: Sequence[str],
        expected: Sequence[ObjectVersion | None] | None,
        on_other_version: OnOtherVersion | None,
        *,
        any_tag: bool = False,
    ) -> None:
        self._names, self._given, self._on_other, self._any_tag = names, expected, on_other_version, any_tag
        self._known: dict[int, ObjectVersion] = {}  # by shard: what was read of it
        self._accepted: set[tuple[int, str]] = set()  # other tags
        self._asked: set[int] = set()
        self._told = False
        self._lock = threading.RLock()

    def expected(self, shard: int) -> ObjectVersion | None:
        """What was read of a shard, or else was given; None before."""
        known = self._known.get(shard)
        if known is None and self._given is not None:
            known = self._given[shard]
        return known

    def in_use(self, shard: int, seen: ObjectVersion | None) -> ObjectVersion | None:
        """The version of the bytes that were read of a shard, else `seen`; the given one where tags decide nothing."""
        if self._any_tag and self._given is not None and (given := self._given[shard]) is not None:
            return given
        known = self._known.get(shard) or seen
        return None if known is None else self.deciding(shard, known)

    def deciding(self, shard: int, seen: ObjectVersion) -> ObjectVersion:
        """What tells the bytes from others: the given version, if there is one, in place of a weak tag or none."""
        given = None if self._given is None else self._given[shard]
        return given if given is not None and (seen.weak or not seen.tag) else seen

    def hold(self, shard: int, version: ObjectVersion) -> bool:
        """Says that bytes of this version are used, though none were read here; False where others were read."""
        return self.deciding(shard, self._known.setdefault(shard, version)) == version

    def check(self, ranges: RangeReader, shard: int, seen: ObjectVersion) -> None:
        """Raises FileChangedError where what is seen isn't what is expected.

        Args:
            ranges: the reader that saw it.
            shard: its number.
            seen: what the storage says of it now.
        """
        known = self._known.get(shard)
        if known is not None and seen.size == known.size and (seen.tag == known.tag or not seen.tag):
            return
        with self._lock:
            self._compare(ranges, shard, seen)

    def _compare(self, ranges: RangeReader, shard: int, seen: ObjectVersion) -> None:
        known, was = self._known.get(shard), self.expected(shard) or seen
        if seen.size != was.size:
            raise other_shard(self._names[shard], f"it had {was.size:,} bytes and has {seen.size:,} now")
        if shard in self._asked:  # on_other_version reads the shard to decide
            return
        if seen.weak or not seen.tag or seen.tag.startswith(MODIFIED):
            self._tell_once(shard, seen)
        if known is not None and not seen.tag:  # it says nothing, where another answer did
            return
        given = None if self._given is None else self._given[shard]
        tag = was.tag if was.tag or given is None else given.tag
        if (tag == seen.tag != "") or (shard, seen.tag) in self._accepted or not (given or tag):
            pass
        elif self._on_other is not None and given is not None:
            first = known is None or not known.tag or self._any_tag or known.weak or seen.weak
            self._asked.add(shard)
            try:
                self._on_other(ranges, shard, seen, first)
            finally:
                self._asked.discard(shard)
        elif tag and seen.tag:
            raise other_shard(self._names[shard], f"its version was {tag!r} and is {seen.tag!r} now")
        self._accepted.add((shard, seen.tag))
        if known is None or not known.tag:
            self._known[shard] = seen

    def _tell_once(self, shard: int, seen: ObjectVersion) -> None:
        if not self._told:
            self._told = True
            what = "a weak ETag" if seen.weak else "a time of change, and no ETag" if seen.tag else "no ETag"
            _log.warning(
                "%s: the server gives %s; a file that is replaced during the run by one of the same size is noticed %s",
                self._names[shard],
                what,
                "within a second" if seen.tag and not seen.weak else "where one of 16 samples differs",
            )

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_lock": None, "_asked": set()}
        # What was seen first holds for this run only.
        return state if goes_to_a_worker() else {**state, "_known": {}, "_accepted": set(), "_told": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())


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


def versions_of(ranges: RangeReader) -> list[ObjectVersion]:
    """What the storage says of each shard now; it raises what `ranges.version` does.

    Args:
        ranges: reads the shards.
    """
    return ask_each(ranges.version, range(len(ranges.names)), at_once=ranges.waits)


def ask_each(
    ask: Callable[[int], ObjectVersion], shards: Sequence[int], *, at_once: bool
) -> list[ObjectVersion]:
    """What `ask` gives for each of these shards.

    Args:
        ask: takes a shard.
        shards: their numbers.
        at_once: whether each waits for a server, so that many are asked at a time.
    """
    if not at_once:
        return [*map(ask, shards)]
    answers: SimpleQueue[tuple[int, ObjectVersion | BaseException]] = SimpleQueue()

    def answer(shard: int) -> None:
        try:
            answers.put((shard, ask(shard)))
        except BaseException as error:  # noqa: BLE001 - the caller waits for it
            answers.put((shard, error))

    THREADS.enter()
    try:
        THREADS.submit([partial(answer, shard) for shard in shards])
        found = dict(answers.get() for _ in shards)
    finally:
        THREADS.leave()
    for shard in shards:
        if isinstance(error := found[shard], BaseException):
            raise error
    return [found[shard] for shard in shards]  # type: ignore[misc]  # no error is left
