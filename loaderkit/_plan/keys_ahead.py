"""Record keys planned ahead in blocks, because a sampler's call is slow; an error is raised at its own record."""

import numpy as np
from numpy.typing import NDArray

from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import record_keys_of

from .schedule import BLOCK_INDICES

Int64Array = NDArray[np.int64]


class KeysAhead:
    """Asks a sampler for the keys of a block of indices, and for one key at a time after a block has failed.

    sampler: gives the record keys. num_records: the source's length. block: the number of indices to pass to `keys`.

    >>> from loaderkit.samplers import SequentialSampler
    >>> ahead = KeysAhead(SequentialSampler(9), 2)
    >>> ahead.keys(np.array([1, 2]), alone=False), ahead.block
    (None, 1)
    >>> ahead.keys(np.array([1]), alone=True)
    array([1])
    """

    def __init__(self, sampler: Sampler, num_records: int) -> None:
        self._sampler = sampler
        self._num_records = num_records
        self.block = BLOCK_INDICES if hasattr(sampler, "record_keys") else 1

    def keys(self, indices: Int64Array, *, alone: bool) -> Int64Array | None:
        """The keys of a block, (n,) int64; None where the block failed: call again with the smallest part of it.

        alone: whether the block is already the smallest part (one index, or one group of them); then this raises
        what the sampler raises, and IndexError for a key that the source doesn't have.
        """
        try:
            keys = record_keys_of(self._sampler, indices)
            check_keys(keys, indices, self._num_records)
        except Exception:
            if alone:
                raise
            self.block = 1  # one at a time from now on, so that the error is raised at its own record
            return None
        return keys


def check_keys(keys: Int64Array, indices: Int64Array, num_records: int) -> None:
    """Raises IndexError for the first record key that the source doesn't have.

    keys, indices: (n,) int64 each. num_records: the source's length.

    >>> check_keys(np.array([0, 7]), np.array([3, 4]), 7)
    Traceback (most recent call last):
        ...
    IndexError: record_key: expected 0 to 6 for a data source of 7 records, got 7 at index 4
    """
    if keys.size and keys.max() >= num_records:
        place = int(np.argmax(keys >= num_records))
        raise IndexError(
            f"record_key: expected 0 to {num_records - 1} for a data source of {num_records} records, "
            f"got {keys[place]} at index {indices[place]}"
        )
