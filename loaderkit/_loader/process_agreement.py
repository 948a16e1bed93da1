"""What the processes of a run agree on: that they load the same stream, and where it ends."""

import warnings
from collections.abc import Callable

from loaderkit._base.system.numerics import numerics
from loaderkit._base.system.versions import present_versions
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._plan.state.identity import agreement_of, name_of, notes_of
from loaderkit._runtime.cluster.agreement import IF_THERE, agree
from loaderkit._runtime.cluster.end_of_stream import EndOfStreamAgreement

from .part_dtypes import PartDtypes

_ADVICE = (
    "Every process has to build the same loader, with the same versions of loaderkit and numpy; "
    "agree=False is for one that only some of them run."
)

_OTHER_BITS = (
    " Last bits depend on the kind of processor and on how a library was built: exp, products and resized pictures may "
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

    def check(self, plan: SeekablePlan, parts: PartDtypes | None, *, stacklevel: int) -> None:
        """Compares the plan with those of the other processes, unless that was done.

        Args:
            plan: this process's.
            parts: what compares the elements of the stream's parts, None for one part.
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
                notes |= {f"{IF_THERE}{library}": bits for library, bits in numerics().items()}
            told = agree(store, "loader", said, advice=_ADVICE, notes=notes)
            if told:
                warnings.warn(
                    f"the processes differ, and may train on different data:\n{told}\n"
                    "Give every process the same operations and versions; fields of an operation that belong to a "
                    "host can be left out with dataclasses.field(compare=False)."
                    + (_OTHER_BITS if IF_THERE in told else ""),
                    stacklevel=stacklevel + 1,
                )
        self._pending = False


def end_agreement_of(plan: SeekablePlan) -> Callable[[SeekablePlan], EndOfStreamAgreement] | None:
    """What makes an iterator's agreement on the last step of its present plan, from the loader's plan.

    None where no other process has to make the same steps.
    """
    store = plan.shard.store
    if not plan.asks_others:
        return None
    assert store is not None  # the plan has checked it
    return lambda present: EndOfStreamAgreement(store, name_of(present))
