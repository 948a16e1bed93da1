"""A sampler of several sources, and the parts of a ConcatDataSource: whether they are the same ones."""

from collections.abc import Sequence
from typing import Any

from loaderkit.samplers import Sampler
from loaderkit.samplers.optional import components_of, part_lengths_of

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
