"""The Sampler protocol, and functions that ask any sampler: those of this package and those that users write.

Any object with `__getitem__` is a sampler. All other methods and attributes are optional. Without `record_keys` the
keys are read index by index; a missing seed, length or number of records is None.
"""

from __future__ import annotations

from functools import partial
from reprlib import repr as _short
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from loaderkit._base.notes import annotate
from loaderkit._base.numbers import at_least, true_or_false
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.permutation import MAX_RECORDS, Int64Array

ENDLESS = 1 << 63  # indices are int64: no stream can be longer
SEED_LIMIT = 1 << 64

_MISSING: Any = object()
_FINGERPRINT_KEYS = 64  # part of saved states; a sampler without `record_keys` is called once for each


@runtime_checkable
class Sampler(Protocol):
    """What a sampler of your own must have: `sampler[i]` gives the RecordMetadata of index i.

    The result must depend on i alone; an index beyond the end is an IndexError. These members are optional:

    `__len__()`: the number of indices. Without it, or where it raises TypeError, the stream is endless.
    `record_keys(indices: int64 (n,)) -> int64 (n,)`: the keys of many indices at once, which is much faster.
    `seed: int`: what RandomMap draws from. `num_records: int`: the length of one epoch. `epoch_length: int`: the
    indices that one takes, where it leaves some unused.
    `min_records: int`: the least length of a source for it; without it `num_records`.
    `random_parts: list[range]`: the record keys that it reads in a random order, for sources in which single reads cost
    much; without it none.
    `instead(index, tried, count) -> int64 (n,)`, with `keys_instead(lost, instead) -> int64 (n,)`: what may be read
    instead of a lost index, up to `count` indices after the first `tried`, and the keys of such. Without them it is the
    indices after the lost one.
    `fingerprint() -> dict` of JSON values: what a saved state compares, instead of class, length and first keys.
    `endless() -> Sampler`: the same order without a last epoch, for `loader.epoch(e)`; without it the sampler itself.
    `next_uses(record_keys, index, lanes=None) -> int64 (n,)`: for each key an index at which it is read next, or an
    earlier one, as seen from an index, for a cache that deletes; `ChunkSampler.next_uses` says more. `window: int`,
    `chunk: int`: it mixes the records of so many chunks at a time, of so many consecutive records each.
    `lanes: int`, `batch: int`: each step of all hosts, of `batch` indices, has so many equal parts of their own chunks.
    `components: dict[str, Sampler]`, with `offsets: dict[str, int]`, what is added to the keys of each: what it mixes.
    `component_numbers(indices) -> int64 (n,)`: the place in `components` of the one that each index reads.
    `positions_of(record_keys, epoch) -> int64 (n,)`: the place of each key in the order of an epoch, index epoch *
    (`epoch_length` or `num_records`) + place, -1 for one that it doesn't read. Or `indices_of(record_keys, start,
    stop)`, as `MixedSampler.indices_of`. They say where a record is read without a look at each index.
    `part_lengths: int64 (k,)`: the records of each source, one behind the other, that it reads in turns.

    >>> class Backwards:
    ...     def __len__(self):
    ...         return 4
    ...
    ...     def __getitem__(self, index):
    ...         return RecordMetadata(index=index, record_key=3 - index)
    >>> isinstance(Backwards(), Sampler), record_keys_of(Backwards(), np.arange(4)).tolist()
    (True, [3, 2, 1, 0])
    """

    def __getitem__(self, index: int, /) -> RecordMetadata:
        """The metadata of index `index`, counted from 0 over all epochs and shards."""


class ShapedSampler(Protocol):
    """What a sampler has besides `sampler[i]` that says the shape and the size of each batch: all processes pad alike.

    global_batch_size: N, the indices of a step. sizes: for each bucket the rows of its batches, at most N.
    epoch_length: how many indices an epoch takes, a multiple of N.
    """

    global_batch_size: int
    sizes: tuple[int, ...]

    @property
    def epoch_length(self) -> int:
        """How many indices an epoch takes."""
        ...

    def shapes(self, first_indices: Int64Array) -> Int64Array:
        """The bucket of the step that begins at each index, (k,) int64."""
        ...

    def rows_of(self, first_indices: Int64Array) -> Int64Array:
        """How many of its indices the step that begins at each index uses, (k,) int64: the first ones."""
        ...


def shaped(sampler: Sampler) -> ShapedSampler | None:
    """The sampler, if it says shapes.

    >>> from loaderkit.samplers import LengthBucketSampler, SequentialSampler
    >>> shaped(SequentialSampler(4)), shaped(LengthBucketSampler([3, 9], [9], 2, shuffle=True, seed=0)).sizes
    (None, (2,))
    """
    known: Any = sampler
    return known if hasattr(known, "shapes") and hasattr(known, "rows_of") else None


