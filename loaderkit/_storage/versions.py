"""Whether a shard is still the one that was expected, by what the storage says of it."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from loaderkit._base.system.shared_memory import goes_to_a_worker
from loaderkit.errors import FileChangedError

from .fetch_threads import THREADS
from .range_reader import MODIFIED, ObjectVersion, RangeReader


class OtherVersion(NamedTuple):
    """A shard, what was seen of it, and whether samples are enough: nothing with a strong tag was read before."""

    shard: int
    seen: ObjectVersion
    first: bool


OnOtherVersion = Callable[[RangeReader, Sequence[OtherVersion]], None]

_log = logging.getLogger("loaderkit")


class VersionCheck:
    """Compares each version that is seen with the expected one; safe for threads.

    Args:
        names: of the shards, as they may be shown.
        expected: by shard; None, or None at a shard, takes the first version that is seen.
        on_other_version: called with the reader and shards whose size is the expected one and whose tag isn't, or of
            which the storage gives none. It returns to accept these versions and raises FileChangedError to refuse one,
            and may read the shards with the reader meanwhile; None refuses another tag.
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
        self._asked: dict[int, ObjectVersion] = {}  # that on_other_version decides now
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

    def check(self, ranges: RangeReader, seen: Iterable[tuple[int, ObjectVersion]]) -> None:
        """Raises FileChangedError where what is seen isn't what is expected.

        on_other_version gets all that it must decide in one call.

        Args:
            ranges: the reader that saw it.
            seen: numbers of shards, and what the storage says of each now.
        """
        new = [each for each in seen if not self._is_known(*each)]
        if not new:
            return
        with self._lock:
            others: dict[int, OtherVersion] = {}
            for shard, version in new:
                before = others.get(shard)
                if before is not None and (before.seen, before.seen.weak) != (version, version.weak):
                    self._decide(ranges, others)
                if not self._settle(shard, version):
                    known = self._known.get(shard)
                    first = known is None or not known.tag or self._any_tag or known.weak or version.weak
                    others[shard] = OtherVersion(shard, version, first)
            self._decide(ranges, others)

    def settle(self, shard: int, seen: ObjectVersion) -> bool:
        """Accepts the expected version; False where on_other_version must decide, FileChangedError where none may be.

        Args:
            shard: its number.
            seen: what the storage says of it now.
        """
        if self._is_known(shard, seen):
            return True
        with self._lock:
            return self._settle(shard, seen)

    def _is_known(self, shard: int, seen: ObjectVersion) -> bool:
        known = self._known.get(shard)
        return known is not None and seen.size == known.size and (seen.tag == known.tag or not seen.tag)

    def _settle(self, shard: int, seen: ObjectVersion) -> bool:
        known, was = self._known.get(shard), self.expected(shard) or seen
        if seen.size != was.size:
            raise other_shard(self._names[shard], f"it had {was.size:,} bytes and has {seen.size:,} now")
        if (judged := self._asked.get(shard)) is not None:  # on_other_version reads the shard to decide
            both = judged.tag and seen.tag and not (judged.weak or seen.weak or self._any_tag)
            if both and judged.tag != seen.tag:
                how = f"its version was {judged.tag!r} and is {seen.tag!r} now"
                raise other_shard(self._names[shard], how)
            return True
        if seen.weak or not seen.tag or seen.tag.startswith(MODIFIED):
            self._tell_once(shard, seen)
        if known is not None and not seen.tag:  # it says nothing, where another answer did
            return True
        given = None if self._given is None else self._given[shard]
        tag = was.tag if was.tag or given is None else given.tag
        if not ((tag == seen.tag != "") or (shard, seen.tag) in self._accepted or not (given or tag)):
            if self._on_other is not None and given is not None:
                return False
            if tag and seen.tag:
                how = f"its version was {tag!r} and is {seen.tag!r} now"
                raise other_shard(self._names[shard], how)
        self._accept(shard, seen)
        return True

    def _decide(self, ranges: RangeReader, others: dict[int, OtherVersion]) -> None:
        """Accepts these versions and empties `others`, or raises what on_other_version raises."""
        if others and self._on_other is not None:
            self._asked = {shard: other.seen for shard, other in others.items()}
            try:
                self._on_other(ranges, [*others.values()])
            finally:
                self._asked = {}
            for shard, other in others.items():
                self._accept(shard, other.seen)
            others.clear()

    def _accept(self, shard: int, seen: ObjectVersion) -> None:
        known = self._known.get(shard)
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
        state = {**self.__dict__, "_lock": None, "_asked": {}}
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
    if not at_once or len(shards) < 2:
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
