"""The steps of a pipeline that is run in order, for each stream its own: a callable of the user's may keep state."""

import pickle
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from loaderkit._base.notes import text_of
from loaderkit._runtime.transport.pickling import Packer
from loaderkit.errors import TransportError

from ._steps import Step


def copies_of_steps(steps: Sequence[Step], layout: int) -> Callable[[], Sequence[Step]]:
    """Gives the steps anew for each stream, as they are now.

    Args:
        steps: as the script gave them; only copies of callables from records to records are called.
        layout: how many layout workers. With one or more everything is copied as Grain sends it to them: through a
            pickle, with what functions of the script refer to. In Grain's own process a function is that of the script,
            and so is a callable that can't be copied.

    Raises TransportError where a step can't be pickled.
    """
    if all(step.kind != "records" for step in steps):
        return lambda: steps
    if not layout:
        return lambda: [_copied(step) for step in steps]
    packer = Packer()
    try:
        packer.teach(steps)  # which gives its classes numbers: the copies are of the same classes
        return partial(pickle.loads, packer.dumps(steps))
    except Exception as error:
        label = next((step.label for step in steps if not _travels(step.operation)), "the pipeline")
        raise TransportError(
            f"{label} can't be sent to worker processes, each of which has its own in Grain: {text_of(error)}"
        ) from error


def _copied(step: Step) -> Step:
    if step.kind != "records":
        return step
    try:
        return replace(step, operation=deepcopy(step.operation))
    except Exception:  # noqa: BLE001 - the user's copying may raise anything
        return step


def _travels(thing: Any) -> bool:
    try:
        Packer().dumps(thing)
    except Exception:  # noqa: BLE001 - the user's reduce may raise anything
        return False
    return True
