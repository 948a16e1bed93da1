"""Makes the files of a data set side by side, a file a record of a loader; a run that was killed goes on where it was.

A finished file has `<name>.done` beside it, JSON: what it was made of (`key`), its bytes, and what `make` gave.
"""

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from loaderkit._loader.loader import DataLoader
from loaderkit._system.progress_bar import progress_bar
from loaderkit._system.whole_file import whole_file
from loaderkit.samplers import IndexSampler

DONE = ".done"


@dataclass(frozen=True, slots=True)
class ShardFileJobs:
    """A data source with a record for each file: reading it makes the file.

    Args:
        make: as `make_shards` takes it.
        names: of the files.
        folder: theirs.
        key: as `make_shards` takes it.
    """

    make: Callable[[int, str], Any]
    names: Sequence[str]
    folder: str
    key: Any

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, shard: int) -> str:
        path = os.path.join(self.folder, self.names[shard])
        found = _finished(path, self.key)
        if found is None:
            found = json.dumps(self._made(shard, path))
        return found

    def _made(self, shard: int, path: str) -> Any:
        partial = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.partial"
        try:
            value = self.make(shard, partial)
            sync(partial)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(
                    path + DONE
                )  # of the file that is replaced; it would vouch for this one if the key came back
            os.replace(partial, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
        with whole_file(path + DONE) as file:
            done = {"key": self.key, "bytes": os.path.getsize(path), "value": value}
            file.write(json.dumps(done).encode())
        return value

    def fingerprint(self) -> dict[str, Any]:
        """For the loader, which asks for one; no state is saved."""
        return {"shards": len(self)}


def make_shards(
    make: Callable[[int, str], Any],
    names: Sequence[str],
    folder: str,
    *,
    key: Any,
    worker_count: int | None = 0,
    worker_kind: str = "process",
) -> list[Any]:
    """Makes files, each by one call; those that an earlier run finished with the same key stay.

    Args:
        make: (number of the file, path to write) -> a JSON value. It is called in the workers.
        names: of the files.
        folder: theirs, which the caller has locked.
        key: a JSON value: what all files are made of; another one makes them all again.
        worker_count: of the loader over the files.
        worker_kind: "process" or "thread".

    Gives the value of each file.

    >>> import tempfile
    >>> def make(shard, path):
    ...     with open(path, "w") as file:
    ...         return file.write("x" * shard)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(make_shards(make, ["a", "b"], folder, key=1), sorted(os.listdir(folder)))
    [0, 1] ['a', 'a.done', 'b', 'b.done']
    """
    jobs = ShardFileJobs(make, list(names), folder, json.loads(json.dumps(key)))
    loader: DataLoader[str] = DataLoader(
        data_source=jobs,
        sampler=IndexSampler(len(jobs), num_epochs=1),
        worker_count=None if worker_count is None else min(worker_count, len(jobs)),
        worker_kind=worker_kind,
        agree=False,
    )
    values = []
    with progress_bar("files", len(jobs)) as advance, iter(loader) as results:
        for text in results:
            values.append(json.loads(text))
            advance(1)
    return values


def _finished(path: str, key: Any) -> str | None:
    """The value of a file that is finished, in JSON; None where it isn't, or was made of something else."""
    try:
        with open(path + DONE, "rb") as file:
            done = json.load(file)
        if done["key"] == key and done["bytes"] == os.path.getsize(path):
            return json.dumps(done["value"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        pass
    return None


def sync(path: str) -> None:
    """Makes a file, or the names in a folder, safe on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
