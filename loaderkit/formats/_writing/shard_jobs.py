"""The shards of a set as records of a data source: reading one makes its file, once; its `.done` file says so.

Workers import this file, so it imports nothing of the loader: that took half of a worker's start, 0.2 s of CPU time.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loaderkit._base.notes import annotate
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
    """

    make: Callable[[int, str | None], ShardResult]
    jobs: Sequence[str]
    done: Sequence[str] | None = None
    files: Sequence[str] | None = None
    drop: bool = False

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, shard: int) -> ShardResult:
        job = self.jobs[shard]
        done = None if self.done is None else self.done[shard]
        path = None if self.files is None else self.files[shard]
        found = None if done is None else read_result(done, job, path)
        if found is not None and (self.drop or not found.dropped):
            return found
        # One of another run would vouch for this run's file, were its job asked for again.
        if done is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(done)
        try:
            result = self._made(shard, job, path)
            if done is not None:
                result.write(done)
        except Exception as error:
            annotate(error, f"while shard {shard} of {len(self)} was made")
            raise
        return result

    def fingerprint(self) -> dict[str, Any]:
        """For the loader, which asks for one; no state is saved."""
        return {"shards": len(self)}

    def _made(self, shard: int, job: str, path: str | None) -> ShardResult:
        if path is None:
            return replace(self.make(shard, None), job=job)
        # A name of its own: a worker that the loader has replaced may still write.
        with partial_file(path) as partial:
            made = self.make(shard, partial)
            nbytes, sha256 = safe_on_disk(partial)
        return replace(made, job=job, nbytes=nbytes, sha256=sha256)


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
