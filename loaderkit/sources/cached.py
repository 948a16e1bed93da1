"""Records that are read once and kept."""

import logging
import os
from typing import Any

from numpy.typing import ArrayLike

from loaderkit._base.closing import Closing
from loaderkit._base.numbers import number_of_bytes
from loaderkit._codecs.record_codec import decode_record, encode_record
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.optional import SourceAdvice
from loaderkit._source.protocol import read_records
from loaderkit._source.record_key import check_keys, short_repr
from loaderkit._source.version import version_of

from .checked import require_methods
from .exclusion import OfDocuments, excluding
from .has_card import HasCard
from .kept_records import FolderOfRecords, MemoryOfRecords
from .sliced import sliced

_log = logging.getLogger("loaderkit")


class CachedDataSource(SourceAdvice, OfDocuments, HasCard, Closing):
    """A source's records, each read from it once and then kept, as bytes: for those that are slow to read or decode.

    With a folder they are kept there for all processes of this machine and for later runs, also after one was killed;
    a folder in memory, such as /dev/shm/NAME, is one copy for all workers. Without a folder each process keeps its own
    in memory. What isn't kept is read from the source, so an epoch is the same with and without a cache.

    Args:
        source: any data source, such as a MapDataSource that decodes. Its records are bytes or what `lk.write` takes,
            with leaves that are bytes, str, bool, int, float, None or numpy's; TypeError for others when they are read.
        folder: where records are kept; made where it is missing. ValueError where it is the cache of another source or
            of another version of it: its files have other times or ETags or, for a class of yours, one of 16 records
            differs. FileExistsError where it holds other files. Nothing sees that a function was changed: delete the
            folder then.
        limit: bytes, or a text such as "20GB", of records that are kept; records beyond are read from the source each
            time. None for no limit; a full disk is one, with a warning.

    >>> calls = []
    >>> class Slow(list):
    ...     def __getitem__(self, key):
    ...         calls.append(key)
    ...         return super().__getitem__(key)
    >>> source = CachedDataSource(Slow([b"zero", b"one"]))
    >>> source[1], source[1], calls
    (b'one', b'one', [1])
    """

    def __init__(
        self,
        source: Any,
        folder: str | os.PathLike[str] | None = None,
        *,
        limit: int | str | None = None,
    ) -> None:
        source = require_methods(source, argument="source")
        self._source = source
        self._folder = None if folder is None else os.path.abspath(os.path.expanduser(os.fspath(folder)))
        self._limit = None if limit is None else number_of_bytes("limit", limit)
        self._version = {} if self._folder is None else version_of(source)
        self._prepare()
        if self._folder is not None:
            self._kept()  # another source's cache is refused at once

    def _prepare(self) -> None:
        self._opened: FolderOfRecords | MemoryOfRecords | None = None
        self._told_full = False

    def _kept(self) -> FolderOfRecords | MemoryOfRecords:
        opened = self._opened  # another thread may close it
        # A process that was forked opens the folder itself, as it would share locks with the other.
        if opened is None or not opened.of_this_process():
            if self._folder is None:
                opened = MemoryOfRecords(self._limit)
            else:
                opened = FolderOfRecords(self._folder, self._version, len(self._source), self._limit)
            self._opened = opened
        return opened

    def __len__(self) -> int:
        return len(self._source)

    @sliced
    def __getitem__(self, key: int) -> Any:
        return self.__getitems__([key])[0]

    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        keys = check_keys(record_keys, len(self), self).tolist()
        kept = self._kept()
        data = {key: kept.read(key) for key in dict.fromkeys(keys)}
        missing = [key for key, found in data.items() if found is None]
        if missing:
            for key, record in zip(missing, read_records(self._source, missing)):
                data[key] = encoded = _encoded(record, self, key)
                self._keep(kept, key, encoded)
        return [_decoded(data[key]) for key in keys]

    def _keep(self, kept: FolderOfRecords | MemoryOfRecords, key: int, encoded: bytes) -> None:
        try:
            kept.keep(key, encoded)
        except OSError as error:
            if not self._told_full:
                self._told_full = True
                _log.warning(
                    "CachedDataSource: %s can't keep more records: %s; the others are read from their source",
                    self._folder,
                    str(error),  # a handler that keeps the error would keep the files open
                )

    def excluding(self, documents: Any) -> Any:
        """The source's records without some documents, which are read past the cache.

        Args:
            documents: keys of `documents`.
        """
        return excluding(self._source, documents)

    def fingerprint(self) -> dict[str, Any]:
        """The source's own: a run may be resumed with a cache, or without."""
        return fingerprint_of(self._source)

    def close(self) -> None:
        """Closes the files, or forgets what is in memory; a later read begins again. The source stays open."""
        self._opened = None

    def __repr__(self) -> str:
        return f"CachedDataSource({short_repr(self._source)}, {self._folder!r})"

    def __getstate__(self) -> tuple[Any, ...]:
        return self._source, self._folder, self._limit, self._version

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._source, self._folder, self._limit, self._version = state
        self._prepare()


# The first byte of what is kept: a record that record_codec takes, or a dict with any other value.
_PLAIN, _WRAPPED = b"p", b"w"


def _encoded(record: Any, source: CachedDataSource, key: int) -> bytes:
    try:
        if type(record) in (bytes, dict):
            return _PLAIN + encode_record(record)
        return _WRAPPED + encode_record({"record": record})
    except TypeError as error:
        name = source.name(key)
        raise TypeError(
            f"CachedDataSource: record_key {key}{'' if name is None else f' ({name})'} can't be kept: {error}; put the "
            "cache around the source that gives bytes or arrays, and make the rest in a Map"
        ) from error


def _decoded(data: bytes | None) -> Any:
    assert data is not None
    record = decode_record(data[1:])
    return record if data.startswith(_PLAIN) else record["record"]
