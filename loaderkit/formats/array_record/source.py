"""Records of ArrayRecord files.

record_key: a row of the source, over all files. position: a row of one file.
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from loaderkit._base.closing import Closing
from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import true_or_false
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.file_identity import FileIdentity
from loaderkit._base.system.limits import most_open_files
from loaderkit._base.system.shared_memory import goes_to_a_worker
from loaderkit._source.content import content_hash, digest_of, sampled_keys
from loaderkit._source.origins import Origins
from loaderkit._source.record_key import check_key, check_keys
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit.formats.decoded import decoded_records
from loaderkit.sources.has_card import HasCard
from loaderkit.sources.sliced import sliced

from .reader import open_reader, unreadable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from loaderkit._storage.patterns import FilePart

# For random access to single records: no bytes are read ahead, and no threads are used for a few records.
READER_OPTIONS = {"readahead_buffer_size": "0", "max_parallelism": "0"}
# A read of a list takes time for each record of the whole file (0.4 ms a call for a file of 200,000) and two or more
# cores; a seek takes 3 to 5 us a record. From 2,000 records on that are at least 1/128 of the file, reading the list
# took 0.8 of the time of as many seeks.
LISTED_RECORDS, LISTED_SHARE = 2000, 1 / 128


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    start: int
    stop: int
    total: int
    nbytes: int | None
    group_size: int

    @property
    def identity(self) -> tuple[str, int | None, int, int]:
        return (self.path.rpartition("/")[2], self.nbytes, self.start, self.stop)


class ArrayRecordDataSource(HasCard, Closing):
    """The records (bytes, or the dicts that lk.write took) of ArrayRecord files, in the order of the files.

    Args:
        paths: one name or several: a file, a pattern such as "train-*.array_record" (sorted), shards as
            "train.array_record@64" or "train-?????-of-00064", a part of a file as "train.array_record[0:100]", or
            file instructions of TFDS. FileNotFoundError for a missing file or shard, OSError for a truncated file,
            ValueError for a part that the file doesn't have and for servers but gs://; each names the file.
        reader_options: options of array-record's reader, such as `{"index_storage_option": "offloaded",
            "footer_prefetch_bytes": "0"}`; the second is known to array-record 0.8.6 and newer, which need it there.
        decode: whether records that lk.write made of dicts are these dicts; False gives their bytes.

    Files stay open between reads, at most a quarter of the descriptors that the process may have. A local file that is
    opened again, here or in a worker, must be the file that was there when the source was made; otherwise a
    FileChangedError is raised.

    >>> import tempfile
    >>> from array_record.python.array_record_module import ArrayRecordWriter
    >>> folder = tempfile.TemporaryDirectory()
    >>> writer = ArrayRecordWriter(folder.name + "/data.array_record", "group_size:1")
    >>> for record in [b"zero", b"one", b"two"]:
    ...     _ = writer.write(record)
    >>> writer.close()
    >>> with ArrayRecordDataSource(folder.name + "/data.array_record[1:3]") as source:
    ...     len(source), source[0], source.__getitems__([1, 0])
    (2, b'one', [b'two', b'one'])
    >>> folder.cleanup()
    """

    @former_arguments(removed_in="0.3.0", by_place=["reader_options"])
    @refusing_foreign_arguments
    def __init__(
        self, paths: Any, *, reader_options: Mapping[str, Any] | None = None, decode: bool = True
    ) -> None:
        self._decodes = true_or_false("decode", decode)
        options = READER_OPTIONS | dict(reader_options or {})
        self._options = ",".join(f"{name}:{value}" for name, value in options.items())
        # One for each local file that was opened. Threads share the dict; setdefault keeps the first thread's identity.
        self._identities: dict[str, FileIdentity] = {}
        self._files = [_inspect(part, self._options, self._identities) for part in _readable(paths)]
        self._fingerprint: dict[str, Any] | None = None
        grouped = [file for file in self._files if file.group_size > 1]
        if grouped:
            warnings.warn(
                f"{grouped[0].path}{f' and {len(grouped) - 1} more' if grouped[1:] else ''}: written with "
                f"group_size {grouped[0].group_size}, so a read of one record unpacks all records of its group; "
                "write files for training with group_size:1",
                stacklevel=4,  # of the line that makes the source
            )
        self._prepare()

    def _prepare(self) -> None:
        # (files,) int64: ends[i] is the first record_key past file i
        self._ends = np.cumsum([file.stop - file.start for file in self._files], dtype=np.int64)
        self._end_list: list[int] = self._ends.tolist()
        self._seek_lock = threading.Lock()  # a reader has one file position, and threads may share the source
        remote = any(is_remote(file.path) for file in self._files)
        # Remote readers are all kept: they hold no descriptor, and opening one again costs a round trip. The cache is
        # safe for threads; a reader that it drops closes when its last read has ended.
        sizes = {file.path: file.nbytes for file in self._files}
        self._reader = lru_cache(None if remote else most_open_files())(
            partial(open_reader, options=self._options, identities=self._identities, sizes=sizes)
        )

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return [file.path for file in self._files]

    def __len__(self) -> int:
        return self._end_list[-1]

    def _first_position(self, place: int) -> int:
        file = self._files[place]
        return file.stop - self._end_list[place]

    @sliced
    def __getitem__(self, key: int) -> Any:
        place = bisect_right(self._end_list, key)
        return self._read(place, [key + self._first_position(place)])[0]

    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        keys = check_keys(record_keys, len(self), self)
        # In sorted order the keys of a file are consecutive, and each file is read from front to back.
        order = np.argsort(keys, kind="stable")
        ascending = keys[order]
        places = np.searchsorted(self._ends, ascending, side="right")
        cuts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(keys)]
        records: list[Any] = []
        for lo, hi in pairwise(cuts):
            if lo < hi:
                place = int(places[lo])
                records += self._read(place, (ascending[lo:hi] + self._first_position(place)).tolist())
        out: list[Any] = [b""] * len(keys)
        for row, record in zip(order.tolist(), records):
            out[row] = record
        return out

    def _read(self, place: int, positions: list[int]) -> list[Any]:
        records = self._read_bytes(place, positions)
        if not self._decodes:
            return records
        return decoded_records(records, lambda at, _: f"{self._files[place].path}[{positions[at]}]")

    def _read_bytes(self, place: int, positions: list[int]) -> list[bytes]:
        file = self._files[place]
        try:
            if _worth_a_list(file, len(positions)):
                records: list[bytes] = self._reader(file.path).read(positions)
            else:
                records = self._read_singly(file, positions)
        except (RuntimeError, IndexError) as error:
            self._reader.cache_clear()  # a reader that failed can't read any more
            self._check_unchanged(file)
            shown = ", ".join(map(str, positions[:5])) + (", ..." if positions[5:] else "")
            raise unreadable(file.path, f"position {shown}: {error}") from error
        if b"" in records:
            # b"" may be an empty record, and is what array-record gives past the end of a file that was truncated.
            self._check_unchanged(file, open_now=True)
        return records

    def _read_singly(self, file: _File, positions: list[int]) -> list[bytes]:
        records: list[bytes] = []
        reader = self._reader(file.path)
        for position in positions:
            try:
                with self._seek_lock:
                    reader.seek(position)
                    records.append(reader.read())
            except (RuntimeError, IndexError):
                # Reading after a seek doesn't give the cause of a failure; reading a list with a new reader does.
                self._reader.cache_clear()
                reader = self._reader(file.path)
                records += reader.read([position])
        return records

    def _check_unchanged(self, file: _File, *, open_now: bool = False) -> None:
        was = self._identities.get(file.path)
        if was is None:  # remote
            return
        try:
            now = FileIdentity.of(file.path)
        except FileNotFoundError:
            if open_now:  # an open file stays readable after its name is removed
                return
            raise
        if was.same_file(now) or not open_now:
            was.check(file.path, now)

    def name(self, record_key: SupportsIndex) -> str:
        """The record's file and position, such as "train-00003.array_record[17]".

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        key = check_key(record_key, len(self), self)
        place = bisect_right(self._end_list, key)
        return f"{self._files[place].path}[{key + self._first_position(place)}]"

    def origins(self, record_keys: ArrayLike) -> Origins:
        """The files of records and their places in them, as `_source/origins.py` says them.

        Args:
            record_keys: integers (n,).
        """
        keys = check_keys(record_keys, len(self), self)
        firsts = np.array([self._first_position(place) for place in range(len(self._files))])
        numbers = self._ends.searchsorted(keys, "right")
        return Origins.of_documents(keys).in_files(self.paths, numbers, keys + firsts[numbers])

    def data_files(self) -> dict[str, int | None]:
        """The files, and the bytes of each."""
        return {file.path: file.nbytes for file in self._files}

    def fingerprint(self) -> dict[str, Any]:
        """Names without folders, sizes and parts of the files, and a hash of some records; no times.

        It is exact, as `checksums`, where lk.write left those of the files beside them.
        """
        if self._fingerprint is None:
            sizes = [file.nbytes for file in self._files if file.nbytes is not None]
            self._fingerprint = {
                "type": "ArrayRecordDataSource",
                "records": len(self),
                "files": len(self._files),
                "first_file": self._files[0].identity[0],
                "last_file": self._files[-1].identity[0],
                "bytes": sum(sizes) if len(sizes) == len(self._files) else None,
                "parts": digest_of([file.identity for file in self._files]),
                "content": content_hash(self.__getitems__(sampled_keys(len(self)))),
            }
            from loaderkit.formats._index.find import find_blocks  # workers ask for no fingerprint

            paths = list(dict.fromkeys(self.paths))
            if not any(map(is_remote, paths)) and (blocks := find_blocks(paths, "array_record")) is not None:
                self._fingerprint |= blocks.content
        return dict(self._fingerprint)

    def file_versions(self) -> Any:
        """What tells exactly these files from others, as JSON values: sizes and times of the local ones."""
        return [FileIdentity.of(file.path).told() for file in self._files if not is_remote(file.path)]

    def close(self) -> None:
        """Closes the open files; a later read opens its files again."""
        self._reader.cache_clear()

    def __repr__(self) -> str:
        more = f" and {len(self._files) - 1} more" if len(self._files) > 1 else ""
        return f"ArrayRecordDataSource({self._files[0].path!r}{more}, records={len(self)})"

    def __getstate__(self) -> tuple[Any, ...]:
        # Inode numbers and times hold on this machine and for this run only.
        identities = self._all_identities() if goes_to_a_worker() else {}
        return self._options, self._files, self._fingerprint, self._decodes, identities

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._options, self._files, self._fingerprint, self._decodes, *identities = state
        self._identities = dict(*identities)
        self._prepare()

    def _all_identities(self) -> dict[str, FileIdentity]:
        """Also those of files that this process hasn't opened yet, as workers open files at different times."""
        for file in self._files:
            if file.path not in self._identities and not is_remote(file.path):
                with contextlib.suppress(OSError):  # reading the file raises it again
                    self._identities.setdefault(file.path, FileIdentity.of(file.path))
        return dict(self._identities)


def _readable(paths: Any) -> list[FilePart]:
    """The files; ValueError for one that array-record can't read: of servers it knows Google's alone."""
    from loaderkit._storage.patterns import file_parts  # workers get the files' names

    parts = file_parts(paths)
    for part in parts:
        if is_remote(part.path) and not part.path.startswith("gs://"):
            named = paths if isinstance(paths, str) else part.path
            raise ValueError(
                f"paths: expected local files or gs://, which array-record reads, got {redacted(part.path)}; copy the "
                f"files once, and read the copy: lk.formats.fetch({redacted(named)!r}, 'kept')"
            )
    return parts


def _inspect(part: FilePart, options: str, identities: dict[str, FileIdentity]) -> _File:
    reader = open_reader(part.path, options=options, identities=identities, sizes={})
    try:
        total = reader.num_records()
        written = reader.writer_options_string() or ""
    finally:
        reader.close()
    start, stop = part.bounds(total, "records")
    group = re.search(r"(?:^|,)group_size:(\d+)", written)
    identity = identities.get(part.path)
    return _File(
        path=part.path,
        start=start,
        stop=stop,
        total=total,
        nbytes=None if identity is None else identity.nbytes,
        group_size=int(group[1]) if group else 1,
    )


def _worth_a_list(file: _File, count: int) -> bool:
    if file.nbytes is None or file.group_size > 1:  # remote, or records are compressed in groups
        return True
    return count >= max(LISTED_RECORDS, LISTED_SHARE * file.total)
