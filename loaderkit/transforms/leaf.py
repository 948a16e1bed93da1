"""A leaf of an element that an operation changes: one value of a dict, a tuple, a list or an object with fields."""

from collections.abc import Callable, Hashable
from copy import copy
from reprlib import repr as _short
from typing import Any

from loaderkit._base.numbers import at_least
from loaderkit._base.structure import children_of, kind_of


def leaf_key(key: Any) -> None:
    """Raises TypeError for a key that isn't hashable, such as a list or a slice."""
    try:
        hash(key)
    except TypeError:
        raise TypeError(
            f"key: expected a dict's key, a position or the name of a field, got {_short(key)}"
        ) from None


def with_leaf(element: Any, key: Hashable | None, change: Callable[[Any], Any]) -> Any:
    """The element with one leaf changed; the container is copied, its other leaves are the same objects.

    Args:
        element: the leaf, or its container: a dict, tuple, list, named tuple, or an instance of a dataclass or attrs.
        key: the leaf's key in the dict; its position in the tuple or list, from 0 or backwards from -1; the name of
            its field; a path of these, from the outermost, as a tuple; None where the element is the leaf. A tuple
            that is itself a key of the dict is that key. KeyError, IndexError or TypeError for a key that isn't there.
        change: takes the leaf, returns the new one.

    >>> with_leaf({"image": 2, "label": 7}, "image", lambda leaf: leaf * 10)
    {'image': 20, 'label': 7}
    >>> with_leaf((2, 7), 0, lambda leaf: leaf * 10)
    (20, 7)
    >>> with_leaf({"inputs": [2, 3]}, ("inputs", 0), lambda leaf: leaf * 10)
    {'inputs': [20, 3]}
    """
    if isinstance(key, tuple) and key and not (isinstance(element, dict) and key in element):
        first, rest = key[0], key[1:]
        return with_leaf(element, first, (lambda inner: with_leaf(inner, rest, change)) if rest else change)
    if isinstance(element, dict):
        return _with_item(element, key, change)
    cls: Any = type(element)
    kind = kind_of(cls)
    if key is None:
        if kind in ("sequence", "namedtuple", "fields"):
            raise _without_key(element)
        return change(element)
    match kind:
        case "sequence" | "namedtuple":
            names = element._fields if kind == "namedtuple" else ()
            place = names.index(key) if key in names else _position(element, key)
            values = [*element]
            values[place] = change(values[place])
            return cls._make(values) if names else cls(values)
        case "fields":
            return _with_field(element, key, change)
    raise TypeError(
        f"key={key!r}: expected a dict, a tuple, a list or an object with fields, got {cls.__name__}; "
        "leave key out where the element is the image itself"
    )


def _with_item(element: dict[Any, Any], key: Hashable | None, change: Callable[[Any], Any]) -> dict[Any, Any]:
    if key is None:
        raise _without_key(element)
    if key not in element:
        raise KeyError(_without_value(element, key))
    changed = dict(element) if type(element) is dict else copy(element)
    changed[key] = change(element[key])
    return changed


def _with_field(element: Any, key: Hashable, change: Callable[[Any], Any]) -> Any:
    names, _ = children_of(element, "fields")
    if key not in names:
        raise KeyError(_without_value(element, key))
    name = str(key)
    changed = copy(element)
    object.__setattr__(changed, name, change(getattr(element, name)))  # a frozen dataclass refuses setattr
    return changed


def _position(element: Any, key: Hashable) -> int:
    size = len(element)
    error: type[Exception]
    try:
        return at_least("key", key, -size, below=size)
    except TypeError:
        error = KeyError if hasattr(element, "_fields") else TypeError
    except ValueError:
        error = IndexError
    raise error(_without_value(element, key))


def _without_key(element: Any) -> TypeError:
    return TypeError(f"key: expected the place of the image in {_described(element)}, got None; give key=...")


def _without_value(element: Any, key: Hashable) -> str:
    return f"key: expected a place in {_described(element)}, got {_short(key)}"


def _described(element: Any) -> str:
    """The element's type and places, for errors."""
    cls: Any = type(element)
    kind = kind_of(cls)
    names, _ = children_of(element, kind)
    if kind == "sequence":
        held = f"the positions 0 to {len(names) - 1}" if names else "no values"
    else:
        held = f"the {'keys' if kind == 'dict' else 'fields'} {_short([*names])}"
    return f"a {cls.__name__} with {held}"
