"""The shards of a set are made side by side by the workers of a loader; a run that was killed goes on where it was."""

import contextlib
from collections.abc import Sequence
from typing import Any

from loaderkit._base.canonical_json import digest
from loaderkit._base.notes import notes_of
from loaderkit._loader.loader import DataLoader
from loaderkit._order.sharding import NoSharding
from loaderkit._system.progress_bar import progress_bar
from loaderkit.samplers import SequentialSampler

from .shard_jobs import ShardJobs
from .shard_result import ShardResult

WRITER = 1  # another one for a change that changes a byte of the files


def shard_jobs(asked: dict[str, Any], shards: Sequence[range]) -> list[str]:
    """The digest of each shard's job.

    Args:
        asked: a JSON value: what all shards are made of, and how.
        shards: the keys of each shard's records.

    >>> one, other = shard_jobs({"version": 1}, [range(3), range(3, 6)])
    >>> one == other
    False
    """
    return [digest({**asked, "records": [shard.start, shard.stop]}) for shard in shards]


def equal_shards(records: int, count: int) -> list[range]:
    """The keys of each of `count` shards: shard i of S has the records [i*n//S, (i+1)*n//S).

    >>> equal_shards(5, 2)
    [range(0, 2), range(2, 5)]
    """
    return [range(shard * records // count, (shard + 1) * records // count) for shard in range(count)]


def dropped_of(results: Sequence[ShardResult]) -> list[dict[str, Any]]:
    """The records that were left out of all shards, in order.

    Args:
        results: of `run_jobs`.
    """
    return [each for result in results for each in result.dropped]


def run_jobs(
    jobs: ShardJobs, *, worker_count: int | None = 0, worker_kind: str = "process"
) -> list[ShardResult]:
    """The results of all shards in order; those that are done are read.

    Args:
        jobs: the shards. Their folder is locked by the caller.
        worker_count, worker_kind: of the loader over the shards.

    >>> from loaderkit.writing.shard_jobs import MadeShard
    >>> [result.records for result in run_jobs(ShardJobs(lambda shard, path: MadeShard(shard), ["a", "b"]))]
    [0, 1]
    """
    loader: DataLoader[Any] = DataLoader(
        data_source=jobs,
        sampler=SequentialSampler(len(jobs)),
        worker_count=worker_count if worker_count is None else min(worker_count, len(jobs)),
        worker_kind=worker_kind,
        shard_options=NoSharding(),
        agree=False,
    )
    results = []
    try:
        with progress_bar("shards", len(jobs)) as advance, loader, iter(loader) as each:
            for result in each:
                results.append(result)
                advance(1)
    except Exception as error:
        # The loader's notes name steps and keys of the shards as a source, which the user doesn't know.
        kept = [note for note in notes_of(error) if type(jobs).__name__ not in str(note)]
        with contextlib.suppress(Exception):  # a class of the user's may forbid it
            error.__notes__ = kept
        raise
    return results
