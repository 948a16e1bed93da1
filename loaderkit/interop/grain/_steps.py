"""The operations of a user's list, each known for what it is: a transform, a legacy operation, or a callable."""

import pickle
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._runtime.transport.pickling import Packer, teach
from loaderkit.transforms.base import name_of

from . import operations, transforms
from ._installed import is_of_grain


@dataclass(frozen=True, slots=True)
class Step:
    """One operation.

    kind: "map", "random", "filter", "flat_map", "batch", or "records" for a callable of the user's. call: what is
    called for each element. label: what errors call it. operation: the user's object. batch: of a "batch".
    """

    kind: str
    call: Callable[..., Any] | None
    label: str
    operation: Any
    batch: transforms.Batch | None = None


_KINDS = (
    ("map", "map", transforms.Map),
    ("random", "random_map", transforms.RandomMap),
    ("random", "np_random_map", transforms.TfRandomMap),
    ("flat_map", "flat_map", transforms.FlatMap),
    ("filter", "filter", transforms.Filter),
)
_LEGACY = (
    ("map", "map_function", operations.MapOperation),
    ("random", "random_map_function", operations.RandomMapOperation),
    ("filter", "condition_function", operations.FilterOperation),
)
_ALL = (
    *(base for *_, base in (*_KINDS, *_LEGACY)),
    operations.BatchOperation,
    transforms.Batch,
    transforms.MapWithIndex,
)


def steps_of(ops: Sequence[Any]) -> list[Step]:
    """The operations as steps.

    >>> class Double(transforms.Map):
    ...     def map(self, element):
    ...         return 2 * element
    >>> [(step.kind, step.label) for step in steps_of([Double(), iter])]
    [('map', 'operations[0] Double'), ('records', 'operations[1] iter')]
    """
    return [_step_of(f"operations[{place}] ", op) for place, op in enumerate(ops)]


def listed(name: str, ops: Any) -> list[Any]:
    """A list of what a user gave as operations; TypeError for what isn't iterable, such as one alone.

    >>> listed("operations", iter([abs]))
    [<built-in function abs>]
    """
    if not isinstance(ops, Iterable):
        raise TypeError(f"{name}: expected a list, got {ops!r:.80}; write [{type(ops).__name__}(...)]")
    return [*ops]


def _step_of(place: str, op: Any) -> Step:
    name = type(op).__name__
    if isinstance(op, type):  # a class may be a callable, but no transform, whatever it is derived from
        return Step("records", op, place + op.__name__, op)
    for kind, method, base in _KINDS:
        if isinstance(op, base) or is_of_grain(op, base.__name__):
            return Step(kind, getattr(op, method), place + name, op)
    # Of BatchOperation only exactly that class: one derived from it may do something else. It has a batch_fn always:
    # its own stacking, which doesn't ask the first row for the dtype, and has other errors than Batch.
    if isinstance(op, transforms.Batch) or is_of_grain(op, "Batch") or type(op) is operations.BatchOperation:
        batch = transforms.Batch(op.batch_size, op.drop_remainder, op.batch_fn)
        return Step("batch", None, f"{place}{name}(batch_size={op.batch_size})", op, batch)
    for kind, function, legacy in _LEGACY:
        if type(op) is legacy:
            return Step(kind, op.apply, f"{place}{name}({name_of(getattr(op, function))})", op)
    return Step("records", op, place + (name_of(op) if callable(op) else name), op)


def is_legacy(op: Any) -> bool:
    """Whether it is one of Grain's own legacy operations that go from record to record.

    >>> import pytest
    >>> with pytest.warns(DeprecationWarning, match="MapOperation"):
    ...     is_legacy(operations.MapOperation(abs))
    True
    >>> is_legacy(abs)
    False
    """
    return any(type(op) is legacy for *_, legacy in _LEGACY)


def check_callable(step: Step) -> None:
    """Raises TypeError where a step of the kind "records" is no callable from records to records."""
    op = step.operation
    if isinstance(op, transforms.MapWithIndex) or is_of_grain(op, "MapWithIndex"):
        raise TypeError(
            f"{step.label}: expected an operation without an index, got a MapWithIndex: a DataLoader has no index to "
            "give, as in Grain"
        )
    if isinstance(op, type) and issubclass(op, _ALL):
        raise TypeError(
            f"{step.label}: expected an operation, got its class: write {op.__name__}(...), with its arguments"
        )
    if not callable(op):
        raise TypeError(
            f"{step.label}: expected a transform, a legacy operation or a callable from records to records, got "
            f"{op!r:.80}"
        )


def copies_of_steps(steps: Sequence[Step], layout: int) -> Callable[[], Sequence[Step]]:
    """Gives the steps anew for each stream, as they are now: a callable of the user's may keep state.

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
