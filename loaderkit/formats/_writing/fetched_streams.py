"""Streams of bytes that become the shards of a set: each is read once, unpacked, scanned, and kept as it is."""

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loaderkit._codecs.scan import Malformed
from loaderkit._storage.addresses import redacted
from loaderkit._storage.fetching import FetchError, storage_error, tried
from loaderkit.errors import DataFormatError
from loaderkit.formats import registry
from loaderkit.formats._index.scan_shard import reading
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats.format import Format

from .byte_file import new_file
from .byte_streams import PIECE, PIPE, byte_stream
from .shard_result import ShardResult

_PACKED = re.compile(r"\.(gz|bz2|xz|zstd?)$")


def stream_format(name: str, data_format: str | None, storage_options: Mapping[str, Any] | None) -> Format:
    """The format of a stream: the given one, else what its name or a word of its command says, else its first bytes.

    ValueError where they say none, and where they are a text, which may be of several formats.

    Args:
        name, storage_options: as `byte_stream` takes them.
        data_format: its name, or None.
    """
    words = name.split() if name.startswith(PIPE) else [redacted(name)]
    found = registry.of_name(data_format) if data_format else None
    for word in words:
        found = found or registry.by_name(_PACKED.sub("", re.sub(r"\.tgz$", ".tar", word.strip("'\""))))
    if found is None:
        with _as_of_a_server(name), byte_stream(name, storage_options) as (begin, _):
            found = registry.of_bytes(begin)
            said = found is not None and found.name != "lines"
        found = found if said else None
    if found is None or not found.extensions or found.one_file:
        got = "bytes that don't say it" if found is None else found.name
        raise ValueError(
            f"format: expected one of files for {redacted(name)}, got {got}; give it, such as format='tar', 'csv' or "
            "'lines'"
        )
    return found


def _begins_as_another(data_format: Format, begin: bytes) -> bool:
    of_its_own = data_format.begins is not None and not data_format.begins(begin)
    return of_its_own and registry.of_bytes(begin) is not None


@contextlib.contextmanager
def _as_of_a_server(name: str) -> Any:
    try:
        yield
    except FetchError as refusal:
        raise storage_error(redacted(name), "all its bytes", refusal) from None


@dataclass(frozen=True, slots=True)
class FetchedStreams:
    """Reads a stream to its file; a `ShardJobs` calls it.

    Args:
        names: of the streams, as `byte_stream` takes them.
        storage_options: likewise.
        format: of all of them.
        room: raises where a folder has more bytes than it may have.
        advance: is told of bytes that were read.
    """

    names: Sequence[str]
    storage_options: Mapping[str, Any] | None
    format: Format
    room: Callable[[], None]
    advance: Callable[[int], None]

    def __call__(self, shard: int, path: str | None) -> ShardResult:
        assert path is not None
        name = self.names[shard]
        with _as_of_a_server(name):
            tried(lambda: self._keep(name, path))
        return ShardResult(self._records(path, redacted(name)))

    def _keep(self, name: str, path: str) -> None:
        with byte_stream(name, self.storage_options) as (begin, stream), new_file(path) as file:
            if not begin or _begins_as_another(self.format, begin):
                raise DataFormatError(
                    f"{redacted(name)}: expected bytes of the format {self.format.name}, got {begin[:12]!r}"
                )
            while data := stream.read(PIECE):
                file.write(data)
                self.advance(len(data))
                self.room()

    def _records(self, path: str, shown: str) -> int:
        """The number of records: a stream that was cut is found here, not when all others have come."""
        if self.format.scanner is None:
            return len(self.format.open([path]))
        with contextlib.closing(ShardSet([path]).open()) as ranges:
            size = os.path.getsize(path)
            try:
                with reading(ranges, 0, size) as read:
                    return len(self.format.make_scanner().scan(read, size, members=False).starts) - 1
            except Malformed as error:
                raise DataFormatError(f"{shown}: {error}") from None
