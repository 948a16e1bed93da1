"""Single rows of Arrow arrays without a copy of the array: what is made once of each chunk that is read at random.

pyarrow's own `take` costs some 40 us a column, which is more than the values of a few rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrow_values import Description, NullValueError, column_of, column_spec
from .example_encoding import array_of, dtype_of

RowReader = Callable[[NDArray[np.int64]], list[Any]]  # rows (n,) -> n values


def row_reader(array: Any, description: Description | None = None) -> RowReader | None:
    """A function that gives the values that `rows_of` gives, of some rows; None for types that it doesn't know.

    Args:
        array: a pyarrow Array, of which nothing is copied but bits. What is read doesn't refer to it.
        description: as in `rows_of`.

    >>> import pyarrow as pa
    >>> row_reader(pa.array(["a", None, "c"]))(np.array([2, 1]))
    ['c', None]
    """
    import pyarrow as pa

    kind = None if description is None else description["kind"]
    # Extension types and dictionaries have another storage, and `column_of` knows it.
    if kind in ("any", "list", "tuple") or isinstance(array.type, pa.BaseExtensionType):
        return None
    if kind in ("bool", "int", "float"):
        numbers = _reader(array, None)
        return None if numbers is None else lambda rows: [_as_python(each) for each in numbers(rows)]
    return _reader(array, description)


def _reader(array: Any, description: Description | None) -> RowReader | None:
    import pyarrow as pa

    types = pa.types
    if types.is_struct(array.type):
        return _with_nulls(array, _struct_reader(array, description))
    if types.is_list(array.type) or types.is_large_list(array.type):
        return _with_nulls(array, _list_reader(array))
    if types.is_string(array.type) or types.is_large_string(array.type):
        return _with_nulls(array, _bytes_reader(array, lambda data: str(data, "utf-8")))
    if types.is_binary(array.type) or types.is_large_binary(array.type):
        return _with_nulls(array, _bytes_reader(array, bytes))
    if types.is_dictionary(array.type) or column_spec(array.type) is None or array.null_count:
        return None
    try:
        values = column_of(array)
    except NullValueError:
        return None
    return lambda rows: list(values[rows])


def _as_python(value: Any) -> Any:
    return None if value is None else value.item()


def _with_nulls(array: Any, reader: RowReader | None) -> RowReader | None:
    if not array.null_count or reader is None:
        return reader
    valid = array.is_valid().to_numpy(zero_copy_only=False)

    def read(rows: NDArray[np.int64]) -> list[Any]:
        return [value if is_valid else None for value, is_valid in zip(reader(rows), valid[rows].tolist())]

    return read


def _offsets(array: Any, dtype: Any) -> NDArray[Any]:
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:  # of an array without rows
        return np.zeros(len(array) + 1, dtype)
    return np.frombuffer(buffer, dtype, len(array) + 1, array.offset * np.dtype(dtype).itemsize)


def _bytes_reader(array: Any, make: Callable[[memoryview], Any]) -> RowReader:
    offsets = _offsets(array, np.int64 if str(array.type).startswith("large") else np.int32)
    data = memoryview(array.buffers()[2] or b"")

    def read(rows: NDArray[np.int64]) -> list[Any]:
        return [
            make(data[begin:end]) for begin, end in zip(offsets[rows].tolist(), offsets[rows + 1].tolist())
        ]

    return read


def _list_reader(array: Any) -> RowReader | None:
    items = array.values
    if column_spec(items.type) is None or items.null_count:
        return None
    try:
        values = column_of(items)
    except NullValueError:
        return None
    offsets = array.offsets.to_numpy()

    def read(rows: NDArray[np.int64]) -> list[Any]:
        places = zip(offsets[rows].tolist(), offsets[rows + 1].tolist())
        return [values[begin:end].copy() for begin, end in places]

    return read


def _struct_reader(array: Any, description: Description | None) -> RowReader | None:
    kind = None if description is None else description["kind"]
    children = array.flatten()
    if kind == "array":
        assert description is not None
        shapes, data = _reader(children[0], None), _reader(children[1], None)
        dtype = dtype_of(description["dtype"])
        if shapes is None or data is None:
            return None

        def read_arrays(rows: NDArray[np.int64]) -> list[Any]:
            return [
                None if each is None else array_of(each, dtype, shape.tolist())
                for shape, each in zip(shapes(rows), data(rows))
            ]

        return read_arrays
    fields = description["fields"].values() if description is not None else [None] * len(children)
    readers = [row_reader(child, each) for child, each in zip(children, fields)]
    known = [reader for reader in readers if reader is not None]
    if not readers or len(known) < len(readers):
        return None
    names = [field.name for field in array.type]

    def read(rows: NDArray[np.int64]) -> list[Any]:
        return [dict(zip(names, values)) for values in zip(*(reader(rows) for reader in known))]

    return read
