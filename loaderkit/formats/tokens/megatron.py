"""Megatron's pair of files of a tokenised data set: PREFIX.bin has the tokens, PREFIX.idx says where documents begin.

The .idx file, little-endian: 9 bytes MAGIC, uint64 version 1, uint8 code of the tokens' dtype, uint64 sequences, uint64
entries of the last table; then the tables: int32 tokens of each sequence, int64 byte in the .bin file at which each
begins, int64 number of the first sequence of each document, with the number of all sequences at the end. Data sets of
several modalities have an int8 for each sequence behind that, which isn't read.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._storage.addresses import is_remote, redacted
from loaderkit._storage.open_ranges import FileAccess
from loaderkit.errors import DataFormatError

from .integers import Numbers, check_alike, in_memory, named_files, open_integers

MAGIC = b"MMIDIDX\x00\x00"
_HEAD = struct.Struct("<9sQBQQ")
_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}  # 6 and 7 are floats
CODES = {np.dtype(name).str: code for code, name in _DTYPES.items()}
_CHECKED_AT_ONCE = 1 << 20  # entries of a table, so that checking a table of any length takes 8 MB


def read_megatron(given: Any, access: FileAccess) -> tuple[list[str], Numbers, list[NDArray[np.int64]]]:
    """The names of the files of tokens, the tokens, and for each the offsets of its documents (documents + 1,).

    Args:
        given: prefixes of pairs of files, or names of either, as `TokenDataSource.from_megatron` takes them.
            DataFormatError naming the file and what is wrong.
        access: of all.
    """
    indexes = named_files("path", _indexes(given), access.storage_options, extension="idx")
    tables = in_memory(open_integers("path", indexes, replace(access, cache=None), np.uint8))
    read = [_read_index(redacted(index), np.asarray(table)) for index, table in zip(indexes, tables)]
    check_alike(indexes, "tokens of {}", [dtype for dtype, _, _ in read])
    data, dtype = [_other_ending(index, ".bin") for index in indexes], read[0][0]
    tokens = open_integers("path", data, access, dtype)
    counts = list(map(len, tokens)) if isinstance(tokens, list) else tokens.counts.tolist()
    for name, index, count, (_, end, _) in zip(data, indexes, counts, read):
        if count * dtype.itemsize != end:
            raise DataFormatError(
                f"{redacted(name)}: expected {end} bytes, as {redacted(index)} says, got {count * dtype.itemsize}; the "
                "files aren't of one data set, or one was truncated"
            )
    return data, tokens, [offsets for _, _, offsets in read]


def megatron_head(dtype: np.dtype[Any], documents: int) -> bytes:
    """The begin of an index.

    Args:
        dtype: of the tokens, whose name in little-endian order is a key of `CODES`.
        documents: each of one sequence.
    """
    return _HEAD.pack(MAGIC, 1, CODES[dtype.newbyteorder("<").str], documents, documents + 1)


def _indexes(given: Any) -> list[Any]:
    each = given if isinstance(given, list | tuple) else [given]
    return [one if os.path.isdir(one) else _other_ending(os.fsdecode(one), ".idx") for one in each]


def _other_ending(name: str, ending: str) -> str:
    """The name with this ending, behind which is what follows "?" in an address: that belongs to both files."""
    mark = query = ""
    if is_remote(name):
        name, mark, query = name.partition("?")
    return name.removesuffix(".bin").removesuffix(".idx") + ending + mark + query


def _read_index(index: str, table: NDArray[Any]) -> tuple[np.dtype[Any], int, NDArray[np.int64]]:
    """The dtype of the tokens, the bytes of all, and the offsets of the documents."""
    head = table[: _HEAD.size].tobytes()
    if len(head) < _HEAD.size or head[: len(MAGIC)] != MAGIC:
        raise DataFormatError(
            f"{index}: expected an index of Megatron, got a file without its head {MAGIC!r}"
        )
    _, version, code, sequences, entries = _HEAD.unpack(head)
    if version != 1:
        raise DataFormatError(f"{index}: expected version 1, got {version}")
    if code not in _DTYPES:
        raise DataFormatError(
            f"{index}: expected a dtype of integers ({', '.join(map(str, _DTYPES))}), got code {code}"
        )
    dtype = np.dtype(_DTYPES[code])
    ends = np.cumsum([_HEAD.size, 4 * sequences, 8 * sequences, 8 * entries]).tolist()
    if len(table) not in (ends[-1], ends[-1] + sequences) or not entries:
        raise DataFormatError(
            f"{index}: expected {ends[-1]} bytes for {sequences} sequences and {entries} entries of documents, got "
            f"{len(table)}; it was truncated or written to"
        )
    sizes = np.frombuffer(table, "<i4", sequences, ends[0])
    pointers = np.frombuffer(table, "<i8", sequences, ends[1])
    firsts = np.frombuffer(table, "<i8", entries, ends[2])
    end = _check_sequences(index, sizes, pointers, dtype.itemsize)
    return dtype, end, _document_offsets(index, firsts, pointers, end, dtype.itemsize)


def _check_sequences(index: str, sizes: NDArray[Any], pointers: NDArray[Any], itemsize: int) -> int:
    """The byte behind the last sequence; DataFormatError where they don't follow each other."""
    end = 0
    for part in _parts(len(sizes)):
        nbytes = sizes[part].astype(np.int64) * itemsize
        ends = np.cumsum(nbytes) + end
        wrong = (pointers[part] != ends - nbytes) | (nbytes < 0)
        if wrong.any():
            place = int(wrong.argmax())
            raise DataFormatError(
                f"{index}: expected sequence {part.start + place} at byte {ends[place] - nbytes[place]}, behind "
                f"the one before, got byte {pointers[part][place]} and {sizes[part][place]} tokens"
            )
        end = int(ends[-1])
    return end


def _document_offsets(
    index: str, firsts: NDArray[Any], pointers: NDArray[Any], end: int, itemsize: int
) -> NDArray[np.int64]:
    sequences = len(pointers)
    offsets = np.empty(len(firsts), np.int64)
    for part in _parts(len(firsts)):
        first = firsts[part]
        if (first < 0).any() or (first > sequences).any():
            raise DataFormatError(f"{index}: expected documents of sequences 0 to {sequences}, got others")
        inside = first < sequences
        offsets[part] = end // itemsize
        offsets[part][inside] = pointers[first[inside]] // itemsize
    if firsts[0] != 0 or firsts[-1] != sequences:
        raise DataFormatError(
            f"{index}: expected documents from sequence 0 to {sequences}, got {firsts[0]} to {firsts[-1]}"
        )
    if (less := firsts[1:] < firsts[:-1]).any():
        place = int(less.argmax()) + 1
        raise DataFormatError(
            f"{index}: expected document {place} to begin at sequence {firsts[place - 1]} or later, as the one before "
            f"does, got {firsts[place]}"
        )
    return offsets


def _parts(count: int) -> Iterator[slice]:
    return (slice(lo, min(lo + _CHECKED_AT_ONCE, count)) for lo in range(0, count, _CHECKED_AT_ONCE))
