"""Chosen records of a source, in a chosen order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from reprlib import repr as _short
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.canonical_json import canonical
from loaderkit._order.matches import matches
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.naming import namer_of
from loaderkit._source.optional import (
    SourceAdvice,
    advised_chunk,
    column_reader,
    each_reader,
    has_tokens,
    lacking,
    many_reader,
    offered,
    part_reader,
    where_below_has,
)
from loaderkit._source.origins import Origins, origins_of, records_with
from loaderkit._source.protocol import read_record, read_records
from loaderkit._source.record_key import check_key, check_keys, short_repr
from loaderkit.samplers.optional import indices_of
from loaderkit.samplers.protocol import Sampler, record_keys_of
from loaderkit.samplers.protocol import fingerprint_of as sampler_fingerprint_of

from .checked import require_methods
from .exclusion import OfDocuments, rows_excluded
from .has_card import HasCard
from .of_tokens import OfTokens, where_of_tokens
from .shared_arrays import SharedArrays
from .sliced import sliced

_AT_ONCE = 1 << 22  # keys looked at at once, 32 MB; a limit of memory


class _KeyTable:
    """Keys in shared memory, used like a `range`."""

    def __init__(self, keys: NDArray[np.int64]) -> None:
        self._shared = SharedArrays.of([keys])
        self.keys = self._shared.views()[0]

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, position: int) -> int:
        return int(self.keys[position])

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The keys at many positions, (n,) int64 each."""
        return self.keys[positions]

    def places_of(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of the keys stand here, and where, (m,) int64 each."""
        parts = [np.empty((2, 0), np.int64)]
        for low in range(0, len(self), _AT_ONCE):
            which, places = matches(keys, self.keys[low : low + _AT_ONCE])
            parts.append(np.stack([which, places + low]))
        whole = np.concatenate(parts, axis=1)
        return whole[0], whole[1]

    def __repr__(self) -> str:
        return f"{len(self)} keys, sha256:{hashlib.sha256(self.keys.tobytes()).hexdigest()[:32]}"

    def __getstate__(self) -> SharedArrays:
        return self._shared

    def __setstate__(self, shared: SharedArrays) -> None:
        self._shared = shared
        self.keys = shared.views()[0]


class SampledKeys:
    """The record keys at some indices of a sampler, used like a `range`: asked of the sampler, so no table holds them.

    Args:
        sampler: any.
        indices: of its stream, one or more.

    >>> from loaderkit.samplers import IndexSampler
    >>> keys = SampledKeys(IndexSampler(6, shuffle=True, seed=0), range(2, 6))
    >>> list(SubsetDataSource("abcdef", keys)), keys[0]
    (['e', 'a', 'd', 'b'], 4)
    """

    def __init__(self, sampler: Sampler, indices: range) -> None:
        self._sampler, self._indices = sampler, indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, position: int) -> int:
        return int(self.at(np.array([position], np.int64))[0])

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The keys at many positions, (n,) int64 each."""
        return record_keys_of(self._sampler, positions * self._indices.step + self._indices.start)

    def places_of(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of the keys stand here, and where, (m,) int64 each."""
        first, step = self._indices.start, self._indices.step
        which, indices = indices_of(self._sampler, keys, first, first + step * len(self))
        here = np.flatnonzero((indices - first) % step == 0)
        return which[here], (indices[here] - first) // step

    def __repr__(self) -> str:
        return f"{self._indices!r} of {canonical(sampler_fingerprint_of(self._sampler))}"


class SubsetDataSource(SourceAdvice, OfDocuments, OfTokens, HasCard):
    """The chosen records of another source.

    Args:
        source: any data source.
        indices_or_fraction: the record keys in their order: integers (repeats are allowed; those below 0 count from the
            end), a range or a slice; a mask, bools (len(source),); or a fraction, a float with 0 < fraction <= 1, for
            the first `round(fraction * len(source))` records. IndexError for a key that the source doesn't have,
            ValueError where no record is chosen or for a mask of another length, TypeError for other types.

    Sources of loaderkit give it for `source[4:8]`, `source[[4, 0, -2]]` and `source[mask]`, too.

    >>> list(SubsetDataSource("abcdef", [4, 0, 4])), list(SubsetDataSource("abcdef", 0.5))
    (['e', 'a', 'e'], ['a', 'b', 'c'])
    """

    def __init__(self, source: Any, indices_or_fraction: ArrayLike | range | slice | SampledKeys) -> None:
        source = require_methods(source, argument="source")
        self._source = source
        keys = _chosen(source, indices_or_fraction)
        if len(keys) == 0:
            raise ValueError(
                f"indices_or_fraction: expected one record or more of {short_repr(source)}, got none with "
                f"{_short(indices_or_fraction)}"
            )
        self._keys: range | _KeyTable | SampledKeys = (
            _KeyTable(keys) if isinstance(keys, np.ndarray) else keys
        )

    @staticmethod
    def slice_of(source: Any, keys: ArrayLike | range | slice) -> SubsetDataSource:
        """What `source[keys]` gives; a slice of a slice has the records of the source below, however often it is cut.

        Args:
            source: any data source.
            keys: record keys (n,), or a range or slice of them.

        >>> from loaderkit.sources import RangeDataSource
        >>> RangeDataSource(100)[10:50][::-2]
        SubsetDataSource(RangeDataSource(start=0, stop=100, step=1), range(49, 10, -2))
        """
        made = SubsetDataSource(source, keys)
        if (
            type(source) is SubsetDataSource
            and isinstance(made._keys, range)
            and isinstance(source._keys, range)
        ):
            chosen = made._keys
            stop = None if chosen.stop < 0 else chosen.stop
            return SubsetDataSource(source._source, source._keys[chosen.start : stop : chosen.step])
        return made

    def _source_key(self, key: int) -> int:
        return self._keys[key]

    def _source_keys(self, record_keys: ArrayLike) -> NDArray[np.int64]:
        positions = check_keys(record_keys, len(self), self)
        if isinstance(self._keys, range):
            return positions * self._keys.step + self._keys.start
        return self._keys.at(positions)

    def __len__(self) -> int:
        return len(self._keys)

    @sliced
    def __getitem__(self, key: int) -> Any:
        return read_record(self._source, self._source_key(key))

    @where_below_has("__getitems__", many_reader)
    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        """Many records in one call; only where the source has `__getitems__`, else an AttributeError."""
        return read_records(self._source, self._source_keys(record_keys).tolist())

    def read_each(self, record_keys: NDArray[np.int64]) -> Iterator[Any]:
        """The records of many keys, each read when it is asked for.

        Args:
            record_keys: (n,) int64. A key out of range is an IndexError when its record is asked for.
        """
        if record_keys.size and record_keys.view(np.uint64).max() >= len(self):
            return map(self.__getitem__, record_keys.tolist())
        keys, each = self._source_keys(record_keys), each_reader(self._source)
        return map(partial(read_record, self._source), keys.tolist()) if each is None else each(keys)

    @property
    def chunk_records(self) -> int:
        """Consecutive records that are read together, in the mean.

        Only where the source has `chunk_records` and the keys ascend or descend, else an AttributeError.
        """
        chunk, keys = advised_chunk(self._source), self._keys
        if isinstance(keys, _KeyTable):
            ordered = not (np.diff(np.sign(np.diff(keys.keys))) != 0).any()
        else:
            ordered = isinstance(keys, range)
        if chunk is None or not ordered:
            raise lacking(self, "chunk_records", needs="keys in order of a source with `chunk_records`")
        return max(1, chunk * len(keys) // (abs(keys[len(keys) - 1] - keys[0]) + 1))

    @property
    def chunk_feed(self) -> Any:
        """The chunks of the records, as the source has them; None where it has no cache."""
        feed = getattr(self._source, "chunk_feed", None)
        return None if feed is None else feed.of_keys(self._source_keys)

    @property
    def epoch_lengths(self) -> None:
        """None: the chosen records may be of any epochs, in any order."""
        return

    def rows_excluded(self, documents: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The records with nothing left, and those that lose a part, as keys of this source.

        Args:
            documents: keys of `documents` that are left out.
        """
        gone, touched = (np.sort(self._places_of(keys)[1]) for keys in rows_excluded(self._source, documents))
        return gone, touched

    @property
    def take(self) -> Callable[..., Any]:
        """Many records as columns; only where the source has `take`, else an AttributeError, so `hasattr` is False.

        Args:
            record_keys: integers (n,).
            out: the arrays to be filled, as the source's own `take` expects them.
        """
        theirs = offered(self, "take", column_reader(self._source))

        def take(record_keys: ArrayLike, out: list[NDArray[Any]] | None = None) -> Any:
            return theirs(self._source_keys(record_keys), out=out)

        return take

    @property
    def lengths(self) -> NDArray[Any]:
        """The tokens of each record (records,), for `plan_packing`; only where the source has it."""
        lengths: NDArray[Any] = offered(self, "lengths", getattr(self._source, "lengths", None))
        return lengths[self._source_keys(np.arange(len(self)))]

    @where_below_has("read_range", part_reader)
    def read_range(self, record_key: SupportsIndex, start: int, stop: int) -> Any:
        """A part of a record; only where the source has it, else an AttributeError.

        Args:
            record_key: int in [0, len(subset)); IndexError otherwise.
            start: of its first token.
            stop: behind its last token.
        """
        return self._source.read_range(self._keys[check_key(record_key, len(self), self)], start, stop)

    @property
    def _first_of_tokens(self) -> Any:
        return offered(self, "slices", self._source if has_tokens(self._source) else None)

    @where_of_tokens
    def bounds(self, record_keys: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of records (n,) for `slices`: the first token of each, and the one behind its last.

        Args:
            record_keys: integers (n,); IndexError naming the first that is out of range.
        """
        bounds: tuple[NDArray[np.int64], NDArray[np.int64]] = self._source.bounds(
            self._source_keys(record_keys)
        )
        return bounds

    @property
    def slices(self) -> Callable[..., list[NDArray[Any]]]:
        """Runs of tokens, or of values of a column, by places that `bounds` gave and what lies between two of these."""
        slices: Callable[..., list[NDArray[Any]]] = self._first_of_tokens.slices
        return slices

    @where_of_tokens
    def document_column(self, name: str, record_keys: ArrayLike) -> NDArray[Any]:
        """The values (n,) of a column of documents, as a `TokenDataSource` gives them.

        Args:
            name: of the column.
            record_keys: integers (n,); IndexError naming the first that is out of range.
        """
        values: NDArray[Any] = self._source.document_column(name, self._source_keys(record_keys))
        return values

    def name(self, record_key: SupportsIndex) -> str | None:
        """The name that the source gives the record, None where it gives none.

        Args:
            record_key: int in [0, len(subset)); IndexError otherwise.
        """
        return namer_of(self._source)(self._keys[check_key(record_key, len(self), self)])

    def origins(self, record_keys: ArrayLike) -> Origins:
        """Where the source's records are from.

        Args:
            record_keys: integers (n,).
        """
        return origins_of(self._source, self._source_keys(record_keys))

    def records_with(
        self, documents: NDArray[np.int64], corpus: str | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of the source's records that were chosen; each with all of its places.

        Args:
            documents: keys of documents, (n,) int64.
            corpus: the name of theirs, None where there is one.
        """
        which, below = records_with(self._source, documents, corpus)
        some, places = self._places_of(below)
        return which[some], places

    def _places_of(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of the source's keys were chosen, and their places here, (m,) int64 each."""
        if not isinstance(self._keys, range):
            return self._keys.places_of(keys)
        places, rest = np.divmod(keys - self._keys.start, self._keys.step)
        some = np.flatnonzero((rest == 0) & (places >= 0) & (places < len(self)))
        return some, places[some]

    def fingerprint(self) -> dict[str, Any]:
        """The source's fingerprint, and the chosen keys."""
        return {
            "type": "SubsetDataSource",
            "records": len(self),
            "keys": repr(self._keys),
            "source": fingerprint_of(self._source),
        }

    def __repr__(self) -> str:
        return f"SubsetDataSource({short_repr(self._source)}, {self._keys!r})"


def _chosen(source: Any, which: Any) -> range | SampledKeys | NDArray[np.int64]:
    if isinstance(which, SampledKeys):
        return which
    if isinstance(which, float | np.floating):
        if not 0 < which <= 1:
            raise ValueError(f"indices_or_fraction: expected 0 < fraction <= 1, got {which}")
        return range(round(which * len(source)))
    if isinstance(which, slice):
        return _canonical(range(len(source))[which])
    if isinstance(which, range):
        # The ends of a range are its least and largest key.
        check_keys([which[0], which[-1]] if which else [], len(source), source, from_end=True)
        if not which or min(which[0], which[-1]) >= 0:
            return _canonical(which)
    keys = np.asarray(which)
    if keys.ndim != 1:
        raise TypeError(
            "indices_or_fraction: expected integers in one dimension, a range, a slice or a float, "
            f"got {_short(which)}"
        )
    if keys.dtype == np.bool_:
        if len(keys) != len(source):
            raise ValueError(
                f"mask: expected {len(source)} bools, one for each record of {short_repr(source)}, got {len(keys)}"
            )
        which = np.flatnonzero(keys)
    keys = check_keys(which, len(source), source, from_end=True)
    steps = np.diff(keys[:2]).tolist() or [1]
    # As a range where possible: it takes no memory, and the fingerprint doesn't depend on how the keys were given.
    if len(keys) and steps[0] and (np.diff(keys) == steps[0]).all():
        return _canonical(range(int(keys[0]), int(keys[-1]) + (1 if steps[0] > 0 else -1), steps[0]))
    return keys


def _canonical(keys: range) -> range:
    # One form for equal ranges, such as range(0, 5, 3) and range(0, 4, 3).
    if len(keys) < 2:
        return range(keys[0], keys[0] + 1) if keys else range(0)
    return range(keys[0], keys[-1] + (1 if keys.step > 0 else -1), keys.step)
