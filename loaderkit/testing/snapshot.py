"""Copies of elements, and the first difference between two of them."""

import copy
import copyreg
from reprlib import Repr
from typing import Any

import cloudpickle
import numpy as np

from loaderkit._base.structure import Structure
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.tree import flatten, paths

_short = Repr()
_short.maxother = _short.maxstring = 120


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of two elements: the path of the leaf ("" for the element itself), and both values in short.

    >>> Difference("['x']", "1", "2").path
    "['x']"
    """

    path: str
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Copies of an element's leaves, which no other code refers to.

    >>> batch = {"x": np.arange(2)}
    >>> before = snapshot_of(batch)
    >>> batch["x"][1] = 7
    >>> difference(before, snapshot_of(batch))
    Difference(path="['x']", one='array([0, 1])', other='array([0, 7])')
    """

    structure: Structure
    leaves: tuple[Any, ...]


def snapshot_of(element: Any) -> Snapshot:
    """Copies the present leaves of an element.

    Args:
        element: any tree; a leaf that can't be copied is referred to.
    """
    leaves, structure = flatten(element)
    return Snapshot(structure, tuple(map(copied, leaves)))


def copied(leaf: Any) -> Any:
    """A copy of a leaf, writable if it is an array; the leaf itself where it can't be copied.

    >>> copied(np.arange(2)).flags.owndata
    True
    """
    try:
        return copy_of(leaf)
    except Exception:  # noqa: BLE001 - copying an open file, a handle of a library, ... may raise anything
        return leaf


def copy_of(leaf: Any) -> Any:
    """As `copied`; raises what the copying raises.

    >>> copy_of([1, 2])
    [1, 2]
    """
    return np.array(leaf, copy=True, subok=True) if isinstance(leaf, np.ndarray) else copy.deepcopy(leaf)


def difference(one: Snapshot, other: Snapshot) -> Difference | None:
    """The first difference of two elements in structure, type, dtype, shape or value; None if they are equal."""
    if one.structure != other.structure:
        return Difference("", f"the structure {one.structure}", f"the structure {other.structure}")
    for path, left, right in zip(paths(one.structure), one.leaves, other.leaves, strict=True):
        if not _same(left, right):
            return Difference(path, _shown(left, right), _shown(right, left))
    return None


def _same(one: Any, other: Any, above: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """above: the ids of the objects that are being compared and hold these two."""
    if _kind(one) is not _kind(other):
        return False
    if isinstance(one, float | complex):
        return _bits(one) == _bits(other)
    if isinstance(one, np.ndarray | np.generic):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if not one.dtype.hasobject:
            return bool(one.tobytes() == other.tobytes())
        return all(map(_same, one.ravel().tolist(), other.ravel().tolist()))
    if callable(getattr(type(one), "equals", None)):  # tables; == gives a table, or compares no index
        return _equal_tables(one, other)
    # Arrays of other libraries: == gives an array, and the pickles of equal ones may differ.
    if hasattr(type(one), "__array__"):
        alike = _same_array(one, other)
        if alike is not None:
            return alike
    return _same_object(one, other, above)


def _same_object(one: Any, other: Any, above: frozenset[tuple[int, int]]) -> bool:
    try:
        if one == other:
            return True
    except Exception:  # noqa: BLE001 - a user's __eq__ may raise anything
        pass
    pair = id(one), id(other)
    if pair in above:  # an object that holds itself
        return True
    states = _state(one), _state(other)
    if None not in states:
        return _same_leaves(*states, above | {pair})
    return _same_pickles(one, other)


def _kind(leaf: Any) -> type:
    # A pickled copy of a memmap is an array.
    return np.ndarray if isinstance(leaf, np.memmap) else type(leaf)


def _bits(number: complex) -> tuple[str, str]:
    return number.real.hex(), number.imag.hex()


def _equal_tables(one: Any, other: Any) -> bool:
    try:
        if one.equals(other) is True:
            return True
    except Exception:  # noqa: BLE001 - a method of another library, or of the user
        pass
    return _same_pickles(one, other)  # some count a NaN as unequal to itself


def _same_pickles(one: Any, other: Any) -> bool:
    try:
        return bool(cloudpickle.dumps(one) == cloudpickle.dumps(other))
    except Exception:  # noqa: BLE001 - objects without equality and pickle count as equal
        return True


def _state(leaf: Any) -> tuple[Any] | None:
    """What pickle keeps of an object of a class without a pickle function of its own; None for any other."""
    try:
        made, arguments, state, *items = leaf.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - an object that can't be pickled
        return None
    plain = made is copyreg.__newobj__ and arguments == (type(leaf),)  # type: ignore[attr-defined]
    return (state,) if plain and not any(items) else None


def _same_leaves(one: Any, other: Any, above: frozenset[tuple[int, int]]) -> bool:
    (lefts, structure), (rights, other_structure) = flatten(one), flatten(other)
    if structure != other_structure:
        return False
    return all(_same(left, right, above) for left, right in zip(lefts, rights, strict=True))


def _same_array(one: Any, other: Any) -> bool | None:
    """None if they can't be compared as arrays."""
    try:
        left, right = np.asarray(one), np.asarray(other)
        if not left.dtype.hasobject:
            return _same(left, right)
    except Exception:  # noqa: BLE001 - a dtype that numpy hasn't, a tensor with a gradient
        pass
    try:
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return False
        equal = one == other
        nans = ~(one == one) & ~(other == other)
        return bool((equal | nans).all())
    except Exception:  # noqa: BLE001 - no array of the usual kind
        return None


def _shown(leaf: Any, beside: Any) -> str:
    """The leaf in short; of a large array the first value that differs from `beside`."""
    if not isinstance(leaf, np.ndarray):
        return _short.repr(leaf)
    same_kind = isinstance(beside, np.ndarray) and (leaf.dtype, leaf.shape) == (beside.dtype, beside.shape)
    if not same_kind:
        return f"{leaf.dtype} of shape {leaf.shape}"
    if leaf.size <= 8 or leaf.dtype.hasobject:
        return _short.repr(leaf)
    flat, others = leaf.ravel(), beside.ravel()
    at = int(np.argmax(flat != others))
    return (
        f"{flat[at]} at {tuple(map(int, np.unravel_index(at, leaf.shape)))} of {leaf.dtype}{list(leaf.shape)}"
    )
