"""The work that every contender of a benchmark does: the same source, the same functions, the same batches."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Each:
    """A step: `function(element)` gives the next element."""

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Draw:
    """A random step: `function(element, rng)` gives the next element."""

    function: Callable[..., Any]


Step = Each | Draw


@dataclass(frozen=True, slots=True)
class Pipeline:
    """An endless stream of batches: read a record, take the steps, stack the rows.

    Args:
        sources: the data, by the name of the peer that reads it; "" is for all peers without their own. Each is made in
            the process that reads it, by a call without arguments.
        steps: the functions that a record goes through, in order.
        batch: rows of a batch; None gives elements.
        shuffle: read in a new random order each epoch, otherwise in order.
        columns: the same data as a tree of arrays, for contenders that work on whole columns.
        records: how many records there are, if opening the source to ask it would start threads before a fork.
        graph: the steps as one function of TensorFlow tensors, if tf.data takes part with columns or files.
        transforms: loaderkit's own for the same work, by the contender's option "transforms".
    """

    sources: Mapping[str, Callable[[], Any]]
    steps: tuple[Step, ...] = ()
    batch: int | None = None
    shuffle: bool = True
    columns: Callable[[], dict[str, np.ndarray]] | None = None
    graph: Callable[[Any], Any] | None = None
    records: int | None = None
    transforms: Mapping[str, Callable[[], list[Any]]] = field(default_factory=dict)
    seed: int = field(default=0, kw_only=True)

    @property
    def rows(self) -> int:
        """Records of a batch."""
        return self.batch or 1

    def source(self, name: str) -> Any:
        """The data for a peer, or for the name in a contender's option "source"."""
        return self.sources.get(name, self.sources[""])()

    def orders(self, records: int) -> Iterator[np.ndarray]:
        """The record keys of one epoch after the other, for contenders without a sampler: (records,) int64 each."""
        rng = np.random.default_rng(self.seed)
        while True:
            yield rng.permutation(records) if self.shuffle else np.arange(records)
