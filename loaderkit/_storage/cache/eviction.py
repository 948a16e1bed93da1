"""Eviction: deletes chunks so that the cache keeps its limit.

One scan frees 5 % of the limit at once, under a lock. Each live loader has an equal share of the limit. What no live
loader has fetched goes first, the least recently used of it before the rest; then a loader deletes what it fetched
itself, by next use where its feeder knows that. Times of use are those of the files, so no two clocks are compared.

Deleted are only files that lie where the cache puts them and end with its footer. Open chunks stay readable.
"""

import contextlib
import os
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.limits import open_descriptor

from .chunk_file import footer_of, is_temporary, remove_stale
from .chunk_folder import ChunkFolder, lock_within
from .live_loader import Entries, LiveLoader, other_loaders

# Takes (n,) int64 numbers of chunks and gives (n,) int64: the greater, the later is the chunk needed.
NextUse = Callable[[NDArray[np.int64]], NDArray[np.int64]]

_PART = 20  # one in so many bytes of the limit is freed at once: a scan looks at every file
_LOCK_SECONDS = 10.0  # an eviction by another process takes seconds for a million files


@dataclass(slots=True)
class StoredChunk:
    """A chunk's file: its path, the key of its index in hexadecimal, its number, its bytes, its last use in ns."""

    path: str
    key: str
    number: int
    size: int
    used: int  # time of its last use


def reserve(
    loader: LiveLoader, *, number: int, nbytes: int, limit: int, next_use: NextUse | None = None
) -> bool:
    """Says that a loader adds a chunk, after deleting others where it has no room; False where there can't be any.

    Processes that reserve at the same moment may exceed the limit by a chunk each.

    Args:
        loader: wants to add.
        number, nbytes: the chunk.
        limit: bytes that the whole cache may have.
        next_use: says of the loader's chunks which are needed last; None for the least recently used first.
    """
    if loader.room >= nbytes:
        loader.add(number, nbytes)
        return True
    with lock_within(loader.folder.eviction_lock, _LOCK_SECONDS):
        # Another process of the loader may have made some meanwhile.
        has_room = loader.room >= nbytes or _evict(loader, limit, nbytes, next_use) >= nbytes
        if has_room:
            loader.add(number, nbytes)
        return has_room


def share_of(loader: LiveLoader, limit: int) -> int:
    """The bytes of a loader's share of the limit, less those that an eviction frees."""
    share = limit // (1 + sum(1 for _ in other_loaders(loader.folder, loader.name)))
    return share - share // _PART


