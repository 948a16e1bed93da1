"""Batch sizes as arithmetic: how many records make a row, how many rows make a step, which rows a shard gets.

level      an earlier Batch: it makes one element of `size` elements.
row        an element that enters the last Batch: `group` records, the product of the levels' sizes.
N (rows)   rows of one step over all shards; without any Batch, the shard count.
G (stride) N * group: the consecutive indices of a step.
m          rows that exist of a step: N, or less where the stream ends.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from loaderkit._order.sharding import Shard, ShardOptions

Remainder = Literal["keep", "drop", "pad", "wrap"]
_INNER = ("keep", "drop")


def _check_size(name: str, size: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"{name}: expected an int, got {size!r}")
    if size < 1:
        raise ValueError(f"{name}: expected 1 or more, got {size}")


def _check_remainder(remainder: str, known: tuple[str, ...]) -> None:
    if remainder not in known:
        raise ValueError(f"remainder: expected {' or '.join(map(repr, known))}, got {remainder!r}")


@dataclass(frozen=True, slots=True)
class InnerBatch:
    """One Batch before the last: `size` elements become one; `remainder` is for a last short one.

    >>> InnerBatch(4, "keep")
    InnerBatch(size=4, remainder='keep')
    """

    size: int
    remainder: Remainder

    def __post_init__(self) -> None:
        _check_size("size", self.size)
        _check_remainder(self.remainder, _INNER)

    def count(self, elements: int) -> int:
        """Number of elements made of that many.

        >>> InnerBatch(4, "keep").count(9), InnerBatch(4, "drop").count(9)
        (3, 2)
        """
        return -(-elements // self.size) if self.remainder == "keep" else elements // self.size


@dataclass(frozen=True, slots=True)
class Batching:
    """The Batches of a pipeline as one value: the earlier ones in order, and the rows of the last.

    inner: the Batches before the last, first to last. rows: N. remainder: what the last Batch does with a
    last partial step. batched: False where there is no Batch; a step then gives each shard one element.
    Raises TypeError or ValueError naming the argument.

    >>> batching = Batching(inner=(InnerBatch(3, "keep"),), rows=4, remainder="keep", batched=True)
    >>> batching.group, batching.stride
    (3, 12)
    """

    inner: tuple[InnerBatch, ...]
    rows: int
    remainder: Remainder
    batched: bool

    def __post_init__(self) -> None:
        _check_size("rows", self.rows)
        _check_remainder(self.remainder, get_args(Remainder))
        if self.inner and not self.batched:
            raise ValueError("inner: levels stand before a last Batch, so batched=False can't have any")

    @property
    def group(self) -> int:
        """Records of one row.

        >>> Batching(inner=(), rows=4, remainder="keep", batched=True).group
        1
        """
        return math.prod(level.size for level in self.inner)

    @property
    def stride(self) -> int:
        """G, the consecutive indices of one step.

        >>> Batching(inner=(), rows=4, remainder="keep", batched=True).stride
        4
        """
        return self.rows * self.group

    def count_rows(self, records: int) -> int:
        """Number of rows that enter the last Batch from that many consecutive records.

        >>> Batching(
        ...     inner=(InnerBatch(3, "drop"), InnerBatch(2, "keep")), rows=4, remainder="keep", batched=True
        ... ).count_rows(10)
        2
        """
        for level in self.inner:
            records = level.count(records)
        return records

    def count_used(self, records: int) -> int:
        """Number of those records that are part of a row: not what an earlier Batch drops at the end.

        >>> Batching(
        ...     inner=(InnerBatch(3, "drop"), InnerBatch(2, "keep")), rows=4, remainder="keep", batched=True
        ... ).count_used(10)
        9
        """
        counts = [records]
        for level in self.inner:
            counts.append(level.count(counts[-1]))
        used = counts.pop()
        for level in reversed(self.inner):
            used = min(counts.pop(), used * level.size)
        return used


def shard_rows(rows_present: int, rows: int, *, shard: ShardOptions, remainder: Remainder) -> tuple[int, int]:
    """The half-open range of rows of one step that a shard gets; empty where this step doesn't exist for it.

    rows_present: m, from 0 to N. rows: N, a multiple of the shard count, else ValueError. A whole step gives
    shard h of H the block [h*N/H, (h+1)*N/H). Of a partial one, "keep" splits the m rows in order, the first
    m % H shards get one more (with `shard.drop_remainder` each gets m // H), and "drop" gives nothing. "pad" and
    "wrap" fill it up to N rows, so each shard gets its block as of any other step.

    >>> [shard_rows(5, 8, shard=ShardOptions(h, 4), remainder="keep") for h in range(4)]
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    index, count = shard.shard_index, shard.shard_count
    if rows % count:
        raise ValueError(
            f"global_batch_size: {rows} rows can't be cut in equal parts for {count} shards; "
            f"use a multiple of {count}, such as global_batch_size={-(-rows // count) * count}"
        )
    if not 0 <= rows_present <= rows:
        raise ValueError(f"rows_present: expected 0 to {rows}, got {rows_present}")
    if rows_present < rows and remainder == "drop":
        return 0, 0
    filled = rows_present > 0 and remainder in ("pad", "wrap")
    each, left = divmod(rows if filled else rows_present, count)
    if shard.drop_remainder:
        return index * each, (index + 1) * each
    low = index * each + min(index, left)
    return low, low + each + (index < left)


def shard_spans(
    rows_present: int, rows: int, *, shard: Shard, remainder: Remainder
) -> tuple[tuple[int, int], ...]:
    """The half-open ranges of rows of one step that a shard gets, ascending and apart; none where it gets no row.

    As `shard_rows` cuts them, for each block of the shard.

    >>> from loaderkit._order.sharding import ShardBlocks
    >>> blocks = ShardBlocks(blocks=(0, 1, 3), shard_count=4, writers=(0, 0, 1, 0))
    >>> shard_spans(8, 8, shard=blocks, remainder="keep")
    ((0, 4), (6, 8))
    """
    spans: list[tuple[int, int]] = []
    for block in shard.blocks:
        one = ShardOptions(block, shard.shard_count, shard.drop_remainder)
        low, high = shard_rows(rows_present, rows, shard=one, remainder=remainder)
        if spans and spans[-1][1] == low:
            low, _ = spans.pop()
        if low < high:
            spans.append((low, high))
    return tuple(spans)
