"""Several hosts of one run in this process, each in a thread of its own, and what they give together."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from memory_store import MemoryStore

import loaderkit as lk

TIMEOUT_S = 60.0


def shards(count: int, *, timeout: float = TIMEOUT_S) -> list[lk.ShardOptions]:
    """The shards of all hosts, with the store in which they agree."""
    stores = MemoryStore.of(count, timeout=timeout)
    return [lk.ShardOptions(h, count, store=stores[h]) for h in range(count)]


def together(work: Callable[[int], Any], count: int) -> list[Any]:
    """What `work(h)` gives for each host, all at the same time; the first error of any of them."""
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(host: int) -> None:
        try:
            results[host] = work(host)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(host,)) for host in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def joined(parts: list[Any]) -> Any:
    """The batches of all hosts at one step as the one batch that they are parts of."""
    first = parts[0]
    if isinstance(first, dict):
        return {name: joined([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return tuple(joined([part[place] for part in parts]) for place in range(len(first)))
    return np.concatenate(parts)


def take(it: Any, most: int | None) -> list[Any]:
    """The next elements of an iterator, at most so many, copied."""
    taken: list[Any] = []
    while most is None or len(taken) < most:
        try:
            taken.append(next(it))
        except StopIteration:
            break
    return taken


def global_batches(make: "Callable[[lk.ShardOptions], lk.DataLoader]", count: int) -> list[Any]:
    """All batches of all hosts, joined step by step; every host must make the same number of them."""
    hosts = shards(count)

    def work(host: int) -> list[Any]:
        with make(hosts[host]) as loader, iter(loader) as it:
            return take(it, None)

    parts = together(work, count)
    assert len({len(part) for part in parts}) == 1, "hosts made different numbers of steps"
    return [joined(list(step)) for step in zip(*parts, strict=True)]
