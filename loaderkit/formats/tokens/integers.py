"""Integers in one dimension, whatever they are given as: an array, a local file, an object of a server."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from loaderkit._base.system.limits import above_standard
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit._storage.open_ranges import FileAccess, check_storage_options
from loaderkit._storage.patterns import file_parts
from loaderkit.formats.npy import HEAD_BYTES, place_of_integers

if TYPE_CHECKING:
    from .file import TokenFile

Integers: TypeAlias = "NDArray[Any] | TokenFile"


def open_integers(
    name: str, given: Any, access: FileAccess, dtype: DTypeLike | None = None, *, has_head: bool | None = None
) -> Integers:
    """The integers (n,): an array as it is, that of a local file mapped, an object to be read by ranges.

    Args:
        name: of the argument, for errors.
        given: an array, or the name of a file or object. TypeError where it hasn't integers of this machine's byte
            order in one dimension.
        access: of the file or object.
        dtype: of the numbers in a file without a head.
        has_head: whether the file is a .npy file; None where its name says it.
    """
    if not isinstance(given, str | os.PathLike):
        array: NDArray[Any] = np.asanyarray(given)
        if array.ndim == 1 and not array.size and not isinstance(given, np.ndarray):
            array = array.astype(np.int64)  # numpy takes an empty list for floats
        return _checked(name, array)
    check_storage_options(access.storage_options)
    path = one_file(name, given, access.storage_options)
    bare = None if has_head else _bare_dtype(name, path, dtype)
    if access.mmap and not is_remote(path):
        return _mapped(name, path, bare)
    from .file import TokenFile

    file = TokenFile(path, bare, access)
    _check_kind(name, file.dtype, file.shape)
    return file


def in_memory(integers: Integers) -> NDArray[Any]:
    """The integers (n,) as an array, those of a server read."""
    if isinstance(integers, np.ndarray):
        return integers
    read = np.empty(len(integers), integers.dtype)
    integers.whole(read)
    return read


def one_file(name: str, given: Any, storage_options: Mapping[str, Any] | None = None) -> str:
    """The absolute path, or the whole name of the object, that a name means.

    Args:
        name: of the argument, for errors.
        given: the name; ValueError where it is of several files, or a part of one.
        storage_options: of the storage.
    """
    parts = file_parts(given, storage_options=storage_options)
    if len(parts) != 1 or parts[0].start or parts[0].stop is not None:
        raise ValueError(
            f"{name}: expected the name of one file, got {redacted(os.fsdecode(given))!r}, which means {len(parts)} "
            "files or a part of one; make a source of each file and join them with lk.ConcatDataSource"
        )
    return parts[0].path


def _bare_dtype(name: str, path: str, dtype: DTypeLike | None) -> np.dtype[Any] | None:
    """The dtype of a file of bare numbers; None for a .npy file."""
    if redacted(path).endswith(".npy"):
        return None
    if dtype is None:
        raise ValueError(
            f"{name}: expected the name of a .npy file, got {redacted(path)!r}; for a file of bare numbers give "
            "dtype=, for Megatron's .bin and .idx TokenDataSource.from_megatron(path)"
        )
    bare = np.dtype(dtype)
    _check_kind(name, bare, (0,))
    return bare


def _mapped(name: str, path: str, bare: np.dtype[Any] | None) -> NDArray[Any]:
    with above_standard(), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        begin, shape, dtype = place_of_integers(path, size, file.read(HEAD_BYTES), bare)
        _check_kind(name, dtype, shape)
        return np.memmap(file, dtype, "r", begin, shape) if shape[0] else np.empty(shape, dtype)


def _checked(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name}: expected integers in one dimension, got a masked array")
    _check_kind(name, array.dtype, array.shape)
    return array


def _check_kind(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if len(shape) != 1 or dtype.kind not in "iu":
        raise TypeError(
            f"{name}: expected integers in one dimension, got {dtype} of shape {shape}"
            + ("; give the documents one behind the other, and their offsets" if len(shape) > 1 else "")
        )
    if not dtype.isnative:
        raise TypeError(
            f"{name}: expected the byte order of this machine, got {dtype.str}; convert it once with "
            ".astype(array.dtype.newbyteorder('='))"
        )
