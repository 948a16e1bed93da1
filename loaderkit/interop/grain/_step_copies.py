"""The steps of a pipeline that is run in order, for each stream its own: a callable of the user's may keep state."""

import pickle
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial

from loaderkit._runtime.transport.pickling import Packer, teach

from ._steps import Step


def copies_of_steps(steps: Sequence[Step], layout: int) -> Callable[[], Sequence[Step]]:
    """Gives the steps anew for each stream, as they are now.

    Args:
        steps: as the script gave them; only copies of callables from records to records are called.
        layout: how many layout workers. With one or more everything is copied as Grain sends it to them: through a
            pickle, with what functions of the script refer to. In Grain's own process a function is that of the script,
            and so is a callable that can't be copied.

    Raises TransportError naming the step that can't be pickled.
    """
    if all(step.kind != "records" for step in steps):
        return lambda: steps
    if not layout:
        return lambda: [_copied(step) for step in steps]
    packer = Packer()
    # Which gives its classes numbers: the copies are of the same classes.
    teach(packer, steps, [(step.label, step.operation) for step in steps])
    return partial(pickle.loads, packer.dumps(steps))


def _copied(step: Step) -> Step:
    if step.kind != "records":
        return step
    try:
        return replace(step, operation=deepcopy(step.operation))
    except Exception:  # noqa: BLE001 - the user's copying may raise anything
        return step
