"""Single rows of Arrow arrays without a copy of the array: what is made once of each chunk that is read at random.

pyarrow's own `take` costs some 40 us a column, which is more than the values of a few rows. A shuffled call takes a few
rows of each of many chunks, so a reader does nothing for a call and little for a row: offsets and valid bits are read
one by one by memoryviews, whose elements are Python numbers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._codecs.example_encoding import array_of, dtype_of
from loaderkit._codecs.record_codec import decode_record

from .arrow_values import Description, NullValueError, column_of, column_spec, stored

RowReader = Callable[[list[int]], list[Any]]  # rows -> their values


def rows_of(array: Any, description: Description | None = None) -> list[Any]:
    """The values of an array, one for each row.

    Args:
        array: a pyarrow Array.
        description: of the values, where loaderkit wrote them.

    >>> import pyarrow as pa
    >>> rows_of(pa.array([[1, 2], None, []], pa.list_(pa.int16())))
    [array([1, 2], dtype=int16), None, array([], dtype=int16)]
    """
    return row_reader(array, description)([*range(len(array))])


def row_reader(array: Any, description: Description | None = None) -> RowReader:
    """A function that gives the values of some rows.

    Args:
        array: a pyarrow Array, of which nothing is copied but bits. What is read doesn't refer to it.
        description: as in `rows_of`.

    >>> import pyarrow as pa
    >>> row_reader(pa.array(["a", None, "c"]))([2, 1])
    ['c', None]
    """
    reader = _reader(array, description)
    return _with_nulls(array, reader) if array.null_count else reader


def _reader(array: Any, description: Description | None) -> RowReader:
    import pyarrow as pa

    kind, types = array.type, pa.types
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.FixedShapeTensorType):
        return _reader(array.storage, description)
    if types.is_dictionary(kind):
        return _dictionary_reader(array, description)
    if types.is_run_end_encoded(kind):
        return _runs_reader(array, description)
    if types.is_struct(kind):
        return _struct_reader(array, description)
    if types.is_list(kind) or types.is_large_list(kind):
        offsets = memoryview(array.offsets.to_numpy())
        return _list_reader(array, offsets[:-1], offsets[1:], description)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        begins = array.offsets.to_numpy()
        return _list_reader(array, begins.data, (begins + array.sizes.to_numpy()).data, description)
    if types.is_string(kind) or types.is_large_string(kind):
        return _bytes_reader(array, lambda data: str(data, "utf-8"))
    if types.is_binary(kind) or types.is_large_binary(kind):
        of_any = description is not None and description["kind"] == "any"
        return _bytes_reader(array, (lambda data: decode_record(bytes(data))["value"]) if of_any else bytes)
    if column_spec(kind) is not None:
        return _number_reader(array, description)
    if types.is_fixed_size_list(kind):
        places = (np.arange(len(array) + 1) + array.offset) * kind.list_size
        return _list_reader(array, places[:-1].data, places[1:].data, description)
    return lambda rows: [array[row].as_py() for row in rows]


def _with_nulls(array: Any, reader: RowReader) -> RowReader:
    valid = memoryview(array.is_valid().to_numpy(zero_copy_only=False))

    def read(rows: list[int]) -> list[Any]:
        values = iter(reader([row for row in rows if valid[row]]))
        return [next(values) if valid[row] else None for row in rows]

    return read


def _numbers(array: Any) -> NDArray[Any]:
    """The rows of an array of numbers as one array (n, ...), with any value where a number is null.

    NullValueError where a fixed-size list is null, or has a null in it.
    """
    import pyarrow as pa

    if array.null_count and pa.types.is_primitive(array.type):
        array = pa.Array.from_buffers(
            array.type, len(array), [None, *array.buffers()[1:]], offset=array.offset
        )
    return column_of(array)


def _number_reader(array: Any, description: Description | None) -> RowReader:
    try:
        values = _numbers(array)
    except NullValueError:
        if not array.null_count:
            return lambda rows: [_row_with_nulls(array.slice(row, 1)) for row in rows]
        places = array.is_valid().to_numpy(zero_copy_only=False).cumsum() - 1
        valid = _number_reader(array.drop_null(), description)
        return lambda rows: valid([places[row] for row in rows])
    if values.ndim > 1:
        return lambda rows: [values[row].copy() for row in rows]
    if description is None or description["kind"] not in ("bool", "int", "float"):
        return lambda rows: [values[row] for row in rows]
    python_values = values.data
    return lambda rows: [python_values[row] for row in rows]


def _row_with_nulls(row: Any) -> Any:
    """The value of an array of one row, a fixed-size list: an array, or a list where it has a null in it."""
    try:
        return column_of(row)[0].copy()
    except NullValueError:
        return rows_of(stored(row).flatten())


def _items_with_nulls(items: Any) -> Any:
    try:
        return column_of(items).copy()
    except NullValueError:
        return rows_of(items)


def _dictionary_reader(array: Any, description: Description | None) -> RowReader:
    numbers, value_of = _numbers(array.indices).data, row_reader(array.dictionary, description)
    return lambda rows: value_of([numbers[row] for row in rows])


def _runs_reader(array: Any, description: Description | None) -> RowReader:
    # The ends are those of the array that this one may be a slice of; pyarrow has no `take` for runs.
    ends, first = array.run_ends.to_numpy(), array.offset
    value_of = row_reader(array.values, description)
    return lambda rows: value_of(ends.searchsorted([first + row for row in rows], "right").tolist())


def _offsets(array: Any, dtype: Any) -> memoryview:
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:  # of an array without rows
        return np.zeros(len(array) + 1, dtype).data
    return np.frombuffer(buffer, dtype, len(array) + 1, array.offset * np.dtype(dtype).itemsize).data


def _bytes_reader(array: Any, make: Callable[[memoryview], Any]) -> RowReader:
    offsets = _offsets(array, np.int64 if str(array.type).startswith("large") else np.int32)
    data = memoryview(array.buffers()[2] or b"")
    return lambda rows: [make(data[offsets[row] : offsets[row + 1]]) for row in rows]


def _list_reader(
    array: Any, begins: memoryview, ends: memoryview, description: Description | None
) -> RowReader:
    """Of lists whose items are those from their begin to their end in `array.values`."""
    kind, items = None if description is None else description["kind"], array.values
    if kind in ("list", "tuple") or column_spec(items.type) is None:
        make = tuple if kind == "tuple" else list
        items_of = row_reader(items, None if description is None else description.get("item"))
        return lambda rows: [make(items_of([*range(begins[row], ends[row])])) for row in rows]
    try:
        values = _numbers(items)
    except NullValueError:
        return lambda rows: [
            _items_with_nulls(items.slice(begins[row], ends[row] - begins[row])) for row in rows
        ]
    if items.null_count:
        return _lists_with_nulls(items, values, begins, ends)
    return lambda rows: [values[begins[row] : ends[row]].copy() for row in rows]


def _lists_with_nulls(items: Any, values: NDArray[Any], begins: memoryview, ends: memoryview) -> RowReader:
    valid = items.is_valid().to_numpy(zero_copy_only=False)

    def read(rows: list[int]) -> list[Any]:
        read: list[Any] = []
        for row in rows:
            place = slice(begins[row], ends[row])
            numbers, known = values[place].copy(), valid[place]
            read.append(
                numbers
                if known.all()
                else [each if is_valid else None for each, is_valid in zip(numbers, known)]
            )
        return read

    return read


def _struct_reader(array: Any, description: Description | None) -> RowReader:
    children = array.flatten()
    if description is not None and description["kind"] == "array":
        shapes, data = row_reader(children[0]), row_reader(children[1])
        dtype = dtype_of(description["dtype"])
        return lambda rows: [
            array_of(each, dtype, shape.tolist()) for shape, each in zip(shapes(rows), data(rows))
        ]
    if not children:
        return lambda rows: [{} for _ in rows]
    fields = description["fields"].values() if description is not None else [None] * len(children)
    readers = [row_reader(child, each) for child, each in zip(children, fields)]
    names = [field.name for field in array.type]
    return lambda rows: [dict(zip(names, values)) for values in zip(*(reader(rows) for reader in readers))]