def record_keys_of(sampler: Sampler, indices: Int64Array) -> Int64Array:
    """The record keys of many indices of any sampler: (n,) int64 in, (n,) int64 out.

    A sampler without `record_keys` is asked index by index. Keys that aren't ints are a TypeError; a negative key, or
    another number of keys than indices, is a ValueError. Each error names the sampler.

    >>> from loaderkit.samplers import SequentialSampler
    >>> record_keys_of(SequentialSampler(4), np.array([2, 3])).tolist()
    [2, 3]
    """
    name = f"{type(sampler).__qualname__}.record_keys"
    if defines(sampler, "record_keys"):
        keys = np.asarray(cast(Any, sampler).record_keys(indices))
        if keys.shape != indices.shape:
            raise ValueError(
                f"{name}: expected a key for each index, {indices.shape}, got keys of shape {keys.shape}"
            )
    else:
        keys = np.fromiter(map(partial(_key_at, sampler), indices.tolist()), np.int64, len(indices))
    if keys.size == 0:
        return np.empty(indices.shape, np.int64)
    if keys.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected ints, got an array of {keys.dtype}; give int64 record keys")
    if keys.min() < 0 or keys.max() >= ENDLESS:
        bad = int(np.flatnonzero((keys < 0) | (keys >= ENDLESS))[0])
        raise ValueError(
            f"{name}: expected rows of the source, from 0 on, got record key {keys[bad]} for index {indices[bad]}"
        )
    return keys.astype(np.int64, copy=False)


def length_of(sampler: Sampler) -> int | None:
    """How many indices a sampler has, None where it is endless.

    It is `len(sampler)` where that doesn't raise TypeError, else `num_epochs * num_records` where the sampler has both,
    else None.

    >>> from loaderkit.samplers import IndexSampler, SequentialSampler
    >>> length_of(SequentialSampler(4)), length_of(IndexSampler(4))
    (4, None)
    """
    try:
        length: int = len(sampler)  # type: ignore[arg-type]  # __len__ is optional in the protocol
    except TypeError:
        records, epochs = num_records_of(sampler), getattr(sampler, "num_epochs", None)
        if records is None or epochs is None:
            return None
        name = f"{type(sampler).__qualname__}.num_epochs"
        return records * at_least(name, epochs, 1, advice="give None for a stream without end")
    except OverflowError:
        raise ValueError(
            f"len({type(sampler).__qualname__}): expected fewer than 2**63 indices, got more; leave __len__ out for a "
            "stream without end"
        ) from None
    # An endless sampler of Grain has the length sys.maxsize.
    return length if length < ENDLESS - 1 else None


def seed_of(sampler: Sampler) -> int | None:
    """The seed that random operations draw from, None where the sampler has none.

    >>> from loaderkit.samplers import IndexSampler
    >>> seed_of(IndexSampler(4, seed=3)), seed_of(IndexSampler(4))
    (3, None)
    """
    return checked_seed(getattr(sampler, "seed", None), name=f"{type(sampler).__qualname__}.seed")


def checked_epochs(num_epochs: Any) -> int | None:
    """A number of epochs as an int, None for a stream without end; TypeError or ValueError for others.

    >>> checked_epochs(2)
    2
    """
    advice = "give None for an endless stream"
    return None if num_epochs is None else at_least("num_epochs", num_epochs, 1, advice=advice)


def check_limit(name: str, records: int, epochs: int | None) -> None:
    """ValueError where all epochs together have more indices than a stream may have; name: of those of an epoch.

    >>> check_limit("num_records", 1 << 60, 4)
    """
    if epochs is not None:
        advice = "give num_epochs=None for an endless stream"
        at_least(f"num_epochs * {name}", epochs * records, 1, below=ENDLESS - 1, advice=advice)


def checked_seed(seed: Any, *, shuffle: Any = False, name: str = "seed") -> int | None:
    """A seed as an int, None where none is given.

    Args:
        seed: int in [0, 2**64); TypeError or ValueError for others.
        shuffle: whether an order is drawn from it; ValueError where it is and there is no seed.
        name: of the seed, for errors.

    >>> checked_seed(3, shuffle=True), checked_seed(None)
    (3, None)
    """
    true_or_false("shuffle", shuffle)
    if shuffle and seed is None:
        raise ValueError(
            "seed: expected an int, as shuffle=True needs a seed, got None; give for example seed=0"
        )
    return None if seed is None else at_least(name, seed, 0, below=SEED_LIMIT)


