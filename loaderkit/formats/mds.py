"""Records of MDS files, which MosaicML Streaming writes.

A shard, little-endian: uint32 samples; uint32 offsets of each, and of the end; JSON with the names, encodings and sizes
of the columns; the samples. A sample: a uint32 for each column whose size isn't fixed; then the values. `index.json`
names the shards of a folder, which may be compressed as whole files.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._codecs.scan import Malformed, ReadAt, ShardScan
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit._storage.patterns import file_parts
from loaderkit._storage.range_reader import read_range
from loaderkit.errors import DataFormatError
from loaderkit.formats._index.unpacked_text import scan_text

from ._index.build import build_index
from ._index.find import cached_path, find_index, locked_folder
from ._index.shard_set import ShardSet
from .indexed import IndexedDataSource, distinct_paths

if TYPE_CHECKING:
    from loaderkit._storage.cache.settings import Cache

_INDEX = "index.json"
_SCALARS = (
    *("uint8", "uint16", "uint32", "uint64"),
    *("int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64"),
)
# The codes of dtypes and of the dtypes of shapes in an array that has its own.
_DTYPES = {8 * np.dtype(name).itemsize + "uif".index(np.dtype(name).kind): name for name in _SCALARS}
_MODES = {"L": (), "RGB": (3,), "RGBA": (4,)}


class MdsFormat:
    """MDS files: a record is a sample.

    >>> data = struct.pack("<4I", 2, 18, 20, 23) + b"{}" + b"abcde"
    >>> MdsFormat().scan(lambda at, length: data[at : at + length], len(data)).starts
    array([18, 20, 23], dtype=uint64)
    """

    kind = "mds"
    unit = 1

    def scan(
        self, read: ReadAt, size: int, *, members: bool = True, keys: bool = False, checksums: bool = False
    ) -> ShardScan:
        """Where the samples lie; Malformed where the file's table isn't one of it."""
        return scan_text(read, size, _starts, checksums=checksums)


def _starts(read: ReadAt, size: int | None) -> NDArray[np.uint64]:
    count = int.from_bytes(read(0, 4), "little")
    table = read(4, 4 * (count + 1)) if size is None or 4 * (count + 2) <= size else b""
    starts = np.frombuffer(table[: len(table) // 4 * 4], "<u4").astype(np.uint64)
    if len(starts) != count + 1 or starts[0] < 4 * (count + 2) or (starts[1:] < starts[:-1]).any():
        raise Malformed(0, f"expected a table of MDS with the places of {count} samples, got other bytes")
    if (end := int(starts[-1])) != size and len(read(end - 1, 2)) != 1:
        raise Malformed(end, "expected the end of the file behind the last sample, as its table says")
    return starts


class MdsDataSource(IndexedDataSource):
    """Samples of MosaicML Streaming's MDS files: dicts of column -> value, as `StreamingDataset` gives them.

    Pictures stay bytes, as in tar; those that are raw become arrays (height, width[, channels]). Shards may be
    compressed by zstd or gzip: a read unpacks a shard, and keeps the last ones up to 64 MiB.

    Args:
        paths: a folder with `index.json`, local or of a server; or names of shards as `lk.TarDataSource` takes them.
        cache: keeps on the disk what is read from a server, unpacked.
        index: the index's name; without one it is found, or made at first use: of shards that aren't compressed the
            heads are read alone.
        storage_options: of the server: credentials, endpoint.

    DataFormatError for a file that isn't MDS, for a column of pickles, which could run any code, for shards that
    another program compressed, and for one with other samples or bytes than `index.json` says.

    >>> import pathlib, tempfile
    >>> columns = {"column_names": ["text"], "column_encodings": ["str"], "column_sizes": [None]}
    >>> head, sample = json.dumps(columns).encode(), struct.pack("<I", 3) + b"abc"
    >>> begin = 12 + len(head)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shard = struct.pack("<3I", 1, begin, begin + len(sample)) + head + sample
    ...     _ = pathlib.Path(folder, "shard.00000.mds").write_bytes(shard)
    ...     MdsDataSource(folder + "/*.mds")[0]
    {'text': 'abc'}
    """

    @refusing_foreign_arguments
    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[Any] | Callable[[], Any],
        *,
        cache: Cache | None = None,
        index: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        told = list[tuple[int, int]]()
        if not callable(paths):
            paths, told = _shards_of(paths, storage_options)
            if index is None and is_remote(os.fspath(paths[0])):
                parts = file_parts(paths, storage_options=storage_options)
                index = _index_of(ShardSet(distinct_paths(parts), storage_options))
        super().__init__(paths, format=MdsFormat(), index=index, cache=cache, storage_options=storage_options)
        found = zip(np.diff(self._index.shard_ends, prepend=0).tolist(), self._index.shard_sizes.tolist())
        for name, got, wanted in zip(self._ranges.names, found, told):
            if got != wanted:
                self.close()
                raise DataFormatError(
                    f"{name}: expected {wanted[0]} samples in {wanted[1]} bytes, as {_INDEX} says, got {got[0]} in "
                    f"{got[1]}; get a new copy of both"
                )
        self._prepare()

    def _prepare(self) -> None:
        self._columns = lru_cache(1024)(self._read_columns)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_columns"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def _read_columns(self, shard: int) -> _Columns:
        first, end = self._index.records_of(shard)
        begin = int(self._index.starts_of(shard)[0])
        head = read_range(self._ranges, shard, 4 * (end - first + 2), begin)
        try:
            told = json.loads(head)
            return _Columns(told["column_names"], told["column_encodings"], told["column_sizes"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataFormatError(
                f"{self._ranges.names[shard]}: expected columns of MDS that can be read, got {error}"
            ) from None

    def _decode(self, keys: NDArray[np.int64], spans: Sequence[bytes | memoryview]) -> list[Any]:
        shards = self._index.shard_ends.searchsorted(keys, "right").tolist()
        return [self._record(*each) for each in zip(keys.tolist(), shards, spans)]

    def _record(self, key: int, shard: int, span: bytes | memoryview) -> dict[str, Any]:
        columns = self._columns(shard)
        try:
            return columns.values(memoryview(span))
        except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, struct.error) as error:
            what = f"expected a sample of the columns {columns.names}, got other bytes ({error})"
            raise DataFormatError(self._record_place(key).says(what)) from error


class _Columns:
    """The columns of a shard; ValueError for one that isn't read."""

    def __init__(self, names: Sequence[str], encodings: Sequence[str], sizes: Sequence[int | None]) -> None:
        self.names = names
        self._each = [
            (name, size, _decoder(name, encoding)) for name, encoding, size in zip(names, encodings, sizes)
        ]
        self._sizes = struct.Struct(f"<{sum(not size for size in sizes)}I")

    def values(self, data: memoryview) -> dict[str, Any]:
        sizes, at, record = iter(self._sizes.unpack_from(data)), self._sizes.size, {}
        for name, size, decode in self._each:
            end = at + (size or next(sizes))
            record[name] = decode(data[at:end])
            at = end
        if at != len(data):
            raise ValueError(f"a sample of {at} bytes, not of {len(data)}")
        return record


