"""Copies of elements, and the first difference between two of them."""

import copy
from dataclasses import dataclass
from reprlib import Repr
from typing import Any

import cloudpickle
import numpy as np

from loaderkit._base.tree import Structure, flatten, paths

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
        return np.array(leaf, copy=True, subok=True) if isinstance(leaf, np.ndarray) else copy.deepcopy(leaf)
    except Exception:  # noqa: BLE001 - copying an open file, a handle of a library, ... may raise anything
        return leaf


def difference(one: Snapshot, other: Snapshot) -> Difference | None:
    """The first difference of two elements in structure, type, dtype, shape or value; None if they are equal."""
    if one.structure != other.structure:
        return Difference("", f"the structure {one.structure}", f"the structure {other.structure}")
    for path, left, right in zip(paths(one.structure), one.leaves, other.leaves, strict=True):
        if not _same(left, right):
            return Difference(path, _shown(left, right), _shown(right, left))
    return None


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if not one.dtype.hasobject:
            return bool(one.tobytes() == other.tobytes())
        return all(map(_same, one.ravel().tolist(), other.ravel().tolist()))
    # Arrays of other libraries: == gives an array, and the pickles of equal ones may differ.
    if hasattr(type(one), "__array__"):
        alike = _same_array(one, other)
        if alike is not None:
            return alike
    try:
        if one == other:
            return True
    except Exception:  # noqa: BLE001 - a user's __eq__ may raise anything
        pass
    try:  # objects that compare by identity, and NaNs
        return bool(cloudpickle.dumps(one) == cloudpickle.dumps(other))
    except Exception:  # noqa: BLE001 - objects without equality and pickle count as equal
        return True


def _same_array(one: Any, other: Any) -> bool | None:
    """None where it can't be said."""
    try:
        left, right = np.asarray(one), np.asarray(other)
        if not left.dtype.hasobject:
            return _same(left, right)
    except Exception:  # noqa: BLE001 - a dtype that numpy hasn't, a tensor with a gradient
        pass
    try:
        return (one.dtype, one.shape) == (other.dtype, other.shape) and bool((one == other).all())
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
