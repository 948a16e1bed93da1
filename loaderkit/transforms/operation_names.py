"""The names of operations in errors: the place in the user's list, and the operation's own name.

Usually the user's list is the loader's. Code that makes a loader's operations of others (loaderkit/interop/grain)
stores in `_written` which of the user's operations each one stands for.
"""

from dataclasses import dataclass
from typing import Any

from .base import Transformation, label_of


@dataclass(frozen=True, slots=True)
class NamedOperation:
    """An operation as the user wrote it.

    label: for errors: its place in the list, and its name. operation: the object.
    """

    label: str
    operation: Any


class RaisedBy(Exception):  # noqa: N818 - carries an error and its operation; isn't an error itself
    """Raised by an operation that stands for several of the user's: the error, and which of them raised it.

    Args:
        label: of the user's operation, as in NamedOperation.
        error: the exception that it raised.
    """

    def __init__(self, label: str, error: Exception) -> None:
        super().__init__(label, error)
        self.label = label
        self.error = error


def named_operations(place: int, operation: Transformation) -> tuple[NamedOperation, ...]:
    """The user's operations that an operation of a loader stands for; usually it is the user's own.

    Args:
        place: in the loader's list.
        operation: any operation.

    >>> from loaderkit.transforms.base import Map
    >>> [(it.label, it.operation) for it in named_operations(1, Map(abs))]
    [('operations[1] Map(abs)', Map(abs))]
    """
    return operation._written or (NamedOperation(f"operations[{place}] {label_of(operation)}", operation),)


def operation_name(place: int, operation: Transformation) -> str:
    """An operation's name in errors: its place in the user's list, and a short name.

    Args:
        place: in the loader's list.
        operation: any operation.

    >>> from loaderkit.transforms.base import Batch
    >>> operation_name(1, Batch(8))
    'operations[1] Batch(batch_size=8)'
    """
    return ", ".join(it.label for it in named_operations(place, operation))
