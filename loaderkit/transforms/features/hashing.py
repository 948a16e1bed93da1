"""The hash of features: 64-bit FNV-1a of the value's bytes, mixed; the same on every machine and in every version.

    text      its UTF-8;  bytes  themselves;  integer  its 8 bytes as little-endian int64
    hash      h = 0xcbf29ce484222325; for each byte: h = (h ^ byte) * 0x100000001b3 mod 2**64; then the finalizer of
              MurmurHash3, since the low bits of FNV alone are weak
    bucket    hash mod num_buckets

Source: Fowler, Noll, Vo; http://www.isthe.com/chongo/tech/comp/fnv/. Appleby, MurmurHash3.
"""

import numpy as np
from numpy.typing import NDArray

_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def hash_values(values: np.ndarray) -> NDArray[np.uint64]:
    """The hash of each value; ValueError for floats and other values that aren't text, bytes or integers.

    Args:
        values: (n,) of text, bytes or integers.

    >>> [hex(h) for h in hash_values(np.array(["a"]))]
    ['0x82a2a958a9bece5b']
    """
    distinct, inverse = np.unique(_as_bytes(values), return_inverse=True)
    return np.array([_of_bytes(each) for each in distinct.tolist()], np.uint64)[inverse].reshape(values.shape)


def hash_column(values: np.ndarray, num_buckets: int) -> NDArray[np.int64]:
    """The bucket of each value, (n,) int64."""
    if values.dtype.kind in "iub":
        return (_of_integers(values) % np.uint64(num_buckets)).astype(np.int64)
    return (hash_values(values) % np.uint64(num_buckets)).astype(np.int64)


def _as_bytes(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "iub":
        raw = [int(each).to_bytes(8, "little", signed=True) for each in values.ravel().tolist()]
    elif values.dtype.kind in "USO":
        raw = [each.encode() if isinstance(each, str) else each for each in values.ravel().tolist()]
        if not all(isinstance(each, bytes) for each in raw):
            raise ValueError("expected text, bytes or integers to hash, got other objects")
    else:
        raise ValueError(f"expected text, bytes or integers to hash, got {values.dtype}")
    made = np.empty(len(raw), object)
    made[:] = raw
    return made


def _of_integers(values: np.ndarray) -> NDArray[np.uint64]:
    words = values.astype(np.int64).view(np.uint64)
    made = np.full(words.shape, _OFFSET)
    with np.errstate(over="ignore"):
        for byte in range(8):
            made = (made ^ ((words >> np.uint64(8 * byte)) & np.uint64(255))) * _PRIME
    return mixed(made)


def _of_bytes(data: bytes) -> int:
    made = int(_OFFSET)
    for byte in data:
        made = ((made ^ byte) * int(_PRIME)) & 0xFFFFFFFFFFFFFFFF
    return int(mixed(np.array([made], np.uint64))[0])


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """MurmurHash3's finalizer of each word."""
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))
