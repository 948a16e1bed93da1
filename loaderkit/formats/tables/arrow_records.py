"""Records as columns of Arrow tables: which column types hold a record, and how its types come back.

A description (JSON) says what a value was; `arrow_values` reads it:

    bool int float str bytes    the Arrow type of that name
    number                      a numpy scalar: the Arrow type of its dtype
    vector                      an array of one dimension whose dtype Arrow has: a list
    array dtype                 another array: a struct of its shape and its little-endian bytes
    list, tuple  item           values with one description: a list
    dict  fields                a struct
    any                         what has no such type (None, an empty or mixed list, a large integer): bytes of
                                `encode_record`
"""

from typing import Any

import numpy as np

from loaderkit._codecs.example_encoding import NotAnExampleError, array_bytes, dtype_text
from loaderkit._codecs.record_codec import encode_record

from .arrow_values import Description

_PYTHON = {bool: "bool", int: "int", float: "float", str: "str", bytes: "bytes"}
_ANY: Description = {"kind": "any"}
_INT64 = range(-(1 << 63), 1 << 63)


class UnfitError(ValueError):
    """A value of another type than its column has: its path, and both types."""


def describe(value: Any) -> Description:
    """The description of a value, for the column that holds it and others like it.

    >>> describe({"label": 3, "sizes": (1, 2)})
    {'kind': 'dict', 'fields': {'label': {'kind': 'int'}, 'sizes': {'kind': 'tuple', 'item': {'kind': 'int'}}}}
    """
    cls = type(value)
    if cls in _PYTHON:
        return {"kind": _PYTHON[cls]} if cls is not int or value in _INT64 else _ANY
    if isinstance(value, np.generic):
        return {"kind": "number", "dtype": value.dtype.str} if _is_arrow_number(value.dtype) else _ANY
    if cls is np.ndarray:
        return _describe_array(value)
    if cls is dict and value and all(type(name) is str for name in value):
        return {"kind": "dict", "fields": {name: describe(each) for name, each in value.items()}}
    if cls in (list, tuple) and value:
        items = [describe(each) for each in value]
        # The order of a dict's names is part of its description, which == of dicts doesn't compare.
        if items[0] != _ANY and all(_same(items[0], each) for each in items[1:]):
            return {"kind": cls.__name__, "item": items[0]}
    return _ANY


def arrow_type(description: Description) -> Any:
    """The pyarrow type of a column with this description."""
    import pyarrow as pa

    kind = description["kind"]
    if kind in ("number", "vector"):
        number = pa.from_numpy_dtype(np.dtype(description["dtype"]))
        return number if kind == "number" else pa.list_(number)
    if kind == "array":
        return pa.struct([("shape", pa.list_(pa.int64())), ("data", pa.binary())])
    if kind in ("list", "tuple"):
        return pa.list_(arrow_type(description["item"]))
    if kind == "dict":
        return pa.struct([(name, arrow_type(each)) for name, each in description["fields"].items()])
    types = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "str": pa.string()}
    return types.get(kind, pa.binary())


def as_stored(value: Any, description: Description, path: str = "") -> Any:
    """The value as `pyarrow.array` takes it for `arrow_type(description)`; None stays None, a null.

    Args:
        value: UnfitError where it doesn't have this description, TypeError where no format holds it.
        description: of the column.
        path: where in the record it is, for errors.
    """
    kind = description["kind"]
    if value is None:
        return None
    if kind == "any":
        return _encoded(value, path)
    if kind == "dict":
        fields = description["fields"]
        if type(value) is not dict or [*value] != [*fields]:
            got = f"a dict of {[*value]}" if isinstance(value, dict) else f"a {type(value).__name__}"
            raise UnfitError(
                f"record{path}: expected a dict of {[*fields]}, as the first record has, got {got}"
            )
        return {name: as_stored(value[name], each, f"{path}[{name!r}]") for name, each in fields.items()}
    if kind in ("list", "tuple"):
        if type(value).__name__ != kind:
            raise _unfit(value, description, path)
        item = description["item"]
        return [as_stored(each, item, f"{path}[{place}]") for place, each in enumerate(value)]
    if kind in ("number", "vector", "array"):
        scalar = kind == "number"
        if (not isinstance(value, np.generic) if scalar else type(value) is not np.ndarray) or (
            dtype_text(value.dtype) != description["dtype"] or (kind == "vector" and value.ndim != 1)
        ):
            raise _unfit(value, description, path)
        return value if kind != "array" else {"shape": list(value.shape), "data": array_bytes(value)}
    if _PYTHON.get(type(value)) != kind or (kind == "int" and value not in _INT64):
        raise _unfit(value, description, path)
    if kind == "str" and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise UnfitError(
                f"record{path}: expected text of whole characters, got a lone surrogate at {error.start}; "
                "write bytes, or text.encode(errors='replace').decode()"
            ) from None
    return value


def _encoded(value: Any, path: str) -> bytes:
    try:
        return encode_record({"value": value})
    except TypeError as error:
        raise TypeError(str(error).replace("record['value']", f"record{path}")) from None


def _describe_array(array: Any) -> Description:
    try:
        dtype = dtype_text(array.dtype)
    except NotAnExampleError:
        return _ANY
    # A list of 8-bit numbers would take four bytes a value to decode in Parquet.
    if array.ndim == 1 and array.itemsize > 1 and _is_arrow_number(array.dtype):
        return {"kind": "vector", "dtype": dtype}
    return {"kind": "array", "dtype": dtype}


def _is_arrow_number(dtype: np.dtype[Any]) -> bool:
    return dtype.isnative and dtype.kind in "biuf" and dtype.itemsize <= 8


def _same(a: Description, b: Description) -> bool:
    return repr(a) == repr(b)


def _unfit(value: Any, description: Description, path: str) -> UnfitError:
    got = type(value).__name__
    if isinstance(value, np.ndarray | np.generic):
        got = f"{got} of {value.dtype} and shape {value.shape}"
    wanted = " ".join(str(each) for each in description.values() if isinstance(each, str))
    return UnfitError(
        f"record{path}: expected {wanted}, as the first record has, got {got}; convert it by a Map"
    )
