"""Samplers that say which batches have rows of which shape, so that all processes pad alike."""

from typing import Any, Protocol

from loaderkit._order.permutation import Int64Array

from .protocol import Sampler


class ShapedSampler(Protocol):
    """What a sampler has besides `sampler[i]` that says the shape and the size of each batch.

    global_batch_size: N, the indices of a step. sizes: for each bucket the rows of its batches, at most N.
    epoch_length: how many indices an epoch takes, a multiple of N.
    """

    global_batch_size: int
    sizes: tuple[int, ...]

    @property
    def epoch_length(self) -> int:
        """How many indices an epoch takes."""
        ...

    def shapes(self, first_indices: Int64Array) -> Int64Array:
        """The bucket of the step that begins at each index, (k,) int64."""
        ...

    def rows_of(self, first_indices: Int64Array) -> Int64Array:
        """How many of its indices the step that begins at each index uses, (k,) int64: the first ones."""
        ...


def shaped(sampler: Sampler) -> ShapedSampler | None:
    """The sampler, if it says shapes.

    >>> from loaderkit.samplers import LengthBucketSampler, SequentialSampler
    >>> shaped(SequentialSampler(4)), shaped(LengthBucketSampler([3, 9], [9], 2, shuffle=True, seed=0)).sizes
    (None, (2,))
    """
    known: Any = sampler
    return known if hasattr(known, "shapes") and hasattr(known, "rows_of") else None
