"""Mixtures in a plan: samplers with stages of weights, and where in the stream of a position a stage may begin."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeGuard

from loaderkit._order.facts import Cursor
from loaderkit._order.mixture.stages import MixtureStages
from loaderkit._order.operation_shape import OperationShape
from loaderkit.samplers import Sampler

if TYPE_CHECKING:
    from loaderkit.samplers import MixedSampler


def is_staged(sampler: Sampler) -> TypeGuard["MixedSampler"]:
    """Whether a sampler has stages of weights.

    >>> from loaderkit.samplers import SequentialSampler
    >>> is_staged(SequentialSampler(4))
    False
    """
    return isinstance(getattr(sampler, "stages", None), MixtureStages)


def behind_cursors(operations: Iterable[OperationShape], cursors: Iterable[Cursor]) -> int | None:
    """The first index that no stream has read, where operations change the number of rows.

    An index is read, too, if a FlatMap has handed out some of its children. None where a Window, or a FlatMap behind a
    Batch or a Window, has handed out some of what it makes of several records: which indices these have isn't known.

    Args:
        operations: of the plan.
        cursors: of all its streams.

    >>> flat_map, batch = OperationShape("flat_map", "FlatMap(f)"), OperationShape("batch", "Batch(4)")
    >>> behind_cursors([flat_map, batch], [(7, 2), (5,)])
    8
    """
    of_records = 0  # FlatMaps whose elements are single records
    for op in operations:
        if op.kind in ("batch", "window"):
            break
        of_records += op.kind == "flat_map"
    behind = 0
    for cursor in cursors:
        if any(cursor[1 + of_records :]):
            return None
        behind = max(behind, cursor[0] + any(cursor[1:]))
    return behind
