"""Reads records through the cache: from the chunks on disk, and from the shards where a chunk isn't there yet.

A chunk that isn't there is fetched once: its lock says that another process is at it.
"""

import logging
import math
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.platform import IN_WORKER
from loaderkit._base.system.shared_memory import goes_to_another_machine
from loaderkit._storage.range_reader import RangeReader

from .chunk_file import ChunkFile, ChunkInMemory, open_chunk, write_chunk
from .chunk_folder import ChunkFolder, lock_without_waiting
from .chunk_numbers import ChunkedIndex, ChunkNumbers
from .eviction import NextUse, reserve, share_of
from .live_loader import LiveLoader, other_loaders
from .open_chunks import OpenChunks
from .settings import Cache
from .shard_versions import ShardVersions

Int64Array = NDArray[np.int64]
_log = logging.getLogger("loaderkit")

# Bytes fetched by one call, so that a batch over many chunks needs no more memory; with chunks of 1 MiB it is twice
# what is in flight at once.
_FETCH_BYTES = 64 << 20
# How long a fetch by another process is waited for. It may be stopped, and then the work is done twice. A feeder that
# is stopped holds up to 32 of the locks, an eighth of all chunks: after the first wait in vain the next are shorter.
_WAIT_SECONDS, _NEXT_WAIT_SECONDS = 30.0, 1.0
# How long nothing is written after the disk took no more, and after other loaders had the whole limit.
_FULL_SECONDS, _CROWDED_SECONDS = 30.0, 1.0
_NOT_FROM_DISK = getattr(os, "RWF_NOWAIT", None)  # Linux's flag of a read that fails where it would wait
_LARGE_PART = 16 << 10  # bytes


_Chunk = ChunkFile | ChunkInMemory


