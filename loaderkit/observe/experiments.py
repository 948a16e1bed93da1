"""Experiments on copies of a loader: how fast it is with other settings, its reads alone, and a user's step.

No experiment writes a quarantine, asks a store, or moves an iterator of the user's.
"""

import contextlib
import copy
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from loaderkit._base.tree import map_leaves
from loaderkit._iterator.open_scheduler import open_scheduler
from loaderkit._iterator.quarantine import Quarantine
from loaderkit._iterator.reader import StreamReader
from loaderkit._loader.executor_factory import files_of_workers, make_executor
from loaderkit._loader.loader import DataLoader, plan_of_loader, settings_of, variant_of
from loaderkit._loader.program import program_of
from loaderkit._stats.counters import PHASES, STARTING
from loaderkit._stats.stats import Stats
from loaderkit.transforms import Batch

from .conclusion import Measured

_WARM_SHARE = 0.25  # of an experiment's time, for the queues to fill
_START_SECONDS = 30.0  # in which all workers have to be ready, beside the one that made the first element
_STEP_CALLS, _FEWEST_CALLS = 64, 3  # before one result is waited for
_COPIES_NBYTES = (
    1 << 30
)  # of the batches of these calls, which are there at once: 64 of a large one don't fit in memory


def measure(
    loader: DataLoader[Any], seconds: float, step: Callable[[Any], Any] | None = None, **changes: Any
) -> Measured:
    """How many elements a second a loader makes, with a step on each or with nothing else to do.

    Args:
        loader: left as it is.
        seconds: for the experiment; a start of workers comes on top.
        step: the user's; None for nothing.
        changes: fields of LoaderSettings.
    """
    variant = variant_of(loader, **changes)
    with _reader(variant) as reader:
        take, result = _endless(variant, reader), None

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


def records_of_element(loader: DataLoader[Any], stats: Stats) -> float:
    """Records of this process that an element is made of, in the mean of a run where operations change their number."""
    plan = plan_of_loader(loader)
    if not plan.row_changing:
        return plan.batching.stride * len(plan.shard.blocks) / plan.shard.shard_count
    assert stats.trainer is not None
    return max(stats.trainer.records, 1) / max(stats.trainer.elements, 1)


def reads_alone(loader: DataLoader[Any], seconds: float) -> Measured | None:
    """How fast records are read if nothing is done with them; None where they can't be handed out so."""
    plan = plan_of_loader(loader)
    rows = max(1, plan.batching.stride // plan.shard.shard_count)
    try:
        # Rows stay in the worker: only their number is handed out.
        made = measure(loader, seconds, operations=(Batch(rows, batch_fn=len),), on_record_error="raise")
    except Exception:  # noqa: BLE001 - a record that needs the user's policy, or can't be sent
        return None
    return made.times(rows)


def time_step(loader: DataLoader[Any], step: Callable[[Any], Any], seconds: float) -> float:
    """How many elements a second a step takes: it is called on copies of one, and its last result is waited for.

    Args:
        loader: gives the batch.
        step: the user's.
        seconds: rounds of 64 calls are made, of fewer where 64 take longer or much memory, for about half of them.
    """
    variant = variant_of(loader, worker_count=0)
    with _reader(variant) as reader:
        batch = _endless(variant, reader)()
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


@contextlib.contextmanager
def _reader(variant: DataLoader[Any]) -> Iterator[StreamReader[Any, Any]]:
    settings = settings_of(variant)
    executor = make_executor(settings, program_of(settings, files=files_of_workers(settings)))
    reader = StreamReader(
        lambda: executor,
        plan_of_loader(variant),
        partial(open_scheduler, prefetch=settings.elements_ahead),
        Quarantine(None),
    )
    try:
        yield reader
    finally:
        reader.close()
        executor.shut_down()


def _endless(variant: DataLoader[Any], reader: StreamReader[Any, Any]) -> Callable[[], Any]:
    first = reader.position

    def take() -> Any:
        try:
            return reader.take().value
        except StopIteration:
            reader.go_to(first)
            try:
                return reader.take().value
            except StopIteration:
                raise ValueError(
                    f"explain: expected a loader with an element, got none from {variant!r}"
                ) from None

    return take


def _starting(reader: StreamReader[Any, Any]) -> bool:
    return any(worker.phase == PHASES[STARTING] for worker in _stats(reader).pool.workers)


def _stats(reader: StreamReader[Any, Any]) -> Stats:
    return Stats(*reader.statistics())
