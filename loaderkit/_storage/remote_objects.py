"""Ranges of objects on servers: planned together, fetched at once, each tried again by itself, each answer compared."""

import logging
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit.errors import StorageError

from .addresses import redacted
from .fetch_threads import THREADS
from .fetching import Fetched, FetchError, ObjectFetcher, Refusal, storage_error, tried
from .object_client import SCHEMES
from .range_reader import ObjectVersion
from .read_plan import MAX_READ_BYTES, REMOTE_ALONE, REMOTE_GAP, ReadPlan, plan_reads, slices_of
from .versions import OnOtherVersion, VersionCheck, ends_early

_log = logging.getLogger("loaderkit")

Refresh = Callable[[], Sequence[str]]
# A read's number, its shard, and the bytes begin to end of it.
Piece = tuple[int, int, int, int]

# A server that ignores ranges sends a whole object for each: up to this size that is slow, above it is refused.
MAX_WHOLE_BYTES = 64 << 20
# obstore's reads end by its timeouts. Of fsspec's file systems some have none: without any answer for this time the
# read is given up, longer than the others' timeouts of some minutes.
MOST_PATIENCE_S = 900.0


class RemoteObjects:
    """Reads ranges of objects. A `RangeReader`; its arguments are those of `open_ranges`.

    names: the objects, in order, as they may be shown.
    """

    waits = True

    def __init__(
        self,
        names: Sequence[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
        refresh: Refresh | None = None,
        expected: Sequence[ObjectVersion | None] | None = None,
        on_other_version: OnOtherVersion | None = None,
        max_gap: int = REMOTE_GAP,
    ) -> None:
        self._addresses = names
        self._options = dict(storage_options or {})
        if (etags := self._options.pop("etags", None)) not in (None, "any"):
            raise ValueError(f"storage_options: expected etags='any' or no etags, got etags={etags!r}")
        self._refresh, self._max_gap = refresh, max_gap
        self.names = _Shown(names)
        self._versions = VersionCheck(self.names, expected, on_other_version, any_tag=etags is not None)
        self._prepare()

    def _prepare(self) -> None:
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
        self._renewed = 0
        self._whole: set[int] = set()
        self._fetchers: dict[bool, ObjectFetcher] = {}
        self._leave: weakref.finalize[Any, Any] | None = None

    def version(self, shard: int) -> ObjectVersion:
        """Size and ETag of an object now; FileNotFoundError, or StorageError after the retries."""
        work = partial(self._version_of, shard)
        version: ObjectVersion = self._tried(work, shard, "its size and version")
        return version

    def version_in_use(self, shard: int, seen: ObjectVersion | None = None) -> ObjectVersion:
        """That of the first answer, or what is said of the object now; where tags decide nothing the expected one."""
        return self._versions.in_use(shard, seen) or self._versions.deciding(shard, self.version(shard))

    def hold(self, shard: int, version: ObjectVersion) -> bool:
        """Whether nothing of another version was read."""
        return self._versions.hold(shard, version)

    def read(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> list[bytes | memoryview]:
        """The bytes begins[i] to ends[i] of shard shards[i], for each i, in the order given; (n,) each.

        FileChangedError where an object isn't the expected one or the one that was read first, FileNotFoundError where
        it is missing, StorageError where a range can't be read after the retries.
        """
        plan = plan_reads(shards, begins, ends, max_gap=self._max_gap)
        found: list[bytes | memoryview] = [b""] * len(plan.begins)
        with closing(self._reads(plan)) as reads:
            for number, data in reads:
                found[number] = data
        return slices_of(plan, found, ends - begins)

    def read_each(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Iterator[bytes | memoryview]:
        """What `read` gives, one at a time."""
        return iter(self.read(shards, begins, ends))

    def read_as_they_come(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Iterator[tuple[int, bytes | memoryview]]:
        """The place of each range among those given, and its bytes, as they come; it takes and raises what `read` does.

        What has come and wasn't taken yet is kept.
        """
        plan = plan_reads(shards, begins, ends, max_gap=self._max_gap, alone=REMOTE_ALONE)
        ranges: dict[int, list[int]] = {}
        for place, number in enumerate(plan.read.tolist()):
            ranges.setdefault(number, []).append(place)
        with closing(self._reads(plan)) as reads:
            for number, data in reads:
                for place in ranges[number]:
                    begin = int(plan.offset[place])
                    end = begin + int(ends[place] - begins[place])
                    yield place, data if end - begin == len(data) else memoryview(data)[begin:end]

    def close(self) -> None:
        """Ends the connections, and the threads where no other reader uses them; a later read begins again."""
        with self._lock:
            fetchers, self._fetchers = self._fetchers, {}
            if self._leave is not None:
                self._leave()
                self._leave = None
        for fetcher in fetchers.values():
            fetcher.close()

    def __repr__(self) -> str:
        return f"RemoteObjects({len(self._addresses)} objects)"

    def __getstate__(self) -> tuple[Any, ...]:
        return self._addresses, self._options, self._refresh, self._versions, self._max_gap

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._addresses, self._options, self._refresh, self._versions, self._max_gap = state
        self.names = _Shown(self._addresses)
        self._prepare()

    def _reads(self, plan: ReadPlan) -> Generator[tuple[int, bytes | memoryview]]:
        """The number of each read and its bytes, as they come."""
        reads = list(zip(plan.shards.tolist(), plan.begins.tolist(), plan.ends.tolist(), strict=True))
        # A read of more than max_bytes is a single large range: its pieces come at once and are tried again singly.
        pieces = [
            (number, shard, at, min(at + MAX_READ_BYTES, end))
            for number, (shard, begin, end) in enumerate(reads)
            for at in range(begin, end, MAX_READ_BYTES)
        ]
        for number, (_, begin, end) in enumerate(reads):
            if begin == end:
                yield number, b""
        parts: dict[int, dict[int, bytes | memoryview]] = {}
        with closing(self._fetched(pieces)) as answers:
            for (number, shard, begin, end), answer in self._checked(answers):
                if len(answer.data) != end - begin:
                    raise ends_early(self.names[shard], answer.version.size, end)
                _, first, last = reads[number]
                if (begin, end) == (first, last):
                    yield number, answer.data
                    continue
                mine = parts.setdefault(number, {})
                mine[begin] = answer.data
                if len(mine) == -(-(last - first) // MAX_READ_BYTES):
                    yield number, b"".join(mine[at] for at in sorted(mine))
                    del parts[number]

    def _checked(self, answers: Iterable[tuple[Piece, Fetched]]) -> Iterator[tuple[Piece, Fetched]]:
        """The answers, each once its version is accepted; those of others are kept until the last has come."""
        others: list[tuple[Piece, Fetched]] = []
        for piece, answer in answers:
            if self._versions.settle(piece[1], answer.version):
                yield piece, answer
            else:
                others.append((piece, answer))
        if others:
            self._versions.check(self, [(piece[1], answer.version) for piece, answer in others])
            yield from others

    def _fetched(self, pieces: list[Piece]) -> Generator[tuple[Piece, Fetched]]:
        """Each piece and its answer, as they come."""
        with self._lock:
            if self._leave is None:
                THREADS.enter()
                self._leave = weakref.finalize(self, THREADS.leave)
                self._leave.atexit = False
        answers: SimpleQueue[tuple[int, Fetched | BaseException]] = SimpleQueue()
        patience = (
            None if all(_by_obstore(self._addresses[piece[1]]) for piece in pieces) else MOST_PATIENCE_S
        )
        ended = threading.Event()
        try:
            THREADS.submit(
                [
                    partial(self._fetch_piece, place, piece, ended, answers)
                    for place, piece in enumerate(pieces)
                ]
            )
            for _ in pieces:
                try:
                    place, answer = answers.get(timeout=patience)
                except Empty:
                    raise StorageError(
                        f"{self.names[pieces[0][1]]}: expected an answer, got none for {patience:g} s from the "
                        "library that fsspec calls; give it a timeout in storage_options, so that it is tried again"
                    ) from None
                if isinstance(answer, BaseException):
                    raise answer
                yield pieces[place], answer
                del answer  # its bytes aren't kept while the next ones are waited for
        finally:
            ended.set()

    def _fetch_piece(
        self,
        place: int,
        piece: Piece,
        ended: threading.Event,
        answers: "SimpleQueue[tuple[int, Fetched | BaseException]]",
    ) -> None:
        """A thread's task: it answers, whatever happens."""
        if ended.is_set():  # another piece of the same call failed
            return
        _, shard, begin, end = piece
        try:
            work = partial(self._fetch, shard, begin, end)
            answers.put((place, self._tried(work, shard, f"bytes {begin:,} to {end:,}", ended)))
        except BaseException as error:  # noqa: BLE001 - also what a library raises beside Exception: the caller waits for it
            answers.put((place, error))

    def _tried(
        self, work: Callable[[str], Any], shard: int, asked: str, ended: threading.Event | None = None
    ) -> Any:
        """What `work` gives for the shard's name of now, after up to four more attempts."""
        generation = 0

        def once() -> Any:
            nonlocal generation
            generation, name = self._renewed, self._addresses[shard]
            return work(name)

        renew = (lambda: self._renew(generation)) if self._refresh is not None else None
        try:
            return tried(once, ended=ended, on_denied=renew)
        except FetchError as error:
            refusal = error
        raise storage_error(self.names[shard], asked, refusal)

    def _fetch(self, shard: int, begin: int, end: int, name: str) -> Fetched:
        fetcher = self._fetcher(name)
        known = self._versions.expected(shard)
        try:
            if known is not None and (begin, end) == (0, known.size):
                # A range that is the whole object costs some servers more than the object.
                answer = fetcher.fetch_whole(name, known.size)
            elif shard in self._whole:
                answer = self._cut(fetcher.fetch_whole(name, MAX_WHOLE_BYTES), begin, end)
            else:
                answer = fetcher.fetch(name, begin, end)
        except FetchError as error:
            if error.reason is Refusal.NO_RANGES:
                answer = self._cut(fetcher.fetch_whole(name, MAX_WHOLE_BYTES), begin, end)
                if not self._whole:
                    _log.warning(
                        "%s: the server ignores ranges, so each read of a record fetches a whole file; copy the files "
                        "to a disk by lk.formats.fetch, or use a server that answers ranges",
                        self.names[shard],
                    )
                self._whole.add(shard)
            elif error.reason in (Refusal.PAST_END, Refusal.TOO_LARGE) and shard not in self._whole:
                # The object isn't the expected one: its version says so to the caller.
                answer = Fetched(b"", fetcher.version(name))
            else:
                raise
        short = len(answer.data) != end - begin and answer.version.size >= end
        if short and (known is None or answer.version.size == known.size):
            raise FetchError(Refusal.AGAIN, f"an answer of {len(answer.data):,} bytes")
        return answer

    @staticmethod
    def _cut(whole: Fetched, begin: int, end: int) -> Fetched:
        return Fetched(memoryview(whole.data)[begin:end], whole.version)

    def _version_of(self, shard: int, name: str) -> ObjectVersion:
        fetcher = self._fetcher(name)
        try:
            return fetcher.version(name)
        except FetchError as error:
            if error.reason not in (Refusal.DENIED, Refusal.FINAL):
                raise
        # A link may be signed for reading alone, and a server may know no HEAD, or say no size in its answer.
        return fetcher.fetch(name, 0, 1).version

    def _fetcher(self, name: str) -> ObjectFetcher:
        by_obstore = _by_obstore(name)
        with self._lock:
            fetcher = self._fetchers.get(by_obstore)
            if fetcher is None:
                if by_obstore:
                    from .object_fetcher import ObstoreFetcher

                    fetcher = ObstoreFetcher(self._options)
                else:
                    from .fsspec_fetcher import FsspecFetcher

                    fetcher = FsspecFetcher(self._options)
                self._fetchers[by_obstore] = fetcher
        return fetcher

    def _renew(self, generation: int) -> None:
        """Asks for fresh names, once for all threads whose names were of one generation."""
        assert self._refresh is not None
        with self._renewing:
            if self._renewed != generation:
                return
            names = list(self._refresh())
            if len(names) != len(self._addresses):
                raise ValueError(
                    f"paths: expected {len(self._addresses)} names, as at the first call, got {len(names)}"
                )
            for was, now in zip(self.names, map(redacted, names)):
                if was.rpartition("/")[2] != now.rpartition("/")[2]:
                    raise ValueError(
                        f"paths: expected the names of the first call in their order, {was!r}, got {now!r}"
                    )
            self._addresses = names
            self._renewed += 1


def _by_obstore(name: str) -> bool:
    return name.partition("://")[0].lower() in SCHEMES


class _Shown(Sequence[str]):
    """The names as they may be shown; made when they are asked for, as there may be a million."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [redacted(name) for name in self._names[place]]
        return redacted(self._names[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))
