"""The shape of a list of operations: what the plan of a stream, its states and its identity use of them."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

from loaderkit._order.operation_shape import BatchShape, OperationShape, WindowShape

from .base import Batch, Filter, FlatMap, Transformation, Window, draws, group_of, label_of


def shape_of(operations: Sequence[Transformation]) -> tuple[OperationShape, ...]:
    """One frozen value for each operation.

    >>> from loaderkit.transforms import Map
    >>> [shape.label for shape in shape_of([Map(abs), Batch(8)])]
    ['Map(abs)', 'Batch(batch_size=8)']
    """
    return tuple(_shape_of(operation) for operation in operations)


def _shape_of(operation: Transformation) -> OperationShape:
    if isinstance(operation, Batch):
        batch = BatchShape(
            operation.batch_size,
            operation.global_batch_size,
            operation.remainder,
            operation.batch_fn is not None,
            getattr(operation, "buckets", 0) if operation.pads else 0,
            operation.rows_padded,
            getattr(operation, "known", None) if operation.pads else None,
        )
        return OperationShape("batch", label_of(operation), batch)
    window = None
    if isinstance(operation, Window):
        window = WindowShape(operation.size, draws(operation), tuple(operation._identity().items()))
    return OperationShape(
        _kind_of(operation),
        label_of(operation),
        window=window,
        group=group_of(operation),
        show=partial(_shown, operation),
    )


def _shown(operation: Transformation) -> str:
    try:
        return repr(operation)
    except Exception:  # noqa: BLE001 - a user's __repr__ may raise, and must not replace the error being reported
        return label_of(operation)


def _kind_of(operation: Transformation) -> Literal["map", "random_map", "filter", "flat_map", "window"]:
    if isinstance(operation, Filter):
        return "filter"
    if isinstance(operation, FlatMap):
        return "flat_map"
    if isinstance(operation, Window):
        return "window"
    return "random_map" if draws(operation) else "map"
