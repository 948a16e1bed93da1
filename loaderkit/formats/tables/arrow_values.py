"""Whole columns of Arrow arrays as numpy arrays, and what the values of each type are.

A value is what its type says, the same for every table (`arrow_row_readers` reads rows):

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._codecs.example_encoding import dtype_of

Description = Mapping[str, Any]  # JSON: "kind", and what the kind needs
ColumnSpec = tuple[np.dtype[Any], tuple[int, ...]]


class NullValueError(Exception):
    """A column with a null, of which no array can be made. row: the first of its array."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def column_spec(kind: Any, description: Description | None = None) -> ColumnSpec | None:
    """dtype and shape of a row, where all rows of this type have the same; None where they may differ.

    Args:
        kind: a pyarrow DataType.
        description: of the values, where loaderkit wrote them.

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

    values = stored(array)
    size = 1
    while not values.null_count and pa.types.is_fixed_size_list(values.type):
        size *= values.type.list_size
        values = stored(values.flatten())
    _require_values(values, size)
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


def stored(array: Any) -> Any:
    """The pyarrow Array without extension types, dictionaries and runs."""
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


class UnequalShapesError(Exception):
    """Arrays of one column that differ in shape."""


def holds_arrays(description: Description | None) -> bool:
    """Whether loaderkit described the values of a column as numpy arrays.

    >>> holds_arrays({"kind": "array", "dtype": "|u1"}), holds_arrays({"kind": "str"})
    (True, False)
    """
    return description is not None and description["kind"] in ("array", "vector")


def stacked_arrays(array: Any, description: Description) -> NDArray[Any]:
    """The rows as one array (n, ...), little-endian; a view of the bytes of the Arrow array.

    Args:
        array: a pyarrow Array of one row or more. NullValueError where it has a null, UnequalShapesError.
        description: one that `holds_arrays`.

    >>> import pyarrow as pa
    >>> stacked_arrays(pa.array([[1, 2], [3, 4]], pa.list_(pa.int16())), {"kind": "vector", "dtype": "<i2"})
    array([[1, 2],
           [3, 4]], dtype=int16)
    """
    _require_values(array)
    if description["kind"] == "vector":
        return column_of(_equal_items(array)).reshape(len(array), -1)
    shapes, data = array.flatten()
    axes = column_of(_equal_items(shapes)).reshape(len(array), -1)
    _require_same(axes)
    shape = axes[0].tolist()
    dtype = dtype_of(description["dtype"])
    nbytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    offsets = _offsets(data)
    if (np.diff(offsets) != nbytes).any():
        raise ValueError(
            f"expected {nbytes} bytes for each array of shape {tuple(shape)} of {dtype}, got others"
        )
    if not nbytes:
        return np.zeros((len(array), *shape), dtype)
    buffer, begin = data.buffers()[2], int(offsets[0])
    flat = np.frombuffer(buffer, dtype.newbyteorder("<"), nbytes * len(array) // dtype.itemsize, begin)
    return flat.reshape(len(array), *shape)


def _equal_items(lists: Any) -> Any:
    """The items of lists that all have as many."""
    offsets = lists.offsets.to_numpy()
    _require_same(np.diff(offsets))
    return lists.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _offsets(data: Any) -> NDArray[np.int32]:
    return np.frombuffer(data.buffers()[1], np.int32, len(data) + 1, 4 * data.offset)


def _require_values(array: Any, size: int = 1) -> None:
    """NullValueError where one is null; size: of a row."""
    if array.null_count:
        raise NullValueError(int(np.argmin(array.is_valid().to_numpy(zero_copy_only=False))) // size)


def _require_same(rows: NDArray[Any]) -> None:
    if (rows != rows[0]).any():
        raise UnequalShapesError


def array_of(column: Any, description: Description | None) -> NDArray[Any]:
    """A column as an array (rows, ...).

    Args:
        column: a pyarrow Array of one row or more. NullValueError where it has a null, UnequalShapesError where arrays
            that loaderkit wrote differ in shape.
        description: as in `column_spec`.
    """
    if description is not None and holds_arrays(description):
        return stacked_arrays(column, description)
    return column_of(column)
