"""The optional members of a sampler that say how it reads: by chunks, in lanes, of components, in epochs.

A member counts where the sampler's own class has it, or the sampler itself. One that a wrapper passes on, or that a
class inherits beside a `__getitem__` that it replaced, is of another order than the sampler's, so it isn't used.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import at_least
from loaderkit._order.matches import matches
from loaderkit._order.permutation import MAX_RECORDS, Int64Array

from .mixture_arguments import consecutive_offsets
from .protocol import Sampler, defines, epoch_length_of, length_of, min_records_of, record_keys_of

_SCANNED = 1 << 16  # indices of a sampler that is asked for all keys at once


class Components(NamedTuple):
    """What a sampler mixes.

    samplers: {name: sampler}. offsets: {name: what is added to its keys}, in the same order. numbers: gives the place
    of the component that each index reads, (n,) ints from int64 (n,), -1 for one that isn't there; None where the
    sampler doesn't say it.
    """

    samplers: Mapping[str, Sampler]
    offsets: Mapping[str, int]
    numbers: Callable[[Int64Array], Int64Array] | None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the components."""
        return tuple(self.samplers)

    @property
    def concatenated(self) -> bool:
        """Whether the offsets are those of a ConcatDataSource."""
        return self.offsets == consecutive_offsets(self.samplers)


def components_of(sampler: Sampler) -> Components | None:
    """What the sampler mixes: its `components` with their `offsets`; None where it has none.

    >>> from loaderkit.samplers import IndexSampler, MixedSampler
    >>> components_of(MixedSampler({"a": IndexSampler(3), "b": IndexSampler(4)})).offsets
    {'a': 0, 'b': 3}
    >>> components_of(IndexSampler(3)) is None
    True
    """
    samplers, offsets = _own(sampler, "components"), _own(sampler, "offsets")
    if not isinstance(samplers, Mapping) or not isinstance(offsets, Mapping) or {*samplers} != {*offsets}:
        return None
    return Components(
        samplers, {name: offsets[name] for name in samplers}, _method(sampler, "component_numbers")
    )


def part_lengths_of(sampler: Sampler) -> Int64Array | None:
    """The sampler's `part_lengths`: records of each source that it reads in turns; None where it has none.

    >>> from loaderkit.samplers import InterleavedSampler
    >>> part_lengths_of(InterleavedSampler([3, 1], num_epochs=1))
    array([3, 1])
    """
    lengths: Int64Array | None = _own(sampler, "part_lengths")
    return lengths


def next_uses_of(sampler: Sampler) -> Callable[..., Int64Array] | None:
    """The sampler's `next_uses(record_keys, index, lanes=None)`; None where it doesn't read by chunks.

    >>> from loaderkit.samplers import ChunkSampler, IndexSampler
    >>> (
    ...     next_uses_of(IndexSampler(3)) is None,
    ...     next_uses_of(ChunkSampler(8, chunk=2, window=1, seed=0)) is None,
    ... )
    (True, False)
    """
    return _method(sampler, "next_uses")


def lanes_of(sampler: Sampler) -> int:
    """Into how many equal parts the sampler cuts each global batch: its `lanes`, else 1.

    >>> from loaderkit.samplers import IndexSampler
    >>> lanes_of(IndexSampler(3))
    1
    """
    return _number(sampler, "lanes") or 1


def batch_of(sampler: Sampler) -> int | None:
    """How many indices a step of all hosts takes: the sampler's `batch`; None where it doesn't say it.

    >>> from loaderkit.samplers import IndexSampler
    >>> batch_of(IndexSampler(3)) is None
    True
    """
    return _number(sampler, "batch")


def window_of(sampler: Sampler) -> tuple[int, int]:
    """(window, chunk): how many chunks the sampler mixes at a time, and the records of one; (0, 0) for none.

    >>> from loaderkit.samplers import ChunkSampler
    >>> window_of(ChunkSampler(8, chunk=2, window=3, seed=0))
    (3, 2)
    """
    return _number(sampler, "window") or 0, _number(sampler, "chunk") or 0


