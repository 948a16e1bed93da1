"""A part of a source is written to one file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .dropped import Dropped
from .record_stream import encoded_each, source_records
from .shard_result import ShardResult
from .shard_stream import write_shard
from .write_format import RecordEncoder, WriteFormat


@dataclass(frozen=True, slots=True)
class SourceShards:
    """Writes shards of a source as they are; a `ShardJobs` calls it.

    Args:
        source: a data source.
        writing: the format.
        encoder: of the format.
        shards: the keys of each shard's records.
        drop: whether a record that can't be read or encoded is left out.
    """

    source: Any
    writing: WriteFormat
    encoder: RecordEncoder
    shards: Sequence[range]
    drop: bool

    def __call__(self, shard: int, path: str | None) -> ShardResult:
        assert path is not None
        keys = self.shards[shard]
        dropped: Dropped = [] if self.drop else None
        numbered = source_records(self.source, dropped, keys.start, keys.stop)
        encoded = encoded_each(numbered, self.encoder, dropped, self.source)
        return ShardResult(write_shard(encoded, self.writing, self.encoder, path), dropped or [])