def _decoder(name: str, encoding: str) -> Callable[[memoryview], Any]:
    kind, _, told = encoding.partition(":")
    if kind == "ndarray":
        dtype, _, shape = told.partition(":")
        return partial(_array, dtype or None, tuple(map(int, shape.split(","))) if shape else None)
    if kind in _SCALARS:
        return lambda data: np.frombuffer(data, np.dtype(kind).newbyteorder("<"))[0]
    if kind not in _DECODERS:
        pickled = "; its values could run any code: write it again with another encoding"
        raise ValueError(
            f"the encoding {encoding!r} of the column {name!r}{pickled if kind == 'pkl' else ''}"
        )
    return _DECODERS[kind]


def _array(dtype: str | None, shape: tuple[int, ...] | None, data: memoryview) -> NDArray[Any]:
    """An array, whose dtype and shape stand in the column's encoding or before the values."""
    if dtype is None:
        dtype, data = _DTYPES[data[0]], data[1:]
    if shape is None:
        dimensions, size = data[0] >> 2, 1 << data[0] % 4
        behind = 1 + dimensions * size
        shape, data = tuple(np.frombuffer(data[1:behind], f"<u{size}").tolist()), data[behind:]
    return np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).reshape(shape)


def _pixels(data: memoryview) -> NDArray[np.uint8]:
    width, height, length = struct.unpack_from("<3I", data)
    mode = str(data[12 : 12 + length], "utf-8")
    return np.frombuffer(data[12 + length :], np.uint8).reshape(height, width, *_MODES[mode])


