"""The versions of all shards of a set, which a server is asked for many at a time."""

from collections.abc import Sequence
from queue import SimpleQueue

from .fetch_threads import THREADS
from .range_reader import ObjectVersion, RangeReader


def versions_of(ranges: RangeReader) -> list[ObjectVersion]:
    """What the storage says of each shard now; it raises what `ranges.version` does.

    Args:
        ranges: reads the shards.
    """
    shards = range(len(ranges.names))
    if not ranges.waits:
        return [*map(ranges.version, shards)]
    answers: SimpleQueue[tuple[int, ObjectVersion | BaseException]] = SimpleQueue()

    def ask(shard: int) -> None:
        try:
            answers.put((shard, ranges.version(shard)))
        except BaseException as error:  # noqa: BLE001 - the caller waits for it
            answers.put((shard, error))

    THREADS.enter()
    try:
        THREADS.submit([lambda shard=shard: ask(shard) for shard in shards])  # type: ignore[misc]
        found = dict(answers.get() for _ in shards)
    finally:
        THREADS.leave()
    for version in found.values():
        if isinstance(version, BaseException):
            raise version
    return [found[shard] for shard in shards]  # type: ignore[misc]


def version_values(versions: Sequence[ObjectVersion]) -> list[list[int | str]]:
    """Versions as JSON values.

    >>> version_values([ObjectVersion(3, "abc")])
    [[3, 'abc']]
    """
    return [[version.size, version.tag] for version in versions]
