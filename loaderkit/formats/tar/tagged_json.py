"""JSON that also holds what JSON lacks: bytes, arrays, tuples, NaN, keys that aren't text.

Such a value is an object that begins with the name "__loaderkit__", which says what it is.
"""

import base64
import json
import math
from typing import Any

import numpy as np

from loaderkit._base.structure import dict_advice
from loaderkit.formats.npy import decoded_array, encoded_array

TAG = "__loaderkit__"


def encoded_json(value: Any) -> bytes:
    """The value as JSON in UTF-8, on one line; the same bytes for the same value.

    Args:
        value: of dicts, lists, tuples, str, bytes, bool, int, float, None, numpy arrays and scalars. TypeError for a
            value of another type, ValueError for one that contains itself.

    >>> encoded_json({"x": [1, 2.5, None]}), encoded_json((1, float("nan")))
    (b'{"x":[1,2.5,null]}', b'{"__loaderkit__":"tuple","items":[1,{"__loaderkit__":"float","value":"nan"}]}')
    """
    try:
        text = json.dumps(_tagged(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("expected a value of some levels, got one that is nested too deeply") from None
    return text.encode("utf-8", "surrogatepass")


def decoded_json(data: bytes) -> Any:
    """The value of `encoded_json`.

    Args:
        data: its bytes; ValueError where they aren't such JSON.

    >>> decoded_json(encoded_json({1: (b"x", [True])}))
    {1: (b'x', [True])}
    """
    return json.loads(data.decode("utf-8", "surrogatepass"), object_hook=_untagged)


def _tagged(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (str, bool, int):
        return value
    if kind is float:
        return value if math.isfinite(value) else {TAG: "float", "value": repr(value)}
    if kind is list:
        return [_tagged(each) for each in value]
    if kind is dict:
        if TAG not in value and all(type(name) is str for name in value):
            return {name: _tagged(each) for name, each in value.items()}
        return {TAG: "dict", "items": [[_tagged(name), _tagged(each)] for name, each in value.items()]}
    if kind is tuple:
        return {TAG: "tuple", "items": [_tagged(each) for each in value]}
    if isinstance(value, np.ndarray | np.generic):
        name = "array" if isinstance(value, np.ndarray) else "scalar"
        return {TAG: name, "npy": base64.b64encode(encoded_array(np.asarray(value))).decode()}
    if kind in (bytes, bytearray, memoryview):
        return {TAG: "bytes", "base64": base64.b64encode(value).decode()}
    raise TypeError(
        f"expected bytes, str, bool, int, float, None, a numpy array or scalar, or a dict, list or tuple of these, got "
        f"{kind.__name__}; {dict_advice(value)}"
    )


def _untagged(found: dict[str, Any]) -> Any:
    if TAG not in found:
        return found
    tag = found[TAG]
    try:
        if tag == "float":
            return float(found["value"])
        if tag == "tuple":
            return tuple(found["items"])
        if tag == "dict":
            return dict(found["items"])
        if tag == "bytes":
            return base64.b64decode(found["base64"], validate=True)
        if tag in ("array", "scalar"):
            array = decoded_array(base64.b64decode(found["npy"], validate=True))
            return array if tag == "array" else array[()]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"expected a value with the tag {tag!r} as loaderkit writes it, got {error!r}"
        ) from error
    raise ValueError(f"expected a tag that this version of loaderkit knows, got {tag!r}")
