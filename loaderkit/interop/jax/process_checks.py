"""Compares positions, and shapes and dtypes of leaves, between the processes that make global arrays together."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Sharding
from numpy.typing import NDArray

from loaderkit._base.system.numerics import present_versions
from loaderkit._order.store import Store
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._plan.state.identity import agreement_of
from loaderkit._runtime.cluster.agreement import agree
from loaderkit.errors import IteratorClosedError

from .sharding import TIMEOUT
from .store import store_of
from .targets import processes_of


class ProcessChecks:
    """One process's side of the comparison; does nothing where there is only one process.

    Args:
        plan: of the batches.
        shardings: of the global arrays; empty where each process makes arrays of its own rows.

    closed: once set, waiting for other processes raises IteratorClosedError.

    >>> import loaderkit as lk
    >>> ProcessChecks(iter(lk.load([1, 2], batch_size=2))._plan, []).check_position({"step": "0"})
    """

    def __init__(self, plan: SeekablePlan, shardings: Sequence[Sharding]) -> None:
        self.closed = False
        self._plan = plan
        store = plan.shard.store
        # ShardOptions without a store compared nothing when iteration started, but the processes of a sharding make
        # one array of their rows, so the plans are compared here.
        self._plans_known_equal = store is not None
        if store is None and shardings:
            store = store_of(processes_of(shardings), jax.process_index(), TIMEOUT)
        self._store = _Closable(store, self) if store is not None and store.processes > 1 else None
        self._signature: dict[str, str] | None = None

    def check_position(self, position: Mapping[str, str]) -> None:
        """Raises ValueError or TimeoutError where the processes aren't at the same position; all have to call it."""
        if self._store is None:
            return
        fields = (
            position
            if self._plans_known_equal
            else {**agreement_of(self._plan, present_versions()), **position}
        )
        agree(
            self._store,
            "place",
            fields,
            advice="Before the next batch move all processes to the same position, with set_state or seek. Did each "
            "of them find its checkpoint?",
        )
        self._plans_known_equal = True

    def check_leaves(
        self, arrays: Mapping[str, NDArray[Any]], total: int, prefetch: int, *, step: int
    ) -> None:
        """Raises ValueError or TimeoutError where leaves differ between processes; compares only new shapes and dtypes.

        Args:
            arrays: this process's rows, by path.
            total: number of rows of the global batch.
            prefetch: number of batches on their way. It has to be equal too: a process with fewer may wait for a
                step's result while another waits for its answer about a later batch.
            step: of the batch, for the error.
        """
        if self._store is None:
            return
        signature = {path: f"{leaf.dtype} {(total, *leaf.shape[1:])}" for path, leaf in arrays.items()}
        signature["prefetch"] = str(prefetch)
        if signature != self._signature:
            agree(
                self._store,
                "leaves",
                signature,
                advice=f"At step {step} the leaves need the same shapes and dtypes in all processes, and a process "
                "compares them only where its own are new: pad to a fixed shape.",
            )
        self._signature = signature


class _Closable:
    """A store in which waiting raises IteratorClosedError once its checks are closed."""

    def __init__(self, store: Store, checks: ProcessChecks) -> None:
        self._store, self._checks = store, checks
        self.process, self.processes, self.timeout = store.process, store.processes, store.timeout

    def count(self, name: str) -> int:
        return self._store.count(name)

    def post(self, key: str, value: str) -> None:
        self._store.post(key, value)

    def read(self, prefix: str) -> Mapping[str, str]:
        return self._store.read(prefix)

    def wait(self, prefix: str, seconds: float) -> None:
        if self._checks.closed:
            raise IteratorClosedError("the iterator was closed while it waited for other processes")
        self._store.wait(prefix, seconds)
