"""Puts the leaves of a batch on devices: each device gets the rows and columns that the sharding assigns to it.

leaf      a numpy array of this process's rows; what JAX can't hold (str, bytes, objects, times) stays as it is
target    the sharding or device of a leaf (see targets.py)
held      the rows of the global batch that this process has, ascending
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, Sharding, SingleDeviceSharding
from numpy.typing import NDArray

from loaderkit._base.structure import children_of, kind_of, structure_of
from loaderkit._base.tree import flatten, paths
from loaderkit._order.sharding import Shard

from .targets import Target

Path = str


def is_for_devices(leaf: Any) -> bool:
    """Whether a leaf becomes an array on devices.

    >>> is_for_devices(np.zeros(3)), is_for_devices(np.array(["a"])), is_for_devices(b"a")
    (True, False, False)
    """
    if not isinstance(leaf, np.ndarray | np.generic | bool | int | float | complex):
        return False
    dtype = np.asarray(leaf).dtype
    # Kind "m", timedelta64, is a np.number too.
    return dtype.kind != "m" and (jnp.issubdtype(dtype, np.number) or dtype == np.bool_)


def spread(prefix: Any, element: Any) -> list[Target | None]:
    """A target for each leaf: `prefix` is one target for all, or a tree in which a target stands for all leaves below.

    Returns them in the order of the element's leaves; None where a dict of the prefix lacks the key. Raises TypeError
    where the prefix has another container than the element, and for a leaf of it that is no sharding or device.

    >>> import jax
    >>> one = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    >>> [sharding is one for sharding in spread({"x": one}, {"x": (1, 2), "name": "a"})]
    [True, True, False]
    """
    if prefix is None or isinstance(prefix, Sharding | jax.Device):
        return [prefix] * structure_of(element).size
    cls: Any = type(prefix)
    other: Any = type(element)
    kind = kind_of(cls)
    if kind in ("leaf", "nothing"):
        raise TypeError(f"sharding: expected a jax.sharding.Sharding or a tree of them, got {prefix!r}")
    if kind != kind_of(other):
        raise TypeError(
            f"sharding: expected a tree of shardings like the batch's {structure_of(element)}, "
            f"got a {type(prefix).__name__}"
        )
    children = dict(zip(*children_of(prefix, kind), strict=True))
    keys, values = children_of(element, kind)
    return [
        target for key, value in zip(keys, values, strict=True) for target in spread(children.get(key), value)
    ]


def rows_of(leaves: Mapping[Path, Any]) -> int:
    """The number of rows of these leaves; ValueError where one has no axis, or another number of rows.

    >>> rows_of({"['x']": np.zeros((3, 2)), "['y']": np.zeros(3)})
    3
    """
    lengths = {path: len(leaf) if np.ndim(leaf) else None for path, leaf in leaves.items()}
    if len({*lengths.values()}) != 1 or None in lengths.values():
        got = ", ".join(f"{path}: {'no axis' if rows is None else rows}" for path, rows in lengths.items())
        raise ValueError(
            "it: expected batches of arrays that all have its rows as their first axis, got "
            f"{got or 'no array'}"
        )
    return next(rows for rows in lengths.values() if rows is not None)


def held_rows(shard: Shard, rows: int) -> tuple[NDArray[np.int64], int]:
    """The rows of the global batch that a shard of `rows` rows holds, (rows,) int64, and their total number.

    All blocks have the same number of rows.

    >>> from loaderkit._order.sharding import ShardBlocks
    >>> held_rows(ShardBlocks((0, 2), 4, (0,) * 4), 4)
    (array([0, 1, 4, 5]), 8)
    """
    each, left = divmod(rows, len(shard.blocks))
    if left:
        raise ValueError(
            f"it: expected batches that divide into {len(shard.blocks)} equal blocks, got {rows} rows"
        )
    held = np.array(shard.blocks, np.int64)[:, None] * each + np.arange(each, dtype=np.int64)
    return held.reshape(-1), each * shard.shard_count


def fitting(path: Path, leaf: NDArray[Any]) -> NDArray[Any]:
    """The leaf in the dtype that JAX uses for it, in this machine's byte order.

    Raises OverflowError for an integer that doesn't fit; a float that doesn't fit becomes infinite, with a
    RuntimeWarning.

    >>> fitting("['x']", np.array([1, 2])).dtype
    dtype('int32')
    """
    native = leaf.dtype if leaf.dtype.isnative else leaf.dtype.newbyteorder("=")
    dtype = jax.dtypes.canonicalize_dtype(native)
    if dtype == leaf.dtype:
        return leaf
    if leaf.dtype.kind in "iu" and leaf.size:
        limits = np.iinfo(dtype)
        low, high = leaf.min(), leaf.max()
        if low < limits.min or high > limits.max:
            raise OverflowError(
                f"leaf {path}: expected numbers that fit {dtype}, JAX's integer without x64, got "
                f"{high if high > limits.max else low} as {leaf.dtype}; make it smaller or text in the pipeline, or "
                "set jax_enable_x64"
            )
    try:
        with np.errstate(over="raise"):
            return leaf.astype(dtype)
    except FloatingPointError:
        warnings.warn(
            f"leaf {path} is {leaf.dtype} and has numbers beyond {dtype}, JAX's without x64: they become infinite",
            RuntimeWarning,
            stacklevel=2,
        )
    with np.errstate(over="ignore"):
        return leaf.astype(dtype)


def place(
    path: Path, leaf: NDArray[Any], target: Target | None, held: NDArray[np.int64], total: int
) -> jax.Array:
    """The leaf on the devices of this process.

    Args:
        path: of the leaf.
        leaf: this process's rows.
        target: a sharding for the global array of `total` rows, of which the leaf has the rows `held`; or a device for
            the leaf as it is.
        held: (n,) int64, ascending.
        total: number of rows of the global batch.

    Raises ValueError naming the leaf where it has no target or too few axes, or a device needs a row that isn't held.
    """
    if target is None:
        raise ValueError(
            f"sharding: expected one for leaf {path}, got none; the tree needs one at its path or above"
        )
    if isinstance(target, jax.Device):
        return _made(path, leaf.shape, SingleDeviceSharding(target), leaf.__getitem__)
    if isinstance(target, NamedSharding) and len(target.spec) > leaf.ndim:
        raise ValueError(
            f"sharding: expected one of at most {leaf.ndim} axes for leaf {path}, got {target.spec}; use a tree of "
            "shardings with one that fits this leaf"
        )

    def part(index: Any) -> NDArray[Any]:
        low, high, _ = index[0].indices(total)
        first = int(np.searchsorted(held, low))
        last = first + high - low
        if last > len(held) or (held[first:last] != np.arange(low, high)).any():
            raise ValueError(
                f"sharding: expected the rows that this process loads, {_named(held)} of {total}, got rows {low} to "
                f"{high - 1} of leaf {path} on a device of it; use shard_options=lk.ShardBySharding(sharding) with the "
                "same sharding"
            )
        return leaf[(slice(first, last), *index[1:])]

    return _made(path, (total, *leaf.shape[1:]), target, part)


def _made(path: Path, shape: tuple[int, ...], sharding: Sharding, part: Callable[[Any], Any]) -> jax.Array:
    try:
        return jax.make_array_from_callback(shape, sharding, part)
    except (TypeError, jax.errors.JaxRuntimeError) as error:
        # JAX 0.7 has another type for it, which it also uses for what has nothing to do with the leaf.
        if isinstance(error, TypeError) or "NumPy dtype" in str(error):
            error.add_note(
                f"the array is leaf {path}: convert its numbers in the pipeline, or make them text or objects, which "
                "stay numpy arrays"
            )
        raise


def _named(rows: NDArray[np.int64]) -> str:
    if not len(rows):
        return "no row"
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    return "rows " + ", ".join(f"{run[0]} to {run[-1]}" for run in np.split(rows, cuts))


def leaves_of(element: Any) -> dict[Path, Any]:
    """The leaves of an element, {path: leaf}.

    >>> leaves_of({"x": 1, "y": (2, 3)})
    {"['x']": 1, "['y'][0]": 2, "['y'][1]": 3}
    """
    leaves, structure = flatten(element)
    return dict(zip(paths(structure), leaves, strict=True))
