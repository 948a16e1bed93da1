"""A part of a source is written to one file."""

from dataclasses import dataclass
from typing import Any

from .record_stream import encode, source_records
from .shard_stream import shard_writer
from .write_format import RecordEncoder, WriteFormat


@dataclass(frozen=True, slots=True)
class SourceShards:
    """Writes a shard of a source; `make_shards` calls it in workers.

    Args:
        source: a data source.
        writing: the format.
        encoder: of the format.
        shards: number of all shards.
        drop: whether a record that can't be read or encoded is left out.
    """

    source: Any
    writing: WriteFormat
    encoder: RecordEncoder
    shards: int
    drop: bool

    def __call__(self, shard: int, path: str) -> dict[str, int]:
        count, written = len(self.source), 0
        begin, end = (at * count // self.shards for at in (shard, shard + 1))
        with shard_writer(self.writing, path, self.encoder) as writer:
            for number, record in source_records(self.source, self.drop, begin, end):
                try:
                    encoded = encode(self.encoder, record, number)
                except (TypeError, ValueError):
                    if self.drop:
                        continue
                    raise
                writer.add(encoded)
                written += 1
        return {"records": written}
