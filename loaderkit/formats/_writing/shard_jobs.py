"""The shards of a set as records of a data source: reading one makes its file, once; its `.done` file says so.

Workers import this file, so it imports nothing of the loader: that took half of a worker's start, 0.2 s of CPU time.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from loaderkit._base.notes import annotate
from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._base.system.whole_file import partial_file

from .shard_result import ShardResult, read_result

DONE = ".done"
HASHED_AT_ONCE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class ShardJobs:
    """A data source with a record for each shard, its `ShardResult`. Reading it makes it, where it isn't there.

    Args:
        make: (number of the shard, path of the file to write or None) -> what came of it. Workers call it.
        jobs: of each shard, a digest of what is asked for; `shard_jobs` makes them.
        done: of each shard its `.done` file; None where nothing is kept.
        files: of each shard the file that is written; None where only values are made.
        drop: whether records may have been left out of a shard that is there.
        index_part: (number of a shard whose file is there) -> anything: makes its part of the index; None for none.
    """

    make: Callable[[int, str | None], ShardResult]
    jobs: Sequence[str]
    done: Sequence[str] | None = None
    files: Sequence[str] | None = None
    drop: bool = False
    index_part: Callable[[int], Any] | None = None

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, shard: int) -> ShardResult:
        result = self._made(shard)
        if self.index_part is not None:
            with contextlib.suppress(OSError):  # as of a full disk: `write_index` tries again, and says so
                self.index_part(shard)
        return result

    def _made(self, shard: int) -> ShardResult:
        if (found := self.finished(shard)) is not None:
            return found
        path = None if self.files is None else self.files[shard]
        with shard_notes(shard, len(self)):
            if path is None:
                return self.finish(shard, self.make(shard, None))
            # A name of its own: a worker that the loader has replaced may still write.
            with partial_file(path) as partial:
                result = make_file(self.make, shard, partial)
            return self.finish(shard, result)

    def finished(self, shard: int) -> ShardResult | None:
        """The result of a shard that is done; None for another, of which no `.done` file is left then."""
        done = None if self.done is None else self.done[shard]
        if done is None:
            return None
        found = read_result(done, self.jobs[shard], None if self.files is None else self.files[shard])
        if found is not None and (self.drop or not found.dropped):
            return found
        # One of another run would vouch for this run's file, were its job asked for again.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(done)
        return None

    def finish(self, shard: int, result: ShardResult) -> ShardResult:
        """The result of a shard whose file has its name, and its `.done` file."""
        result = replace(result, job=self.jobs[shard])
        if self.done is not None:
            result.write(self.done[shard])
        return result

    def fingerprint(self) -> dict[str, Any]:
        """For the loader, which asks for one; no state is saved."""
        return {"shards": len(self)}


def make_file(make: Callable[[int, str | None], ShardResult], shard: int, path: str) -> ShardResult:
    """What came of a shard whose file is on the disk, with its size and sha256.

    Args:
        make: as `ShardJobs` takes it.
        shard: its number.
        path: of the file, which isn't there.
    """
    made = make(shard, path)
    nbytes, sha256 = safe_on_disk(path)
    return replace(made, nbytes=nbytes, sha256=sha256)


@contextlib.contextmanager
def shard_notes(shard: int, shards: int) -> Iterator[None]:
    """Gives an error in the block a note of the shard. shards: the number of all."""
    try:
        yield
    except Exception as error:
        annotate(error, f"while shard {shard} of {shards} was made")
        raise


def safe_on_disk(path: str) -> tuple[int, str]:
    """Bytes and sha256 of a file, once it is on the disk."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        while data := file.read(HASHED_AT_ONCE):
            found.update(data)
        return file.tell(), found.hexdigest()


def sync(path: str) -> None:
    """Makes a file, or the names in a folder, safe on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
