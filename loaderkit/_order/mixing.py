"""Keyed mixing of small integers into 64 bits: makes every key of a shuffle and of a generator.

Seeds and epochs are small and close together, so they are never added: seed 1 in epoch 0 would get the key of seed 0 in
epoch 1. Each part passes through a mixer with full avalanche (the finalizer of SplitMix64, "mix13" of David Stafford)
before it is combined with the others. The outputs are part of the stream: another constant here needs another
`stream_version`.
"""

from hashlib import sha256

import numpy as np
import numpy.typing as npt

UInt64Array = npt.NDArray[np.uint64]

_WORD = 1 << 64
_MASK = _WORD - 1
_OFFSET = 0x9E3779B97F4A7C15  # added first, as the mixer alone maps 0 to 0
_FACTOR_1 = 0xBF58476D1CE4E5B9
_FACTOR_2 = 0x94D049BB133111EB
_PART = 0xD1B54A32D192ED03  # parts and seeds pass through different bijections, so fold(1, 2) != fold(2, 1)


def mix64(values: UInt64Array) -> UInt64Array:
    """A bijection of 64-bit words that maps close inputs to unrelated outputs; same shape, a new array.

    >>> [hex(word) for word in mix64(np.array([0, 1], np.uint64)).tolist()]
    ['0xe220a8397b1dcdaf', '0x910a2dec89025cc1']
    """
    # The array functions wrap silently; the operators would warn for numpy scalars.
    mixed = np.add(values, np.uint64(_OFFSET), dtype=np.uint64)
    shifted = np.right_shift(mixed, np.uint64(30))
    np.bitwise_xor(mixed, shifted, out=mixed)
    np.multiply(mixed, np.uint64(_FACTOR_1), out=mixed)
    np.right_shift(mixed, np.uint64(27), out=shifted)
    np.bitwise_xor(mixed, shifted, out=mixed)
    np.multiply(mixed, np.uint64(_FACTOR_2), out=mixed)
    np.right_shift(mixed, np.uint64(31), out=shifted)
    np.bitwise_xor(mixed, shifted, out=mixed)
    return mixed


def fold(seed: int, *parts: int) -> int:
    """One 64-bit key from a seed and further numbers; their order and their count matter.

    Each number is an int in [0, 2**64); ValueError outside. Where two calls differ in one number only, their keys
    always differ; otherwise two are equal by chance only, for about one pair in 2**64.

    >>> hex(fold(0, 1)), hex(fold(1, 0))
    ('0x8b1b1ee0e0fe529b', '0xa0fe367ab32de4de')
    """
    key = _mix(seed)
    for part in parts:
        key = _mix(key ^ _mix(part ^ _PART))
    return key


def fold_each(seed: int, parts: UInt64Array) -> UInt64Array:
    """`fold(seed, part)` for each of many parts at once: uint64 in, uint64 out, the same shape.

    >>> fold_each(7, np.array([5], np.uint64)).tolist() == [fold(7, 5)]
    True
    """
    return mix64(np.bitwise_xor(mix64(np.bitwise_xor(parts, np.uint64(_PART))), np.uint64(_mix(seed))))


def fold_arrays(seeds: UInt64Array, *parts: UInt64Array) -> UInt64Array:
    """`fold(seed, *parts)` for each of many seeds, each with parts of its own: uint64 arrays that broadcast.

    >>> keys = fold_arrays(np.array([7, 8], np.uint64), np.array([5, 6], np.uint64), np.array([2], np.uint64))
    >>> keys.tolist() == [fold(7, 5, 2), fold(8, 6, 2)]
    True
    """
    keys = mix64(seeds)
    for part in parts:
        keys = mix64(np.bitwise_xor(keys, mix64(np.bitwise_xor(part, np.uint64(_PART)))))
    return keys


def _mix(value: int) -> int:
    if not 0 <= value < _WORD:
        raise ValueError(f"fold: expected ints from 0 to 2**64 - 1, got {value}; reduce it to 64 bits first")
    value = (value + _OFFSET) & _MASK
    value = ((value ^ (value >> 30)) * _FACTOR_1) & _MASK
    value = ((value ^ (value >> 27)) * _FACTOR_2) & _MASK
    return value ^ (value >> 31)


def component_seed(seed: int, name: str) -> int:
    """A seed that follows from a mixture's and from the component's name: another component more or less changes none.

    >>> component_seed(0, "web") != component_seed(0, "code")
    True
    """
    return fold(seed, int.from_bytes(sha256(name.encode(errors="surrogatepass")).digest()[:8]))
