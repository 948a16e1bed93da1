"""The messages from a trainer to its feeder, in the frames of `transport/wire.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .coming_chunks import NextUses

# Kinds, after those of `transport/wire.py`. PREPARE is the same as a worker's.
FEED = 32  # a pickled ChunkFeed
BEGIN = 33  # a pickled Beginning: what was planned before is dropped
GIVEN = 34  # numbers: of which beginning, then how many records each of its feeds has given out


@dataclass(frozen=True, slots=True)
class Beginning:
    """A stream that begins: at a start, after a seek, in another epoch.

    number: of beginnings before it. feeds: as they are before the first record. next_uses: of the sampler, None where
    it doesn't say. records: of the source.
    """

    number: int
    feeds: Sequence[Any]
    next_uses: NextUses | None
    records: int
