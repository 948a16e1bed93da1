"""One variable of a data set of xarray, h5py or zarr: rows along a dimension."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.extras import missing_library
from loaderkit._base.system.dataclasses import dataclass
from loaderkit.errors import DataFormatError


@dataclass(frozen=True, slots=True)
class StoredVariable:
    """How the rows of a variable are read.

    read: takes the first row and the one behind the last, gives an array (rows, ...). dtype, length, row: of the
    variable; row is the shape of one row. chunk: rows that are stored together; None where that isn't known.
    """

    read: Callable[[int, int], NDArray[Any]]
    dtype: np.dtype[Any]
    length: int
    row: tuple[int, ...]
    chunk: int | None

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.dtype.itemsize * int(np.prod(self.row, dtype=np.int64))


def open_path(path: str) -> Any:
    """The data set at a path, read-only; ImportError that names the extra, DataFormatError for another kind of file.

    Args:
        path: of a .nc, .h5, .hdf5 or .zarr data set.
    """
    ending = os.path.splitext(path.rstrip("/"))[1].lower()
    openers = {".nc": _netcdf, ".nc4": _netcdf, ".cdf": _netcdf, ".h5": _hdf5, ".hdf5": _hdf5, ".zarr": _zarr}
    if ending not in openers:
        raise ValueError(
            f"open: expected a path that ends in {', '.join(openers)}, got {path!r}; for another data set give a "
            "function that opens it"
        )
    try:
        return openers[ending](path)
    except ImportError as error:
        raise missing_library(f"{ending} files need", f"{error.name}", "arrays") from error
    except Exception as error:  # KeyError, TypeError and others, where metadata is damaged
        raise DataFormatError(
            f"{path}: expected a data set as its name says ({ending}), got a file that can't be opened: {error}"
        ) from error


def _netcdf(path: str) -> Any:
    import xarray

    return xarray.open_dataset(path, engine="h5netcdf", cache=False)


def _hdf5(path: str) -> Any:
    import h5py

    return h5py.File(path, "r")


def _zarr(path: str) -> Any:
    import zarr

    return zarr.open_group(path, mode="r")


def variables_of(data: Any, dim: str | int, names: list[str] | None) -> dict[str, StoredVariable]:
    """The variables of a data set that have a dimension.

    Args:
        data: an xarray.Dataset, or a mapping (or a group) of name -> array with `shape`, `dtype` and slices.
        dim: the dimension's name, or its place.
        names: those that are wanted; None for all that have it.
    """
    members: Any = getattr(data, "variables", data)  # of xarray; a group is its own mapping
    if not isinstance(members, Mapping) and not (
        hasattr(members, "keys") and hasattr(members, "__getitem__")
    ):
        raise TypeError(
            f"open: expected a data set of arrays (xarray.Dataset, h5py.File, zarr.Group, dict), got a "
            f"{type(data).__name__}"
        )
    with _library("its names"):
        there = [str(name) for name in members.keys()]  # noqa: SIM118 - a group iterates its names by keys() alone
    # A group of HDF5 or Zarr knows the paths below it, such as "group/x".
    if names is not None and (missing := [name for name in names if name not in members]):
        raise ValueError(f"names: expected some of {there}, got {missing}")
    found: dict[str, StoredVariable] = {}
    for name in there if names is None else names:
        with _library(name):
            array = members[name]
        axis = _axis(array, dim) if hasattr(array, "shape") and hasattr(array, "dtype") else None
        if axis is not None:
            found[name] = _variable(array, name, axis)
        elif names is not None:
            raise ValueError(
                f"names: expected variables with the dimension {dim!r}, got {name} with the dimensions "
                f"{list(_dims(array))} and the shape {getattr(array, 'shape', None)}"
            )
    if not found:
        raise ValueError(f"dim: expected a dimension of a variable of {there}, got {dim!r}, which none has")
    return found


@contextlib.contextmanager
def _library(what: str) -> Iterator[None]:
    """Where metadata is damaged a library raises KeyError, TypeError, JSONDecodeError and others: a RuntimeError."""
    try:
        yield
    except Exception as error:
        raise RuntimeError(f"{what}: {error}") from error


def _variable(array: Any, name: str, axis: int) -> StoredVariable:
    dtype = np.dtype(array.dtype)
    if dtype.hasobject:
        raise TypeError(
            f"names: expected variables of numbers or texts of a fixed length, got {name} of {dtype}; leave it out "
            "by names=[...]"
        )
    before: tuple[slice, ...] = (slice(None),) * axis

    def read(begin: int, end: int) -> NDArray[Any]:
        rows: Any = array[(*before, slice(begin, end))]
        return np.moveaxis(np.asarray(getattr(rows, "values", rows)), axis, 0)

    shape = tuple(array.shape)
    return StoredVariable(read, dtype, shape[axis], shape[:axis] + shape[axis + 1 :], _chunk(array, axis))


def _dims(array: Any) -> tuple[Any, ...]:
    """The names of an array's dimensions, where it has any."""
    dims = getattr(array, "dims", None)
    if dims is None:
        metadata = getattr(array, "metadata", None)  # of Zarr
        return tuple(getattr(metadata, "dimension_names", None) or ())
    # xarray has names, h5py objects with a label, and scales with a name.
    return tuple(each if isinstance(each, str) else _label(each) for each in dims)


def _label(dimension: Any) -> str:
    if dimension.label:
        return str(dimension.label)
    scales = list(dimension.keys())
    return str(scales[0]) if scales else ""


def _axis(array: Any, dim: str | int) -> int | None:
    if isinstance(dim, str):
        dims = _dims(array)
        return dims.index(dim) if dim in dims else None
    return dim % len(array.shape) if -len(array.shape) <= dim < len(array.shape) else None


def _chunk(array: Any, axis: int) -> int | None:
    encoding = getattr(array, "encoding", None)
    if isinstance(encoding, dict):
        sizes = encoding.get("chunksizes") or encoding.get("chunks")
    else:
        sizes = getattr(array, "chunks", None)
    size = sizes[axis] if sizes else None
    return int(size) if isinstance(size, int | np.integer) else None