def num_records_of(sampler: Sampler) -> int | None:
    """The length of one epoch, None where the sampler has no `num_records`.

    >>> from loaderkit.samplers import IndexSampler
    >>> num_records_of(IndexSampler(4))
    4
    """
    return _number_of(sampler, "num_records", 1)


def epoch_length_of(sampler: Sampler) -> int | None:
    """How many indices an epoch takes: the sampler's `epoch_length`, else its `num_records`, None without either.

    >>> from loaderkit.samplers import IndexSampler, LengthBucketSampler
    >>> (
    ...     epoch_length_of(IndexSampler(5)),
    ...     epoch_length_of(LengthBucketSampler([1] * 5, [1], 4, shuffle=True, seed=0)),
    ... )
    (5, 8)
    """
    length = _number_of(sampler, "epoch_length", 1)
    return num_records_of(sampler) if length is None else length


def min_records_of(sampler: Sampler) -> int:
    """The least length of a source that the sampler can be for: its `min_records`, else its `num_records`, else 0.

    >>> from loaderkit.samplers import IndexSampler, KeysSampler
    >>> min_records_of(IndexSampler(4)), min_records_of(KeysSampler([6, 6]))
    (4, 7)
    """
    records = _number_of(sampler, "min_records", 0, below=MAX_RECORDS + 1)
    return (num_records_of(sampler) or 0) if records is None else records


def _number_of(sampler: Sampler, member: str, least: int, below: int = MAX_RECORDS) -> int | None:
    number = getattr(sampler, member, None)
    label = f"{type(sampler).__qualname__}.{member}"
    return None if number is None else at_least(label, number, least, below=below)


def random_parts_of(sampler: Sampler) -> list[range]:
    """The ranges of record keys that a sampler reads in a random order: its `random_parts`, else none.

    >>> from loaderkit.samplers import IndexSampler
    >>> random_parts_of(IndexSampler(4, shuffle=True, seed=0)), random_parts_of(IndexSampler(4))
    ([range(0, 4)], [])
    """
    return [*getattr(sampler, "random_parts", ())]


def fingerprint_of(sampler: Sampler) -> dict[str, object]:
    """What a saved state keeps of any sampler, as JSON values.

    Of a sampler without `fingerprint` it is the class, the length and the first 64 record keys.

    >>> from loaderkit.samplers import SequentialSampler
    >>> fingerprint_of(SequentialSampler(4))["kind"]
    'SequentialSampler'
    """
    if defines(sampler, "fingerprint"):
        fingerprint = cast(Any, sampler).fingerprint()
        if not isinstance(fingerprint, dict):
            raise TypeError(
                f"{type(sampler).__qualname__}.fingerprint(): expected a dict of JSON values, such as {{'seed': 0}}, "
                f"got {_short(fingerprint)}"
            )
        return fingerprint
    length = length_of(sampler)
    first = np.arange(_FINGERPRINT_KEYS if length is None else min(length, _FINGERPRINT_KEYS), dtype=np.int64)
    return {
        "kind": type(sampler).__qualname__,
        "length": length,
        "first_keys": record_keys_of(sampler, first).tolist(),
    }


def defines(sampler: Sampler, member: str) -> bool:
    """Whether the sampler's class defines a member that agrees with its `__getitem__`.

    One that is inherited, or that a wrapper passes on, may not agree with a `__getitem__` that was replaced.

    >>> from loaderkit.samplers import SequentialSampler
    >>> defines(SequentialSampler(4), "record_keys"), defines(SequentialSampler(4), "next_uses")
    (True, False)
    """
    for cls in type(sampler).__mro__:
        if member in vars(cls):
            return True
        if "__getitem__" in vars(cls):
            return False
    return False


def _key_at(sampler: Sampler, index: int) -> int:
    try:
        metadata = sampler[index]
    except IndexError as error:
        if length_of(sampler) is None:
            name = f"{type(sampler).__qualname__}[{index}]"
            annotate(error, f"{name}: a sampler without __len__ counts as endless; define __len__ if it ends")
        raise
    except StopIteration as error:  # it would end the array of keys
        name = f"{type(sampler).__qualname__}[{index}]"
        raise RuntimeError(f"{name}: expected RecordMetadata, got StopIteration; define __len__") from error
    key = getattr(metadata, "record_key", _MISSING)
    if type(key) is int and 0 <= key < ENDLESS:  # no name is put together for a good key
        return key
    name = f"{type(sampler).__qualname__}[{index}]"
    if key is _MISSING:
        raise TypeError(f"{name}: expected RecordMetadata(index, record_key, rng), got {_short(metadata)}")
    return at_least(f"{name}.record_key", key, 0, below=ENDLESS)
