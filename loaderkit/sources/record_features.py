"""What records look like, as JSON: element_spec in texts.

An array or a number is a text such as "uint8(28, 28, 3)" or "int64()", with "?" where records differ; another leaf is
its type, such as "bytes" or "str"; dicts are objects; lists and tuples are JSON arrays. A value that differs between
records is "mixed".
"""

import re
from collections.abc import Iterable
from functools import reduce
from typing import Any

from loaderkit.transforms.element_spec import ArraySpec, spec_of

MIXED = "mixed"
_ARRAY = re.compile(r"(?P<dtype>[^()]+)\((?P<shape>[^()]*)\)")


def features_of(records: Iterable[Any]) -> Any:
    """The features of records, all of one tree; "mixed" where their trees differ.

    Args:
        records: one or more of them.

    >>> import numpy as np
    >>> features_of([{"x": np.zeros((2, 3)), "name": "a"}, {"x": np.zeros((4, 3)), "name": "b"}])
    {'x': 'float64(?, 3)', 'name': 'str'}
    """
    return reduce(joined_features, (_texts(spec_of(record)) for record in records))


def joined_features(one: Any, other: Any) -> Any:
    """The features of the records of two sets.

    Args:
        one, other: what `features_of` gives.

    >>> joined_features({"x": "float64(2)", "y": "str"}, {"x": "float64(3)", "y": "bytes"})
    {'x': 'float64(?)', 'y': 'mixed'}
    """
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {name: joined_features(one[name], other[name]) for name in one}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return list(map(joined_features, one, other))
    if isinstance(one, str) and isinstance(other, str):
        return _joined_leaves(_ARRAY.fullmatch(one), _ARRAY.fullmatch(other))
    return MIXED


def is_features(value: Any) -> bool:
    """Whether a JSON value can be what `features_of` gives.

    >>> is_features({"x": "float64(?, 3)"}), is_features({"x": 3})
    (True, False)
    """
    if isinstance(value, dict):
        return all(map(is_features, value.values()))
    if isinstance(value, list):
        return all(map(is_features, value))
    return isinstance(value, str)


def differing_field(one: Any, other: Any) -> str | None:
    """The first field that one of two records' features lacks, or has as a dict; None where both have the same ones.

    Args:
        one, other: what `features_of` gives; "mixed" ones have any fields.

    >>> differing_field({"x": "int64()", "box": {"a": "str"}}, {"x": "str", "box": {"b": "str"}})
    'box/a'
    """
    if MIXED in (one, other) or not (isinstance(one, dict) or isinstance(other, dict)):
        return None
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return ""
    for name in [*one, *other]:
        if name not in one or name not in other:
            return str(name)
        below = differing_field(one[name], other[name])
        if below is not None:
            return f"{name}/{below}".rstrip("/")
    return None


def _texts(spec: Any) -> Any:
    if isinstance(spec, ArraySpec):
        return f"{spec.dtype}({', '.join(map(str, spec.shape))})"
    if isinstance(spec, dict):
        return {str(name): _texts(each) for name, each in spec.items()}
    if isinstance(spec, list | tuple):
        return [_texts(each) for each in spec]
    return spec.__name__ if isinstance(spec, type) else type(spec).__name__


def _joined_leaves(one: re.Match[str] | None, other: re.Match[str] | None) -> str:
    if one is None or other is None or one["dtype"] != other["dtype"]:
        return MIXED
    shapes = one["shape"].split(", "), other["shape"].split(", ")
    if len(shapes[0]) != len(shapes[1]) or bool(one["shape"]) != bool(other["shape"]):
        return MIXED
    return f"{one['dtype']}({', '.join(a if a == b else '?' for a, b in zip(*shapes))})"
