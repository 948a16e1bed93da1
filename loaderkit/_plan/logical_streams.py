"""Which indices a shard reads where operations change the number of rows: its logical streams.

stream  one of S logical streams; the operations before the last Batch run on each stream alone.
q       consecutive indices that one stream takes before the next stream: G / S at the first start. The state keeps it,
        so a later change of G moves no index to another stream. Index i belongs to stream (i // q) % S.
turn    number of a block of q indices within its stream, from 0.
"""

import math

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.metadata import MOST_INT64
from loaderkit._order.sharding import Shard

from .batching import Batching, check_shares, check_span


def stream_block(count: int, batching: Batching) -> int:
    """q for S = `count` logical streams at the first start. Raises what `check_streams` raises for one shard.

    >>> stream_block(2, Batching(inner=(), rows=8, remainder="keep", batched=True))
    4
    """
    check_streams(count, rows=batching.rows, shard_count=1)
    return batching.stride // count


def check_streams(count: int, *, rows: int, shard_count: int) -> None:
    """Raise ValueError, with the line to paste, unless each stream has as many rows and belongs to one shard.

    count: S. rows: N. shard_count: H; S must be a multiple of H and a divisor of N. TypeError where S isn't an int.

    >>> check_streams(1, rows=8, shard_count=2)
    Traceback (most recent call last):
        ...
    ValueError: logical_streams: expected a multiple of 2, the number of shards, that divides 8, the rows of a
    global batch, got 1; it can't change later, and a larger one leaves room for more shards; use
    logical_streams=2
    """
    count = at_least("logical_streams", count, 1)
    check_shares(rows, shard_count)
    if count % shard_count or rows % count:
        raise ValueError(
            f"logical_streams: expected a multiple of {shard_count}, the number of shards, that divides {rows}, the "
            f"rows of a global batch, got {count}; it can't change later, and a larger one leaves room for more "
            "shards; use\n"
            f"logical_streams={_nearest_streams(count, rows, shard_count)}"
        )


def _nearest_streams(count: int, rows: int, shard_count: int) -> int:
    common = math.lcm(count, shard_count)
    return common if rows % common == 0 else math.gcd(common, rows)


@dataclass(frozen=True, slots=True)
class LogicalStreams:
    """The logical streams of a pipeline in which operations change the number of rows.

    count: S. q: indices of a turn. start, stop: the loader's indices are [start, stop); stop=None is no end. Raises
    ValueError naming the argument.

    >>> streams = LogicalStreams(count=2, q=3, start=0, stop=14)
    >>> streams.indices(1, 4, 5)
    array([ 4,  5,  9, 10, 11])
    """

    count: int
    q: int
    start: int
    stop: int | None

    def __post_init__(self) -> None:
        for name, value in (("count", self.count), ("q", self.q)):
            if value < 1:
                raise ValueError(f"{name}: expected 1 or more, got {value}")
        check_span(self.start, self.stop)

    def stream_of(self, index: int) -> int:
        """The stream that an index belongs to.

        >>> LogicalStreams(count=2, q=3, start=0, stop=None).stream_of(4)
        1
        """
        return index // self.q % self.count

    def indices(self, stream: int, first_index: int, n: int) -> NDArray[np.int64]:
        """The next n indices of a stream from `first_index` on, fewer at the end.

        Returns int64 (<=n,), ascending. Raises IndexError for a stream that doesn't exist and for indices past 2**63.

        >>> LogicalStreams(count=2, q=3, start=0, stop=None).indices(0, 5, 4)
        array([ 6,  7,  8, 12])
        """
        if not 0 <= stream < self.count:
            raise IndexError(f"stream: expected 0 to {self.count - 1}, got {stream}")
        first = self._place_from(stream, max(first_index, self.start))
        last = first + n if self.stop is None else min(first + n, self._place_from(stream, self.stop))
        if last > first and self._index_at(stream, last - 1) > MOST_INT64:
            raise IndexError(
                f"first_index: expected indices that aren't past 2**63, got {n} of stream {stream} from "
                f"{first_index} on"
            )
        turn, inside = np.divmod(np.arange(first, last, dtype=np.int64), self.q)
        return (turn * self.count + stream) * self.q + inside

    def owned(self, rows: int, shard: Shard) -> tuple[int, ...]:
        """The streams of a shard; stream s makes rows [s*N/S, (s+1)*N/S) of a batch of N rows.

        rows: N. Raises what `check_streams` raises.

        >>> from loaderkit._order.sharding import ShardOptions
        >>> LogicalStreams(count=4, q=2, start=0, stop=None).owned(8, ShardOptions(1, 2))
        (2, 3)
        """
        check_streams(self.count, rows=rows, shard_count=shard.shard_count)
        each = self.count // shard.shard_count
        return tuple(stream for block in shard.blocks for stream in range(block * each, (block + 1) * each))

    # A place numbers a stream's own indices from 0: place p is index (p // q * S + stream) * q + p % q.

    def _place_from(self, stream: int, index: int) -> int:
        block, inside = divmod(index, self.q)
        turn, holder = divmod(block, self.count)
        if holder == stream:
            return turn * self.q + inside
        return (turn + (holder > stream)) * self.q

    def _index_at(self, stream: int, place: int) -> int:
        turn, inside = divmod(place, self.q)
        return (turn * self.count + stream) * self.q + inside
