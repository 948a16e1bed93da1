"""The parts of a stream: the sources that a sampler reads in turns, by the record keys of each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loaderkit.samplers import InterleavedSampler, MixedSampler, Sampler
from loaderkit.samplers.protocol import record_keys_of
from loaderkit.sources import ConcatDataSource, MapDataSource

Keys = NDArray[np.int64]


class Parts(NamedTuple):
    """Parts by number.

    names: of each. of: the number of the part of each record key, (n,) int64; -1 where that isn't known.
    """

    names: tuple[str, ...]
    of: Callable[[Keys], Keys]


def concatenated(source: Any) -> ConcatDataSource | None:
    """The parts of a source that stand one behind the other, also behind a MapDataSource; None for another source.

    >>> concatenated([1, 2])
    """
    while isinstance(source, MapDataSource):
        source = source._source
    return source if isinstance(source, ConcatDataSource) else None


def parts_of_stream(source: Any, sampler: Sampler) -> Parts | None:
    """The parts of a stream, two or more; else None.

    Those of a ConcatDataSource, else what the sampler reads in turns. Of a mixture over one source, such as that of
    `lk.balance`, only the first record of each component is known to be of it.

    >>> parts = parts_of_stream(ConcatDataSource({"a": [1, 2], "b": [3]}), MixedSampler.__new__(MixedSampler))
    >>> parts.names, parts.of(np.array([0, 1, 2])).tolist()
    (('a', 'b'), [0, 0, 1])
    """
    whole = concatenated(source)
    if whole is not None:
        names, ends = whole.names or tuple(map(str, range(len(whole._ends)))), whole._ends
    elif isinstance(sampler, InterleavedSampler):
        names, ends = tuple(map(str, range(len(sampler.lengths)))), sampler.lengths.cumsum()
    elif isinstance(sampler, MixedSampler):
        return _of_components(sampler)
    else:
        return None
    return Parts(names, lambda keys: np.searchsorted(ends, keys, "right")) if len(names) > 1 else None


def _of_components(sampler: MixedSampler) -> Parts | None:
    firsts = {
        sampler.offsets[name] + int(record_keys_of(each, np.zeros(1, np.int64))[0]): i
        for i, (name, each) in enumerate(sampler.components.items())
    }
    known = np.array(sorted(firsts), np.int64)
    numbers = np.array([firsts[key] for key in known.tolist()], np.int64)

    def of(keys: Keys) -> Keys:
        places = np.searchsorted(known, keys).clip(max=len(known) - 1)
        return np.where(known[places] == keys, numbers[places], -1)

    return Parts(sampler.names, of) if len(firsts) > 1 else None
