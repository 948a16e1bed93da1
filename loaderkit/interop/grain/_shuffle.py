"""Grain's index_shuffle, bit for bit and on arrays: a permutation of [0, max_index] for each 32-bit seed.

A Feistel cipher of 2 * half bits is applied to each index, and again to what falls outside the range:

    half    half the bits of a block; a block is 2 * half bits wide, 16 at least
    keys    one 32-bit word a round, spread from the seed as C++'s std::seed_seq does
    round   left ^= mix(right) ^ key, then right ^= mix(left) ^ key

Where the range has at most 2**16 indices the whole permutation is a table: one by one, an index of a short range would
take thousands of passes.

For a length of 4**k + 1 from 65,537 on it is no permutation, as in Grain: the block is a bit too narrow, so the last
index shares its record with index 0, and the record `max_index` is never read.
"""

import math
from functools import lru_cache
from operator import index as to_index

import numpy as np
from numpy.typing import NDArray

UInt64Array = NDArray[np.uint64]

_ROUNDS = 4  # what every sampler uses
_LEAST_BITS = 16
_SEED_LIMIT = 1 << 32
_WORD = 0xFFFFFFFF
_SEED_SEQ_FILL = 0x8B8B8B8B


def index_shuffle(index: int, max_index: int, seed: int, rounds: int) -> int:
    """Where the permutation of [0, max_index] sends one index.

    Args:
        index: int in [0, max_index].
        max_index: the last index.
        seed: int in [0, 2**32).
        rounds: an even int in [4, 1024].

    Raises ValueError for an index or a number of rounds out of range, TypeError for a seed out of range.

    >>> sorted(index_shuffle(index, max_index=4, seed=32, rounds=4) for index in range(5))
    [0, 1, 2, 3, 4]
    """
    index, max_index, seed, rounds = map(to_index, (index, max_index, seed, rounds))
    if rounds % 2 or not 4 <= rounds <= 1024:
        raise ValueError(f"rounds must be an even integer between 4 and 1024, got {rounds}")
    if not 0 <= index <= max_index:
        raise ValueError(f"index must be in [0, max_index], got {index} and max_index {max_index}")
    if not 0 <= seed < _SEED_LIMIT:
        raise TypeError(f"seed: expected an int in [0, 2**32), got {seed}")
    return int(shuffled(np.array([index], np.int64), max_index, seed, rounds)[0])


def shuffled(
    positions: NDArray[np.int64], max_index: int, seed: int, rounds: int = _ROUNDS
) -> NDArray[np.int64]:
    """Where the permutation of [0, max_index] sends each position.

    Args:
        positions: (n,) int64 in [0, max_index].
        max_index: the last index.
        seed: int in [0, 2**32).
        rounds: of the cipher.

    >>> shuffled(np.arange(5), 4, 32).tolist()
    [2, 4, 3, 0, 1]
    """
    if max_index == 0:
        return np.zeros_like(positions)
    half = half_bits(max_index)
    if half * 2 == _LEAST_BITS:
        return _table(max_index, seed, rounds)[positions]
    keys, last = round_keys(seed, rounds), np.uint64(max_index)
    out = _encrypted(positions.astype(np.uint64), half, keys)
    outside = np.flatnonzero(out > last)
    while outside.size:  # few passes: a block has at most four times the values of the range
        out[outside] = _encrypted(out[outside], half, keys)
        outside = outside[out[outside] > last]
    return out.astype(np.int64)


def half_bits(max_index: int) -> int:
    """Half the bits of a block.

    >>> half_bits(65535), half_bits(65536), half_bits(65537)
    (8, 8, 9)
    """
    bits = math.ceil(math.log2(max_index))  # of a double, in which a large max_index loses its last bits
    return max(bits + bits % 2, _LEAST_BITS) // 2


@lru_cache(maxsize=64)
def round_keys(seed: int, rounds: int) -> tuple[int, ...]:
    """The words that std::seed_seq{seed} generates.

    >>> round_keys(0, 4) == round_keys(0, 4) != round_keys(1, 4)
    True
    """
    n = rounds
    spread = next(
        size for least, size in ((623, 11), (68, 7), (39, 5), (7, 3), (0, (n - 1) // 2)) if n >= least
    )
    p = (n - spread) // 2
    q = p + spread
    words = [_SEED_SEQ_FILL] * n
    last = max(2, n)
    for k in range(last):
        here, there, back = k % n, (k + p) % n, (k - 1) % n
        x = words[here] ^ words[there] ^ words[back]
        low = 1664525 * (x ^ (x >> 27)) & _WORD
        high = low + (1 if k == 0 else here + seed if k == 1 else here) & _WORD
        words[there] = words[there] + low & _WORD
        words[(k + q) % n] = words[(k + q) % n] + high & _WORD
        words[here] = high
    for k in range(last, last + n):
        here, there, back = k % n, (k + p) % n, (k - 1) % n
        x = words[here] + words[there] + words[back] & _WORD
        low = 1566083941 * (x ^ (x >> 27)) & _WORD
        high = low - here & _WORD
        words[there] ^= low
        words[(k + q) % n] ^= high
        words[here] = high
    return tuple(words)


def _encrypted(blocks: UInt64Array, half: int, keys: tuple[int, ...]) -> UInt64Array:
    """One pass of the cipher over (n,) uint64 blocks; bits above the block's are lost."""
    mask = np.uint64((1 << half) - 1)
    left, right = blocks >> np.uint64(half) & mask, blocks & mask
    for place in range(0, len(keys), 2):
        left = left ^ _mixed(right, half, mask) ^ np.uint64(keys[place]) & mask
        right = right ^ _mixed(left, half, mask) ^ np.uint64(keys[place + 1]) & mask
    return left << np.uint64(half) | right


def _mixed(words: UInt64Array, half: int, mask: np.uint64) -> UInt64Array:
    return _rotated(words, 1, half, mask) & _rotated(words, 8, half, mask) ^ _rotated(words, 2, half, mask)


def _rotated(words: UInt64Array, by: int, half: int, mask: np.uint64) -> UInt64Array:
    return (words << np.uint64(by) | words >> np.uint64(half - by)) & mask


@lru_cache(maxsize=8)
def _table(max_index: int, seed: int, rounds: int) -> NDArray[np.int64]:
    """The permutation of [0, max_index], (max_index + 1,) int64, where a block has 16 bits: two bytes."""
    keys = round_keys(seed, rounds)
    every = np.arange(256, dtype=np.uint64)
    mixed = _mixed(every, 8, np.uint64(255)).astype(np.uint8)
    left, right = np.repeat(every.astype(np.uint8), 256), np.tile(every.astype(np.uint8), 256)
    for place in range(0, rounds, 2):
        left = left ^ mixed[right] ^ np.uint8(keys[place] & 255)
        right = right ^ mixed[left] ^ np.uint8(keys[place + 1] & 255)
    step = left.astype(np.uint16) << np.uint16(8) | right  # (65536,): where one pass of the cipher leads
    # After the last index another pass follows; up to it, none. Doubling the passes brings every index into the range.
    onward = step.copy()
    onward[: max_index + 1] = np.arange(min(max_index + 1, step.size))
    out = step[: max_index + 1]
    while out.max() > max_index:
        out = onward[out]
        onward = onward[onward]
    if max_index == step.size:
        out = np.append(out, out[0])
    permutation = out.astype(np.int64)
    permutation.flags.writeable = False
    return permutation
