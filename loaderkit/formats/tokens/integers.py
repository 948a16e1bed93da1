"""Integers in one dimension, whatever they are given as: an array, local files, objects of a server."""

import glob
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from loaderkit._base.system.limits import above_standard
from loaderkit._storage.addresses import redacted
from loaderkit._storage.open_ranges import FileAccess, all_remote, check_storage_options
from loaderkit._storage.patterns import file_parts
from loaderkit.errors import DataFormatError
from loaderkit.formats.npy import HEAD_BYTES, place_of_integers
from loaderkit.sources.shared_arrays import mapped_numbers

if TYPE_CHECKING:
    from .file import TokenFiles

ADVICE = "write it again with lk.write, or get a new copy"
Numbers: TypeAlias = "list[NDArray[Any]] | TokenFiles"  # of each file


def open_integers(
    name: str, given: Any, access: FileAccess, dtype: DTypeLike | None = None, *, has_head: bool | None = None
) -> Numbers:
    """The integers of each file: an array as it is, those of local files mapped, objects to be read by ranges.

    Args:
        name: of the argument, for errors.
        given: an array, or names of files or objects. TypeError where one hasn't integers of this machine's byte order
            in one dimension; DataFormatError where one has another dtype than the first.
        access: of the files or objects.
        dtype: of the numbers in files without a head.
        has_head: whether the files are .npy files; None where their names say it.
    """
    if not is_names(given):
        array: NDArray[Any] = np.asanyarray(given)
        if array.ndim == 1 and not array.size and not isinstance(given, np.ndarray):
            array = array.astype(np.int64)  # numpy takes an empty list for floats
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"{name}: expected integers in one dimension, got a masked array")
        _check_kind(name, array.dtype, array.shape)
        return [array]
    check_storage_options(access.storage_options)
    paths = named_files(name, given, access.storage_options)
    bare = None if has_head else _bare_dtype(name, paths[0], dtype)
    if not read_by_ranges(paths, access):
        arrays = [_mapped(name, path, bare) for path in paths]
        check_alike(paths, "tokens of {}", [array.dtype for array in arrays])
        return arrays
    from .file import TokenFiles

    files = TokenFiles(paths, bare, access)
    for dtype_of, shape in zip(files.dtypes, files.shapes):
        _check_kind(name, dtype_of, shape)
    check_alike(paths, "tokens of {}", files.dtypes)
    return files


def in_memory(numbers: Numbers) -> list[NDArray[Any]]:
    """The integers of each file (n,) as an array, those of a server read."""
    return numbers if isinstance(numbers, list) else numbers.whole()


def is_names(given: Any) -> bool:
    """Whether this is the name of files, or a list of names."""
    if isinstance(given, list | tuple):
        return bool(given) and all(isinstance(each, str | os.PathLike) for each in given)
    return isinstance(given, str | os.PathLike)


def read_by_ranges(paths: Sequence[str], access: FileAccess) -> bool:
    """Whether files are read by ranges, not mapped: objects of servers, and local files with `mmap=False`."""
    return all_remote(paths) or not access.mmap


def named_files(
    name: str, given: Any, storage_options: Mapping[str, Any] | None = None, *, extension: str = "tokens"
) -> list[str]:
    """The absolute paths, or the whole names of the objects: sorted those of a folder or pattern, a list's as given.

    Args:
        name: of the argument, for errors.
        given: names of files, patterns, folders, or a list of these; ValueError where it is a part of a file.
        storage_options: of the storage.
        extension: of the files of a folder that are meant.
    """
    each = given if isinstance(given, list | tuple) else [given]
    asked = [
        os.path.join(glob.escape(os.fsdecode(one)), f"*.{extension}") if os.path.isdir(one) else one
        for one in each
    ]
    parts = file_parts(asked, storage_options=storage_options)
    if any(part.start or part.stop is not None for part in parts):
        raise ValueError(
            f"{name}: expected names of whole files, got {redacted(os.fsdecode(each[0]))!r}, a part of one"
        )
    return [part.path for part in parts]


def check_alike(paths: Sequence[str], what: str, values: Sequence[Any]) -> None:
    """DataFormatError naming the first file of which something differs from the first file's.

    Args:
        paths: of the files.
        what: it is, with {} for the value.
        values: by file.
    """
    for path, value in zip(paths, values):
        if value != values[0]:
            raise DataFormatError(
                f"{redacted(path)}: expected {what.format(values[0])}, as {redacted(paths[0])} has, got "
                f"{what.format(value)}; write all files alike, or make a source of each kind"
            )


def _bare_dtype(name: str, path: str, dtype: DTypeLike | None) -> np.dtype[Any] | None:
    """The dtype of files of bare numbers; None for .npy files."""
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
    return mapped_numbers(path, dtype, begin, shape[0])


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
