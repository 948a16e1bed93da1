"""Encoded records in their order are written to the files of a folder."""

import io
import itertools
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Self

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.limits import above_standard

from .byte_file import NamedFile
from .dropped import Dropped
from .record_stream import encoded_each, source_records
from .shard_jobs import sync
from .shard_result import ShardResult
from .target import WriteTarget
from .write_format import RecordFiles, ShardWriter


def write_by_bytes(
    encoded: Iterable[Any], files: RecordFiles, target: WriteTarget, nbytes: int, records: int | None = None
) -> list[str]:
    """Writes files that are ended where they have so many bytes or records; gives their names.

    Args:
        encoded: what the encoder made of the records.
        files: their format.
        target: where the files go.
        nbytes, records: as `write_by_size` takes them.
    """
    extension = files.format.extension
    count = len(write_by_size(encoded, files, numbered_paths(target, extension), nbytes, records))
    return name_shards(target, count, extension)


def numbered_paths(target: WriteTarget, extension: str) -> Iterator[str]:
    """Where unfinished files lie of which the number isn't known before.

    Args:
        target: where they go.
        extension: theirs.
    """
    if target.is_file:
        return iter([os.path.join(target.folder, *target.names(1, extension))])
    return (os.path.join(target.folder, f"{shard:05d}.{extension}") for shard in itertools.count())


def name_shards(target: WriteTarget, count: int, extension: str) -> list[str]:
    """Gives the first of the numbered paths the names of a set of so many files; the names."""
    if not count:
        raise ValueError("records: expected one or more that can be written, got none")
    names = target.names(count, extension)
    for name, path in zip(names, numbered_paths(target, extension)):
        os.replace(path, os.path.join(target.folder, name))
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
    with SizedShards(files, paths, nbytes, records) as shards:
        for one in encoded:
            if not shards.add(one):
                break
    return shards.counts


class SizedShards:
    """Files that are written record by record, each ended where it has so many bytes or records.

    A context: its end ends the last file, an error in it gives that one up.

    Args:
        files, paths, nbytes, records: as `write_by_size` takes them.
    """

    def __init__(self, files: RecordFiles, paths: Iterator[str], nbytes: int, records: int | None) -> None:
        self.counts: list[int] = []  # of the records of each file
        self._files, self._paths, self._nbytes, self._records = files, paths, nbytes, records
        self._open: tuple[ExitStack, ShardWriter, str] | None = None

    def add(self, encoded: Any) -> bool:
        """Appends a record; False where there is no path for a file that it would begin."""
        if self._open is None:
            path = next(self._paths, None)
            if path is None:
                return False
            stack = ExitStack()
            self._open = stack, stack.enter_context(self._files.writer(path)), path
            self.counts.append(0)
        writer = self._open[1]
        writer.add(encoded)
        self.counts[-1] += 1
        if writer.nbytes >= self._nbytes or self.counts[-1] == self._records:
            self._end(None, None, None)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._end(*error)

    def _end(self, *error: Any) -> None:
        if self._open is None:
            return
        (stack, _, path), self._open = self._open, None
        stack.__exit__(*error)
        if error[0] is None:
            sync(path)


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