class CachedSpans:
    """A SpanReader over a cache.

    Args:
        index: where the records lie. Where it has their checksums, each chunk is compared before it is stored.
        ranges: reads the shards.
        cache: the folder and its limit. ValueError where the limit has no room for two chunks.
        name: of the loader whose part this is; a new one where it isn't given. Copies that are unpickled in worker
            processes have the same.

    cache: as it was given. compares: False, as chunks are compared before they are stored. numbers: of the chunks.
    next_use: set by a feeder, which knows when chunks are needed again.
    """

    compares = False

    def __init__(
        self, index: ChunkedIndex, ranges: RangeReader, cache: Cache, name: str | None = None
    ) -> None:
        self._index, self._ranges, self.cache = index, ranges, cache
        self._name = name or secrets.token_hex(8)
        self.numbers = ChunkNumbers(index)
        self._key = self.numbers.key
        self._versions = ShardVersions(index, self.numbers, ranges)
        self.next_use: NextUse | None = None
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._open = OpenChunks()
        self._cached: LiveLoader | None = None
        self._stopped: set[str] = set()  # locks that were waited for in vain, and not seen free since
        self._fetching: set[int] = set()  # chunks that threads of this process fetch
        self._not_before = 0.0  # when chunks are written again, after they couldn't be
        self._warned = False
        self._check_limit()
        _spans.add(self)

    def _check_limit(self) -> None:
        if not len(self._index):
            return
        _, begin, end = self.numbers.span(0)
        if self.cache.limit < 2 * (end - begin):
            raise ValueError(
                f"limit: expected {2 * (end - begin)} bytes or more, the size of two chunks of these records, got "
                f"{self.cache.limit}"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (self._index, self._ranges, self.cache, self._name, goes_to_another_machine())

    @property
    def waits(self) -> bool:
        """Whether a read may wait for a server."""
        return self._ranges.waits

    def read(self, keys: Int64Array) -> list[bytes | memoryview]:
        """The spans of the records with these keys, (n,) each in [0, records), in the order given."""
        return self.read_parts(keys, *self._index.locate(keys))

    def read_each(self, keys: Int64Array) -> Iterator[bytes | memoryview]:
        """What `read` gives."""
        return iter(self.read(keys))

    def read_parts(
        self, keys: Int64Array, shards: Int64Array, begins: Int64Array, ends: Int64Array
    ) -> list[bytes | memoryview]:
        """The bytes begins[i] to ends[i] of shard shards[i], a part of the record keys[i], for each i; (n,) each."""
        if len(keys) > (most := self._open.together):
            return [
                part
                for low in range(0, len(keys), most)
                for part in self.read_parts(
                    *(each[low : low + most] for each in (keys, shards, begins, ends))
                )
            ]
        numbers = self.numbers.of(keys, shards).tolist()
        chunks = self._present(numbers, shards)
        sizes = (ends - begins).tolist()
        # This runs for each record: the calls of a loop of preads, and little more.
        pread = os.pread
        in_memory = self._parts_in_memory(chunks, begins.tolist(), sizes)
        data: list[bytes | memoryview | None] = [
            part
            if part is not None
            or chunk is None
            or (chunk.unchecked and not chunk.is_good(begin, begin + size))
            else pread(chunk.descriptor, size, begin - chunk.begin)
            for part, chunk, size, begin in zip(in_memory, chunks, sizes, begins.tolist(), strict=True)
        ]
        if None in data or list(map(len, data)) != sizes:  # type: ignore[arg-type]  # None comes first
            # Places of the parts in each chunk that isn't there, was cut, or is damaged.
            missing: dict[int, list[int]] = {}
            for place, number in enumerate(numbers):
                if (part := data[place]) is None or len(part) != sizes[place]:
                    missing.setdefault(number, []).append(place)
            self._read_missing(keys, begins, ends, missing, data)
        return data  # type: ignore[return-value]  # every place is filled

    def _parts_in_memory(
        self, chunks: list[ChunkFile | None], begins: list[int], sizes: list[int]
    ) -> list[bytes | None]:
        """The large parts of checked chunks that the system has in memory, read by one thread at a time; else None.

        Each pread lets go of the interpreter, which threads that read at once take from each other: on two processors
        20,000 switches for 1.2 GB, and 0.63 ns of CPU time a byte instead of 0.4 (measured). A part's first byte, by a
        read that may not wait, says where it is; of a small part that would take as long as the part.
        """
        if _NOT_FROM_DISK is None or sum(sizes) < _LARGE_PART * len(sizes):
            return [None] * len(sizes)
        one, flag, parts = [bytearray(1)], _NOT_FROM_DISK, []
        with self._reading:
            for chunk, begin, size in zip(chunks, begins, sizes, strict=True):
                part = None
                if chunk is not None and not chunk.unchecked:
                    with suppress(OSError):
                        os.preadv(chunk.descriptor, one, begin - chunk.begin, flag)
                        part = os.pread(chunk.descriptor, size, begin - chunk.begin)
                parts.append(part)
        return parts

    def _read_missing(
        self,
        keys: Int64Array,
        begins: Int64Array,
        ends: Int64Array,
        missing: dict[int, list[int]],
        data: list[bytes | memoryview | None],
    ) -> None:
        def read_directly(places: list[int]) -> None:
            records, record = np.unique(keys[places], return_inverse=True)
            located = self._index.locate(records)
            spans = self._ranges.read(*located)
            starts = located[1].tolist()
            for key, (start, span) in enumerate(zip(starts, spans, strict=True)):
                self._versions.compare(records[key : key + 1], start, span)
            for place, k in zip(places, record.tolist(), strict=True):
                data[place] = spans[k][int(begins[place]) - starts[k] : int(ends[place]) - starts[k]]

        places = sorted(place for of_chunk in missing.values() for place in of_chunk)
        _, starts, stops = self._index.locate(np.unique(keys[places]))
        if not self._whole_chunks(int((stops - starts).sum())):
            read_directly(places)
            return

        def take(number: int, chunk: _Chunk) -> None:
            for place in missing[number]:
                data[place] = chunk.read(int(begins[place]), int(ends[place]))
                if data[place] is None:  # cut right after it was written
                    read_directly([place])

        self._fetch({number: int(keys[places[0]]) for number, places in missing.items()}, take)

    def _whole_chunks(self, nbytes: int) -> bool:
        """Whether chunks are fetched whole, or only the records with these bytes."""
        if (cached := self._opened()) is None or time.monotonic() < self._not_before:
            return False  # a chunk that can't be stored would be read again for each of its records
        if (budget := cached.start_budget) <= 0:
            return True
        cached.start_budget = budget - nbytes
        return False

    # --- chunks -------------------------------------------------------------------------------------------------

    def fetch(self, keys: Int64Array) -> Int64Array:
        """Puts the chunks of records into the cache, those that aren't there.

        Args:
            keys: (n,) int64; one of each chunk is enough.

        Returns those of the keys, (m,) int64, whose chunks weren't fetched, as others have their locks.
        """
        wanted = dict(zip(self.numbers.of(keys).tolist(), keys.tolist(), strict=True))
        cached = self._opened()
        if cached is None or time.monotonic() < self._not_before:
            return np.empty(0, np.int64)
        shards = self._index.locate(np.array(list(wanted.values()), np.int64))[0]
        stored = self._stored_chunks(cached, list(wanted), shards)
        for number in [number for number, chunk in stored.items() if chunk is not None]:
            del wanted[number]
        for number, _ in self._fetch_some(dict(wanted), alone=False):
            del wanted[number]
        return np.array(list(wanted.values()), np.int64)

    # --- the loader's share -------------------------------------------------------------------------------------

    def share(self) -> int:
        """Bytes that the chunks of this loader may have now."""
        cached = self._opened()
        return 0 if cached is None else share_of(cached, self.cache.limit)

    def allow_direct_reads(self, nbytes: int) -> None:
        """Lets all processes of the loader read so many bytes of records without their chunks."""
        cached = self._opened() if nbytes else self._cached
        if cached is not None:
            cached.start_budget = nbytes

    # --- fetching -----------------------------------------------------------------------------------------------

    def _present(self, numbers: list[int], shards: Int64Array) -> list[ChunkFile | None]:
        """The chunks of these numbers, None for each that isn't in the cache."""
        chunks = self._open.found(numbers)
        if None in chunks and (cached := self._opened()) is not None:
            missing = [place for place, chunk in enumerate(chunks) if chunk is None]
            stored = self._stored_chunks(cached, [numbers[place] for place in missing], shards[missing])
            found = {
                number: chunk and self._open.keep(number, chunk, instead=False)
                for number, chunk in stored.items()
            }
            for place in missing:
                chunks[place] = found[numbers[place]]
        return chunks

    def _stored_chunks(
        self, cached: LiveLoader, numbers: list[int], shards: Int64Array
    ) -> dict[int, ChunkFile | None]:
        """The chunks of these numbers, opened, by number; shards: of each."""
        of = dict(zip(numbers, shards.tolist(), strict=True))
        there = self._ask_of_stored(cached, of)
        return dict.fromkeys(of) | {number: self._stored_chunk(cached, number, of) for number in there}

    def _ask_of_stored(self, cached: LiveLoader, of: dict[int, int]) -> list[int]:
        """The chunks that have files; the server is asked for the versions of their shards, all at once.

        Where there are none it isn't asked, and the first bytes are a round trip earlier: their answer tells the
        version.

        Args:
            of: the shard of each chunk, by the chunk's number.
        """
        there = [number for number in of if os.path.exists(cached.folder.path(self._key, number))]
        self._versions.ask([of[number] for number in there])
        return there

    def _stored_chunk(
        self, cached: LiveLoader, number: int, of: dict[int, int], *, whole: bool = False
    ) -> ChunkFile | None:
        """The chunk of its shard's version, opened; with `whole`, only where no bit of it was flipped.

        Args:
            cached: the folder.
            number: of the chunk.
            of: the shard of each chunk that is looked for; a server is asked for the versions of all that are there.
            whole: whether all of it is compared.
        """
        path, shard = cached.folder.path(self._key, number), of[number]
        if not os.path.exists(path):  # else a server may be asked for the version
            return None
        if not self._versions.knows(shard):
            self._ask_of_stored(cached, of)
        chunk = open_chunk(path, number, self._versions.key(shard))
        if chunk is None or not self._versions.hold(shard):
            return None
        self._open.recall(number, chunk)
        if whole and not chunk.is_good(chunk.begin, chunk.begin + chunk.length):
            _log.warning("cache %s: chunk %d is damaged, and is fetched again", self.cache.folder, number)
            return None
        return chunk

    def _fetch(self, wanted: dict[int, int], take: Callable[[int, _Chunk], None]) -> None:
        """Gives each wanted chunk to `take`: fetched here, or by another process that is at it already.

        Args:
            wanted: a key of each chunk, by the chunk's number.
            take: is called once for each.
        """
        of = self._shards_of(wanted)
        left, deadline = dict(wanted), self._end_of_wait()
        while left:
            before, there = len(left), []
            if (cached := self._opened()) is not None:
                there = self._ask_of_stored(cached, {number: of[number] for number in left})
            with closing(self._fetch_some(dict(left), alone=time.monotonic() > deadline)) as fetched:
                for number, chunk in fetched:
                    del left[number]
                    take(number, chunk)
            if len(left) < before:
                deadline = self._end_of_wait()
            elif left:  # others have all the locks, and what they fetch is of versions to be asked for
                self._versions.ask([of[number] for number in left])
                self._wait_for_files(cached, left.keys() - there)

    def _shards_of(self, wanted: dict[int, int]) -> dict[int, int]:
        """The shard of each chunk, by the chunk's number; wanted: a key of each."""
        shards = self._index.locate(np.array(list(wanted.values()), np.int64))[0]
        return dict(zip(wanted, shards.tolist(), strict=True))

    def _wait_for_files(self, cached: LiveLoader | None, numbers: set[int]) -> None:
        """Until one of these chunks has a file, 31 ms at most: to look for files costs less than to try locks."""
        paths = [cached.folder.path(self._key, number) for number in numbers] if cached else []
        for pause_ms in (1, 2, 4, 8, 16) if paths else (4,):
            time.sleep(pause_ms / 1e3)
            if any(map(os.path.exists, paths)):
                return

    def _end_of_wait(self) -> float:
        return time.monotonic() + (_NEXT_WAIT_SECONDS if self._stopped else _WAIT_SECONDS)

    def _fetch_some(self, left: dict[int, int], *, alone: bool) -> Generator[tuple[int, _Chunk]]:
        """The first chunks whose locks are free, about as many as _FETCH_BYTES; none where others have all locks.

        Each is written when it comes, while the others are in flight. No lock is waited for, so processes that want
        each other's chunks can't wait for each other.

        Args:
            left: a key of each chunk, by the chunk's number.
            alone: whether locks of others count as free.
        """
        cached = self._opened()
        of = self._shards_of(left)
        spans: dict[int, tuple[int, int, int]] = {}
        mine: set[int] = set()

        def leave(number: int) -> None:
            mine.discard(number)
            self._fetching.discard(number)

        with ExitStack() as held:
            locks: dict[str, bool] = {}
            nbytes = 0
            held.callback(self._fetching.difference_update, mine)
            for number, key in left.items():
                if number in self._fetching:  # another thread fetches or compares it
                    continue
                if nbytes >= _FETCH_BYTES or max(len(spans), len(locks)) >= self._open.together:
                    break
                span = self.numbers.span(key)
                if cached is not None:
                    mine.add(number)
                    self._fetching.add(number)
                    if (lock := cached.folder.lock_of(self._key, number)) not in locks:
                        locks[lock] = held.enter_context(lock_without_waiting(lock))
                    chunk = self._stored_chunk(cached, number, of, whole=True)
                    chunk = chunk or self._taken_over(cached, number, key, span)
                    if chunk is not None:  # another process has just stored it
                        self._open.keep(number, chunk, instead=True)
                        leave(number)
                        yield number, chunk
                        continue
                    if not self._may_fetch(lock, locks[lock], alone=alone):
                        leave(number)
                        continue
                spans[number] = span
                nbytes += spans[number][2] - spans[number][1]
            if spans:
                wanted = np.array(list(spans.values()), np.int64).T
                numbers = list(spans)
                for place, payload in self._ranges.read_as_they_come(wanted[0], wanted[1], wanted[2]):
                    number, begin = numbers[place], int(wanted[1, place])
                    self._versions.compare(self.numbers.records(left[number]), begin, payload)
                    stored = self._stored(number, spans[number][0], begin, payload)
                    yield number, stored or ChunkInMemory(payload, begin)

    def _may_fetch(self, lock: str, free: bool, *, alone: bool) -> bool:
        if free:
            self._stopped.discard(lock)
        elif alone:
            self._stopped.add(lock)
        return free or lock in self._stopped

    def _taken_over(
        self, cached: LiveLoader, number: int, key: int, span: tuple[int, int, int]
    ) -> ChunkFile | None:
        former = self._versions.former(cached.folder.path(self._key, number), number, key, span)
        return None if former is None else self._stored(number, span[0], span[1], former)

    def _stored(self, number: int, shard: int, begin: int, payload: bytes | memoryview) -> ChunkFile | None:
        """Writes a chunk; None where the disk or the other loaders leave no room for it."""
        cached = self._opened()
        if cached is None or time.monotonic() < self._not_before:
            return None
        try:
            limit, next_use = self.cache.limit, self.next_use
            if not reserve(cached, number=number, nbytes=len(payload), limit=limit, next_use=next_use):
                self._not_before = time.monotonic() + _CROWDED_SECONDS
                return None
            key = self._versions.key(shard)
            chunk = write_chunk(cached.folder.path(self._key, number), number, begin, payload, key)
        except OSError as error:
            self._say_full(error)
            return None
        return self._open.keep(number, chunk, instead=True)

    def _opened(self) -> LiveLoader | None:
        """The folder of the cache, None while it can't be written."""
        cached = self._cached
        if cached is not None and cached.is_there:
            return cached
        if time.monotonic() < self._not_before:
            return None
        with self._lock:
            if self._cached is cached:  # else another thread has just opened it
                self._cached = None
                try:
                    folder = ChunkFolder(self.cache.folder)
                    list(other_loaders(folder, ""))  # deletes the files of dead ones
                    self._cached = LiveLoader(folder, self._name, self._key)
                except OSError as error:
                    self._say_full(error)
            return self._cached

    def _say_full(self, error: OSError) -> None:
        self._not_before = time.monotonic() + _FULL_SECONDS
        if not self._warned:
            self._warned = True
            # Not `warnings`: where these are errors, that of the cache would be taken for one of the record.
            _log.warning(
                "cache %s: it can't be written (%s); records are read without it, and it is tried again every %.0f s",
                *(self.cache.folder, error.strerror or error, _FULL_SECONDS),
            )

    def begin_in_child(self) -> None:
        """Makes this the reader of a loader of its own, in a process that was forked from its own."""
        self._lock, self._reading = threading.Lock(), threading.Lock()  # other threads may have held them
        self._open.renew_lock()
        self._fetching = set()
        self._name, self._cached = secrets.token_hex(8), None

    def close(self) -> None:
        """Closes files and connections; a later read opens them again."""
        self._open.clear()
        with self._lock:
            self._cached = None  # threads that still read keep what they use
        self._ranges.close()


_spans: weakref.WeakSet[CachedSpans] = weakref.WeakSet()  # of this process, for its forks


def _begin_in_child() -> None:
    for spans in _spans:
        spans.begin_in_child()


os.register_at_fork(after_in_child=_begin_in_child)


def _copy(
    index: ChunkedIndex, ranges: RangeReader, cache: Cache, name: str, elsewhere: bool = False
) -> CachedSpans:
    # Workers are part of their loader; a copy in any other process is of a loader of its own.
    copied = CachedSpans(index, ranges, cache, name if IN_WORKER in os.environ else None)
    if elsewhere:
        # Each host would fetch nearly every chunk, for a few of its records: it reads these alone.
        copied._not_before = math.inf
    return copied
