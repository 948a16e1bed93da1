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

from .arrow_values import Description, NullValueError, column_of, column_spec

RowReader = Callable[[list[int]], list[Any]]  # rows -> their values


def row_reader(array: Any, description: Description | None = None) -> RowReader | None:
    """A function that gives the values that `rows_of` gives, of some rows; None for types that it doesn't know.

    Args:
        array: a pyarrow Array, of which nothing is copied but bits. What is read doesn't refer to it.
        description: as in `rows_of`.

    >>> import pyarrow as pa
    >>> row_reader(pa.array(["a", None, "c"]))([2, 1])
    ['c', None]
    """
    reader = _reader(array, description)
    return reader if reader is None or not array.null_count else _with_nulls(array, reader)


def _reader(array: Any, description: Description | None) -> RowReader | None:
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
    if types.is_string_view(kind) or types.is_binary_view(kind):  # pyarrow has no `take` for them
        return lambda rows: [array[row].as_py() for row in rows]
    if types.is_string(kind) or types.is_large_string(kind):
        return _bytes_reader(array, lambda data: str(data, "utf-8"))
    if types.is_binary(kind) or types.is_large_binary(kind):
        of_any = description is not None and description["kind"] == "any"
        return _bytes_reader(array, (lambda data: decode_record(bytes(data))["value"]) if of_any else bytes)
    return _number_reader(array, description)


def _with_nulls(array: Any, reader: RowReader) -> RowReader:
    valid = memoryview(array.is_valid().to_numpy(zero_copy_only=False))

    def read(rows: list[int]) -> list[Any]:
        values = iter(reader([row for row in rows if valid[row]]))
        return [next(values) if valid[row] else None for row in rows]

    return read


def _numbers(array: Any) -> NDArray[Any] | None:
    """The rows of an array of numbers as one array (n, ...), with any value where there is a null; None if unknown."""
    import pyarrow as pa

    if column_spec(array.type) is None:
        return None
    if array.null_count and pa.types.is_primitive(array.type):
        array = pa.Array.from_buffers(
            array.type, len(array), [None, *array.buffers()[1:]], offset=array.offset
        )
    try:
        return column_of(array)
    except NullValueError:
        return None


def _number_reader(array: Any, description: Description | None) -> RowReader | None:
    values = _numbers(array)
    if values is None:
        return None
    if values.ndim > 1:
        return lambda rows: [values[row].copy() for row in rows]
    if description is None or description["kind"] not in ("bool", "int", "float"):
        return lambda rows: [values[row] for row in rows]
    python_values = values.data
    return lambda rows: [python_values[row] for row in rows]


def _dictionary_reader(array: Any, description: Description | None) -> RowReader | None:
    places, value_of = _numbers(array.indices), row_reader(array.dictionary, description)
    if places is None or value_of is None:
        return None
    numbers = places.data
    return lambda rows: value_of([numbers[row] for row in rows])


def _runs_reader(array: Any, description: Description | None) -> RowReader | None:
    # The ends are those of the array that this one may be a slice of; pyarrow has no `take` for runs.
    ends, first = array.run_ends.to_numpy(), array.offset
    value_of = row_reader(array.values, description)
    if value_of is None:
        return None
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
) -> RowReader | None:
    """Of lists whose items are those from their begin to their end in `array.values`."""
    kind = None if description is None else description["kind"]
    if kind in ("list", "tuple"):
        assert description is not None
        make = tuple if kind == "tuple" else list
        return _items_reader(array.values, begins, ends, description["item"], make)
    if column_spec(array.values.type) is None:
        return _items_reader(array.values, begins, ends, None, list)
    values = _numbers(array.values)
    if values is None:
        return None
    if array.values.null_count:
        return _lists_with_nulls(array.values, values, begins, ends)
    return lambda rows: [values[begins[row] : ends[row]].copy() for row in rows]


def _items_reader(
    items: Any,
    begins: memoryview,
    ends: memoryview,
    description: Description | None,
    make: Callable[[list[Any]], Any],
) -> RowReader | None:
    items_of = row_reader(items, description)
    if items_of is None:
        return None
    return lambda rows: [make(items_of([*range(begins[row], ends[row])])) for row in rows]


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


def _struct_reader(array: Any, description: Description | None) -> RowReader | None:
    kind = None if description is None else description["kind"]
    children = array.flatten()
    if kind == "array":
        assert description is not None
        shapes, data = row_reader(children[0]), row_reader(children[1])
        dtype = dtype_of(description["dtype"])
        if shapes is None or data is None:
            return None
        return lambda rows: [
            array_of(each, dtype, shape.tolist()) for shape, each in zip(shapes(rows), data(rows))
        ]
    fields = description["fields"].values() if description is not None else [None] * len(children)
    readers = [row_reader(child, each) for child, each in zip(children, fields)]
    known = [reader for reader in readers if reader is not None]
    if not readers or len(known) < len(readers):
        return None
    names = [field.name for field in array.type]
    return lambda rows: [dict(zip(names, values)) for values in zip(*(reader(rows) for reader in known))]
