"""Encoded records in their order are written to the files of a folder."""

import io
import itertools
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from loaderkit._base.system.limits import above_standard

from .byte_file import NamedFile
from .dropped import Dropped
from .record_stream import encoded_each, source_records
from .shard_jobs import sync
from .shard_result import ShardResult
from .target import shard_names
from .write_format import RecordFiles


def write_by_bytes(encoded: Iterable[Any], files: RecordFiles, folder: str, shard_bytes: int) -> list[str]:
    """Writes files that are ended where they have so many bytes; gives their names.

    Args:
        encoded: what the encoder made of the records.
        files: their format.
        folder: for the files.
        shard_bytes: the size.
    """
    extension = files.format.extension
    paths = (os.path.join(folder, f"{shard:05d}.{extension}") for shard in itertools.count())
    count = len(write_by_size(encoded, files, paths, shard_bytes))
    if not count:
        raise ValueError("records: expected one or more that can be written, got none")
    names = shard_names(count, extension)
    for shard, name in enumerate(names):
        os.replace(os.path.join(folder, f"{shard:05d}.{extension}"), os.path.join(folder, name))
    return names


def write_by_size(
    encoded: Iterable[Any], files: RecordFiles, paths: Iterator[str], nbytes: int, records: int | None = None
) -> list[int]:
    """Writes files, each ended where it has so many bytes or records; gives the records of each.

    Args:
        encoded: what the encoder made of the records. Those behind the last of the paths are left out.
        files: their format.
        paths: of the files.
        nbytes, records: the bytes, and the records if a number is given.
    """
    rest = iter(encoded)
    counts = []
    for first, path in zip(rest, paths, strict=False):
        with files.writer(path) as writer:
            for count, record in enumerate(itertools.chain([first], rest), 1):
                writer.add(record)
                if writer.nbytes >= nbytes or count == records:
                    break
        sync(path)
        counts.append(count)
    return counts


def write_spooled(encoded: Iterable[Any], files: RecordFiles, folder: str, names: Sequence[str]) -> None:
    """Writes records, of which the number isn't known before, to files with equal numbers of them.

    Args:
        encoded: what the encoder made of the records.
        files: their format.
        folder: for the files.
        names: theirs.
    """
    paths = [os.path.join(folder, name) for name in names]
    if len(names) == 1:
        write_shard(encoded, files, paths[0])
        sync(paths[0])
        return
    spool = os.path.join(folder, "spool")
    count = 0
    with above_standard():
        file = io.BufferedRandom(NamedFile(spool, "w+b"))
    with file:
        for one in encoded:
            pickle.dump(one, file, 5)
            count += 1
        if count < len(names):
            raise ValueError(f"shards: expected at most the {count} records, got {len(names)}")
        file.seek(0)
        for shard, path in enumerate(paths):
            size = (shard + 1) * count // len(names) - shard * count // len(names)
            records = (pickle.load(file) for _ in range(size))
            write_shard(records, files, path)
            sync(path)
    os.unlink(spool)


def write_shard(encoded: Iterable[Any], files: RecordFiles, path: str) -> int:
    """Writes records to one file, which isn't safe on the disk yet; gives their number.

    Args:
        encoded: what the encoder made of the records.
        files: their format.
        path: of the file.
    """
    count = 0
    with files.writer(path) as writer:
        for one in encoded:
            writer.add(one)
            count += 1
    return count


@dataclass(frozen=True, slots=True)
class SourceShards:
    """Writes shards of a source as they are; a `ShardJobs` calls it.

    Args:
        source: a data source.
        files: of the format.
        shards: the keys of each shard's records.
        drop: whether a record that can't be read or encoded is left out.
    """

    source: Any
    files: RecordFiles
    shards: Sequence[range]
    drop: bool

    def __call__(self, shard: int, path: str | None) -> ShardResult:
        assert path is not None
        keys = self.shards[shard]
        dropped: Dropped = [] if self.drop else None
        numbered = source_records(self.source, dropped, keys.start, keys.stop)
        encoded = encoded_each(numbered, self.files.encoder, dropped, self.source)
        return ShardResult(write_shard(encoded, self.files, path), dropped or [])
