"""Elements as trees: flattened to leaves, rebuilt from leaves, and many elements transposed to columns.

A *column* holds the leaves of many elements at one path of the tree. `structure.py` says what a leaf is.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from sys import getrefcount
from typing import Any, NoReturn

from .structure import COMMON_LEAVES, Structure, children_of, kind_of, structure_of


class StructureMismatch(ValueError):  # noqa: N818 - a finding, which the caller turns into its own error
    """A row has another structure than the other rows of its columns.

    Args:
        position: number of the row among the rows.
        path: where in the tree they differ, as `paths` writes it.
        expected: the structure of the other rows there.
        got: the structure of this row there.
    """

    def __init__(self, position: int, path: str, expected: Structure, got: Structure) -> None:
        super().__init__(position, path, expected, got)
        self.position, self.path, self.expected, self.got = position, path, expected, got

    def __str__(self) -> str:
        return f"row {self.position}{self.path}: expected {self.expected}, got {self.got}"


def _gather_leaves(element: Any, out: list[Any]) -> None:
    cls: Any = type(element)
    kind = kind_of(cls)
    if kind == "leaf":
        out.append(element)
        return
    for child in children_of(element, kind)[1]:
        _gather_leaves(child, out)


def flatten(element: Any) -> tuple[list[Any], Structure]:
    """The leaves of an element, and the structure around them.

    Args:
        element: any tree.

    >>> flatten({"x": 1, "y": [2, None]})
    ([1, 2], {'x': *, 'y': [*, None]})
    """
    leaves: list[Any] = []
    _gather_leaves(element, leaves)
    return leaves, structure_of(element)


def _assemble(cls: Any, keys: Sequence[Any], values: Iterable[Any]) -> Any:
    kind = kind_of(cls)
    if cls is dict:
        return dict(zip(keys, values))
    if kind == "dict":
        # The default of a missing key belongs to the function that made the row, not to a batch of many rows.
        items = dict(zip(keys, values))
        return cls(None, items) if issubclass(cls, defaultdict) else cls(items)
    if kind == "sequence":
        return cls(values)
    if kind == "namedtuple":
        return cls._make(values)
    # Without calling __init__: it may check or convert its arguments, and a leaf may be a whole batch here.
    element = cls.__new__(cls)
    for name, value in zip(keys, values):
        object.__setattr__(element, name, value)
    return element


def _build(structure: Structure, leaves: Iterator[Any]) -> Any:
    if structure.container is None:
        return next(leaves)
    if structure.container is type(None):
        return None
    values = [_build(child, leaves) for child in structure.children]
    return _assemble(structure.container, structure.keys, values)


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The element with this structure and these leaves.

    Args:
        structure: from `structure_of` or `flatten`.
        leaves: as many as the structure has; ValueError otherwise.

    >>> unflatten(structure_of({"x": 0, "y": (0, None)}), [1, 2])
    {'x': 1, 'y': (2, None)}
    """
    leaves = list(leaves)
    if len(leaves) != structure.size:
        raise ValueError(f"leaves: expected {structure.size} for {structure}, got {len(leaves)}")
    if structure.flat:
        return dict(zip(structure.keys, leaves))
    return _build(structure, iter(leaves))


def _step(container: Any, key: Any) -> str:
    return f".{key}" if kind_of(container) in ("namedtuple", "fields") else f"[{key!r}]"


def paths(structure: Structure) -> tuple[str, ...]:
    """The path of each leaf as a Python expression after the element; "" where the element is itself a leaf.

    Args:
        structure: from `structure_of`.

    >>> paths(structure_of({"image": 0, "boxes": [0, 0]}))
    ("['image']", "['boxes'][0]", "['boxes'][1]")
    """
    if structure.container is None:
        return ("",)
    container = structure.container
    return tuple(
        _step(container, key) + rest
        for key, child in zip(structure.keys, structure.children)
        for rest in paths(child)
    )


def _refuse_first_other(rows: Sequence[Any], structure: Structure, path: str) -> NoReturn:
    kinds = map(structure_of, rows)
    position, got = next((position, got) for position, got in enumerate(kinds) if got != structure)
    raise StructureMismatch(position, path, structure, got)


def _mismatch_of(row: Any, position: int, structure: Structure) -> StructureMismatch:
    try:
        _split([row], structure, "", [])
    except StructureMismatch as found:
        return StructureMismatch(position, found.path, found.expected, found.got)
    raise AssertionError(f"row {position} has the structure {structure}")


def _split(
    rows: Sequence[Any], structure: Structure, path: str, out: list[tuple[Sequence[Any], set[type]]]
) -> None:
    container = structure.container
    types = set(map(type, rows))
    if container is None:
        if not types <= COMMON_LEAVES and any(kind_of(cls) != "leaf" for cls in types):
            _refuse_first_other(rows, structure, path)
        out.append((rows, types))
        return
    if types != {container}:
        _refuse_first_other(rows, structure, path)
    keys, kind = structure.keys, kind_of(container)
    parts: Iterable[Sequence[Any]]
    if kind == "fields":
        parts = [list(map(attrgetter(name), rows)) for name in keys]
    elif kind == "dict":
        # A subclass of dict may return a value for a key that it doesn't have.
        known = set(keys)
        if container is dict:
            alike = set(map(len, rows)) == {len(keys)}
        else:
            alike = all(row.keys() == known for row in rows)
        if not alike:
            _refuse_first_other(rows, structure, path)
        try:
            parts = [list(map(itemgetter(key), rows)) for key in keys]
        except KeyError:
            _refuse_first_other(rows, structure, path)
    elif kind == "nothing":
        parts = []
    else:
        if set(map(len, rows)) != {len(keys)}:
            _refuse_first_other(rows, structure, path)
        parts = map(list, zip(*rows))
    for key, child, part in zip(keys, structure.children, parts):
        _split(part, child, path + _step(container, key), out)


