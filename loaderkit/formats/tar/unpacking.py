"""Archives compressed by gzip are unpacked once into the folder of a cache; nothing is extracted from them."""

import contextlib
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from loaderkit._base.system.file_identity import FileIdentity
from loaderkit._base.system.waited_lock import locked_folder
from loaderkit._base.system.whole_file import whole_file
from loaderkit._codecs.scan import Malformed
from loaderkit._storage.addresses import redacted
from loaderkit._storage.patterns import FilePart
from loaderkit._storage.range_reader import RangeReader
from loaderkit.errors import DataFormatError
from loaderkit.formats._index.scan_shard import reading
from loaderkit.formats._index.shard_set import ShardSet, base_name
from loaderkit.formats._index.unpacked_text import UnpackedText

if TYPE_CHECKING:
    from loaderkit._storage.cache.settings import Cache

FOLDER = "loaderkit-unpacked"
ARCHIVES = (".tgz", ".tar.gz")
_NOTE = ".checksum"
_PIECE = 4 << 20  # bytes that are written, or read, at once


def unpacked_parts(
    parts: Sequence[FilePart], cache: "Cache | None", storage_options: Mapping[str, Any] | None
) -> Sequence[FilePart]:
    """The files with each .tgz or .tar.gz replaced by its unpacked archive; `parts` itself where there is none.

    Args:
        parts: of files.
        storage_options: as `TarDataSource` takes them.
        cache: its folder gets the archives. Without one a .tgz is a DataFormatError that says what to do.

    Raises DataFormatError for a damaged archive, ValueError where the unpacked ones exceed the cache's limit.
    """
    if not any(redacted(part.path).endswith(ARCHIVES) for part in parts):
        return parts
    unpacked = []
    for part in parts:
        path, shown = part.path, redacted(part.path)
        if shown.endswith(ARCHIVES):
            if cache is None:
                raise DataFormatError(
                    f"{shown}: expected a tar archive, got one compressed by gzip, in which no record can be found "
                    f"without unpacking all before it; unpack it once: `gunzip {shown}`, or give "
                    "cache=lk.Cache(folder, limit=...), where it is unpacked at first use"
                )
            path = _unpacked(path, cache, storage_options)
        unpacked.append(replace(part, path=path))
    return unpacked


def _unpacked(path: str, cache: "Cache", storage_options: Mapping[str, Any] | None) -> str:
    """The unpacked archive, made if it isn't there."""
    shown = redacted(path)
    with closing(ShardSet([path], storage_options).open()) as ranges:
        version = ranges.version(0)
        told = f"{shown}\n{version.size}\n{version.tag}".encode("utf-8", "surrogateescape")
        root = os.path.join(cache.folder, FOLDER)
        folder = os.path.join(root, hashlib.sha256(told).hexdigest()[:16])
        stem = base_name(shown)
        for ending in ARCHIVES:
            stem = stem.removesuffix(ending)
        target = os.path.join(folder, f"{stem}.tar")
        with locked_folder(folder):
            if not _is_whole(target):
                # What is damaged, and another process's, which died. One without a lock notices when it renames.
                for left in os.listdir(folder):
                    if left.endswith(".partial") or left == os.path.basename(target):
                        os.unlink(os.path.join(folder, left))
                _unpack(ranges, version.size, target, shown, cache.limit - bytes_in(root), cache)
    return target


def _unpack(ranges: RangeReader, size: int, target: str, shown: str, room: int, cache: "Cache") -> None:
    checksum = 0
    with whole_file(target) as file:
        for piece in _inflated(ranges, size, shown):
            if (room := room - len(piece)) < 0:
                raise ValueError(
                    f"cache: expected a limit with room for {shown} unpacked, got {cache.limit} bytes for all in "
                    f"{cache.folder}; raise the limit, delete {FOLDER} there, or unpack it: `gunzip {shown}`"
                )
            file.write(piece)
            checksum = zlib.crc32(piece, checksum)
    _note(target, checksum)


def _identity(target: str) -> list[Any]:
    """Of a file since the system started."""
    from loaderkit._storage.cache.chunk_folder import boot_id

    return [boot_id().hex(), *FileIdentity.of(target).told()]


def _note(target: str, checksum: int) -> None:
    with whole_file(f"{target}{_NOTE}") as file:
        file.write(json.dumps([checksum, *_identity(target)]).encode())


def _is_whole(target: str) -> bool:
    """Whether an unpacked archive is there as it was written: its bytes are compared with their checksum where size or
    time differ, and once after each boot.
    """
    try:
        with open(f"{target}{_NOTE}", "rb") as file:
            checksum, *noted = json.loads(file.read())
        if noted == _identity(target):
            return True
        found = 0
        with open(target, "rb") as file:
            while piece := file.read(_PIECE):
                found = zlib.crc32(piece, found)
    except (OSError, ValueError, TypeError):
        return False
    if found == checksum:
        _note(target, checksum)
    return bool(found == checksum)


def _inflated(ranges: RangeReader, size: int, shown: str) -> Iterator[bytes]:
    """The content, of one gzip member or several behind each other."""
    at = 0
    with reading(ranges, 0, size) as read:
        text = UnpackedText(read, size)
        try:
            while piece := text(at, _PIECE):
                yield piece
                at += len(piece)
            if not at:
                raise Malformed(
                    size, "expected a member of gzip, got the end of the file", "copy the file again"
                )
        except Malformed as error:
            raise DataFormatError(f"{shown}: {error}") from error


def bytes_in(root: str) -> int:
    """Of all files below a folder, and of those that are being written.

    Args:
        root: the folder.
    """
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(folder, name)).st_size
    return total
