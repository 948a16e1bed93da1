"""The parts of a stream: the sources that a sampler reads in turns."""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loaderkit.samplers import InterleavedSampler, MixedSampler, Sampler
from loaderkit.samplers.protocol import record_keys_of
from loaderkit.sources import ConcatDataSource, MapDataSource

Keys = NDArray[np.int64]


class Parts(NamedTuple):
    """Parts by number.

    names: of each. ends: the record key behind the last one of each; None where they are the components of a mixture.
    """

    names: tuple[str, ...]
    ends: Keys | None

    def met(self, sampler: Any, indices: Keys, left: Collection[int]) -> list[tuple[int, int]]:
        """(place, part) of the first of some consecutive indices that reads each part, in their order.

        Args:
            sampler: of the stream.
            indices: (n,) int64, one or more.
            left: numbers of the parts to look for.

        >>> from loaderkit.samplers import SequentialSampler
        >>> Parts(("a", "b"), np.array([2, 9])).met(SequentialSampler(9), np.arange(4), [1])
        [(2, 1)]
        """
        if self.ends is None:
            before, after = (sampler.taken(int(end)) for end in (indices[0], indices[-1] + 1))
            if all(before[self.names[part]] == after[self.names[part]] for part in left):
                return []  # as with weight 0, for ever
            found, _ = sampler._runs(sampler._lanes.turns_of(indices)[0])
        else:
            found = np.searchsorted(self.ends, record_keys_of(sampler, indices), "right")
        places = np.full(len(self.names) + 1, -1)  # the last for what is no part
        places[found[::-1]] = np.arange(len(found))[::-1]
        return sorted((int(places[part]), part) for part in left if places[part] >= 0)


def concatenated(source: Any) -> ConcatDataSource | None:
    """The parts of a source that stand one behind the other, also behind a MapDataSource; None for another source.

    >>> concatenated([1, 2])
    """
    while isinstance(source, MapDataSource):
        source = source._source
    return source if isinstance(source, ConcatDataSource) else None


def parts_of_stream(source: Any, sampler: Sampler) -> Parts | None:
    """The parts of a stream, two or more with records; else None.

    They are what the sampler reads in turns, else those of a ConcatDataSource.

    >>> from loaderkit.samplers import SequentialSampler
    >>> parts_of_stream(ConcatDataSource({"a": [1, 2], "b": [3]}), SequentialSampler(3))
    Parts(names=('a', 'b'), ends=array([2, 3]))
    """
    whole = concatenated(source)
    ends: Keys | None = None
    if isinstance(sampler, MixedSampler) and (
        whole is None or (not sampler.placed and len(whole._ends) == len(sampler.names))
    ):
        names = sampler.names
    elif whole is not None:
        names, ends = whole.names or tuple(map(str, range(len(whole._ends)))), whole._ends
    elif isinstance(sampler, InterleavedSampler):
        names, ends = tuple(map(str, range(len(sampler.lengths)))), sampler.lengths.cumsum()
    else:
        return None
    filled = len(names) if ends is None else np.count_nonzero(np.diff(ends, prepend=0))
    return Parts(names, ends) if filled > 1 else None
