"""What an element is made of: containers around leaves.

    container   a dict of any kind, UserDict; list, tuple and namedtuple; dataclass and attrs instances
    nothing     None: part of the structure, holds no leaf
    leaf        everything else: arrays, scalars, str, bytes, and objects of unknown classes
    structure   the containers of an element without its leaves

Leaves are numbered in the order of an element's own containers, for a dict in the order of its keys. Two dicts with
the same keys in another order have equal structures; code that joins leaves of both calls `tree.leaf_order` first.
"""

import dataclasses
from collections import UserDict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

import numpy as np

Kind = Literal["dict", "sequence", "namedtuple", "fields", "nothing", "leaf"]

# The most frequent types of leaves, so that they skip the checks of `kind_of`.
COMMON_LEAVES = frozenset(
    {np.ndarray, int, float, bool, str, bytes, np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_}
)


@lru_cache(maxsize=4096)
def kind_of(cls: Any) -> Kind:
    if cls in COMMON_LEAVES:
        return "leaf"
    if cls is type(None):
        return "nothing"
    if issubclass(cls, dict | UserDict):
        return "dict"
    if cls is list or cls is tuple:
        return "sequence"
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make"):
        return "namedtuple"
    # attrs classes are recognized by this attribute, so that attrs needn't be installed.
    if dataclasses.is_dataclass(cls) or hasattr(cls, "__attrs_attrs__"):
        return "fields"
    return "leaf"


def kind_of_element(element: Any) -> Kind:
    cls: Any = type(element)
    return kind_of(cls)


@lru_cache(maxsize=4096)
def field_names(cls: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass or attrs class."""
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    attributes: Any = vars(cls).get("__attrs_attrs__") or getattr(cls, "__attrs_attrs__", ())
    return tuple(attribute.name for attribute in attributes)


class Structure:
    """The containers of an element, without its leaves; hashable, picklable, fast to compare.

    Args:
        container: type of the container; None for a leaf, `type(None)` for None.
        keys: a dict's keys in their order, the names of fields, or 0, 1, … of a list or tuple.
        children: one structure for each key.

    >>> structure_of({"image": 1.0, "box": (1, 2), "mask": None})
    {'image': *, 'box': (*, *), 'mask': None}
    >>> structure_of({"a": 1, "b": 2}) == structure_of({"b": 1, "a": 2})
    True
    """

    __slots__ = ("_hash", "children", "container", "flat", "keys", "size")

    def __init__(
        self, container: type | None, keys: tuple[Any, ...] = (), children: tuple["Structure", ...] = ()
    ) -> None:
        self.container = container
        self.keys = keys
        self.children = children
        self.size: int = 1 if container is None else sum(child.size for child in children)  # leaves
        # A plain dict of leaves, the most frequent element; it has fast paths.
        self.flat = container is dict and all(child.container is None for child in children)
        ordered = container is None or kind_of(container) != "dict"
        self._hash = hash((container, children if ordered else frozenset(zip(keys, children))))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Structure):
            return NotImplemented
        if self._hash != other._hash or self.container is not other.container:
            return False
        if self.keys == other.keys:
            return self.children == other.children
        # Only the keys of a dict may differ in order; other keys follow from the container.
        return dict(zip(self.keys, self.children)) == dict(zip(other.keys, other.children))

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the hash: the hash of a str differs between processes.
        return Structure, (self.container, self.keys, self.children)

    def __repr__(self) -> str:
        if self.container is None:
            return "*"
        texts = [repr(child) for child in self.children]
        match kind_of(self.container):
            case "nothing":
                return "None"
            case "dict":
                name = "" if self.container is dict else self.container.__name__
                items = "{" + ", ".join(f"{key!r}: {text}" for key, text in zip(self.keys, texts)) + "}"
                return f"{name}({items})" if name else items
            case "sequence" if self.container is list:
                return "[" + ", ".join(texts) + "]"
            case "sequence":
                return "(" + ", ".join(texts) + ("," if len(texts) == 1 else "") + ")"
        named = ", ".join(f"{key}={text}" for key, text in zip(self.keys, texts))
        return f"{self.container.__name__}({named})"

    def same_order(self, other: "Structure") -> bool:
        """Whether the two are equal and number their leaves alike: each dict has its keys in the same order.

        >>> structure_of({"a": 1, "b": 2}).same_order(structure_of({"b": 1, "a": 2}))
        False
        """
        return self is other or (
            self.container is other.container
            and self.keys == other.keys
            and (
                (self.flat and other.flat)
                or all(mine.same_order(theirs) for mine, theirs in zip(self.children, other.children))
            )
        )


_LEAF = Structure(None)
_NOTHING = Structure(type(None))


def children_of(element: Any, kind: Kind) -> tuple[tuple[Any, ...], Iterable[Any]]:
    match kind:
        case "dict":
            return tuple(element), element.values()
        case "sequence":
            return tuple(range(len(element))), element
        case "namedtuple":
            return element._fields, element
        case "fields":
            cls: Any = type(element)
            names = field_names(cls)
            return names, [getattr(element, name) for name in names]
    return (), ()


def named_children(element: Any) -> dict[str, Any]:
    """The values of an element by name: of a tuple by position; of a list, and of a leaf, it itself as "record".

    >>> named_children({"x": 1}), named_children((1, 2)), named_children([1, 2])
    ({'x': 1}, {'0': 1, '1': 2}, {'record': [1, 2]})
    """
    kind = kind_of_element(element)
    if type(element) is list or kind in ("leaf", "nothing"):
        return {"record": element}
    return {str(key): value for key, value in zip(*children_of(element, kind))}


def dict_advice(value: Any) -> str:
    """What to write where a value isn't held as it is: the line that makes a dict of a container, for errors.

    >>> dict_advice((7, 8))
    "make it a dict: lk.AsDict('a', 'b').map(...), for all records lk.MapDataSource(source, lk.AsDict('a', 'b').map)"
    """
    kind = kind_of_element(value)
    most = "abcdefgh"  # names of values that are written out
    if kind not in ("sequence", "namedtuple", "fields") or (kind == "sequence" and len(value) > len(most)):
        return "convert it by a Map, or a generator, before"
    names = map(repr, most[: len(value)]) if kind == "sequence" else ()
    line = f"lk.AsDict({', '.join(names)}).map"
    return f"make it a dict: {line}(...), for all records lk.MapDataSource(source, {line})"


@lru_cache(maxsize=4096)
def _flat(names: tuple[str, ...]) -> Structure:
    return Structure(dict, names, (_LEAF,) * len(names))


def structure_of(element: Any) -> Structure:
    """The containers of an element without its leaves.

    Args:
        element: any tree.

    >>> structure_of([1, {"x": 2}])
    [*, {'x': *}]
    """
    cls: Any = type(element)
    if cls is dict and COMMON_LEAVES.issuperset(map(type, element.values())):
        keys = tuple(element)
        return _flat(keys) if set(map(type, keys)) == {str} else Structure(dict, keys, (_LEAF,) * len(keys))
    kind = kind_of(cls)
    if kind == "leaf":
        return _LEAF
    if kind == "nothing":
        return _NOTHING
    keys, values = children_of(element, kind)
    return Structure(cls, keys, tuple(map(structure_of, values)))
