"""Draws with given probabilities in constant time: a table of columns, each shared by two records at most.

    column     one for each record, all equally likely
    threshold  of 2**64 values of a word, how many mean the column's own record; all others mean its alias
    mass       a record's probability as an integer: 2**64 for each column; masses sum to n * 2**64 exactly

The alias method is Walker's (1977), its table Vose's (1991): a record with a mass below a column's gives the rest of
its column to a record with more. Vose's loop takes both kinds in order, so which record fills which column follows from
prefix sums of what is lacking and of what is left over (Huebschle-Schneider and Sanders, "Parallel Weighted Random
Sampling", 2019), and needs no loop. All sums are integers of 96 bits in two words, so nothing drifts.

Masses: a float is an integer of 53 bits times a power of two. It is multiplied by n * 2**64 / sum(weights), which is
taken from the exact sum and rounded down to 64 bits, and the product is rounded down. What the masses lack then, less
than 3 * n, is added to the greatest. So, with p = weight / sum(weights), the table gives each record

    p up to 2**-64 / n + p * 2**-63 too small,   the greatest one up to 3 * 2**-64 too large.

A weight below 2**-64 / n of the sum may be lost. The outputs are part of the stream: another rule needs another
`stream_version`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._base.system.dataclasses import dataclass

from .mixing import UInt64Array
from .permutation import Int64Array

MOST_COLUMNS = (1 << 32) - 1

_CHUNK = 1 << 16  # weights worked on at once: their scratch arrays stay in the cache
_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)
_MANTISSA = 53
_LEAST = -1073 - _MANTISSA  # the power of two of the least float's integer
_WORD = 1 << 64

UInt32Array = npt.NDArray[np.uint32]
Float64Array = npt.NDArray[np.float64]
_Wide = tuple[UInt64Array, UInt64Array]  # integers of 96 bits: their upper 64 and their lower 32 bits


@dataclass(frozen=True, slots=True, eq=False)
class AliasTable:
    """A table for draws from n records, 12 bytes each. thresholds: (n,) uint64. aliases: (n,) uint32.

    >>> table = AliasTable.of(np.array([1.0, 0.0, 3.0]))
    >>> (table.thresholds / 2**64).tolist(), table.aliases.tolist()
    ([0.75, 0.0, 0.0], [2, 2, 2])
    """

    thresholds: UInt64Array
    aliases: UInt32Array

    def __post_init__(self) -> None:
        self.thresholds.setflags(write=False)
        self.aliases.setflags(write=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return AliasTable, (self.thresholds, self.aliases)

    @classmethod
    def of(cls, weights: Float64Array) -> "AliasTable":
        """The table of (n,) float64 weights: finite, 0 or more, not all 0; n is at most 2**32 - 1."""
        columns, rests = _masses(weights)
        n = len(weights)
        light, heavy = np.flatnonzero(columns == 0), np.flatnonzero(columns)
        thresholds, aliases = rests, np.arange(n, dtype=np.uint32)
        if not light.size:  # all have the same mass
            return cls(thresholds, aliases)
        lacking = _lacking(rests[light])
        left = _left_over(columns[heavy], rests[heavy])
        # For each light record, how many heavy ones are used up by it and those before it.
        used = _count_below(left, lacking)
        aliases[light[0]] = heavy[0]
        aliases[light[1:]] = heavy[used[:-1]]
        # A heavy record is used up by the first light one that needs more than is left over; it keeps what it has then,
        # and the next heavy one fills its column. Those that aren't used up keep their columns.
        by = np.searchsorted(used, np.arange(used[-1]), side="right")
        closed = heavy[: used[-1]]
        thresholds[heavy] = 0
        thresholds[closed] = _word(left, slice(0, used[-1])) - _word(lacking, by)
        aliases[closed] = heavy[1 : used[-1] + 1]
        return cls(thresholds, aliases)

    def draw(self, columns: UInt64Array, words: UInt64Array) -> Int64Array:
        """The records of two words each, (k,) uint64 and uniform: the first chooses a column, the second one a part.

        A column is floor(word * n / 2**64), so its probability is less than 2**-64 off 1 / n.
        """
        n = np.uint64(len(self.thresholds))
        places = (columns >> _HALF) * n  # the upper and the lower half of a product of 96 bits
        places += ((columns & _LOW) * n) >> _HALF
        places >>= _HALF
        own = places.view(np.int64)
        return np.where(words < self.thresholds[own], own, self.aliases[own])


def _masses(weights: Float64Array) -> tuple[UInt32Array, UInt64Array]:
    """Of each record's mass the whole columns, (n,) uint32, and the rest, (n,) uint64; they sum to n columns."""
    n = len(weights)
    factor, shift = _factor(n, _exact_sum(weights))
    columns, rests = np.empty(n, np.uint32), np.empty(n, np.uint64)
    missing = n * _WORD
    for low in range(0, n, _CHUNK):
        part = slice(low, low + _CHUNK)
        mantissas, exponents = _integers(weights[part])
        upper, lower = _product(mantissas, factor)
        shifts = shift - exponents
        near, far = np.clip(shifts, 1, 63).view(np.uint64), np.clip(shifts - 64, 0, 63).view(np.uint64)
        close = shifts < 64
        columns[part] = np.where(close, upper >> near, np.uint64(0))
        rest = np.where(close, (lower >> near) | (upper << (np.uint64(64) - near)), upper >> far)
        rests[part] = np.where(shifts < 128, rest, np.uint64(0))
        missing -= _sum_of(columns[part]) * _WORD + _sum_of(rests[part])
    greatest = int(np.argmax(weights))
    mass = int(columns[greatest]) * _WORD + int(rests[greatest]) + missing
    columns[greatest], rests[greatest] = divmod(mass, _WORD)
    return columns, rests


