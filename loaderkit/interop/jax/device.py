"""A loader's batches as arrays on devices, a few of them ahead of the training step.

Everything runs in the thread that calls next(): it takes a batch from the loader, checks it, and starts JAX's transfer,
which returns before the bytes have moved. A deque holds the batches on their way, each with the position after it; the
iterator's position is that after the batch handed out last.

Memory: a leaf is the loader's own memory, which isn't reused while an object refers to it. JAX refers to the leaf
while it copies, and on CPU, where it doesn't copy, for as long as the array lives.
"""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import Any

import jax
import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.tree import flatten, unflatten
from loaderkit._loader.iterator.iterator import DataLoaderIterator, Lookahead, LookaheadItem, WrappedIterator
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit.samplers.protocol import seed_of

from .keys import children_of_rows, keys_of, words_of
from .placement import fitting, held_rows, is_for_devices, leaves_of, place, rows_of, spread
from .process_checks import ProcessChecks
from .targets import check_process_order, checked_targets, first_device, row_target, shardings_in


def device_iterator(
    it: DataLoaderIterator, sharding: Any = None, prefetch: int = 2, keys: str | None = None
) -> DeviceIterator:
    """Wraps a loader's iterator: gives its batches as `jax.Array`s, with `prefetch` of them on their way.

    Args:
        it: a loader's iterator. From now on its position is that after the last batch of the wrapper, and only the
            wrapper may take its elements: RuntimeError where both are used.
        sharding: a `jax.sharding.Sharding`: all processes make one global array of the batch's rows. Or a device of
            this process, its first if None: an array of the rows that this process loads. Or a tree of both that
            may end above the leaves.
        prefetch: number of batches on their way to the devices when next() returns, besides the returned one; 0 or
            more.
        keys: the name of an additional leaf with a JAX key for each record, None for none.

    A sharding, and `keys`, need a Batch. Leaves that JAX can't hold (str, bytes, objects, times) stay numpy. Raises
    ValueError where the loader's shards don't fit the sharding, and OverflowError for an int64 that doesn't fit JAX's
    int32; a float64 beyond float32 becomes infinite, and a RuntimeWarning names its leaf.

    Processes that load together, or share a sharding, compare their positions in next(), before the first batch and
    after every move, and shapes and dtypes of the leaves of global arrays where those are new. Raises ValueError with
    the differences, and TimeoutError with the processes that don't answer within the `timeout` of the loader's
    `shard_options`. All processes have to move between the same two batches.

    >>> import jax
    >>> import loaderkit as lk
    >>> with device_iterator(iter(lk.load([1.5, 2.5], batch_size=2))) as batches:
    ...     next(batches)
    Array([1.5, 2.5], dtype=float32)
    """
    return DeviceIterator(it, sharding, prefetch=prefetch, keys=keys)


@dataclass(frozen=True, slots=True)
class _Coming:
    value: Any
    item: LookaheadItem


