"""Keys of JAX for the records of a batch: functions of the seed and the record alone, like the workers' generators.

    key of a record = fold_in(...fold_in(key(0), w1)..., wn) of the 32-bit words

    seed, high and low; index, high and low; and behind a FlatMap child, high and low

child is that of `loaderkit.plan.rng`: k + 1 for child k of its record. A row that is itself a batch has the key of its
first record.
"""

from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding
from numpy.typing import NDArray

from loaderkit.plan.rng import child_of


def words_of(
    seed: int, indices: NDArray[np.int64], children: NDArray[np.uint64] | None
) -> NDArray[np.uint32]:
    """The words that make the keys: (n, 4) uint32, or (n, 6) with children.

    seed: int in [0, 2**64). indices: (n,) int64. children: (n,) uint64 or None.

    >>> words_of(2**32 + 7, np.array([5]), None)
    array([[1, 7, 0, 5]], dtype=uint32)
    """
    columns = [np.full(len(indices), seed, np.uint64), indices.astype(np.uint64)]
    if children is not None:
        columns.append(children)
    halves = [
        half for column in columns for half in (column >> np.uint64(32), column & np.uint64(0xFFFFFFFF))
    ]
    return np.stack(halves, axis=1).astype(np.uint32)


def children_of_rows(begins: NDArray[np.int64]) -> NDArray[np.uint64] | None:
    """The child word of each row by its cursor, (n,) uint64; None where no FlatMap was passed.

    begins: (n, depth + 1) int64.

    >>> children_of_rows(np.array([[7, 0], [7, 4]]))
    array([1, 5], dtype=uint64)
    >>> children_of_rows(np.array([[7]]))
    """
    if begins.shape[1] == 1:
        return None
    return np.array([child_of(tuple(row)) for row in begins[:, 1:].tolist()], np.uint64)


def record_key(seed: int, index: int, child: int | None = None) -> jax.Array:
    """The key of one record, to compare with.

    seed, index: ints in [0, 2**64). child: as `loaderkit.plan.rng.child_of` gives it, None without a FlatMap.

    >>> bool(record_key(0, 5) == record_key(0, 5)), bool(record_key(0, 5) == record_key(0, 6))
    (True, False)
    """
    children = None if child is None else np.array([child], np.uint64)
    return _fold(words_of(seed, np.array([index], np.uint64).astype(np.int64), children)[0])


def _fold(words: Any) -> jax.Array:
    key = jax.random.key(0)
    for place in range(words.shape[0]):
        key = jax.random.fold_in(key, words[place])
    return key


@lru_cache(maxsize=16)
def _folding(sharding: Sharding) -> Any:
    return partial(jax.jit(jax.vmap(_fold), out_shardings=sharding))


def keys_of(words: jax.Array, sharding: Sharding) -> jax.Array:
    """The keys, (n,), sharded like that, of a global array of words, (n, 4 or 6) uint32."""
    keys: jax.Array = _folding(sharding)(words)
    return keys
