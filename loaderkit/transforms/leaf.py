"""A leaf of an element by its place: the key, position, name or path by which all operations are told of one."""

from collections.abc import Callable, Hashable
from copy import copy
from reprlib import repr as _short
from typing import Any

import numpy as np

from loaderkit._base.structure import Kind, Structure, children_of, field_names, kind_of, kind_of_element

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
    # The most frequent element, a fifth of the time of what is below.
    if type(element) is dict and key is not None and key in element:
        return element[key]
    first, rest = _steps(element, key)
    leaf = _get(element, *_slot(element, first))
    return leaf_at(leaf, rest) if rest else leaf


def with_value(element: Any, key: Place, value: Any) -> Any:
    """The element with a value at a place; its containers are copied, its other leaves are the same objects.

    A dict gets a key that it lacks, and a tuple or list the position behind its last; other errors as of `leaf_at`.

    >>> with_value((2, {"x": 7}), (1, "y"), 8), with_value((2, 7), 2, 8)
    ((2, {'x': 7, 'y': 8}), (2, 7, 8))
    """
    return _changed(element, key, value)


def with_leaf(element: Any, key: Place, change: Callable[[Any], Any]) -> Any:
    """The element with one leaf changed, as `with_value` makes it of what `change` gives.

    >>> with_leaf({"inputs": [2, 3]}, ("inputs", 0), lambda leaf: leaf * 10)
    {'inputs': [20, 3]}
    """
    return _changed(element, key, None, change)


def with_new(argument: str, element: Any, key: Place, value: Any) -> Any:
    """The element with a value at a place that is free, or where None is; ValueError that names the argument else.

    >>> with_new("mask", {"x": 1}, "x", 2)
    Traceback (most recent call last):
    ValueError: mask: expected the place of a new leaf, got 'x', which the element has; give another one
    """

    def put(leaf: Any) -> Any:
        if leaf is None:
            return value
        raise ValueError(
            f"{argument}: expected the place of a new leaf, got {key!r}, which the element has; give another one"
        )

    return _changed(element, key, None, put, new=True)


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


def _changed(
    element: Any, key: Place, value: Any, change: Callable[[Any], Any] | None = None, *, new: bool = False
) -> Any:
    """The element with a value at a place, which may be a new one; or with what `change` gives of the leaf there.

    new: whether `change` may get None for a new place.
    """
    first, rest = _steps(element, key)
    kind, place = _slot(element, first, new=(new or change is None) and not rest)
    if rest:
        value = _changed(_get(element, kind, place), rest, value, change, new=new)
    elif change is not None:
        missing = new and (
            place not in element if kind == "dict" else kind == "sequence" and place == len(element)
        )
        value = change(None if missing else _get(element, kind, place))
    match kind:
        case "dict":
            changed = dict(element) if type(element) is dict else copy(element)
            changed[place] = value
            return changed
        case "sequence":
            cls: Any = type(element)
            return cls([*element[:place], value, *element[place + 1 :]])
        case "namedtuple":
            return element._replace(**{place: value})
        case "fields":
            changed = copy(element)
            object.__setattr__(changed, place, value)  # a frozen dataclass refuses setattr
            return changed
    return value


def _steps(element: Any, key: Place) -> tuple[Any, tuple[Any, ...]]:
    """The first step of a path, and the others."""
    if isinstance(key, tuple) and key and not (kind_of_element(element) == "dict" and key in element):
        return (key[0], key[1:]) if len(key) > 1 else _steps(element, key[0])
    return key, ()


def _slot(element: Any, step: Any, *, new: bool = False) -> tuple[Kind, Any]:
    """The kind of an element, and where in it a step leads: a key of the dict, a position from 0, the name of a field.

    new: whether it may be one that a dict lacks, or the position behind the last.
    """
    cls: Any = type(element)
    kind = kind_of(cls)
    if step is None:
        if kind not in ("leaf", "nothing"):
            raise TypeError(
                f"key: expected the place of a leaf in {described(element)}, got None; give key=..."
            )
        return kind, None
    match kind:
        case "dict":
            if new or step in element:
                return kind, step
            raise KeyError(_nowhere(element, step))
        case "sequence":
            return kind, _position(element, step, more=new)
        case "namedtuple" | "fields":
            return kind, _field(element, step, cls._fields if kind == "namedtuple" else field_names(cls))
    raise TypeError(_nowhere(element, step))


def _get(element: Any, kind: Kind, place: Any) -> Any:
    if kind in ("dict", "sequence"):
        return element[place]
    return element if place is None else getattr(element, place)


def _position(element: Any, key: Place, more: bool = False) -> int:
    size = len(element)
    if isinstance(key, bool) or not isinstance(key, int | np.integer):
        raise TypeError(_nowhere(element, key))
    if not -size <= key < size + more:
        raise IndexError(_nowhere(element, key))
    return int(key) + (size if key < 0 else 0)


def _field(element: Any, key: Place, names: tuple[str, ...]) -> str:
    """The name of a field; of a named tuple by its position too."""
    if key in names:
        return str(key)
    if isinstance(element, tuple) and isinstance(key, int | np.integer):
        return str(names[_position(element, key)])
    raise KeyError(_nowhere(element, key))


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
