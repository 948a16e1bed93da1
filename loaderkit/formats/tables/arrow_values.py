"""Values of Arrow arrays: rows as Python and numpy values, and whole columns as numpy arrays.

A value is what its type says, the same for every table:

    numbers, bool             numpy scalars; columns of them numpy arrays
    date, timestamp           numpy.datetime64, of a time zone as UTC; duration: numpy.timedelta64
    string, binary            str, bytes; a dictionary (categorical) column gives its values
    lists of such numbers     numpy arrays; fixed-size lists and fixed-shape tensors arrays of that shape
    other lists, struct, map  list, dict, list of pairs
    decimal, time of day      decimal.Decimal, datetime.time
    null                      None; a list of numbers with a null in it is a Python list

What loaderkit wrote has a description of each column (`arrow_records`), which brings back dtypes, shapes and Python
types.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._codecs.example_encoding import array_of, dtype_of
from loaderkit._codecs.record_codec import decode_record

Description = Mapping[str, Any]  # JSON: "kind", and what the kind needs
ColumnSpec = tuple[np.dtype[Any], tuple[int, ...]]


class NullValueError(Exception):
    """A column with a null, of which no array can be made. row: the first of its array."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def rows_of(array: Any, description: Description | None = None) -> list[Any]:
    """The values of an array, one for each row.

    Args:
        array: a pyarrow Array.
        description: of the values, where loaderkit wrote them.

    >>> import pyarrow as pa
    >>> rows_of(pa.array([[1, 2], None, []], pa.list_(pa.int16())))
    [array([1, 2], dtype=int16), None, array([], dtype=int16)]
    """
    import pyarrow as pa

    if description is not None and description["kind"] not in ("number", "vector"):
        return _with_nulls(array, _described(array, description))
    if column_spec(array.type) is not None:
        valid = array.drop_null() if array.null_count else array
        return _with_nulls(array, _stackable(valid), only_valid=True)
    array = _stored(array)
    types = pa.types
    if types.is_struct(array.type):
        return _with_nulls(array, _dicts(array, [rows_of(child) for child in array.flatten()]))
    if types.is_list(array.type) or types.is_large_list(array.type):
        return _with_nulls(array, _lists(array))
    if types.is_fixed_size_list(array.type):
        size = array.type.list_size
        items = rows_of(array.values.slice(array.offset * size, len(array) * size))
        return _with_nulls(array, [items[at : at + size] for at in range(0, len(items), size)])
    return list(array.to_pylist())


def column_spec(kind: Any, description: Description | None = None) -> ColumnSpec | None:
    """dtype and shape of a row, where all rows of this type have the same; None where they may differ.

    Args:
        kind: a pyarrow DataType.
        description: as in `rows_of`.

    >>> import pyarrow as pa
    >>> column_spec(pa.list_(pa.float32(), 3)), column_spec(pa.string()) is None
    ((dtype('float32'), (3,)), True)
    """
    import pyarrow as pa

    if description is not None and description["kind"] not in ("number", "bool", "int", "float"):
        return None
    if isinstance(kind, pa.FixedShapeTensorType):
        order = kind.permutation or range(len(kind.shape))
        return _dtype(kind.value_type), tuple(kind.shape[axis] for axis in order)
    if isinstance(kind, pa.BaseExtensionType):
        return column_spec(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return column_spec(kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        inner = column_spec(kind.value_type)
        return None if inner is None or not kind.list_size else (inner[0], (kind.list_size, *inner[1]))
    return (_dtype(kind), ()) if _is_number(kind) else None


def column_of(array: Any) -> NDArray[Any]:
    """The rows of an array whose type has a `column_spec`, as one array (n, ...).

    Args:
        array: a pyarrow Array. NullValueError where it has a null.

    >>> import pyarrow as pa
    >>> column_of(pa.array([True, False]))
    array([ True, False])
    """
    import pyarrow as pa

    values = _stored(array)
    size = 1
    while not values.null_count and pa.types.is_fixed_size_list(values.type):
        size *= values.type.list_size
        values = _stored(values.flatten())
    if values.null_count:
        raise NullValueError(int(np.argmin(values.is_valid().to_numpy(zero_copy_only=False))) // size)
    numbers = _numbers(values)
    if not isinstance(array.type, pa.FixedShapeTensorType):
        _, shape = column_spec(array.type) or (None, ())
        return numbers.reshape(len(array), *shape)
    tensors = numbers.reshape(len(array), *array.type.shape)
    order = array.type.permutation
    return tensors.transpose(0, *(axis + 1 for axis in order)) if order else tensors


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_timestamp(kind)
        or types.is_date(kind)
        or types.is_duration(kind)
    )


def _dtype(kind: Any) -> np.dtype[Any]:
    import pyarrow as pa

    return _numbers(pa.array([], kind)).dtype


def _numbers(array: Any) -> NDArray[Any]:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _stored(array: Any) -> Any:
    """Without extension types, dictionaries and runs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    while True:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def _with_nulls(array: Any, rows: list[Any], *, only_valid: bool = False) -> list[Any]:
    if not array.null_count:
        return rows
    valid = array.is_valid().to_pylist()
    if only_valid:
        given = iter(rows)
        return [next(given) if is_valid else None for is_valid in valid]
    return [row if is_valid else None for row, is_valid in zip(rows, valid)]


def _stackable(array: Any) -> list[Any]:
    try:
        return list(column_of(array))
    except NullValueError:
        return [_list_with_nulls(array.slice(row, 1)) for row in range(len(array))]


def _list_with_nulls(row: Any) -> Any:
    try:
        return column_of(row)[0]
    except NullValueError:
        return rows_of(_stored(row).flatten())


def _dicts(array: Any, columns: list[list[Any]]) -> list[dict[str, Any]]:
    names = [field.name for field in array.type]
    if not names:
        return [{} for _ in range(len(array))]
    return [dict(zip(names, values)) for values in zip(*columns)]


def _items(array: Any) -> tuple[Any, list[tuple[int, int]]]:
    """The items of all lists as one array, and where each list begins and ends there."""
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return array.values.slice(first, last - first), list(pairwise((offsets - first).tolist()))


def _lists(array: Any) -> list[Any]:
    items, places = _items(array)
    if column_spec(items.type) is None:
        rows = rows_of(items)
        return [rows[begin:end] for begin, end in places]
    try:
        column = column_of(items)
    except NullValueError:
        parts = [items.slice(begin, end - begin) for begin, end in places]
        return [_numbers_or_nulls(part) for part in parts]
    return [column[begin:end] for begin, end in places]


def _numbers_or_nulls(items: Any) -> Any:
    try:
        return column_of(items)
    except NullValueError:
        return rows_of(items)


def _described(array: Any, description: Description) -> list[Any]:
    kind = description["kind"]
    if kind == "dict":
        children = zip(array.flatten(), description["fields"].values(), strict=True)
        return _dicts(array, [rows_of(child, each) for child, each in children])
    if kind in ("list", "tuple"):
        items, places = _items(array)
        rows = rows_of(items, description["item"])
        parts = [rows[begin:end] for begin, end in places]
        return parts if kind == "list" else list(map(tuple, parts))
    if kind == "array":
        dtype = dtype_of(description["dtype"])
        shapes, data = array.flatten()
        return [
            None if each is None else array_of(each, dtype, shape.tolist())
            for shape, each in zip(_lists(shapes), data.to_pylist())
        ]
    values = array.to_pylist()
    if kind == "any":
        return [None if each is None else decode_record(each)["value"] for each in values]
    return list(values)
