"""Batch sizes as arithmetic: how many records make a row, how many rows make a step, which rows a shard gets.

level       a Batch before the last: makes one element of `size` elements.
row         an element that enters the last Batch, made of `group` records, the product of the levels' sizes.
N (rows)    rows of one step over all shards; without any Batch, the shard count.
G (stride)  N * group, the consecutive indices of a step.
m           rows of a step that exist: N, or fewer where the stream ends.
"""

import math
from typing import Literal, get_args

from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.sharding import Shard, ShardOptions

Remainder = Literal["keep", "drop", "pad", "wrap"]
_INNER = ("keep", "drop")


def _check_remainder(remainder: str, known: tuple[str, ...]) -> None:
    if remainder not in known:
        raise ValueError(f"remainder: expected {' or '.join(map(repr, known))}, got {remainder!r}")


@dataclass(frozen=True, slots=True)
class InnerBatch:
    """One Batch before the last: `size` elements become one; `remainder` is "keep" or "drop", for a last, short one.

    >>> InnerBatch(4, "keep")
    InnerBatch(size=4, remainder='keep')
    """

    size: int
    remainder: Remainder

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", at_least("size", self.size, 1))
        _check_remainder(self.remainder, _INNER)

    def count(self, elements: int) -> int:
        """Number of elements that are made of `elements`.

        >>> InnerBatch(4, "keep").count(9), InnerBatch(4, "drop").count(9)
        (3, 2)
        """
        return -(-elements // self.size) if self.remainder == "keep" else elements // self.size


@dataclass(frozen=True, slots=True)
class Batching:
    """The Batches of a pipeline as one value: those before the last in order, and the rows of the last.

    inner: the Batches before the last, first to last. rows: N. remainder: what the last Batch does with a last, partial
    step. batched: False where there is no Batch; a step then gives each shard one element. Raises TypeError or
    ValueError naming the argument.

    >>> batching = Batching(inner=(InnerBatch(3, "keep"),), rows=4, remainder="keep", batched=True)
    >>> batching.group, batching.stride
    (3, 12)
    """

    inner: tuple[InnerBatch, ...]
    rows: int
    remainder: Remainder
    batched: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", at_least("rows", self.rows, 1))
        _check_remainder(self.remainder, get_args(Remainder))
        if self.inner and not self.batched:
            raise ValueError(f"inner: expected no levels with batched=False, got {len(self.inner)}")

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
        """Number of rows for the last Batch that are made of `records` consecutive records.

        >>> Batching(
        ...     inner=(InnerBatch(3, "drop"), InnerBatch(2, "keep")), rows=4, remainder="keep", batched=True
        ... ).count_rows(10)
        2
        """
        for level in self.inner:
            records = level.count(records)
        return records

    def count_used(self, records: int) -> int:
        """How many of `records` consecutive records are part of a row: all but those that an earlier Batch drops.

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


def check_span(start: int, stop: int | None) -> None:
    """ValueError unless 0 <= start <= stop; stop: None without end.

    >>> check_span(0, 4)
    """
    if start < 0:
        raise ValueError(f"start: expected 0 or more, got {start}")
    if stop is not None and stop < start:
        raise ValueError(f"stop: expected {start} (start) or more, got {stop}")


def check_shares(rows: int, shard_count: int) -> None:
    """ValueError where the rows of a global batch aren't a multiple of the number of shards.

    >>> check_shares(8, 4)
    """
    if rows % shard_count:
        raise ValueError(
            f"global_batch_size: expected a multiple of {shard_count}, the number of shards, got {rows}; "
            f"use for example global_batch_size={-(-rows // shard_count) * shard_count}"
        )


def shard_rows(rows_present: int, rows: int, *, shard: ShardOptions, remainder: Remainder) -> tuple[int, int]:
    """The half-open range of rows of one step that a shard gets; empty where the step has no row for it.

    rows_present: m, from 0 to N. rows: N, a multiple of the shard count, else ValueError. Of a whole step shard h of H
    gets the block [h*N/H, (h+1)*N/H). Of a partial step, "keep" splits the m rows in order, and the first m % H shards
    get one more (with `shard.drop_remainder` each shard gets m // H); "drop" gives none; "pad" and "wrap" complete it
    to N rows, so each shard gets its block as of a whole step.

    >>> [shard_rows(5, 8, shard=ShardOptions(h, 4), remainder="keep") for h in range(4)]
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    index, count = shard.shard_index, shard.shard_count
    check_shares(rows, count)
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
    """The half-open ranges of rows of one step that a shard gets, ascending, none adjacent; empty where it gets no row.

    They are those of `shard_rows` for each block of the shard, adjacent ones joined.

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
