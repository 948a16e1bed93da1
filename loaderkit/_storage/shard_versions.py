"""The versions of all shards of a set, which a server is asked for many at a time."""

from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue

from .fetch_threads import THREADS
from .range_reader import ObjectVersion, RangeReader


def versions_of(ranges: RangeReader) -> list[ObjectVersion]:
    """What the storage says of each shard now; it raises what `ranges.version` does.

    Args:
        ranges: reads the shards.
    """
    return ask_each(ranges.version, range(len(ranges.names)), at_once=ranges.waits)


def ask_each(
    ask: Callable[[int], ObjectVersion], shards: Sequence[int], *, at_once: bool
) -> list[ObjectVersion]:
    """What `ask` gives for each of these shards.

    Args:
        ask: takes a shard.
        shards: their numbers.
        at_once: whether each waits for a server, so that many are asked at a time.
    """
    if not at_once:
        return [*map(ask, shards)]
    answers: SimpleQueue[tuple[int, ObjectVersion | BaseException]] = SimpleQueue()

    def answer(shard: int) -> None:
        try:
            answers.put((shard, ask(shard)))
        except BaseException as error:  # noqa: BLE001 - the caller waits for it
            answers.put((shard, error))

    THREADS.enter()
    try:
        THREADS.submit([partial(answer, shard) for shard in shards])
        found = dict(answers.get() for _ in shards)
    finally:
        THREADS.leave()
    for shard in shards:
        if isinstance(error := found[shard], BaseException):
            raise error
    return [found[shard] for shard in shards]  # type: ignore[misc]  # no error is left
