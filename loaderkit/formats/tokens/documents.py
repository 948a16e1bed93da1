"""Tokens, offsets and columns of files that `lk.write(..., format="tokens")` made."""

import hashlib
import itertools
import zlib
from collections.abc import Sequence
from contextlib import closing
from reprlib import repr as _short
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import BLOCK_BYTES, CheckedBlocks, damaged
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._storage.addresses import redacted
from loaderkit._storage.fetch_threads import IN_FLIGHT, at_once
from loaderkit._storage.open_ranges import FileAccess, open_ranges
from loaderkit._storage.range_reader import RangeReader, read_range
from loaderkit.errors import DataFormatError
from loaderkit.formats.npy import array_header, array_place
from loaderkit.sources.shared_arrays import mapped_numbers

from .document_layout import MOST_JSON, OFFSETS_HEAD, TokenFileEnd, token_file_end
from .integers import ADVICE, Numbers, check_alike, in_memory, named_files, open_integers, read_by_ranges
from .joined import IntArray, JoinedOffsets, JoinedValues


@dataclass(frozen=True, slots=True)
class Column:
    """Values beside the tokens of documents.

    per: as `ColumnPlace` has it. values: of all files. offsets: of texts in their bytes, else None.
    """

    per: str
    values: JoinedValues
    offsets: JoinedOffsets | None

    def of(self, keys: IntArray, begins: IntArray, ends: IntArray) -> list[Any]:
        """The values of some documents: an array for each of a column by tokens, else a number or a text.

        Args:
            keys: of the documents (n,).
            begins, ends: of their tokens, or of parts of these, (n,) each.
        """
        if self.per == "token":
            return self.values.slices(begins, ends)
        return list(self.of_documents(keys))

    def of_documents(self, keys: IntArray) -> NDArray[Any]:
        """The number or text (n,) of each document; texts as objects."""
        if self.offsets is None:
            runs = self.values.slices(keys, keys + 1)
            return np.concatenate([np.empty(0, self.values.dtype), *runs])
        texts = [run.tobytes().decode() for run in self.values.slices(*self.offsets.bounds(keys))]
        found = np.empty(len(texts), object)
        found[:] = texts
        return found


@dataclass(frozen=True, slots=True)
class TokenDocuments:
    """What token files hold, all together.

    names: of the files of tokens; none of arrays. tokens: of all documents. offsets: of the documents in them. feature:
    the tokens' name in a record. columns: by name. digest: of the checksums of all that is read of one file; None for
    several, where it would say how they were cut, and for an older one without checksums.
    """

    names: Sequence[str]
    tokens: JoinedValues
    offsets: JoinedOffsets
    feature: str
    columns: dict[str, Column]
    digest: str | None


@dataclass(frozen=True, slots=True)
class _End:
    """Of one file: what its end says, its offsets, and the checksums of tokens and offsets, and of its columns."""

    said: TokenFileEnd
    offsets: NDArray[np.int64]
    table: NDArray[np.uint32] | None
    column_checksums: NDArray[np.uint32] | None

    @property
    def checksums(self) -> NDArray[np.uint32] | None:
        """Those of the tokens."""
        return None if self.table is None else self.table[: -_blocks(self.offsets.nbytes)]


def open_documents(
    given: Any, access: FileAccess, feature: str | None, columns: Sequence[str] | None
) -> TokenDocuments:
    """What token files hold.

    Args:
        given: names of the files or objects. DataFormatError where one isn't a token file, was truncated, or differs
            from the first in its dtype, its feature or its columns; ChecksumError where offsets aren't those that were
            written.
        access: of them.
        feature: a name for the tokens in place of the files'; None for theirs.
        columns: names of those that are read; None for all. ValueError for one that isn't there.
    """
    paths = named_files("tokens", given, access.storage_options)
    names = [redacted(path) for path in paths]
    by_ranges = read_by_ranges(paths, access)
    with closing(open_ranges(paths, storage_options=access.storage_options)) as ranges:
        most = IN_FLIGHT if ranges.waits else 1
        files = range(len(paths))
        ends = at_once(lambda file: _end(ranges, file, None if by_ranges else paths[file]), files, most=most)
    tokens = open_integers("tokens", paths, access, has_head=True)
    counts = list(map(len, tokens)) if isinstance(tokens, list) else tokens.counts.tolist()
    dtype = tokens[0].dtype if isinstance(tokens, list) else tokens.dtype
    for name, end, count in zip(names, ends, counts):
        _check_tokens(name, end, count, dtype)
    said = [end.said for end in ends]
    if feature is None:
        check_alike(paths, "the feature {!r}", [end.feature for end in said])
    columns_of = [[(one.name, one.per, one.dtype) for one in end.columns] for end in said]
    check_alike(paths, "the columns {}", columns_of)
    known = [column.name for column in said[0].columns]
    wanted = known if columns is None else list(columns)
    if strange := [name for name in wanted if name not in known]:
        raise ValueError(f"columns: expected some of {known}, which {names[0]} has, got {_short(strange[0])}")
    try:
        offsets = JoinedOffsets([end.offsets for end in ends], counts, names)
    except ValueError as error:  # an older file, without checksums
        raise DataFormatError(f"{error}; {ADVICE}") from error
    return TokenDocuments(
        names,
        JoinedValues(tokens, names, [end.checksums for end in ends], [OFFSETS_HEAD] * len(paths)),
        offsets,
        said[0].feature if feature is None else feature,
        {name: _column(known.index(name), paths, ends, tokens) for name in wanted},
        _digest(ends[0], with_columns=bool(wanted)) if len(ends) == 1 else None,
    )


