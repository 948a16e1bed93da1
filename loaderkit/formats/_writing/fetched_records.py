"""Records of an iterable that become shards one after the other: what a killed run has finished stays.

An iterable has no place to go on from, so the records of finished shards are taken from it again, and compared: one
that gives others, such as one with an unseeded shuffle, would leave records out and have others twice.
"""

import itertools
import marshal
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from loaderkit._base.canonical_json import digest
from loaderkit._base.system.whole_file import partial_file
from loaderkit.errors import ResumeMismatchError

from .byte_streams import PIECE
from .record_stream import encode
from .shard_jobs import DONE, safe_on_disk
from .shard_result import ShardResult, read_result
from .shard_stream import name_shards, numbered_paths
from .target import WriteTarget
from .write_format import RecordFiles


def write_resumed(
    records: Iterator[Any],
    files: RecordFiles,
    target: WriteTarget,
    asked: Any,
    nbytes: int,
    most: int | None,
    room: Callable[[], None],
) -> list[str]:
    """Writes the shards that aren't there yet; gives the names of all.

    Args:
        records: all of them, from the first on.
        files: their format.
        target: where they go, with its folder of unfinished files open.
        asked: JSON values: what decides the bytes.
        nbytes, most: bytes and records at which a shard is ended; None for any number of records.
        room: raises where the folder has more bytes than it may have.

    ResumeMismatchError where the first records aren't those of the shards that are there.
    """
    extension, job = files.format.extension, digest({"asked": asked})
    encoded = (encode(files.encoder, record, number) for number, record in enumerate(records))
    _undo_names(target.folder, extension)
    for count, path in enumerate(numbered_paths(target, extension)):  # noqa: B007 - used behind the loop
        if (done := read_result(path + DONE, job, path)) is not None:
            again = ShardResult(0, value=0)
            for one in itertools.islice(encoded, done.records):
                again = _with(again, one)
            if (again.records, again.value) != (done.records, done.value):
                raise ResumeMismatchError(
                    f"{path}: expected the records that it was written of, in their order, got others; give the "
                    "iterable a fixed order (a seed), or overwrite=True to begin again"
                )
            continue
        first = next(encoded, None)
        if first is None:
            break
        result, checked = ShardResult(0, value=0, job=job), 0
        with partial_file(path) as partial:
            with files.writer(partial) as writer:
                for one in itertools.chain([first], encoded):
                    writer.add(one)
                    result = _with(result, one)
                    if writer.nbytes - checked >= PIECE:
                        checked = writer.nbytes
                        room()
                    if writer.nbytes >= nbytes or result.records == most:
                        break
            size, sha256 = safe_on_disk(partial)
        replace(result, nbytes=size, sha256=sha256).write(path + DONE)
        room()
    return name_shards(target, count, extension)


def _with(result: ShardResult, encoded: Any) -> ShardResult:
    """A shard with one record more; its value is a checksum of the records, the same for each process."""
    try:
        # Without references, which depend on which equal values are one object.
        data = marshal.dumps(encoded, 0)
    except ValueError:
        data = repr(encoded).encode()
    return replace(result, records=result.records + 1, value=zlib.crc32(data, result.value))


def _undo_names(folder: str, extension: str) -> None:
    """Takes back names of the whole set, in the midst of which a run was killed."""
    for name in os.listdir(folder):
        if found := re.fullmatch(rf"(\d{{5,}})-of-\d{{5,}}(\.{re.escape(extension)})", name):
            os.replace(os.path.join(folder, name), os.path.join(folder, found[1] + found[2]))
