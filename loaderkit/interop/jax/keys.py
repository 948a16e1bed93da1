"""JAX keys for the records of a batch: functions of the seed and the record only, like the workers' generators.

    key of a record = fold_in(...fold_in(key(0), w1)..., wn)

with the 32-bit words w: seed, high and low; index, high and low; after a FlatMap also child, high and low. child is
that of `loaderkit._order.rng`: k + 1 for child k of its record. A row that is itself a batch has the key of its first
record.
"""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding
from numpy.typing import NDArray

from loaderkit._order.rng import child_of


def words_of(indices: NDArray[np.int64], children: NDArray[np.uint64] | None) -> NDArray[np.uint32]:
    """The words of each record, which follow those of the seed: (n, 2) uint32, or (n, 4) with children.

    indices: (n,) int64. children: (n,) uint64 or None.

    >>> words_of(np.array([2**32 + 7]), None)
    array([[1, 7]], dtype=uint32)
    """
    columns = [indices.astype(np.uint64)]
    if children is not None:
        columns.append(children)
    halves = [
        half for column in columns for half in (column >> np.uint64(32), column & np.uint64(0xFFFFFFFF))
    ]
    return np.stack(halves, axis=1).astype(np.uint32)


def children_of_rows(begins: NDArray[np.int64]) -> NDArray[np.uint64] | None:
    """The child word of each row, (n,) uint64; None without a FlatMap.

    begins: (n, depth + 1) int64, the cursors of the rows, with depth FlatMaps.

    >>> children_of_rows(np.array([[7, 0], [7, 4]]))
    array([1, 5], dtype=uint64)
    >>> children_of_rows(np.array([[7]]))
    """
    if begins.shape[1] == 1:
        return None
    return np.array([child_of(tuple(row)) for row in begins[:, 1:].tolist()], np.uint64)


def record_key(seed: int, index: int, child: int | None = None) -> jax.Array:
    """The key of one record.

    seed, index: ints in [0, 2**64). child: from `loaderkit._order.rng.child_of`, None without a FlatMap.

    >>> bool(record_key(0, 5) == record_key(0, 5)), bool(record_key(0, 5) == record_key(0, 6))
    (True, False)
    """
    children = None if child is None else np.array([child], np.uint64)
    return _folded(_of_seed(seed), words_of(np.array([index], np.int64), children)[0])


def _folded(key: jax.Array, words: Any) -> jax.Array:
    for place in range(words.shape[0]):
        key = jax.random.fold_in(key, words[place])
    return key


def _of_seed(seed: int) -> jax.Array:
    return _folded(jax.random.key(0), np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32))


@lru_cache(maxsize=16)
def _folding(seed: int, sharding: Sharding) -> Any:
    first = np.asarray(jax.random.key_data(_of_seed(seed)))  # folds the seed in once, not for each record

    def keys(words: Any) -> jax.Array:
        return jax.vmap(partial(_folded, jax.random.wrap_key_data(jnp.asarray(first))))(words)

    return jax.jit(keys, out_shardings=sharding)


def keys_of(seed: int, words: jax.Array, sharding: Sharding) -> jax.Array:
    """The keys, (n,), with that sharding, of a seed and a global array of words, (n, 2 or 4) uint32."""
    made: jax.Array = _folding(seed, sharding)(words)
    return made
