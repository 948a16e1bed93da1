"""A sampler of several sources, and the parts of a ConcatDataSource: whether they are the same ones."""

from reprlib import repr as _short
from typing import Any

from loaderkit.samplers import InterleavedSampler, MixedSampler, Sampler

from .parts import concatenated


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
    parts = whole._starts.tolist()
    if isinstance(sampler, InterleavedSampler):
        argument, starts = "lengths", (sampler.lengths.cumsum() - sampler.lengths).tolist()
        same = len(starts) == len(parts)
    elif isinstance(sampler, MixedSampler) and not sampler.placed:
        argument, starts = "components", list(sampler.offsets.values())
        same = len(starts) == len(parts) and whole.names in (None, sampler.names)
        if whole.names is not None and {*whole.names} == {*sampler.names} and not same:
            raise ValueError(
                f"components: expected the names of the source's parts in their order, {_short(list(whole.names))}, "
                f"got {_short(list(sampler.names))}; give them in one order to both, as lk.mix does"
            )
    else:
        return
    if same and starts != parts:
        place = next(
            place for place, pair in enumerate(zip(starts, parts, strict=True)) if pair[0] != pair[1]
        )
        raise ValueError(
            f"{argument}: expected parts that begin where the source's do, part {place} at record {parts[place]}, got "
            f"{starts[place]}; give len() of each source"
        )