def positions_of(sampler: Sampler) -> Callable[[npt.ArrayLike, int], Int64Array] | None:
    """The sampler's `positions_of(record_keys, epoch)`; None where it doesn't say where an epoch reads a key.

    >>> from loaderkit.samplers import IndexSampler, WeightedSampler
    >>> positions_of(IndexSampler(3))([2, 9], 0), positions_of(WeightedSampler([1, 2], seed=0)) is None
    (array([ 2, -1]), True)
    """
    return _method(sampler, "positions_of") if epoch_length_of(sampler) is not None else None


def finds_keys(sampler: Sampler) -> bool:
    """Whether `indices_of` computes where keys are read; else it looks at each index.

    >>> from loaderkit.samplers import IndexSampler, WeightedSampler
    >>> finds_keys(IndexSampler(3)), finds_keys(WeightedSampler([1, 2], seed=0))
    (True, False)
    """
    if (mixed := components_of(sampler)) is not None:
        return all(map(finds_keys, mixed.samplers.values()))
    return _method(sampler, "indices_of") is not None or positions_of(sampler) is not None


def indices_of(
    sampler: Sampler, record_keys: npt.ArrayLike, start: int, stop: int
) -> tuple[Int64Array, Int64Array]:
    """The indices in [start, stop) at which keys are read, ascending, and which key each reads.

    By the sampler's own `indices_of`, else by its `positions_of` for each epoch; one without both is asked for the keys
    of all these indices.

    Args:
        sampler: any.
        record_keys: (n,) ints.
        start, stop: ints from 0 on; indices behind the sampler's end aren't looked at.

    Gives (m,) int64 places of the keys in record_keys, and (m,) int64 indices.

    >>> from loaderkit.samplers import IndexSampler
    >>> indices_of(IndexSampler(5), [4, 1], 0, 12)
    (array([1, 0, 1, 0, 1]), array([ 1,  4,  6,  9, 11]))
    """
    keys = np.asarray(record_keys, np.int64)
    if (own := _method(sampler, "indices_of")) is not None:
        which, found = own(keys, start, stop)
        return which, found
    length = length_of(sampler)
    stop = stop if length is None else min(stop, length)
    whichs, indices = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    if (find := positions_of(sampler)) is not None:
        each = epoch_length_of(sampler)
        assert each is not None
        for epoch in range(start // each, -(-stop // each)):
            places = np.asarray(find(keys, epoch))
            whichs.append(np.flatnonzero(places >= 0))
            indices.append(places[whichs[-1]] + epoch * each)
    else:
        for low in range(start, stop, _SCANNED):
            some = np.arange(low, min(low + _SCANNED, stop))
            plain = _method(sampler, "plain_keys")
            read = record_keys_of(sampler, some) if plain is None else plain(some)
            which, places = matches(keys, read)
            whichs.append(which)
            indices.append(some[places])
    return within(np.concatenate(whichs), np.concatenate(indices), start, stop)


def reads_of(
    sampler: Sampler, record_keys: npt.ArrayLike, spans: Sequence[tuple[int, int]]
) -> tuple[Int64Array, Int64Array]:
    """How often each key is read at the indices of some spans, and the last of these, -1 for none; (n,) int64 each.

    By `positions_of`, which is asked for the epochs at the ends of spans and one between; else by `indices_of`, for as
    many indices at a time as there are records.

    Args:
        sampler: any.
        record_keys: (n,) ints.
        spans: (first index, the one behind the last), ascending; indices behind the sampler's end aren't looked at.

    >>> from loaderkit.samplers import IndexSampler
    >>> reads_of(IndexSampler(5), [4, 1], [(0, 12)])
    (array([2, 3]), array([ 9, 11]))
    """
    keys = np.asarray(record_keys, np.int64)
    counts, last = np.zeros(keys.shape, np.int64), np.full(keys.shape, -1)
    limit, each = length_of(sampler), epoch_length_of(sampler)
    spans = [(start, stop if limit is None else min(stop, limit)) for start, stop in spans]
    find = None if _method(sampler, "indices_of") is not None else positions_of(sampler)
    if find is None or each is None:
        step = max(min_records_of(sampler), _SCANNED)
        for start, stop in spans:
            for low in range(start, stop, step):
                which, indices = indices_of(sampler, keys, low, min(low + step, stop))
                counts += np.bincount(which, minlength=keys.size)
                np.maximum.at(last, which, indices)
        return counts, last
    wholes = [(-(-start // each), stop // each) for start, stop in spans]
    number = sum(max(0, end - first) for first, end in wholes)
    ends = {end for start, stop in spans if start < stop for end in (start, stop) if end % each}
    latest = max((end - 1 for first, end in wholes if first < end), default=None)
    for epoch in sorted({end // each for end in ends}):
        indices = np.asarray(find(keys, epoch)) + epoch * each
        for start, stop in spans:
            low, high = max(start, epoch * each), min(stop, (epoch + 1) * each)
            if low < high and high - low < each:
                here = (indices >= low) & (indices < high)
                counts += here
                np.maximum(last, indices, out=last, where=here)
    if latest is not None:
        indices = np.asarray(find(keys, latest)) + latest * each
        here = indices >= latest * each
        counts += number * here
        np.maximum(last, indices, out=last, where=here)
    return counts, last


def epochs_of(sampler: Sampler, indices: Int64Array) -> Int64Array:
    """The epoch of each index, of a mixture that of its component; -1 where it isn't known. (n,) int64 each.

    >>> from loaderkit.samplers import IndexSampler
    >>> epochs_of(IndexSampler(5), np.array([4, 5]))
    array([0, 1])
    """
    if (own := _method(sampler, "epochs_of")) is not None:
        epochs: Int64Array = own(indices)
        return epochs
    length = epoch_length_of(sampler)
    return np.full(indices.shape, -1) if length is None else indices // length


def within(which: Int64Array, indices: Int64Array, start: int, stop: int) -> tuple[Int64Array, Int64Array]:
    """Those of the indices in [start, stop), ascending, with what belongs to each.

    >>> within(np.array([0, 1, 2]), np.array([7, 3, 9]), 0, 9)
    (array([1, 0]), array([3, 7]))
    """
    here = np.flatnonzero((indices >= start) & (indices < stop))
    here = here[np.argsort(indices[here], kind="stable")]
    return which[here], indices[here]


def endless_of(sampler: Sampler) -> Sampler:
    """The sampler's `endless()`: the same order without a last epoch; the sampler itself where it has none.

    A class that replaces `__getitem__` inherits it all the same, as it makes a sampler of the same class.

    >>> from loaderkit.samplers import IndexSampler
    >>> endless_of(IndexSampler(3, num_epochs=2))
    IndexSampler(num_records=3, shard_options=None, shuffle=False, num_epochs=None, seed=None)
    """
    endless: Any = getattr(type(sampler), "endless", None)
    made: Sampler = endless(sampler) if callable(endless) else sampler
    return made


def _own(sampler: Sampler, name: str) -> Any:
    own = name in getattr(sampler, "__dict__", ()) or defines(sampler, name)
    return getattr(sampler, name, None) if own else None


def _method(sampler: Sampler, name: str) -> Callable[..., Any] | None:
    found = _own(sampler, name)
    return found if callable(found) else None


def _number(sampler: Sampler, name: str) -> int | None:
    number = _own(sampler, name)
    label = f"{type(sampler).__qualname__}.{name}"
    return None if number is None else at_least(label, number, 1, below=MAX_RECORDS)