def _integers(weights: Float64Array) -> tuple[UInt64Array, Int64Array]:
    """Integers below 2**53 and powers of two that give the weights exactly."""
    fractions, exponents = np.frexp(weights)
    return np.ldexp(fractions, _MANTISSA).astype(np.uint64), exponents.astype(np.int64) - _MANTISSA


def _exact_sum(weights: Float64Array) -> int:
    """The sum of the weights in units of 2**_LEAST."""
    sums = np.zeros((2, 1 << 12), np.int64)  # by exponent, of the upper and the lower bits of mantissas
    for low in range(0, len(weights), _CHUNK):
        mantissas, exponents = _integers(weights[low : low + _CHUNK])
        places = exponents - _LEAST
        for row, bits in enumerate((mantissas >> _HALF, mantissas & _LOW)):
            # Floats are exact here: a chunk's sum is below 2**48.
            added = np.bincount(places, weights=bits.astype(np.float64))
            sums[row, : len(added)] += added.astype(np.int64)
    found = np.flatnonzero(sums.any(axis=0)).tolist()
    return sum(((int(sums[0, place]) << 32) + int(sums[1, place])) << place for place in found)


def _factor(n: int, total: int) -> tuple[int, int]:
    """An integer of 64 bits and a shift: factor / 2**shift is n * 2**64 / (total * 2**_LEAST), rounded down."""
    over = n << (64 - _LEAST)
    shift = 64 + total.bit_length() - over.bit_length()
    factor = (over << max(shift, 0)) // (total << max(-shift, 0))
    # Of 64 or 65 bits.
    return (factor, shift) if factor < _WORD else (factor >> 1, shift - 1)


def _product(mantissas: UInt64Array, factor: int) -> tuple[UInt64Array, UInt64Array]:
    """The upper and lower 64 bits of products of integers below 2**53 with one below 2**64."""
    upper, lower = mantissas >> _HALF, mantissas & _LOW
    first, second = np.uint64(factor >> 32), np.uint64(factor & int(_LOW))
    least = lower * second
    middle = lower * first + (least >> _HALF)
    other = upper * second + (middle & _LOW)
    return upper * first + (middle >> _HALF) + (other >> _HALF), (other << _HALF) | (least & _LOW)


def _sum_of(values: npt.NDArray[Any]) -> int:
    return (int((values >> 32).sum(dtype=np.uint64)) << 32) + int((values & 0xFFFFFFFF).sum(dtype=np.uint64))


def _lacking(rests: UInt64Array) -> _Wide:
    """How much the light records lack of a column each, summed up to each of them."""
    upper, lower = _summed(rests >> _HALF, rests & _LOW)
    whole = np.arange(1, len(rests) + 1, dtype=np.uint64) << _HALF
    return whole - upper - (lower > 0), np.negative(lower) & _LOW


def _left_over(columns: UInt32Array, rests: UInt64Array) -> _Wide:
    """How much the heavy records have over a column each, summed up to each of them."""
    whole = (columns.astype(np.uint64) - np.uint64(1)) << _HALF
    return _summed(whole + (rests >> _HALF), rests & _LOW)


def _summed(upper: UInt64Array, lower: UInt64Array) -> _Wide:
    upper, lower = np.cumsum(upper, dtype=np.uint64), np.cumsum(lower, dtype=np.uint64)
    return upper + (lower >> _HALF), lower & _LOW


def _word(values: _Wide, which: Any) -> UInt64Array:
    """The lower 64 bits."""
    word: UInt64Array = (values[0][which] << _HALF) | values[1][which]
    return word


def _count_below(values: _Wide, limits: _Wide) -> Int64Array:
    """How many of the ascending values are below each of the ascending limits."""
    low = np.searchsorted(values[0], limits[0], side="left")
    high = np.searchsorted(values[0], limits[0], side="right")
    # Where upper bits are equal, a binary search by the lower ones.
    tied = np.flatnonzero(low < high)
    while tied.size:
        middle = (low[tied] + high[tied]) // 2
        below = values[1][middle] < limits[1][tied]
        low[tied] = np.where(below, middle + 1, low[tied])
        high[tied] = np.where(below, high[tied], middle)
        tied = tied[low[tied] < high[tied]]
    return low
