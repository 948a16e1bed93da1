"""What errors call an operation: the place in the list that the user wrote, and its name there.

Mostly the user's list is the loader's. Who makes a loader's operations of others (loaderkit/interop/grain) says in
`_written` which of the user's each of them is.
"""

from dataclasses import dataclass
from typing import Any

from .base import Transformation, label_of


@dataclass(frozen=True, slots=True)
class NamedOperation:
    """An operation as the user wrote it.

    label: what errors call it: its place in the list, and its name. operation: the object.
    """

    label: str
    operation: Any


class RaisedBy(Exception):  # noqa: N818 - no error of its own: it says who raised one
    """What an operation raises that stands for several of the user's: the error, and what to call who raised it.

    Args:
        label: of the operation, as in Written.
        error: what it raised.
    """

    def __init__(self, label: str, error: Exception) -> None:
        super().__init__(label, error)
        self.label = label
        self.error = error


def named_operations(place: int, operation: Transformation) -> tuple[NamedOperation, ...]:
    """What the user wrote that this operation of a loader's is: one operation, mostly this very one.

    Args:
        place: in the loader's list.
        operation: any.

    >>> from loaderkit.transforms.base import Map
    >>> [(it.label, it.operation) for it in named_operations(1, Map(abs))]
    [('operations[1] Map(abs)', Map(abs))]
    """
    return operation._written or (NamedOperation(f"operations[{place}] {label_of(operation)}", operation),)


def operation_name(place: int, operation: Transformation) -> str:
    """What errors call an operation: the place in the list that the user gave, and a short name.

    Args:
        place: in the loader's list.
        operation: any.

    >>> from loaderkit.transforms.base import Batch
    >>> operation_name(1, Batch(8))
    'operations[1] Batch(batch_size=8)'
    """
    return ", ".join(it.label for it in named_operations(place, operation))
