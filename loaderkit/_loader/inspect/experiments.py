"""Experiments on copies of a loader: how fast it is with other settings, its reads alone, and a user's step.

No experiment writes a quarantine, asks a store, or moves an iterator of the user's.
"""

import contextlib
import copy
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from loaderkit._base.tree import map_leaves
from loaderkit._engine.stats.counters import PHASES, STARTING
from loaderkit._engine.stats.stats import Stats
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit.transforms import Batch

from .conclusion import Measured

if TYPE_CHECKING:
    from loaderkit._loader.iterator.reader import StreamReader

# Takes fields of LoaderSettings that differ, and opens a reader of a copy of the loader with executors of its own.
OpenReader: TypeAlias = "Callable[..., AbstractContextManager[StreamReader[Any, Any]]]"

_WARM_SHARE = 0.25  # of an experiment's time, for the queues to fill
_START_SECONDS = 30.0  # in which all workers have to be ready, beside the one that made the first element
_STEP_CALLS, _FEWEST_CALLS = 64, 3  # before one result is waited for
# of the batches of these calls, which are there at once: 64 of a large one don't fit in memory
_COPIES_NBYTES = 1 << 30


def measure(
    open_reader: OpenReader, seconds: float, step: Callable[[Any], Any] | None = None, **changes: Any
) -> Measured:
    """How many elements a second a loader makes, with a step on each or with nothing else to do.

    Args:
        open_reader: of copies of the loader.
        seconds: for the experiment; a start of workers comes on top.
        step: the user's; None for nothing.
        changes: fields of LoaderSettings.
    """
    with open_reader(**changes) as reader:
        take, result = _endless(reader), None

        def one() -> Any:
            batch = take()
            return None if step is None else step(batch)

        wait(one())
        latest = time.perf_counter() + _START_SECONDS
        while _starting(reader) and time.perf_counter() < latest:
            result = one()
        warm = time.perf_counter() + _WARM_SHARE * seconds
        while time.perf_counter() < warm:
            result = one()
        wait(result)
        before, begun = _stats(reader), time.perf_counter()
        end = begun + (1 - _WARM_SHARE) * seconds
        while time.perf_counter() < end:
            result = one()
        wait(result)
        passed = time.perf_counter() - begun
        made = _stats(reader) - before
    return Measured((made.steps or 0) / passed, made)


def records_of_element(plan: SeekablePlan, stats: Stats) -> float:
    """Records of this process that an element is made of, in the mean of a run where operations change their number."""
    if not plan.row_changing:
        return plan.batching.stride * len(plan.shard.blocks) / plan.shard.shard_count
    assert stats.trainer is not None
    return max(stats.trainer.records, 1) / max(stats.trainer.elements, 1)


def reads_alone(open_reader: OpenReader, plan: SeekablePlan, seconds: float) -> Measured | None:
    """How fast records are read if nothing is done with them; None where they can't be handed out so."""
    rows = max(1, plan.batching.stride // plan.shard.shard_count)
    try:
        # Rows stay in the worker: only their number is handed out.
        made = measure(open_reader, seconds, operations=(Batch(rows, batch_fn=len),), on_record_error="raise")
    except Exception:  # noqa: BLE001 - a record that needs the user's policy, or can't be sent
        return None
    return made.times(rows)


def time_step(open_reader: OpenReader, step: Callable[[Any], Any], seconds: float) -> float:
    """How many elements a second a step takes: it is called on copies of one, and its last result is waited for.

    Args:
        open_reader: of a copy of the loader, which gives the batch.
        step: the user's.
        seconds: rounds of 64 calls are made, of fewer where 64 take longer or much memory, for about half of them.
    """
    with open_reader(worker_count=0) as reader:
        batch = _endless(reader)()
    wait(step(_copied(batch)))  # compiles
    begun = time.perf_counter()
    wait(step(_copied(batch)))
    one = max(time.perf_counter() - begun, 1e-9)
    nbytes = sum(getattr(leaf, "nbytes", 0) for leaf in _leaves(batch))
    most = min(_STEP_CALLS, _COPIES_NBYTES // max(nbytes, 1))
    calls = int(max(min(seconds / 2 / one, most), _FEWEST_CALLS))
    taken, result = 0.0, None
    while not taken or (time.perf_counter() - begun) < seconds / 2:
        copies = [_copied(batch) for _ in range(calls)]
        begun_round = time.perf_counter()
        for each in copies:
            result = step(each)
        wait(result)
        taken = time.perf_counter() - begun_round
    return calls / max(taken, 1e-9)


def wait(result: Any) -> None:
    """Waits until a step's result is there, where it is a tree of arrays of JAX."""
    for leaf in _leaves(result):
        ready = getattr(leaf, "block_until_ready", None)
        if callable(ready):
            ready()


def _leaves(result: Any) -> list[Any]:
    found: list[Any] = []
    with contextlib.suppress(Exception):  # a state of another library: its own leaves are found by attribute
        map_leaves(found.append, result)
    return found or [result]


def _copied(batch: Any) -> Any:
    return map_leaves(copy.copy, batch)


def _endless(reader: "StreamReader[Any, Any]") -> Callable[[], Any]:
    first = reader.position

    def take() -> Any:
        try:
            return reader.take().value
        except StopIteration:
            reader.go_to(first)
            try:
                return reader.take().value
            except StopIteration:
                raise ValueError("explain: expected a loader with an element, got one without") from None

    return take


def _starting(reader: "StreamReader[Any, Any]") -> bool:
    return any(worker.phase == PHASES[STARTING] for worker in _stats(reader).pool.workers)


def _stats(reader: "StreamReader[Any, Any]") -> Stats:
    return Stats(*reader.statistics())
