"""The generator of a random operation on a record: a function of (seed, operation, index, child) alone.

It is numpy's Philox with

    key      (fold(seed, ordinal), index)
    counter  (0, 0, 0, child)

so two different pairs of index and child never share a state. A generator draws 2**128 blocks before it changes word 2
of the counter, which stays free for `jumped()`.

    ordinal  number of the random operation in the pipeline, from 0; of one with a name a number above 2**32
    child    0 before any FlatMap, behind it a number of the element among its parent's children; see `child_of`
"""

from hashlib import sha256
from typing import Any

import numpy as np

from .mixing import fold


class RecordRng:
    """The generators of one random operation, all made by re-keying one: about 1 us each, a new generator takes 10.

    seed, ordinal: ints in [0, 2**64). Not safe for use by two threads at once.

    >>> rngs = RecordRng(seed=0, ordinal=0)
    >>> float(rngs.at(5).random()) == float(generator(0, 0, 5, 0).random())
    True
    """

    __slots__ = ("_bits", "_counter", "_generator", "_key", "_state", "ordinal", "seed")

    def __init__(self, seed: int, ordinal: int) -> None:
        self.seed = seed
        self.ordinal = ordinal
        self._key = [fold(seed, ordinal), 0]
        self._counter = [0, 0, 0, 0]
        # Lists, because numpy's setter of the state reads them faster than arrays; it copies them.
        self._state: Any = {
            "bit_generator": "Philox",
            "state": {"counter": self._counter, "key": self._key},
            "buffer": [0, 0, 0, 0],
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)

    def at(self, index: int, child: int = 0) -> "np.random.Generator":
        """The generator of an index and child in its first state, valid until the next call.

        index, child: ints in [0, 2**64). It keeps nothing of an earlier use. Its `spawn` raises TypeError, because the
        result would depend on what the worker did before.

        >>> rngs = RecordRng(seed=0, ordinal=0)
        >>> first = float(rngs.at(1).random())
        >>> float(rngs.at(2).random()) != first and float(rngs.at(1).random()) == first
        True
        """
        self._key[1] = index
        self._counter[3] = child
        self._bits.state = self._state
        return self._generator

    def __reduce__(self) -> tuple[type["RecordRng"], tuple[int, int]]:
        return RecordRng, (self.seed, self.ordinal)


def generator(seed: int, ordinal: int, index: int, child: int) -> "np.random.Generator":
    """A new generator for one index and child: slower than `RecordRng.at`, and valid for good.

    All four arguments are ints in [0, 2**64).

    >>> generator(seed=0, ordinal=0, index=5, child=0)  # doctest: +ELLIPSIS
    Generator(Philox) at 0x...
    """
    key = np.array([fold(seed, ordinal), index], np.uint64)
    counter = np.array([0, 0, 0, child], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def named_ordinal(name: str) -> int:
    """The ordinal of a random operation that has a name in place of a number, in [2**32, 2**64).

    >>> named_ordinal("web/0") >= 1 << 32, named_ordinal("web/0") == named_ordinal("web/1")
    (True, False)
    """
    return int.from_bytes(sha256(name.encode(errors="surrogatepass")).digest()[:8]) | 1 << 32


def child_of(ordinals: tuple[int, ...]) -> int:
    """The child word of an element, in [0, 2**64).

    ordinals: the element's number in each FlatMap that it passed, outermost first.

    >>> child_of(()), child_of((0,)), child_of((4,)), child_of((4, 1)) == child_of((1, 4))
    (0, 1, 5, False)
    """
    if not ordinals:
        return 0
    child = ordinals[0] + 1
    for ordinal in ordinals[1:]:
        child = fold(child, ordinal)
    return child
