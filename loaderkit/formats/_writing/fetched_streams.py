"""Streams of bytes that become the shards of a set: each is read once, unpacked, scanned, and kept as it is."""

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._codecs.scan import Malformed
from loaderkit._storage.addresses import redacted
from loaderkit._storage.fetching import FetchError, storage_error, tried
from loaderkit.errors import DataFormatError
from loaderkit.formats import registry
from loaderkit.formats._index.scan_shard import reading
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats.format import Format

from .byte_file import new_file
from .byte_streams import PIPE, pieces_of
from .shard_result import ShardResult

_PACKED = re.compile(r"\.(gz|bz2|xz|zstd?)$")


def stream_format(name: str, data_format: str | None) -> Format:
    """The format of a stream: the given one, else what its name or a word of its command says; ValueError without.

    >>> stream_format("pipe:aws s3 cp s3://b/a.tar.gz - | gunzip", None).name
    'tar'
    """
    words = name.split() if name.startswith(PIPE) else [redacted(name)]
    found = registry.of_name(data_format) if data_format else None
    for word in words:
        found = found or registry.by_name(_PACKED.sub("", re.sub(r"\.tgz$", ".tar", word.strip("'\""))))
    if found is None or not found.extensions or found.one_file:
        got = "a name that says none" if found is None else found.name
        raise ValueError(
            f"format: expected one of files for {redacted(name)}, got {got}; give it, such as format='tar', 'csv' or "
            "'lines'"
        )
    return found


@dataclass(frozen=True, slots=True)
class FetchedStreams:
    """Reads a stream to its file; a `ShardJobs` calls it.

    Args:
        names: of the streams, as `pieces_of` takes them.
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
        try:
            tried(lambda: self._keep(name, path))
        except FetchError as refusal:
            raise storage_error(redacted(name), "all its bytes", refusal) from None
        return ShardResult(self._records(path, redacted(name)))

    def _keep(self, name: str, path: str) -> None:
        with contextlib.closing(pieces_of(name, self.storage_options)) as pieces, new_file(path) as file:
            begin = next(pieces, b"")
            others = self.format.begins is not None and not self.format.begins(
                begin[: registry.SNIFFED_BYTES]
            )
            if not begin or (others and registry.of_bytes(begin[: registry.SNIFFED_BYTES]) is not None):
                raise DataFormatError(
                    f"{redacted(name)}: expected bytes of the format {self.format.name}, got {begin[:12]!r}"
                )
            for piece in itertools.chain([begin], pieces):
                file.write(piece)
                self.advance(len(piece))
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
