"""A leaf of an element by its place: the key, position, name or path by which all operations are told of one."""

from collections.abc import Callable, Hashable
from copy import copy
from reprlib import repr as _short
from typing import Any

import numpy as np

from loaderkit._base.structure import Structure, children_of, kind_of, kind_of_element

# A key of the dict; a position in the tuple or list, from 0 or backwards from -1; the name of a field of the named
# tuple, or of the instance of a dataclass or attrs; a path of these, from the outermost, as a tuple; None where the
# element is the leaf. A tuple that is itself a key of the dict is that key.
Place = Hashable


def leaf_key(argument: str, key: Any) -> Any:
    """A place that a user gave; TypeError for what can be none, such as a list.

    >>> leaf_key("key", ("inputs", 0))
    ('inputs', 0)
    """
    try:
        hash(key)
    except TypeError:
        raise TypeError(
            f"{argument}: expected a dict's key, a position, the name of a field, or a path of these as a tuple, got "
            f"{_short(key)}"
        ) from None
    return key


def name_of(place: Place) -> str:
    """A place as text, as columns are named by it.

    >>> name_of("image"), name_of(0), name_of(("inputs", 0))
    ('image', '0', 'inputs.0')
    """
    return ".".join(map(name_of, place)) if isinstance(place, tuple) else str(place)


def names_of_leaves(structure: Structure, before: tuple[Any, ...] = ()) -> list[str]:
    """The places of all leaves as text, in their order; "record" where the element is the leaf.

    >>> from loaderkit._base.structure import structure_of
    >>> names_of_leaves(structure_of({"inputs": (1, 2), "y": 3})), names_of_leaves(structure_of(1))
    (['inputs.0', 'inputs.1', 'y'], ['record'])
    """
    if structure.container is None:
        return [name_of(before) or "record"]
    inside = zip(structure.keys, structure.children)
    return [name for key, child in inside for name in names_of_leaves(child, (*before, key))]


def leaf_at(element: Any, key: Place) -> Any:
    """The value at a place; KeyError, IndexError or TypeError, by the container, where there is none.

    >>> leaf_at({"inputs": [2, 3]}, ("inputs", -1))
    3
    >>> leaf_at({"x": 1}, "y")
    Traceback (most recent call last):
    KeyError: "leaf 'y': expected a place in the element, got a dict with the keys ['x']"
    """
    first, rest = _steps(element, key)
    if rest:
        return leaf_at(leaf_at(element, first), rest)
    match kind_of_element(element):
        case _ if first is None:
            _itself(element)
            return element
        case "dict":
            if first in element:
                return element[first]
            raise KeyError(_nowhere(element, first))
        case "sequence":
            return element[_position(element, first)]
        case "namedtuple" | "fields":
            return getattr(element, _field(element, first))
    raise TypeError(_nowhere(element, first))


def with_value(element: Any, key: Place, value: Any) -> Any:
    """The element with a value at a place; its containers are copied, its other leaves are the same objects.

    A dict gets a key that it lacks, and a tuple or list the position behind its last; other errors as of `leaf_at`.

    >>> with_value((2, {"x": 7}), (1, "y"), 8), with_value((2, 7), 2, 8)
    ((2, {'x': 7, 'y': 8}), (2, 7, 8))
    """
    first, rest = _steps(element, key)
    if rest:
        return with_value(element, first, with_value(leaf_at(element, first), rest, value))
    cls: Any = type(element)
    match kind_of(cls):
        case _ if first is None:
            _itself(element)
            return value
        case "dict":
            changed = dict(element) if cls is dict else copy(element)
            changed[first] = value
            return changed
        case "sequence":
            place = _position(element, first, more=1)
            return cls([*element[:place], value, *element[place + 1 :]])
        case "namedtuple":
            return element._replace(**{_field(element, first): value})
        case "fields":
            changed = copy(element)
            object.__setattr__(changed, _field(element, first), value)  # a frozen dataclass refuses setattr
            return changed
    raise TypeError(_nowhere(element, first))


