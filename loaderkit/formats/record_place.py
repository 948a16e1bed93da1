"""Where a record of an index lies, for errors."""

from typing import NamedTuple

import numpy as np

from loaderkit._storage.range_reader import RangeReader

from ._index.record_index import RecordIndex


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
        return f"{self.file}: at byte {self.begin + offset}, in record {self.record}: {problem}"


def record_place(index: RecordIndex, ranges: RangeReader, key: int) -> RecordPlace:
    """Where a record lies.

    Args:
        index: of the files.
        ranges: their reader.
        key: of the index, in [0, records).
    """
    shards, begins, _ = index.locate(np.array([key]))
    shard = int(shards[0])
    return RecordPlace(ranges.names[shard], key - index.records_of(shard)[0], int(begins[0]))
