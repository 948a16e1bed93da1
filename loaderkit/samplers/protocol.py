"""What a sampler is, and what any of them is asked: those of this package, and those that users write.

Any object with `__getitem__` is one. What else it has makes the answers faster or says more; where it has nothing,
the keys are found by asking index by index, and the rest is unknown.
"""

from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from loaderkit._base.integers import as_int
from loaderkit._base.notes import annotate
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.permutation import MAX_RECORDS, Int64Array

ENDLESS = 1 << 63  # indices are int64: no stream can be longer
SEED_LIMIT = 1 << 64

_FINGERPRINT_KEYS = 64


@runtime_checkable
class Sampler(Protocol):
    """What a sampler of your own must have: `sampler[i]`, the RecordMetadata of index i.

    It must depend on i alone, and is an IndexError beyond the end. These are optional:

    `__len__()`: the number of indices. Without it, or where it raises TypeError, the stream is endless.
    `record_keys(indices: int64 (n,)) -> int64 (n,)`: the keys of many indices at once, which is much faster.
    `seed: int`: what RandomMap draws from. `num_records: int`: the length of one epoch.
    `fingerprint() -> dict` of JSON values: what a saved state compares, not class, length and first keys.

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


def record_keys_of(sampler: Sampler, indices: Int64Array) -> Int64Array:
    """The record keys of many indices of any sampler: (n,) int64 in, (n,) int64 out.

    A sampler without `record_keys` is asked index by index. Keys that are no ints are a TypeError, negative
    ones or another number of them a ValueError; each error names the sampler.

    >>> from loaderkit.samplers import SequentialSampler
    >>> record_keys_of(SequentialSampler(4), np.array([2, 3])).tolist()
    [2, 3]
    """
    name = type(sampler).__qualname__
    if _speaks_for_itself(sampler, "record_keys"):
        keys = np.asarray(cast(Any, sampler).record_keys(indices))
        if keys.shape != indices.shape:
            raise ValueError(
                f"{name}.record_keys must give one key an index: {indices.shape} indices came back as"
                f" {keys.shape} keys"
            )
    else:
        keys = np.array([_key_at(sampler, index) for index in indices.tolist()], dtype=np.int64)
    if keys.size == 0:
        return np.empty(indices.shape, np.int64)
    if keys.dtype.kind not in "iu":
        raise TypeError(
            f"{name}.record_keys must give ints, got an array of {keys.dtype}: give int64 record keys"
        )
    if keys.min() < 0 or keys.max() >= ENDLESS:
        bad = int(np.flatnonzero((keys < 0) | (keys >= ENDLESS))[0])
        raise ValueError(
            f"{name} gives record_key {keys[bad]} for index {indices[bad]}: a record key is a row of the"
            " source, from 0 on"
        )
    return keys.astype(np.int64, copy=False)


def length_of(sampler: Sampler) -> int | None:
    """How many indices a sampler has, None where it is endless.

    `len(sampler)` where it answers; otherwise `num_epochs * num_records` where it has both; otherwise
    endless.

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
        return records * as_int(name, epochs, low=1, high=None, advice="give a positive int, or None")
    except OverflowError:
        raise ValueError(
            f"len({type(sampler).__qualname__}): expected fewer than 2**63 indices, got more; leave __len__ out for a "
            "stream without end"
        ) from None
    # sys.maxsize is how samplers of Grain say that they are endless
    return length if length < ENDLESS - 1 else None


def seed_of(sampler: Sampler) -> int | None:
    """The seed that random operations draw from, None where the sampler has none.

    >>> from loaderkit.samplers import IndexSampler
    >>> seed_of(IndexSampler(4, seed=3)), seed_of(IndexSampler(4))
    (3, None)
    """
    seed = getattr(sampler, "seed", None)
    name = f"{type(sampler).__qualname__}.seed"
    advice = "give an int in [0, 2**64), or None"
    return None if seed is None else as_int(name, seed, low=0, high=SEED_LIMIT, advice=advice)


def num_records_of(sampler: Sampler) -> int | None:
    """The length of one epoch, None where the sampler doesn't say.

    >>> from loaderkit.samplers import IndexSampler
    >>> num_records_of(IndexSampler(4))
    4
    """
    records = getattr(sampler, "num_records", None)
    name = f"{type(sampler).__qualname__}.num_records"
    advice = "give the length of one epoch, or None"
    return None if records is None else as_int(name, records, low=1, high=MAX_RECORDS, advice=advice)


def fingerprint_of(sampler: Sampler) -> dict[str, object]:
    """What a saved state remembers of any sampler, as JSON values.

    A sampler without `fingerprint` is known by its class, its length and its first 64 record keys.

    >>> from loaderkit.samplers import SequentialSampler
    >>> fingerprint_of(SequentialSampler(4))["kind"]
    'SequentialSampler'
    """
    if _speaks_for_itself(sampler, "fingerprint"):
        said = cast(Any, sampler).fingerprint()
        if not isinstance(said, dict):
            name = f"{type(sampler).__qualname__}.fingerprint()"
            raise TypeError(
                f"{name} must give a dict of JSON values, got {said!r}: give for example {{'seed': 0}}"
            )
        return said
    length = length_of(sampler)
    first = np.arange(_FINGERPRINT_KEYS if length is None else min(length, _FINGERPRINT_KEYS), dtype=np.int64)
    return {
        "kind": type(sampler).__qualname__,
        "length": length,
        "first_keys": record_keys_of(sampler, first).tolist(),
    }


def _speaks_for_itself(sampler: Sampler, method: str) -> bool:
    # What a subclass inherits, or a wrapper hands on, may not know that __getitem__ was replaced.
    for cls in type(sampler).__mro__:
        if method in vars(cls):
            return True
        if "__getitem__" in vars(cls):
            return False
    return False


def _key_at(sampler: Sampler, index: int) -> int:
    name = f"{type(sampler).__qualname__}[{index}]"
    try:
        metadata = sampler[index]
    except IndexError as error:
        if length_of(sampler) is None:
            annotate(
                error, f"{name}: a sampler without __len__ is taken to be endless; give it one if it ends"
            )
        raise
    advice = "a sampler gives RecordMetadata(index, record_key, rng)"
    if not hasattr(metadata, "record_key"):
        raise TypeError(f"{name} must be a RecordMetadata, got {metadata!r}: {advice}")
    return as_int(f"{name}.record_key", metadata.record_key, low=0, high=ENDLESS, advice=advice)
