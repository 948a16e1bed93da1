"""A hash of values that is the same on every machine and in every version.

The hash of bytes b and a seed s, with `fold` of `_order/mixing.py` for keyed mixing:

    h = fold(s, len(b));  for each word w of b, 8 bytes little-endian, the last one filled with zeros:  h = mix64(h ^ w)

A text is hashed as its UTF-8 bytes, so that str and bytes of the same text agree. An integer is hashed as the 8 bytes
of its two's complement, little-endian, whatever its dtype. None is the empty text.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from loaderkit._order.mixing import UInt64Array, fold_each, mix64
from loaderkit.transforms.leaf import Place

_LARGEST = 1 << 64


def hash64(key: Place, leaf: Any, seed: int = 0) -> UInt64Array:
    """The hash of each value of a leaf: uint64, of the leaf's shape.

    Args:
        key: of the leaf, for errors. TypeError for values that are no texts, bytes or integers.
        leaf: an array or a single value.
        seed: 0 to 2**64 - 1.

    >>> hash64("x", np.array(["a", "bc"])).tolist() == hash64("x", np.array([b"a", b"bc"], object)).tolist()
    True
    >>> hex(hash64("x", "loaderkit")[()]), hex(hash64("x", np.int8(-1))[()])
    ('0x71943af3f04e5ff0', '0xb3d37a2e987fb988')
    """
    array = np.asarray(leaf, object) if isinstance(leaf, str | bytes | None) else np.asarray(leaf)
    if array.dtype.kind in "biu":
        words = array.astype(np.int64 if array.dtype.kind != "u" else np.uint64).view(np.uint64)
        start = fold_each(seed, np.array([8], np.uint64))
        return mix64(np.bitwise_xor(words.ravel(), start)).reshape(array.shape)
    if array.dtype.kind not in "OSU":
        raise TypeError(
            f"leaf {key!r}: expected texts, bytes or integers, got {array.dtype}; make ids of them with "
            "features.Bucketized"
        )
    return _of_bytes([_bytes_of(key, value) for value in array.ravel().tolist()], seed).reshape(array.shape)


def _of_bytes(values: Sequence[bytes], seed: int) -> UInt64Array:
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    words = -(-lengths // 8)
    hashes = fold_each(seed, lengths.astype(np.uint64))
    # Values of like length together: one array (rows, width) each, at most half of it filling.
    width = 1
    while (rows := np.flatnonzero((words > width // 2) & (words <= width))).size or (words > width).any():
        if rows.size:
            table = np.array([values[row] for row in rows.tolist()], f"S{8 * width}")
            table = table.view("<u8").astype(np.uint64).reshape(rows.size, width)
            made = hashes[rows]
            for place in range(width):
                mixed = mix64(np.bitwise_xor(made, table[:, place]))
                made = mixed if place < width // 2 + 1 else np.where(place < words[rows], mixed, made)
            hashes[rows] = made
        width *= 2
    return hashes


def _bytes_of(key: Place, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if value is None:
        return b""
    if isinstance(value, int | np.integer) and -_LARGEST // 2 <= value < _LARGEST:
        return (int(value) % _LARGEST).to_bytes(8, "little")
    raise TypeError(f"leaf {key!r}: expected texts, bytes or integers of 64 bits, got {value!r:.80}")