def _blocks(nbytes: int) -> int:
    return -(-nbytes // BLOCK_BYTES)


def _check_tokens(name: str, end: _End, count: int, dtype: np.dtype[Any]) -> None:
    if count != end.offsets[-1] or end.said.dtype not in (None, dtype.str):
        wanted = f"{end.offsets[-1]} tokens" + (f" of {end.said.dtype}" if end.said.dtype else "")
        raise DataFormatError(
            f"{name}: expected {wanted} in the head at byte 0, got {count} of {dtype.str}; {ADVICE}"
        )


def _column(number: int, paths: Sequence[str], ends: Sequence[_End], tokens: Numbers) -> Column:
    """The column of this number, of all files."""
    places = [end.said.columns[number] for end in ends]
    names = [redacted(path) for path in paths]
    tables = [_column_tables(end) for end in ends]
    begins, counts = [place.begin for place in places], [place.count for place in places]
    values = _numbers(paths, tokens, np.dtype(places[0].dtype), begins, counts)
    offsets = None
    if places[0].per == "text":
        documents = [len(end.offsets) for end in ends]
        starts = [place.offsets or 0 for place in places]
        found = in_memory(_numbers(paths, tokens, np.dtype(np.int64), starts, documents))
        for name, array, start, table in zip(names, found, starts, tables):
            _check_all(name, array, table[2 * number + 1], start)
        offsets = JoinedOffsets(found, counts, names)
    return Column(
        places[0].per, JoinedValues(values, names, [table[2 * number] for table in tables], begins), offsets
    )


def _numbers(
    paths: Sequence[str], tokens: Numbers, dtype: np.dtype[Any], begins: list[int], counts: list[int]
) -> Numbers:
    if not isinstance(tokens, list):
        return tokens.at(begins, counts, dtype)
    return [mapped_numbers(*each) for each in zip(paths, itertools.repeat(dtype), begins, counts)]


def _column_tables(end: _End) -> list[NDArray[np.uint32]]:
    """The checksums of the values of each column, and of its offsets, which only texts have."""
    assert end.column_checksums is not None
    nbytes: list[int] = []
    for column in end.said.columns:
        nbytes.append(column.count * np.dtype(column.dtype).itemsize)
        nbytes.append(0 if column.offsets is None else end.offsets.nbytes)
    blocks = [_blocks(each) for each in nbytes]
    return np.split(end.column_checksums, np.cumsum(blocks)[:-1])


def _digest(end: _End, *, with_columns: bool) -> str | None:
    if end.table is None:
        return None
    told = hashlib.sha256(end.table.tobytes())
    if with_columns and end.column_checksums is not None:
        told.update(end.column_checksums.tobytes())
    return f"sha256:{told.hexdigest()[:32]}"


def _check_all(name: str, array: NDArray[Any], table: NDArray[np.uint32], begin: int) -> None:
    CheckedBlocks(name, array.view(np.uint8), table, offset=begin, advice=ADVICE).check_all()


def _end(ranges: RangeReader, file: int, path: str | None) -> _End:
    name = ranges.names[file]
    size = ranges.version(file).size
    end = token_file_end(_read(ranges, file, max(0, size - MOST_JSON), size))
    if end is None:
        raise DataFormatError(
            f"{name}: expected a token file of lk.write, got {size} bytes without its end; it was truncated or "
            "damaged, or is of tokens alone: give offsets="
        )
    begin = end.offsets + OFFSETS_HEAD
    nbytes = size - end.nbytes - begin
    head = _read(ranges, file, max(0, end.offsets), begin)
    if nbytes < 8 or head != array_header(np.dtype(np.int64), (nbytes // 8,)):
        raise DataFormatError(
            f"{name}: expected offsets of documents at byte {end.offsets}, got others; write the file again"
        )
    table = _table(ranges, file, end.checksums, end.offsets, end.crc32)
    of_columns = _table(ranges, file, end.column_checksums, end.checksums or 0, end.column_crc32)
    if path is None:
        offsets = np.frombuffer(_read(ranges, file, begin, begin + nbytes), np.int64)
    else:
        offsets = mapped_numbers(path, np.dtype(np.int64), begin, nbytes // 8)
    if table is not None:
        _check_all(name, offsets, table[-_blocks(nbytes) :], begin)
    return _End(end, offsets, table, of_columns)


def _table(
    ranges: RangeReader, file: int, begin: int | None, end: int, crc32: int | None
) -> NDArray[np.uint32] | None:
    """Checksums of blocks, which lie from a byte on up to another."""
    if begin is None:
        return None
    data = _read(ranges, file, begin, end)
    if zlib.crc32(data) != crc32:
        raise damaged(ranges.names[file], begin, end, ADVICE)
    place, shape, _ = array_place(data)
    return np.frombuffer(data, np.uint32, shape[0], place)


def _read(ranges: RangeReader, file: int, begin: int, end: int) -> bytes:
    return read_range(ranges, file, begin, end) if begin < end else b""