def _several(data: memoryview, decode: Callable[[memoryview], Any]) -> list[Any]:
    (count,) = struct.unpack_from("<I", data)
    ends = np.cumsum(np.frombuffer(data, "<u4", count, 4), dtype=np.int64) + 4 * (count + 1)
    begins = [4 * (count + 1), *ends.tolist()]
    return [decode(data[begin:end]) for begin, end in pairwise(begins)]


_DECODERS: dict[str, Callable[[memoryview], Any]] = {
    "bytes": bytes,
    "str": lambda data: str(data, "utf-8"),
    "int": lambda data: int.from_bytes(data, "little", signed=True),
    "json": lambda data: json.loads(bytes(data)),
    "str_int": lambda data: int(str(data, "utf-8")),
    "str_float": lambda data: float(str(data, "utf-8")),
    "str_decimal": lambda data: Decimal(str(data, "utf-8")),
    "jpeg": bytes,
    "png": bytes,
    "pil": _pixels,
    "jpeg_array": lambda data: _several(data, bytes),
    "jpegarray": lambda data: _several(data, bytes),
    "list[jpeg]": lambda data: _several(data[4:], bytes),
    "list[png]": lambda data: _several(data[4:], bytes),
    "list[pil]": lambda data: _several(data[4:], _pixels),
}


def _shards_of(
    paths: Any, storage_options: Mapping[str, Any] | None
) -> tuple[list[Any], list[tuple[int, int]]]:
    """The files of a folder as its index names them, and the samples and bytes of each; names of files as they are."""
    names = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    folder = os.path.expanduser(os.fspath(names[0])).rstrip("/") if len(names) == 1 else ""
    if not (os.path.isdir(folder) or (is_remote(folder) and ".mds" not in folder.rpartition("/")[2])):
        return names, []
    path = f"{folder}/{_INDEX}"
    whole = path if is_remote(path) else os.path.abspath(path)
    with contextlib.closing(ShardSet([whole], storage_options).open()) as ranges:
        content = read_range(ranges, 0, 0, ranges.version(0).size)
    try:
        files = [(shard, _file_of(folder, shard)) for shard in json.loads(content)["shards"]]
        told = [(shard["samples"], file["bytes"]) for shard, file in files]
        return [f"{folder}/{file['basename']}" for _, file in files], told
    except (ValueError, KeyError, TypeError) as error:
        raise DataFormatError(f"{redacted(path)}: expected the index of MDS shards, got {error}") from None


def _file_of(folder: str, shard: Mapping[str, Any]) -> Mapping[str, Any]:
    if shard["format"] != "mds":
        raise ValueError(f"a shard of the format {shard['format']!r}")
    plain: Mapping[str, Any] = shard["raw_data"]
    # Streaming unpacks shards beside those that it fetched.
    there = not is_remote(folder) and os.path.exists(f"{folder}/{plain['basename']}")
    if there or shard["zip_data"] is None:
        return plain
    program = str(shard["compression"]).partition(":")[0]
    if program not in ("zstd", "gz"):
        raise ValueError(f"shards compressed by {program}; write them again with compression='zstd'")
    packed: Mapping[str, Any] = shard["zip_data"]
    return packed


def _index_of(shards: ShardSet) -> str:
    """The index of shards on a server, made where there is none."""
    scanner = MdsFormat()
    with contextlib.suppress(FileNotFoundError):
        return find_index(shards, scanner).path
    path = cached_path(shards, scanner.kind)
    with locked_folder(f"{path}.parts"):
        return build_index(shards, scanner, path, worker_count=0).path
