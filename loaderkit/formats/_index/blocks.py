"""Files of any format as blocks, for an index that has their checksums where it can't have those of records."""

import numpy as np

from loaderkit._base.block_checksums import BLOCK_BYTES
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._codecs.checksums import span_checksums
from loaderkit._codecs.scan import ReadAt, ShardScan


@dataclass(frozen=True, slots=True)
class BlocksFormat:
    """Files of a format, cut into blocks of 64 KiB.

    Args:
        name: of the format.

    >>> BlocksFormat("parquet").scan(lambda at, length: b"", 100_000).starts
    array([     0,  65536, 100000], dtype=uint64)
    """

    name: str
    unit: int = 1

    @property
    def kind(self) -> str:
        """The name in an index."""
        return f"{self.name} blocks"

    def scan(
        self, read: ReadAt, size: int, *, members: bool = True, keys: bool = False, checksums: bool = False
    ) -> ShardScan:
        """Where the blocks lie; any file has some."""
        starts = np.append(np.arange(0, size, BLOCK_BYTES, dtype=np.uint64), np.uint64(size))
        return ShardScan(starts, checksums=span_checksums(read, starts) if checksums else None)
