"""A part of a source is written to one file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loaderkit.sources.naming import namer_of

from .dropped import Dropped, dropped_record
from .record_stream import encode, source_records
from .shard_jobs import MadeShard
from .shard_stream import shard_writer
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

    def __call__(self, shard: int, path: str | None) -> MadeShard:
        assert path is not None
        keys, written = self.shards[shard], 0
        dropped: Dropped = [] if self.drop else None
        with shard_writer(self.writing, path, self.encoder) as writer:
            for number, record in source_records(self.source, dropped, keys.start, keys.stop):
                try:
                    encoded = encode(self.encoder, record, number)
                except (TypeError, ValueError) as error:
                    if dropped is None:
                        raise
                    dropped.append(dropped_record(number, error, namer_of(self.source)(number)))
                    continue
                writer.add(encoded)
                written += 1
        return MadeShard(written, dropped or [])
