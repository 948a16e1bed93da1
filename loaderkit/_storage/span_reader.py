"""The contract between a source and the bytes of its records: read straight from the shards, or through a cache."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class SpanReader(Protocol):
    """Gives the bytes of records by key. Safe for threads; picklable, so that each worker has its own.

    waits: whether a read may wait for a server.
    """

    @property
    def waits(self) -> bool: ...

    def read(self, keys: NDArray[np.int64]) -> list[bytes | memoryview]:
        """The spans of the records with these keys, (n,) each in [0, records), in the order given."""
        ...

    def close(self) -> None:
        """Closes files and connections; a later read opens them again."""
        ...
