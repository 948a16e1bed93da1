"""Tokens and offsets of one file that `lk.write(..., format="tokens")` made."""

import os
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._formats.npy import array_header
from loaderkit._formats.token_documents import MOST_JSON, OFFSETS_HEAD, token_file_end
from loaderkit._storage.names import is_remote, redacted
from loaderkit._storage.open_ranges import open_ranges
from loaderkit._storage.range_reader import RangeReader
from loaderkit._system.descriptors import above_standard
from loaderkit.errors import DataFormatError

from .integer_arrays import Integers, one_file

if TYPE_CHECKING:
    from loaderkit._chunk_cache.settings import Cache


def open_documents(
    given: Any, *, storage_options: Mapping[str, Any] | None = None, cache: "Cache | None" = None
) -> tuple[Integers, NDArray[np.int64], str]:
    """The tokens, mapped or to be read by ranges, the offsets of documents (documents + 1,), and the tokens' name.

    Args:
        given: the name of the file or object. DataFormatError where it isn't a token file, or was truncated.
        storage_options, cache: as `TokenFile` takes them.
    """
    if not isinstance(given, str | os.PathLike):
        raise ValueError(
            "offsets: expected integers (documents + 1,) beside an array of tokens, got None; for lengths of documents "
            "give np.concatenate([[0], np.cumsum(lengths)])"
        )
    path = one_file("tokens", given, storage_options)
    name = redacted(path)
    with closing(open_ranges([path], storage_options=storage_options)) as ranges:
        size = ranges.version(0).size
        end = token_file_end(_read(ranges, max(0, size - MOST_JSON), size))
        if end is None:
            raise DataFormatError(
                f"{name}: expected a token file of lk.write, got {size} bytes without its end; it was truncated, or is "
                "of tokens alone: give offsets="
            )
        nbytes = size - end.nbytes - end.offsets - OFFSETS_HEAD
        shape = (nbytes // 8,)
        head = _read(ranges, max(0, end.offsets), end.offsets + OFFSETS_HEAD)
        if nbytes < 8 or head != array_header(np.dtype(np.int64), shape):
            raise DataFormatError(
                f"{name}: expected offsets of documents at byte {end.offsets}, got others; write the file again"
            )
        remote = is_remote(path)
        offsets: NDArray[np.int64] = np.frombuffer(
            _read(ranges, end.offsets + OFFSETS_HEAD, size - end.nbytes) if remote else b"", np.int64
        )
    if remote:
        from .token_file import TokenFile

        return TokenFile(path, None, storage_options=storage_options, cache=cache), offsets, end.feature
    with above_standard():
        offsets = np.memmap(path, np.int64, "r", end.offsets + OFFSETS_HEAD, shape)
        return np.load(path, mmap_mode="r", allow_pickle=False), offsets, end.feature


def _read(ranges: RangeReader, begin: int, end: int) -> bytes:
    if begin >= end:
        return b""
    return bytes(ranges.read(*(np.array([place]) for place in (0, begin, end)))[0])
