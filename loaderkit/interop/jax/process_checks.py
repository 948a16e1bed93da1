"""Where the processes that make global arrays together compare where they stand and what their leaves are."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Sharding
from numpy.typing import NDArray

from loaderkit._order.store import Store
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._runtime.cluster.agreement import agree
from loaderkit._state.identity import agreement_of
from loaderkit._system.versions import present_versions
from loaderkit.errors import IteratorClosedError

from .sharding import TIMEOUT
from .store import store_of
from .targets import processes_of


class ProcessChecks:
    """What one process says to the others, where there are any.

    Args:
        plan: of the batches.
        shardings: of the global arrays; none where each process keeps its rows to itself.

    closed: set where nothing is waited for any more.

    >>> import loaderkit as lk
    >>> ProcessChecks(iter(lk.load([1, 2], batch_size=2))._plan, []).check_place({"step": "0"})
    """

    def __init__(self, plan: SeekablePlan, shardings: Sequence[Sharding]) -> None:
        self.closed = False
        self._plan = plan
        store = plan.shard.store
        # Shards by number have no store of their own, and nothing was compared when iteration started. The processes
        # of a sharding make an array together all the same, each of the rows that it takes for the right ones.
        self._compared = store is not None
        if store is None and shardings:
            store = store_of(processes_of(shardings), jax.process_index(), TIMEOUT)
        self._store = _Closable(store, self) if store is not None and store.processes > 1 else None
        self._signature: dict[str, str] | None = None

    def check_place(self, place: Mapping[str, str]) -> None:
        """Raises where the processes don't stand at the same place; all of them ask."""
        if self._store is None:
            return
        said = place if self._compared else {**agreement_of(self._plan, present_versions()), **place}
        agree(
            self._store,
            "place",
            said,
            advice="Before the next batch take all processes to the same position, with set_state or seek, and none "
            "alone: did each of them find its checkpoint?",
        )
        self._compared = True

    def check_leaves(
        self, arrays: Mapping[str, NDArray[Any]], total: int, prefetch: int, *, step: int
    ) -> None:
        """Raises where the leaves of the processes differ; those ask whose own are new.

        Args:
            arrays: this process's rows, by path.
            total: rows of the global batch.
            prefetch: batches taken ahead. Where they differ, a process that takes fewer may wait for a step's result
                before it says whether it has the next ones.
            step: of the batch.
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
                advice=f"At step {step} the leaves need the same shapes and dtypes, and a process asks the others only "
                "where its own are new: pad to a fixed shape.",
            )
        self._signature = signature


class _Closable:
    """A store at which nothing is waited for any more once its meeting is closed."""

    def __init__(self, store: Store, meeting: ProcessChecks) -> None:
        self._store, self._meeting = store, meeting
        self.process, self.processes, self.timeout = store.process, store.processes, store.timeout

    def count(self, name: str) -> int:
        return self._store.count(name)

    def post(self, key: str, value: str) -> None:
        self._store.post(key, value)

    def read(self, prefix: str) -> Mapping[str, str]:
        return self._store.read(prefix)

    def wait(self, prefix: str, seconds: float) -> None:
        if self._meeting.closed:
            raise IteratorClosedError("the iterator was closed while it waited for other processes")
        self._store.wait(prefix, seconds)
