"""A shuffle for data that is read by chunks: remote objects, spinning disks, compressed blocks.

    chunk    `chunk` consecutive record keys; the last one may have fewer
    window   `window` chunks that are read together, their records shuffled
    lane     one of `lanes` equal parts of every global batch, with windows of its own

`loaderkit/_order/chunk_order.py` has the arithmetic, docs/guide.md a table of what each size costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import at_least, number_of_bytes
from loaderkit._order.chunk_order import ChunkOrder
from loaderkit._order.mixing import fold_each
from loaderkit._order.permutation import MAX_RECORDS, Int64Array
from loaderkit._order.sharding import Sharding

from .epochs import EpochSampler

_CHUNK_BYTES = 1 << 20  # of a source that says its chunks and not its bytes


def checked_batch(batch: Any, lanes: int) -> int | None:
    """The indices of a step over all hosts as an int, None if not given; ValueError for no multiple of the lanes.

    >>> checked_batch(8, 4)
    8
    """
    advice = "give how many indices a step of all hosts takes"
    if batch is not None:
        batch = at_least("batch", batch, 1, below=MAX_RECORDS, advice=advice)
    if (batch or 1) % lanes:
        raise ValueError(f"batch: expected a multiple of lanes={lanes}, got {batch}; {advice}")
    checked: int | None = batch
    return checked


@dataclass(frozen=True, slots=True)
class ChunkSampler(EpochSampler):
    """Every record once in each epoch, in an order that reads whole chunks: chunks shuffled, then records in windows.

    Args:
        num_records: the number of records in the source, 1 to 2**62 - 1.
        shard_options: used by a loader that gets none of its own; it changes no key.
        chunk: how many consecutive records are read together, such as 1 MiB of them.
        window: how many chunks of a lane are mixed at a time; a reader keeps about 2 * window * chunk records for each
            of its lanes.
        lanes: into how many parts each global batch is cut, each with chunks of its own: as many as there may be
            hosts, or a multiple.
        batch: how many indices a step of the loader takes over all hosts, a multiple of lanes; needed for more than
            one lane.
        num_epochs: how many epochs, None for an endless stream.
        seed: int in [0, 2**64).

    A value of the wrong type is a TypeError, a value out of range a ValueError.

    A host of whole lanes reads no chunk of the others, but for those at the border of two lanes. With steps of another
    number of indices than `batch` the stream is the same, and a host reads chunks of other lanes too. The last
    window of a lane in an epoch has the chunks that are left: where these are few, the epoch's last records are mixed
    little.

    >>> sampler = ChunkSampler(1000, chunk=10, window=4, lanes=2, batch=20, seed=0, num_epochs=2)
    >>> steps = sampler.record_keys(range(1000)).reshape(50, 20)
    >>> len(set(steps.ravel().tolist()))
    1000
    >>> first = steps[:4, :10].ravel() // 10  # the first window of lane 0: 40 records of 4 chunks
    >>> len(set(first.tolist()))
    4
    """

    num_records: int
    shard_options: Sharding | None = field(default=None, kw_only=True)
    chunk: int = field(kw_only=True)
    window: int = field(kw_only=True)
    lanes: int = field(default=1, kw_only=True)
    batch: int | None = field(default=None, kw_only=True)
    num_epochs: int | None = field(default=None, kw_only=True)
    seed: int = field(kw_only=True)
    shuffle: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        self._normalise()
        if self.seed is None:
            raise TypeError("seed: expected an int, got None; give for example seed=0")
        advices = {
            "chunk": "give the records of about 1 MiB",
            "window": "give how many chunks are mixed at a time",
            "lanes": "give 1, or the number of hosts",
        }
        for name, advice in advices.items():
            self._set(**{name: at_least(name, getattr(self, name), 1, below=MAX_RECORDS, advice=advice)})
        self._set(batch=checked_batch(self.batch, self.lanes))

    @classmethod
    def over(
        cls,
        source: Any,
        *,
        cache_bytes: int | str,
        seed: int,
        lanes: int = 1,
        batch: int | None = None,
        num_epochs: int | None = None,
        shard_options: Sharding | None = None,
    ) -> ChunkSampler:
        """A sampler with the chunks of a source, and the largest window that a cache has room for.

        Args:
            source: one that says its `chunk_records`, about 1 MiB of records: tar, TFRecord, lines and CSV files.
            cache_bytes: of the caches of all hosts together, so that the window and the stream are the same for any
                number of hosts; bytes, or a text such as "200GB". The lanes need 2 * window * chunk records each.
            seed, lanes, batch, num_epochs, shard_options: as ChunkSampler says.

        Raises TypeError for a source without chunks, ValueError where the cache has no room for a window of one chunk.

        >>> from loaderkit.sources import RangeDataSource
        >>> source = RangeDataSource(0, 100_000, 1)
        >>> source.chunk_records = 1_000  # as a source of indexed files says it
        >>> sampler = ChunkSampler.over(source, cache_bytes="64MiB", lanes=4, batch=256, seed=0)
        >>> sampler.chunk, sampler.window
        (1000, 8)
        """
        chunk = getattr(source, "chunk_records", None)
        if chunk is None:
            raise TypeError(
                f"source: expected one that says its chunk_records, such as a TarDataSource, got "
                f"{type(source).__qualname__}; give the sizes: ChunkSampler(len(source), chunk=, window=, seed=)"
            )
        records = len(source)
        chunk = at_least(f"{type(source).__qualname__}.chunk_records", chunk, 1)
        lanes = at_least("lanes", lanes, 1, below=MAX_RECORDS)
        # More than usual where records are large.
        of_chunk = at_least("chunk_bytes", getattr(source, "chunk_bytes", _CHUNK_BYTES), 1)
        window = number_of_bytes("cache_bytes", cache_bytes) // (2 * lanes * of_chunk)
        if not window:
            raise ValueError(
                f"cache_bytes: expected {2 * lanes * of_chunk} or more, two chunks of about {of_chunk} bytes for each "
                f"of {lanes} lanes, got {_short(cache_bytes)}; give a larger cache or fewer lanes"
            )
        return cls(
            records,
            chunk=chunk,
            window=min(window, max(1, -(-records // chunk))),  # a larger one is the same order
            lanes=lanes,
            batch=batch,
            num_epochs=num_epochs,
            seed=seed,
            shard_options=shard_options,
        )

    def next_uses(self, record_keys: npt.ArrayLike, index: int, lanes: range | None = None) -> Int64Array:
        """The first index of the next window in which each record is read, (k,) int64, for a cache that deletes.

        Args:
            record_keys: (k,) ints in [0, num_records).
            index: where the reader stands. A window that it is in counts as next; one that is over doesn't.
            lanes: the reader's, None for all; a record that these read in neither this epoch nor the next one has the
                first index of the epoch after it.

        >>> ChunkSampler(8, chunk=2, window=1, seed=0).next_uses([0, 2, 4, 6], 4)
        array([ 6, 12,  4,  8])
        """
        keys = np.asarray(record_keys, np.int64)
        order = ChunkOrder(self.num_records, self.chunk, self.window, self.lanes, self.batch or 1)
        epoch = index // self.num_records
        uses = np.full(keys.shape, (epoch + 2) * self.num_records, np.int64)
        for each in (epoch + 1, epoch):
            of_epoch = fold_each(self.seed, np.array([each], np.uint64))[0]
            own_lanes, firsts, lasts = order.windows_of(keys, each, of_epoch)
            first = each * self.num_records
            needed = first + lasts >= index
            if lanes is not None:
                needed &= (own_lanes >= lanes.start) & (own_lanes < lanes.stop)
            uses[needed] = first + firsts[needed]
        return uses

    @property
    def random_parts(self) -> list[range]:
        """The record keys that are read in a random order: none, as chunks are read whole."""
        return []

    def fingerprint(self) -> dict[str, object]:
        """What a saved state keeps of this sampler, as JSON values; the sharding isn't part of it.

        >>> ChunkSampler(9, chunk=2, window=4, seed=0).fingerprint()  # doctest: +NORMALIZE_WHITESPACE
        {'kind': 'ChunkSampler', 'num_records': 9, 'shuffle': True, 'num_epochs': None, 'seed': 0, 'chunk': 2,
         'window': 4, 'lanes': 1, 'batch': None}
        """
        # With one lane `batch` changes no key, so a run may continue with another one.
        batch = None if self.lanes == 1 else self.batch
        # `super()` doesn't work here: slots=True makes another class of the same name.
        said = EpochSampler.fingerprint(self)
        return {**said, "chunk": self.chunk, "window": self.window, "lanes": self.lanes, "batch": batch}

    def _shuffled(self, positions: Int64Array, epochs: Int64Array, owners: Int64Array | None) -> Int64Array:
        order = ChunkOrder(self.num_records, self.chunk, self.window, self.lanes, self.batch or 1)
        keys = fold_each(self.seed, epochs.view(np.uint64))
        return order(positions, epochs, owners, keys)

    def _unshuffled(self, record_keys: Int64Array, epoch: int) -> Int64Array:
        order = ChunkOrder(self.num_records, self.chunk, self.window, self.lanes, self.batch or 1)
        return order.positions_of(record_keys, epoch, fold_each(self.seed, np.array([epoch], np.uint64))[0])