class DeviceIterator(WrappedIterator):
    """The iterator that `device_iterator` returns: like the wrapped one, with its batches on devices.

    It is saved, restored and moved like the wrapped iterator, and shares its position.

    >>> import jax
    >>> import loaderkit as lk
    >>> it = iter(lk.load([1, 2, 3, 4], batch_size=2))
    >>> batches = device_iterator(it, jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    >>> next(batches), batches.step, it.step
    (Array([1, 2], dtype=int32), 1, 1)
    >>> batches.close()
    """

    def __init__(self, it: DataLoaderIterator, sharding: Any, *, prefetch: int, keys: str | None) -> None:
        if not isinstance(it, DataLoaderIterator):
            raise TypeError(f"it: expected the iterator of a loader, iter(loader), got {type(it).__name__}")
        self._prefetch = at_least("prefetch", prefetch, 0)
        if keys is not None and not isinstance(keys, str):
            raise TypeError(f"keys: expected the name of a leaf or None, got {keys!r}")
        self._targets = first_device() if sharding is None else sharding
        targets = checked_targets(self._targets)
        shardings, plan = shardings_in(targets), it._plan
        self._global = bool(shardings)
        if not plan.batching.batched and (self._global or keys is not None):
            raise ValueError(
                "it: expected a loader with a Batch, because devices share its rows, got one without; add lk.Batch(...)"
            )
        if self._global:
            plan.check_equal_parts("sharding")
        for one in shardings:
            check_process_order(one, plan.shard)
        self._rows_target = row_target(targets)
        self._keys = keys
        self._seed = seed_of(plan.sampler)
        if keys is not None and self._seed is None:
            raise ValueError(
                "keys: expected a sampler with a seed, got one without; use for example IndexSampler(..., seed=0)"
            )
        super().__init__(it)
        self._checks = ProcessChecks(plan, shardings)
        self._ahead: Lookahead = it.wrap()
        self._coming: deque[_Coming] = deque()
        self._interrupted = False  # whether next() was left between taking a batch and handing one out
        self._error: Exception | None = None
        self._raised_at: TracebackType | None = None
        self._compared: SeekablePlan | None = None  # the one when positions were compared last
        self._moves: int | None = None  # the wrapped iterator's moves when positions were compared last

    def __next__(self) -> Any:
        with self._ahead.lock:
            self._ahead.check_open()
            if self._moves != self._ahead.moves:
                self._forget()
                # A move to the present position is compared too: where next() failed or was interrupted in some of
                # the processes, it is the present position in some only. So all that make the same moves take part.
                self._checks.check_position(self._ahead.place)
                self._moves, self._compared, self._interrupted = self._ahead.moves, self._ahead.plan, False
            elif self._compared is not self._ahead.plan:
                # Other weights from behind the batches on their way on: those stay, an error behind them doesn't.
                self._error = None
                self._checks.check_position(self._ahead.place)
                self._compared = self._ahead.plan
            if self._interrupted:
                # An interrupt may have lost a batch that was taken from the loader and is not in `_coming`.
                self._forget()
                self._ahead.go_back()
            self._interrupted = True
            self._fill()
            if not self._coming:
                self._interrupted = False
                if self._error is None or isinstance(self._error, StopIteration):
                    raise StopIteration
                # With its first traceback, which would grow with every call otherwise.
                raise BaseException.with_traceback(self._error, self._raised_at)
            coming = self._coming.popleft()
            self._ahead.received(coming.item)
            self._interrupted = False
            return coming.value

    def _forget(self) -> None:
        self._coming.clear()
        self._error = None

    def _fill(self) -> None:
        # One more than `prefetch`: the first of them is handed out now.
        while len(self._coming) <= self._prefetch and self._error is None:
            try:
                self._coming.append(self._next_on_devices())
            except StopIteration:
                # A new one: the traceback of the first would keep the frames of the user's loop, and its last batch.
                self._error = StopIteration()
            except Exception as error:  # noqa: BLE001 - any error is raised after the batches made before it
                self._error, self._raised_at = error, error.__traceback__

    def _next_on_devices(self) -> _Coming:
        item = self._ahead.take()
        begun = time.perf_counter_ns()
        # This transfer is explicit; a user's guard is there to find implicit ones.
        with jax.transfer_guard_host_to_device("allow"):
            coming = _Coming(self._on_devices(item), item)
        self._ahead.placed(time.perf_counter_ns() - begun)
        return coming

    def _on_devices(self, item: LookaheadItem) -> Any:
        element = item.element.value
        leaves = leaves_of(element)
        arrays = {path: np.asarray(leaf) for path, leaf in leaves.items() if is_for_devices(leaf)}
        held, total = np.empty(0, np.int64), 0
        if self._global:
            held, total = held_rows(self._ahead.plan.shard, _rows_in(leaves, arrays))
        arrays = {path: fitting(path, leaf) for path, leaf in arrays.items()}
        if self._global:
            self._checks.check_leaves(arrays, total, self._prefetch, step=self.step + len(self._coming))
        placed = [
            place(path, arrays[path], target, held, total) if path in arrays else leaf
            for (path, leaf), target in zip(leaves.items(), spread(self._targets, element), strict=True)
        ]
        batch = unflatten(flatten(element)[1], placed)
        if self._keys is None:
            return batch
        return self._with_keys(batch, item, _rows_in(leaves, arrays), held, total)

    def _with_keys(self, batch: Any, item: LookaheadItem, rows: int, held: np.ndarray, total: int) -> Any:
        assert self._keys is not None and self._seed is not None
        begins = item.element.facts.begins
        if begins is None:
            begins = self._ahead.plan.begins_of(item.before)
        if len(begins) != rows:
            raise ValueError(
                f"keys: expected {len(begins)} rows, as many as entered the last Batch, got {rows}; operations after "
                "it may not change their number"
            )
        words = words_of(begins[:, 0], children_of_rows(begins))
        array = place(self._keys, words, self._rows_target, held, total)
        made = keys_of(self._seed, array, array.sharding)
        if not isinstance(batch, dict):
            return batch, made
        if self._keys in batch:
            raise ValueError(
                f"keys: expected the name of a new leaf, got {self._keys!r}, which the batch has already"
            )
        return {**batch, self._keys: made}

    def close(self) -> None:
        """Closes the wrapped iterator, and drops the batches on their way."""
        self._checks.closed = True  # before the lock: a thread that waits in next() holds it
        super().close()
        with self._ahead.lock:
            self._forget()


def _rows_in(leaves: dict[str, Any], arrays: dict[str, np.ndarray]) -> int:
    """The number of rows of a batch, by the leaves for devices, or by other arrays where there are none."""
    return rows_of(arrays or {path: leaf for path, leaf in leaves.items() if isinstance(leaf, np.ndarray)})
