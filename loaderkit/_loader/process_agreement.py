"""What the processes of a run agree on: that they load the same stream, and where it ends."""

import warnings
from collections import defaultdict
from collections.abc import Callable

from loaderkit._base.system.numerics import numerics, present_versions
from loaderkit._order.store import Store
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._plan.state.identity import agreement_of, name_of, notes_of
from loaderkit._runtime.cluster.agreement import IF_THERE, agree, differences
from loaderkit._runtime.cluster.end_of_stream import EndOfStreamAgreement
from loaderkit._runtime.executors.executor import Executor

from .iterator.reader import StreamReader
from .part_dtypes import PartDtypes

_ADVICE = (
    "Every process has to build the same loader, with the same versions of loaderkit and numpy; "
    "agree=False is for one that only some of them run."
)

_DIFFER = "the processes differ, and may train on different data:\n"
_OTHER_BITS = (
    "Last bits depend on the kind of processor and on how a library was built: exp, products and resized pictures may "
    "differ between these processes."
)


class ProcessAgreement:
    """Compares a loader's stream between processes, once for the loader and all loaders of its epochs.

    Args:
        pending: whether it is still to be compared; False for a loader that only some processes run.

    agrees: False for a loader that only some processes run.
    """

    def __init__(self, *, pending: bool) -> None:
        self._pending = self.agrees = pending
        self._told = ""  # of what differs
        self._computing: Store | None = None  # where last bits are to be compared behind the first element

    def check(
        self, plan: SeekablePlan, parts: PartDtypes | None, *, level: str | None, stacklevel: int
    ) -> None:
        """Compares the plan with those of the other processes, unless that was done.

        Args:
            plan: this process's.
            parts: what compares the elements of the stream's parts, None for one part.
            level: of processors that the loader's workers compute as; None where operations may run in this process.
            stacklevel: of the warning of what may differ, counted from the caller of this method.

        Raises what `agree` raises where the processes load different streams.
        """
        store = plan.shard.store
        if self._pending and store is not None and store.processes > 1:
            versions = present_versions()
            said, notes = agreement_of(plan, versions), notes_of(plan, versions)
            if parts is not None:
                said |= parts.fields(plan)
            if any(op.batch is None for op in plan.operations):
                bits = numerics() if level is None else {"cpu": level}
                notes |= {f"{IF_THERE}{library}": each for library, each in bits.items()}
                self._computing = store
            self._told = agree(store, "loader", said, advice=_ADVICE, notes=notes)
            if self._told:
                warnings.warn(
                    f"{_DIFFER}{self._told}\n"
                    "Give every process the same operations and versions; fields of an operation that belong to a "
                    "host can be left out with dataclasses.field(compare=False)."
                    + (f" {_OTHER_BITS}" if IF_THERE in self._told else ""),
                    stacklevel=stacklevel + 1,
                )
        self._pending = False

    def compare_later(self, reader: StreamReader[Position, SeekablePlan]) -> None:
        """Has last bits compared behind the loader's first element, for which operations and workers load libraries.

        No process waits: each says which it has, and warns of others that were said before. So of two that differ the
        later one warns. Keys are of what is said, so that reading them costs the same for any number of processes.
        """
        if self._computing is not None:
            reader.after_next["processes"] = self._compare

    def _compare(self, executor: Executor) -> None:
        store, self._computing = self._computing, None
        if store is None:  # another iterator was first
            return
        for library, bits in executor.known_numerics().items():
            store.post(f"numerics/{library}/{bits}", str(store.process))
        said: dict[int, dict[str, str]] = defaultdict(dict)
        for key, process in store.read("numerics/").items():
            _, library, bits = key.split("/")
            said[int(process)][f"{IF_THERE}{library}"] = bits
        lines = differences(dict(sorted(said.items())))
        new = [line for line in lines if line.partition(":")[0] not in self._told]
        if new:
            warnings.warn("\n".join([_DIFFER + new[0], *new[1:], _OTHER_BITS]), stacklevel=5)


def end_agreement_of(plan: SeekablePlan) -> Callable[[SeekablePlan], EndOfStreamAgreement] | None:
    """What makes an iterator's agreement on the last step of its present plan, from the loader's plan.

    None where no other process has to make the same steps.
    """
    store = plan.shard.store
    if not plan.asks_others:
        return None
    assert store is not None  # the plan has checked it
    return lambda present: EndOfStreamAgreement(store, name_of(present))