def _evict(loader: LiveLoader, limit: int, nbytes: int, next_use: NextUse | None) -> int:
    """Deletes chunks, and gives the bytes that the loader may add."""
    others = list(other_loaders(loader.folder, loader.name))
    share = limit // (1 + len(others))
    step = max(limit // _PART // (1 + len(others)), nbytes)
    mine, left = _numbers(loader.entries()), list(stored_chunks(loader.folder))
    key = loader.key.hex()
    theirs = [(of.hex(), _numbers(entries)) for of, entries in others]
    own: list[StoredChunk] = []
    free: list[StoredChunk] = []
    foreign: list[list[StoredChunk]] = [[] for _ in theirs]
    for chunk in left:
        if chunk.key == key and chunk.number in mine:
            own.append(chunk)
            continue
        owner = next(
            (k for k, (of, has) in enumerate(theirs) if chunk.key == of and chunk.number in has), None
        )
        (free if owner is None else foreign[owner]).append(chunk)

    total = sum(chunk.size for chunk in left)
    most = limit - max(limit // _PART, nbytes)
    # What this loader may use again is kept longer than the chunks of other sets.
    again = [chunk for chunk in free if chunk.key == key]
    rest = [chunk for chunk in free if chunk.key != key]
    total -= _delete(_by_last_use(rest), total - most)
    total -= _delete(_by_next_use(again, next_use), total - most)
    own_bytes = sum(chunk.size for chunk in own)
    deleted = _delete(_by_next_use(own, next_use), own_bytes - (share - step))
    own_bytes, total = own_bytes - deleted, total - deleted
    for chunks in foreign:
        above = sum(chunk.size for chunk in chunks) - share
        total -= _delete(_by_last_use(chunks), min(above, total - most))
    kept = [(chunk.number, chunk.size) for chunk in own if chunk.size]
    room = max(0, min(step, share - own_bytes, limit - total))
    loader.set_room(room, np.array(kept, np.uint64).reshape(-1, 2))
    return room


def _numbers(entries: Entries) -> set[int]:
    return set(entries[:, 0].tolist())


def _by_last_use(chunks: list[StoredChunk]) -> list[StoredChunk]:
    return sorted(chunks, key=lambda chunk: chunk.used)


def _by_next_use(chunks: list[StoredChunk], next_use: NextUse | None) -> list[StoredChunk]:
    if next_use is None or not chunks:
        return _by_last_use(chunks)
    uses = next_use(np.array([chunk.number for chunk in chunks], np.int64))
    used = np.array([chunk.used for chunk in chunks], np.int64)
    return [chunks[place] for place in np.lexsort((used, -uses)).tolist()]


def _delete(chunks: list[StoredChunk], nbytes: int) -> int:
    """Deletes chunks from the first on until so many bytes are free; gives how many are. A deleted one has size 0."""
    deleted = 0
    for chunk in chunks:
        if deleted >= nbytes:
            break
        if delete_chunk(chunk.path):
            deleted += chunk.size
            chunk.size = 0
    return deleted


def delete_chunk(path: str) -> bool:
    """Deletes a file that ends with a chunk's footer; whether it is gone."""
    try:
        descriptor = open_descriptor(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        if footer_of(descriptor) is None:
            return False
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def stored_chunks(folder: ChunkFolder) -> Iterator[StoredChunk]:
    """All chunks of the cache, those of other sets included; deletes what dead writers left."""
    for key in _entries(folder.chunks):
        if not key.is_dir(follow_symlinks=False):
            continue
        for part in _entries(key.path):
            if not part.is_dir(follow_symlinks=False):
                continue
            for file in _entries(part.path):
                name, _, suffix = file.name.partition(".")
                if suffix == "chunk":
                    with contextlib.suppress(OSError, ValueError):
                        stat = file.stat(follow_symlinks=False)
                        yield StoredChunk(file.path, key.name, int(name, 16), stat.st_size, stat.st_mtime_ns)
                elif is_temporary(file.name):
                    remove_stale(file.path)


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


_LOCK_SECONDS = 10.0  # as an eviction waits for another


class FolderContents:
    """The chunks in the folder of a cache. A folder that isn't there is empty, and isn't made.

    Args:
        folder: the user's, absolute.
        key: 32 bytes, of the index and the size of its chunks.

    >>> FolderContents("/no/such/folder", bytes(32)).chunks()
    {}
    """

    def __init__(self, folder: str, key: bytes) -> None:
        self._folder, self._key = folder, key.hex()

    def _stored(self) -> list[StoredChunk]:
        return list(stored_chunks(ChunkFolder(self._folder))) if ChunkFolder.is_in(self._folder) else []

    def chunks(self) -> dict[int, int]:
        """The bytes of the file of each chunk of the index, by the chunk's number."""
        return {chunk.number: chunk.size for chunk in self._stored() if chunk.key == self._key}

    def of_other_sets(self) -> tuple[int, int]:
        """How many chunks of other indexes there are, and their bytes."""
        sizes = [chunk.size for chunk in self._stored() if chunk.key != self._key]
        return len(sizes), sum(sizes)

    def clear(self) -> None:
        """Deletes the chunks of the index. A loader that has one open reads it to its end."""
        if ChunkFolder.is_in(self._folder):
            with lock_within(ChunkFolder(self._folder).eviction_lock, _LOCK_SECONDS):
                for chunk in self._stored():
                    if chunk.key == self._key:
                        delete_chunk(chunk.path)
