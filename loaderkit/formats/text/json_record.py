r"""A record as a line of JSON, and what JSON lacks as tagged objects.

A value that JSON has is itself. Others make the line `{"__loaderkit__": value}`, in which {"$": [kind, ...]} stands for
what JSON lacks.
"""

import base64
import json
import math
from typing import Any

import numpy as np

from loaderkit._base.structure import dict_advice
from loaderkit._codecs.example_encoding import NotAnExampleError, array_bytes, array_of, dtype_of, dtype_text
from loaderkit._codecs.scan import Malformed

WRAPPED = "__loaderkit__"
_TAG = "$"


def encode_json(record: Any) -> str:
    """A record as JSON in one line, without its end.

    Args:
        record: JSON values, bytes, tuples, numpy arrays and scalars, and dicts with any of these as keys;
            TypeError that names another leaf.

    >>> encode_json({"label": 3}), encode_json(b"abc")
    ('{"label": 3}', '{"__loaderkit__": {"$": ["bytes", "YWJj"]}}')
    """
    tagged, changed = _tagged(record, "record")
    if changed or (type(record) is dict and next(iter(record), None) == WRAPPED):
        tagged = {WRAPPED: tagged}
    text = json.dumps(tagged, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a pair of surrogates
        text = json.dumps(tagged, allow_nan=False)
    return text


def decode_json(value: Any) -> Any:
    """The record of a line's value, for which `is_wrapped` holds; Malformed where it isn't one."""
    try:
        return _untagged(value[WRAPPED])
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise Malformed(
            0, f"expected a record as loaderkit writes it, got {type(error).__name__}: {error}"
        ) from None


def is_wrapped(value: Any) -> bool:
    """Whether the value of a line stands for something that JSON lacks.

    >>> is_wrapped({"__loaderkit__": 1}), is_wrapped({"a": 1})
    (True, False)
    """
    return type(value) is dict and len(value) == 1 and WRAPPED in value


def _tagged(value: Any, path: str) -> tuple[Any, bool]:
    """The value with tags, and whether it has any."""
    kind = type(value)
    if value is None or kind in (str, bool, int) or (kind is float and math.isfinite(value)):
        return value, False
    if kind is list:
        pairs = [_tagged(one, f"{path}[{place}]") for place, one in enumerate(value)]
        return [one for one, _ in pairs], any(changed for _, changed in pairs)
    if kind is dict:
        items = [(key, *_tagged(one, f"{path}[{key!r}]")) for key, one in value.items()]
        if all(type(key) is str for key in value) and _TAG not in value:
            return {key: one for key, one, _ in items}, any(changed for *_, changed in items)
        pairs_of = [[_tagged(key, f"key {key!r} of {path}")[0], one] for key, one, _ in items]
        return {_TAG: ["dict", pairs_of]}, True
    if kind is float:
        return {_TAG: ["float", repr(value)]}, True
    if kind is bytes:
        return {_TAG: ["bytes", _text(value)]}, True
    if kind is tuple:
        return {
            _TAG: ["tuple", [_tagged(one, f"{path}[{place}]")[0] for place, one in enumerate(value)]]
        }, True
    if kind is np.ndarray or isinstance(value, np.generic):
        try:
            dtype = dtype_text(value.dtype)
        except NotAnExampleError:
            raise TypeError(
                f"{path}: expected an array of numbers or text, got dtype {value.dtype}; convert it first"
            ) from None
        if kind is np.ndarray:
            return {_TAG: ["array", dtype, list(value.shape), _text(array_bytes(value))]}, True
        return {_TAG: ["scalar", dtype, [], _text(array_bytes(np.asarray(value)))]}, True
    raise TypeError(
        f"{path}: expected JSON values, bytes, tuples, numpy arrays and scalars, got {kind.__name__}; "
        f"{dict_advice(value)}"
    )


def _untagged(value: Any) -> Any:
    if type(value) is list:
        return [_untagged(one) for one in value]
    if type(value) is not dict:
        return value
    if _TAG not in value:
        return {key: _untagged(one) for key, one in value.items()}
    kind, *rest = value[_TAG]
    if kind == "dict":
        return {_untagged(key): _untagged(one) for key, one in rest[0]}
    if kind == "float":
        return float(rest[0])
    if kind == "bytes":
        return base64.b64decode(rest[0])
    if kind == "tuple":
        return tuple(_untagged(one) for one in rest[0])
    dtype, shape, data = rest
    array = array_of(base64.b64decode(data), dtype_of(dtype), shape)
    if kind == "scalar":
        return array[()]
    if kind != "array":
        raise ValueError(f"the unknown tag {kind!r}")
    return array


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
