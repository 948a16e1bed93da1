"""The optional members of a sampler that say how it reads: by chunks, in lanes, of components, in epochs.

A member counts where the sampler's own class has it, or the sampler itself. One that a wrapper passes on, or that a
class inherits beside a `__getitem__` that it replaced, is of another order than the sampler's, so it isn't used.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from loaderkit._base.numbers import at_least
from loaderkit._order.permutation import MAX_RECORDS, Int64Array

from .mixture_arguments import consecutive_offsets
from .protocol import Sampler, defines


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
