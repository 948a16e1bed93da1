"""The parts of a stream, the sources that a sampler reads in turns; and whether they are the data source's own."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit.samplers import Sampler
from loaderkit.samplers.optional import components_of, part_lengths_of
from loaderkit.samplers.protocol import record_keys_of
from loaderkit.sources import ConcatDataSource, MapDataSource

Keys = NDArray[np.int64]
BLOCK = 8192  # indices that are looked through at a time


class Parts(NamedTuple):
    """Parts by number.

    names: of each. ends: the record key behind the last one of each; None where they are the components of a mixture.
    """

    names: tuple[str, ...]
    ends: Keys | None

    def first_records(
        self, plan: SeekablePlan, index: int, left: set[int]
    ) -> Iterator[tuple[int, int | None]]:
        """(index, part) of the first record of each part from an index on; (index, None) where it has looked so far.

        Args:
            plan: the stream.
            index: where to begin.
            left: numbers of the parts to look for.

        >>> import loaderkit as lk
        >>> plan = lk.load(range(9), num_epochs=1)._plan()
        >>> list(Parts(("a", "b"), np.array([2, 9])).first_records(plan, 0, {1}))
        [(2, 1), (8192, None)]
        """
        while left and (plan.stop is None or index < plan.stop):
            end = index + BLOCK
            try:
                found = self._met(plan.sampler, np.arange(index, min(end, plan.stop or end)), left)
            except Exception:  # noqa: BLE001 - a user's sampler may raise anything for indices far ahead
                return
            yield from ((index + place, part) for place, part in found)
            left, index = left - {part for _, part in found}, end
            yield index, None

    def _met(self, sampler: Any, indices: Keys, left: set[int]) -> list[tuple[int, int]]:
        """(place, part) of the first of some consecutive indices that reads each part, in their order."""
        if self.ends is None:
            found = sampler.component_numbers(indices)
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
    whole, mixed = concatenated(source), components_of(sampler)
    ends: Keys | None = None
    if (
        mixed is not None
        and mixed.numbers is not None
        and (whole is None or (mixed.concatenated and len(whole._ends) == len(mixed.names)))
    ):
        names = mixed.names
    elif whole is not None:
        names, ends = whole.names or tuple(map(str, range(len(whole._ends)))), whole._ends
    elif (lengths := part_lengths_of(sampler)) is not None:
        names, ends = tuple(map(str, range(len(lengths)))), lengths.cumsum()
    else:
        return None
    filled = len(names) if ends is None else np.count_nonzero(np.diff(ends, prepend=0))
    return Parts(names, ends) if filled > 1 else None


def check_parts(sampler: Sampler, source: Any) -> None:
    """ValueError where a sampler takes its turns among other parts than those that the source has.

    A mixture is compared by the names of its components, and where the source has no names, as InterleavedSampler is,
    if it has as many parts. A mixture whose offsets were given is of no ConcatDataSource.

    >>> from loaderkit.samplers import SequentialSampler
    >>> check_parts(SequentialSampler(3), [5, 6, 7])
    """
    whole = concatenated(source)
    if whole is None:
        return
    names: Sequence[object]
    lengths, mixed = part_lengths_of(sampler), components_of(sampler)
    if lengths is not None:
        argument, starts = "lengths", (lengths.cumsum() - lengths).tolist()
        names = whole.names or range(len(starts))
    elif mixed is not None and mixed.concatenated:
        argument, starts, names = "components", [*mixed.offsets.values()], mixed.names
    else:
        return
    parts = whole._starts.tolist()
    theirs = whole.names or names
    if len(starts) != len(parts) or {*names} != {*theirs}:
        return
    for name, start, part, begin in zip(names, starts, theirs, parts, strict=True):
        if (name, start) != (part, begin):
            raise ValueError(
                f"{argument}: expected the source's parts in their order, here {part!r} from record {begin} on, got "
                f"{name!r} from record {start} on; give them in one order to both, as lk.mix does, and len() of each"
            )
