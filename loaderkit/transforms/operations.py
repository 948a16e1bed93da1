"""Checks a user's list of operations and makes each a transformation."""

from collections.abc import Callable, Iterable
from reprlib import repr as _short
from typing import Any

from loaderkit._base.hints import foreign_operation
from loaderkit._base.numbers import at_least

from .base import Batch, Map, Transformation, Window

Operation = Transformation | Callable[[Any], Any]


def _as_operation(name: str, operation: Any) -> Transformation:
    if isinstance(operation, Transformation):
        return operation
    if isinstance(operation, type):
        if issubclass(operation, Transformation):
            raise TypeError(
                f"{name}: expected an operation, got the class {operation.__name__}; "
                f"write {operation.__name__}(...), with its arguments"
            )
        if (ours := foreign_operation(operation)) is not None:
            raise TypeError(
                f"{name}: expected an operation, got the class {operation.__name__}; derive it from {ours}, and give "
                "an instance"
            )
    if callable(operation):
        return Map(operation)
    cls = type(operation)
    fix = foreign_operation(cls)
    raise TypeError(
        f"{name}: expected an operation or a function of one element, got {cls.__name__} {_short(operation)}"
        + ("" if fix is None else f"; derive {cls.__name__} from {fix}")
    )


def as_operations(
    operations: Iterable[Operation], argument: str = "operations"
) -> tuple[Transformation, ...]:
    """The operations, each a transformation: a bare function is a Map.

    Args:
        operations: in the order in which elements pass them. TypeError, with the place, for an object that isn't an
            operation; ValueError for a global_batch_size, or a remainder other than keep and drop, on a Batch that
            isn't the last, and for a Window behind the last Batch or without a size.

    >>> as_operations([abs, Batch(2)])
    (Map(abs), Batch(batch_size=2))
    >>> as_operations([abs, 3])
    Traceback (most recent call last):
    TypeError: operations[1]: expected an operation or a function of one element, got int 3
    """
    if isinstance(operations, str | bytes | dict) or not isinstance(operations, Iterable):
        got = f"{type(operations).__name__} {_short(operations)}"
        advice = (
            f"; write [{type(operations).__name__}(...)]" if isinstance(operations, Transformation) else ""
        )
        raise TypeError(f"{argument}: expected a list of operations, got {got}{advice}")
    made = tuple(
        _as_operation(f"{argument}[{place}]", operation) for place, operation in enumerate(operations)
    )
    last = max(
        (place for place, operation in enumerate(made) if isinstance(operation, Batch)), default=len(made)
    )
    before_last = f"before the last Batch, which is {argument}[{last}], got"
    for place, operation in enumerate(made):
        name = f"{argument}[{place}]"
        if isinstance(operation, Batch) and place < last:
            if operation.remainder not in ("keep", "drop"):
                raise ValueError(f"{name}: expected remainder='keep' or 'drop' {before_last} {operation!r}")
            if operation.global_batch_size is not None:
                raise ValueError(f"{name}: expected Batch(batch_size=...) {before_last} {operation!r}")
        if isinstance(operation, Window):
            at_least(f"{name}: size", operation.size, 1)
            if place > last:
                raise ValueError(
                    f"{name}: expected {operation!r} {before_last} it behind; put it before the Batch"
                )
    return made
