"""Records of files without an index of their own, such as tar archives: the base of the sources that read them.

record_key: a row of the source. An index key is a row of the index, which is of whole files; the two differ where the
source has parts of files, or a file twice.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Never, SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.closing import Closing
from loaderkit._base.hints import refuse_foreign_source_method
from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._codecs.scan import Scanner
from loaderkit._source.content import digest_of
from loaderkit._source.origins import Origins
from loaderkit._source.record_key import check_key, check_keys
from loaderkit._storage.open_ranges import check_storage_options
from loaderkit._storage.patterns import FilePart, file_parts
from loaderkit._storage.range_reader import RangeReader, SpanReader
from loaderkit.errors import DataFormatError
from loaderkit.sources.has_card import HasCard
from loaderkit.sources.sliced import sliced

from ._index.check import ShardCheck
from ._index.direct_spans import DirectSpans, readable_spans
from ._index.record_index import RecordIndex
from ._index.shard_set import ShardSet
from ._index.text_ranges import readable_ranges

if TYPE_CHECKING:
    from loaderkit._storage.cache.cached_spans import CachedSpans
    from loaderkit._storage.cache.chunk_feed import ChunkFeed
    from loaderkit._storage.cache.chunk_numbers import ChunkedIndex
    from loaderkit._storage.cache.settings import Cache

    from ._index.part_file import ScanOptions

# Tasks ahead of the running one whose records a worker reads where a read waits for a server.
REMOTE_READ_AHEAD = 4


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which records of the index are the source's: (parts,) int64 each.

    ends: the source's records up to and with each part. offsets: what is added to a record_key for the index key.
    """

    ends: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def index_keys(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        return keys + self.offsets[self.ends.searchsorted(keys, "right")]

    def record_key(self, key: int) -> int:
        """The first of the source's records that is this one of the index; -1 where none is."""
        records = key - self.offsets
        begins = np.concatenate(([0], self.ends[:-1]))
        found = np.flatnonzero((begins <= records) & (records < self.ends))
        return int(records[found[0]]) if len(found) else -1


class RecordPlace(NamedTuple):
    """A record's file, its place among the file's records, and its first byte in the file."""

    file: str
    record: int
    begin: int

    def says(self, problem: str, offset: int = 0) -> str:
        """The text of an error.

        Args:
            problem: what is wrong.
            offset: of the byte in the record.

        >>> RecordPlace("a.jsonl", 2, 100).says("expected JSON, got b'x'", 3)
        "a.jsonl: at byte 103, in record 2: expected JSON, got b'x'"
        >>> RecordPlace("a.jsonl", 2, 100).says("expected UTF-8")
        'a.jsonl: at byte 100, in record 2: expected UTF-8'
        """
        return f"{self.byte(offset)}: {problem}"

    def byte(self, offset: int) -> str:
        """Where a byte of the record is, for an error."""
        return f"{self.file}: at byte {self.begin + offset}, in record {self.record}"


class IndexedDataSource(HasCard, Closing):
    """The records of files, by an index of where each lies. A subclass gives the records' values.

    Args:
        paths: names of files, as the subclass says, or a function that gives them, which is called again where
            addresses have expired.
        format: how the files are scanned.
        index: the index's name; without one it is found beside the data or in the user's cache folder, or made for
            local data.
        cache: keeps what was read from a server on the disk.
        storage_options: of the server: credentials, endpoint.
        scan_options: what an index that is made holds.
        parts: what `paths` means, where the subclass has looked already; a function isn't called again.
    """

    def __init__(
        self,
        paths: Any,
        *,
        format: Scanner,  # noqa: A002 - the word of the field
        index: str | os.PathLike[str] | None = None,
        cache: "Cache | None" = None,
        storage_options: Mapping[str, Any] | None = None,
        scan_options: "ScanOptions | None" = None,
        parts: Sequence[FilePart] | None = None,
    ) -> None:
        from ._index.find import find_index  # a worker gets the index that was found

        check_cache(cache)
        check_storage_options(storage_options)
        if parts is None:
            parts = file_parts(paths, storage_options=storage_options)
        names = distinct_paths(parts)
        shards = ShardSet(
            names, storage_options, _Refresh(paths, storage_options) if callable(paths) else None
        )
        try:
            self._index = find_index(
                shards, format, index=None if index is None else os.fspath(index), options=scan_options
            )
        except DataFormatError as error:
            from .known_files import other_format

            wrong = next((name for name in names if str(error).startswith(name)), "")
            advice = other_format(wrong, type(self).__name__)
            if not advice:
                raise
            raise DataFormatError(f"{error}; {advice}") from error
        self._shard_check = ShardCheck(self._index)
        self._ranges = readable_ranges(self._index, shards.open(self._shard_check))
        spans = readable_spans(self._index)
        self._spans: SpanReader = (
            DirectSpans(spans, self._ranges, self._shard_check, always=self._compares)
            if cache is None
            else cached_spans(spans, self._ranges, cache)
        )
        self._selection = _selection_of(parts, names, self._index)
        self._records = len(self._index) if self._selection is None else int(self._selection.ends[-1])

    @property
    def _compares(self) -> bool:
        """Whether each record is compared with the index's checksum, also where the version is the indexed one."""
        return True

    def _decode(self, keys: NDArray[np.int64], spans: Sequence[bytes | memoryview]) -> list[Any]:
        """The records of these spans.

        Args:
            keys: (n,) int64, index keys.
            spans: n pieces of bytes.
        """
        raise NotImplementedError

    def __len__(self) -> int:
        return self._records

    @sliced
    def __getitem__(self, key: int) -> Any:
        return self.__getitems__([key])[0]

    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        keys = self._checked(record_keys)
        if self._selection is not None:
            keys = self._selection.index_keys(keys)
        doubted = len(self._shard_check.doubted)
        records = self._read(keys)
        # A part of a record can't be compared: where the read was the first to see another version, it is made again.
        return records if len(self._shard_check.doubted) == doubted else self._read(keys)

    def _read(self, keys: NDArray[np.int64]) -> list[Any]:
        """The records with these index keys, (n,); a subclass may read less than their spans."""
        return self._decode(keys, self._spans.read(keys))

    def _checked(self, record_keys: ArrayLike) -> NDArray[np.int64]:
        """The keys in [0, records), negative ones counted from the end, as lists have them."""
        return check_keys(record_keys, self._records, self, from_end=True)

    def name(self, record_key: SupportsIndex) -> str:
        """The record's file and its place among the file's records, such as "/data/train-0003.tar[17]".

        Args:
            record_key: int in [-len(source), len(source)); IndexError otherwise.
        """
        keys = np.array([check_key(record_key, self._records, self)])
        return self._place(int(keys[0] if self._selection is None else self._selection.index_keys(keys)[0]))

    def origins(self, record_keys: ArrayLike) -> Origins:
        """The files of records and their places in them, as `_source/origins.py` says them.

        Args:
            record_keys: integers (n,).
        """
        keys, ends = self._checked(record_keys), self._index.shard_ends
        index_keys = keys if self._selection is None else self._selection.index_keys(keys)
        shards = ends.searchsorted(index_keys, "right")
        places = index_keys - np.append(0, ends)[shards]
        return Origins.of_documents(keys).in_files(self._ranges.names, shards, places)

    def _record_place(self, key: int) -> RecordPlace:
        """Where the record with an index key lies."""
        shards, begins, _ = self._index.locate(np.array([key]))
        shard = int(shards[0])
        return RecordPlace(self._ranges.names[shard], key - self._index.records_of(shard)[0], int(begins[0]))

    def _place(self, key: int) -> str:
        """The file of an index key and the record's place in it."""
        shard = int(self._index.shard_ends.searchsorted(key, "right"))
        return f"{self._ranges.names[shard]}[{key - self._index.records_of(shard)[0]}]"

    @property
    def chunk_records(self) -> int:
        """Records of about 1 MiB: what `ChunkSampler` should read together."""
        return self._index.chunk_records

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk, on average."""
        return max(1, self._index.nbytes * self._index.chunk_records // max(1, len(self._index)))

    @property
    def chunk_feed(self) -> "ChunkFeed | None":
        """The chunks of the records, for the process that fetches them ahead; None without a cache."""
        if isinstance(self._spans, DirectSpans):
            return None
        from loaderkit._storage.cache.chunk_feed import ChunkFeed

        return ChunkFeed(
            cast("CachedSpans", self._spans),
            None if self._selection is None else self._selection.index_keys,
        )

    @property
    def read_ahead(self) -> int:
        """Tasks whose records are read ahead: 0 for local files, 4 where reads wait for a server."""
        return REMOTE_READ_AHEAD if self._spans.waits else 0

    def data_files(self) -> dict[str, int | None]:
        """The files, and the bytes of each."""
        return dict(zip(self._ranges.names, self._index.shard_sizes.tolist()))

    def fingerprint(self) -> dict[str, Any]:
        """The data's identity, without times, folders and addresses: the same for a copied set.

        It is exact, as `checksums`, where the index has checksums of the records; else samples stand for the bytes.
        """
        told: dict[str, Any] = {
            "type": type(self).__name__,
            "records": self._records,
            "files": self._index.shards,
            "bytes": self._index.nbytes,
            "data": self._index.digest,
            **self._index.content,
        }
        if self._selection is not None:
            told["parts"] = digest_of([self._selection.ends.tolist(), self._selection.offsets.tolist()])
        return told

    def close(self) -> None:
        """Closes the open files and connections; a later read opens them again."""
        self._spans.close()
        self._ranges.close()

    if not TYPE_CHECKING:  # where it would make every misspelled name an attribute

        def __getattr__(self, name: str) -> Never:
            refuse_foreign_source_method(self, name)

    def __repr__(self) -> str:
        names = self._ranges.names
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"{type(self).__name__}({names[0]!r}{more}, records={self._records})"


@dataclass(frozen=True, slots=True)
class _Refresh:
    """Asks the user's function for the addresses again."""

    paths: Callable[[], Any]
    storage_options: Mapping[str, Any] | None = field(repr=False)

    def __call__(self) -> list[str]:
        return distinct_paths(file_parts(self.paths, storage_options=self.storage_options))


def distinct_paths(parts: Iterable[FilePart]) -> list[str]:
    """The files of these parts, each once, in the order of the parts."""
    return list(dict.fromkeys(part.path for part in parts))


def cached_spans(index: "ChunkedIndex", ranges: RangeReader, cache: "Cache") -> SpanReader:
    """Reads records through a cache.

    Args:
        index: where the records lie.
        ranges: reads the shards.
        cache: TypeError where it isn't `lk.Cache`.
    """
    from loaderkit._storage.cache.cached_spans import CachedSpans

    check_cache(cache)
    return CachedSpans(index, ranges, cache)


def check_cache(cache: object) -> None:
    """Raises TypeError for another object than `lk.Cache` or None, before anything is read.

    >>> check_cache(None)
    """
    if cache is None:
        return
    from loaderkit._storage.cache.settings import Cache

    if not isinstance(cache, Cache):
        got = type(cache).__name__
        raise TypeError(f'cache: expected lk.Cache, got {got}; write cache=lk.Cache(folder, limit="200GB")')


def _selection_of(parts: Sequence[FilePart], names: Sequence[str], index: RecordIndex) -> _Selection | None:
    """None where the source has the whole files, each once."""
    if len(parts) == len(names) and all(part.start == 0 and part.stop is None for part in parts):
        return None
    places = {name: shard for shard, name in enumerate(names)}
    ends, offsets, end = [], [], 0
    for part in parts:
        first, stop = index.records_of(places[part.path])
        begin, behind = part.bounds(stop - first, "records")
        offsets.append(first + begin - end)
        end += behind - begin
        ends.append(end)
    return _Selection(np.array(ends, np.int64), np.array(offsets, np.int64))