def typed_columns(rows: Sequence[Any], structure: Structure) -> list[tuple[Sequence[Any], set[type]]]:
    """The columns, as `columns` gives them, each with the set of the types in it.

    Args:
        rows: at least one element.
        structure: of all rows; StructureMismatch names the first row that has another one.

    >>> typed_columns([{"x": 1}, {"x": 2.5}], structure_of({"x": 0})) == [([1, 2.5], {int, float})]
    True
    """
    out: list[tuple[Sequence[Any], set[type]]] = []
    try:
        _split(rows, structure, "", out)
    except StructureMismatch as found:
        # Columns are checked one after the other: an earlier row may be wrong in a later column.
        first = next(number for number, row in enumerate(rows) if structure_of(row) != structure)
        if first == found.position:
            raise
        raise _mismatch_of(rows[first], first, structure) from None
    return out


def columns(rows: Sequence[Any], structure: Structure) -> list[list[Any]]:
    """The leaves of all rows by column: for each leaf of the structure, the list of the rows' leaves.

    Args:
        rows: at least one element.
        structure: of all rows; StructureMismatch names the first row that has another one.

    >>> columns([{"x": 1, "y": (2,)}, {"x": 3, "y": (4,)}], structure_of({"x": 0, "y": (0,)}))
    [[1, 3], [2, 4]]
    """
    return [list(column) for column, _ in typed_columns(rows, structure)]


def leaf_order(structure: Structure, like: Structure) -> list[int]:
    """For each leaf of `like` its number in `structure`, an equal structure that may have another order of keys.

    Args:
        structure: in its order the leaves are numbered.
        like: in its order the numbers are returned.

    >>> leaf_order(structure_of({"a": 0, "b": 0}), like=structure_of({"b": 0, "a": 0}))
    [1, 0]
    """
    numbered = unflatten(structure, range(structure.size))
    return [column[0] for column in columns([numbered], like)]


def map_leaves(function: Callable[[Any], Any], element: Any) -> Any:
    """A new element with `function(leaf)` in place of each leaf.

    Args:
        function: takes one leaf.
        element: any tree; it stays as it is.

    >>> map_leaves(str, {"x": 1, "y": [2, None]})
    {'x': '1', 'y': ['2', None]}
    """
    cls: Any = type(element)
    kind = kind_of(cls)
    if kind == "leaf":
        return function(element)
    if kind == "nothing":
        return None
    keys, values = children_of(element, kind)
    changed = [map_leaves(function, value) for value in values]
    if cls is dict or kind in ("sequence", "namedtuple"):
        return _assemble(cls, keys, changed)
    # A copy keeps what isn't in the tree: a defaultdict's function, attributes that are no fields.
    element = copy.copy(element)
    for key, value in zip(keys, changed):
        if kind == "dict":
            element[key] = value
        else:
            object.__setattr__(element, key, value)
    return element


def _itself(leaf: Any) -> Any:
    return leaf


def copy_containers(element: Any) -> Any:
    """A new element with the same leaves in containers of its own.

    Args:
        element: any tree.

    >>> old = {"x": [1, 2]}
    >>> copy_containers(old)["x"].append(3)
    >>> old
    {'x': [1, 2]}
    """
    cls: Any = type(element)
    if cls in COMMON_LEAVES:
        return element
    if cls is dict:
        return {
            key: value if type(value) in COMMON_LEAVES else copy_containers(value)
            for key, value in element.items()
        }
    if cls is list:
        return list(map(copy_containers, element))
    if cls is tuple:
        return tuple(map(copy_containers, element))
    return map_leaves(_itself, element)


def own_each(elements: list[Any]) -> list[Any]:
    """The elements in containers that no other code holds, so that they may be changed.

    Where all elements are common leaves, or flat dicts of such that only the list holds, the list itself is returned;
    other elements are copied, flat dicts at half the cost of `copy_containers`.

    Args:
        elements: any trees.

    >>> old = {"x": 1}
    >>> new = own_each([old, {"x": 2}])
    >>> new[0] == old, new[0] is old
    (True, False)
    """
    types = set(map(type, elements))
    if types <= COMMON_LEAVES:
        return elements
    if types == {dict}:
        leaves = chain.from_iterable(map(dict.values, elements))
        if COMMON_LEAVES.issuperset(map(type, leaves)):
            held_elsewhere = set(map(getrefcount, elements)) != _HELD_ONCE
            return list(map(dict.copy, elements)) if held_elsewhere else elements
    return list(map(copy_containers, elements))


_HELD_ONCE = set(map(getrefcount, [object()]))  # the reference count of an object that only a list holds
