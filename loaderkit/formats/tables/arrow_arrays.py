"""Arrays that loaderkit wrote as rows of Arrow tables, as one array where all have one shape."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._codecs.example_encoding import dtype_of

from .arrow_values import Description, NullValueError, column_of


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


def _require_values(array: Any) -> None:
    if array.null_count:
        raise NullValueError(int(np.argmin(array.is_valid().to_numpy(zero_copy_only=False))))


def _require_same(rows: NDArray[Any]) -> None:
    if (rows != rows[0]).any():
        raise UnequalShapesError