def with_leaf(element: Any, key: Place, change: Callable[[Any], Any]) -> Any:
    """The element with one leaf changed, as `with_value` makes it of what `change` gives.

    >>> with_leaf({"inputs": [2, 3]}, ("inputs", 0), lambda leaf: leaf * 10)
    {'inputs': [20, 3]}
    """
    return with_value(element, key, change(leaf_at(element, key)))


def with_new(argument: str, element: Any, key: Place, value: Any) -> Any:
    """The element with a value at a place that is free, or where None is; ValueError that names the argument else.

    >>> with_new("mask", {"x": 1}, "x", 2)
    Traceback (most recent call last):
    ValueError: mask: expected the place of a new leaf, got 'x', which the element has; give another one
    """
    try:
        free = leaf_at(element, key) is None
    except (KeyError, IndexError):
        free = True
    if not free:
        raise ValueError(
            f"{argument}: expected the place of a new leaf, got {key!r}, which the element has; give another one"
        )
    return with_value(element, key, value)


def value_at(element: Any, key: Place) -> Any:
    """The leaf at a place: an array, a number, a text, bytes or None.

    >>> value_at({"x": [1]}, "x")
    Traceback (most recent call last):
    TypeError: leaf 'x': expected an array or a single value, got list; make it an array in a Map before
    """
    leaf = leaf_at(element, key)
    if not isinstance(leaf, np.ndarray | np.generic | str | bytes | int | float | None):
        raise TypeError(
            f"leaf {key!r}: expected an array or a single value, got {type(leaf).__name__}; make it an array in a Map "
            "before"
        )
    return leaf


def array_at(element: Any, key: Place) -> np.ndarray:
    """The array (n, ...) at a place.

    >>> array_at({"x": 1}, "x")
    Traceback (most recent call last):
    TypeError: leaf 'x': expected an array (n, ...), got int; make it one in a Map before
    """
    leaf = leaf_at(element, key)
    if not isinstance(leaf, np.ndarray) or not leaf.ndim:
        raise TypeError(
            f"leaf {key!r}: expected an array (n, ...), got {type(leaf).__name__}; make it one in a Map before"
        )
    return leaf


def _steps(element: Any, key: Place) -> tuple[Any, tuple[Any, ...]]:
    """The first step of a path, and the others."""
    if isinstance(key, tuple) and key and not (kind_of_element(element) == "dict" and key in element):
        return (key[0], key[1:]) if len(key) > 1 else _steps(element, key[0])
    return key, ()


def _position(element: Any, key: Place, more: int = 0) -> int:
    size = len(element)
    if isinstance(key, bool) or not isinstance(key, int | np.integer):
        raise TypeError(_nowhere(element, key))
    if not -size <= key < size + more:
        raise IndexError(_nowhere(element, key))
    return int(key) + (size if key < 0 else 0)


def _field(element: Any, key: Place) -> str:
    """The name of a field; of a named tuple by its position too."""
    names, _ = children_of(element, kind_of_element(element))
    if key in names:
        return str(key)
    if hasattr(element, "_fields") and isinstance(key, int | np.integer):
        return str(names[_position(element, key)])
    raise KeyError(_nowhere(element, key))


def _itself(element: Any) -> None:
    if kind_of_element(element) not in ("leaf", "nothing"):
        raise TypeError(f"key: expected the place of a leaf in {described(element)}, got None; give key=...")


def _nowhere(element: Any, key: Place) -> str:
    return f"leaf {key!r}: expected a place in the element, got {described(element)}"


def described(element: Any) -> str:
    """The element's type and places, for errors.

    >>> described({"x": 1}), described((1, 2)), described(3)
    ("a dict with the keys ['x']", 'a tuple with the positions 0 to 1', 'int itself; leave the key out')
    """
    name, kind = type(element).__name__, kind_of_element(element)
    names, _ = children_of(element, kind)
    if kind in ("leaf", "nothing"):
        return f"{name} itself; leave the key out"
    if kind == "sequence":
        return f"a {name} with " + (f"the positions 0 to {len(names) - 1}" if names else "no values")
    return f"a {name} with the {'keys' if kind == 'dict' else 'fields'} {_short([*names])}"
