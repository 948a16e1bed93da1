"""Which chains behind `to_iter_dataset` the engine makes: rows by arithmetic, and operations on them.

One-to-one steps, filters, and batches, mixtures and zips of rows of which none is absent are rows (rows.py). A batch of
rows of which some are absent, a flat map, and what follows them are operations. All else runs in order.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit.interop.grain import transforms
from loaderkit.interop.grain._batching import make_batch
from loaderkit.interop.grain._steps import Step
from loaderkit.interop.grain.options import ReadOptions

from .in_order.elements import (
    BatchIterDataset,
    FilterIterDataset,
    FlatMapIterDataset,
    LimitIterDataset,
    MapIterDataset,
    MapWithIndexIterDataset,
    RandomMapIterDataset,
)
from .in_order.several import MixedIterDataset, ZipIterDataset
from .in_order.threads import ThreadPrefetchIterDataset
from .iter_dataset import IterDataset
from .rows import (
    BatchedRows,
    CalledRows,
    DrawnRows,
    FilteredRows,
    LimitedRows,
    MapRows,
    MixedRows,
    NumberedRows,
    Rows,
    ZippedRows,
    is_there,
    unless_none,
)


class _SameElements(IterDataset):
    """A step whose elements are those before it."""

    def __iter__(self) -> Any:
        return iter(self._parent)


class WithSeedIterDataset(_SameElements, step="IterDataset.seed"):
    """The seed of the steps after it."""

    def __init__(self, parent: Any, *, seed: int) -> None:
        super().__init__(parent)
        self._seed_rng_seed = seed


class WithOptionsIterDataset(_SameElements):
    """Options of Grain's, of which no element depends: they change nothing here.

    Args:
        parent: the data set before.
        options: DatasetOptions.
    """

    def __init__(self, parent: Any, options: Any) -> None:
        super().__init__(parent)
        self.options = options


class PrefetchIterDataset(IterDataset, step="MapDataset.to_iter_dataset"):
    """The elements of one epoch of a MapDataset."""

    def __init__(self, parent: Any, *, read_options: ReadOptions | None, allow_nones: bool = False) -> None:
        super().__init__(parent)
        self._read_options, self._allow_nones = read_options, allow_nones

    def __iter__(self) -> Any:
        return self._planned()


@dataclass(frozen=True, slots=True)
class Chain:
    """What the engine makes.

    rows: by arithmetic. steps: operations on them. read_options: of the first MapDataset that has any.
    """

    rows: Rows
    steps: tuple[Step, ...] = ()
    read_options: ReadOptions | None = None

    def with_rows(self, made: Callable[..., Rows], *args: Any) -> "Chain":
        """With rows made of these."""
        return replace(self, rows=made(self.rows, *args))

    def then(self, kind: str, call: Any, node: Any, batch: transforms.Batch | None = None) -> "Chain":
        """With one operation more."""
        label = type(node).__name__
        return replace(self, steps=(*self.steps, Step(kind, call, label, node, batch)))

    @property
    def counted(self) -> bool:
        """Whether a step after this may count its elements, for none is absent."""
        return not self.steps and not self.rows.absent

    def unfolded(self) -> "Chain":
        """The last batch, and maps after it, as operations: the engine writes rows into batches in place.

        Where a function may give None, an operation drops the row, or an error says that it can't be told.
        """
        rows, calls = self.rows, list[Any]()
        while type(rows) is CalledRows:
            calls.append(rows.call)
            (rows,) = rows.parents
        chain = self
        if isinstance(rows, BatchedRows) and not self.steps:
            chain = replace(self, rows=rows.parents[0]).then("batch", None, rows, rows.batch)
            for call in reversed(calls):
                chain = chain.then("map", partial(unless_none, call), call)
        elif rows.absent or rows.unsure:
            kept = Step("filter", is_there, "filter", is_there)
            chain = replace(self, steps=(kept, *self.steps))
        return chain


def chain_of(node: Any, streams: int) -> Chain | None:
    """What the engine makes for W streams; None where the elements have to be made in order.

    Args:
        node: of a tree.
        streams: W.
    """
    match node:
        case PrefetchIterDataset():
            rows = MapRows(node.parents[0], node._allow_nones)
            return Chain(rows, (), node._read_options)
        case MixedIterDataset() | ZipIterDataset():
            return _of_several(node, streams)
        case IterDataset(_parents=(parent,)):
            chain = chain_of(parent, streams)
            return None if chain is None else _after(chain, node)
    return None


def _after(chain: Chain, node: Any) -> Chain | None:
    match node:
        case _SameElements() | ThreadPrefetchIterDataset():
            return chain
        case MapIterDataset():
            if chain.steps:
                return chain.then("map", partial(unless_none, node.call), node)
            return chain.with_rows(CalledRows, node.call)
        case FilterIterDataset():
            return (
                chain.then("filter", node.call, node)
                if chain.steps
                else chain.with_rows(FilteredRows, node.call)
            )
        case BatchIterDataset():
            batch = transforms.Batch(node.size, node.drop_remainder, node.batch_fn)
            if chain.counted:
                return chain.with_rows(BatchedRows, batch, node.batch_fn or make_batch)
            return chain.then("batch", None, node, batch)
        case FlatMapIterDataset():
            return None if chain.steps else chain.then("flat_map", node.call, node)
    if not chain.counted:
        return None
    match node:
        case MapWithIndexIterDataset():
            return chain.with_rows(NumberedRows, node.call)
        case RandomMapIterDataset():
            return chain.with_rows(DrawnRows, node.call, node.pool)
        case LimitIterDataset():
            return chain.with_rows(LimitedRows, node.most)
    return None


def _of_several(node: Any, streams: int) -> Chain | None:
    parts = [chain_of(parent, streams) for parent in node.parents]
    chains = [chain for chain in parts if chain is not None and chain.counted]
    if len(chains) < len(parts):
        return None
    rows = [chain.rows for chain in chains]
    read = next((chain.read_options for chain in chains if chain.read_options is not None), None)
    if isinstance(node, MixedIterDataset):
        names = node.names if node.by_name else None
        return Chain(MixedRows(rows, node.weights, names), (), read)
    sizes = {tuple(each.size(stream, streams) for stream in range(streams)) for each in rows}
    return Chain(ZippedRows(*rows), (), read) if len(sizes) == 1 or not node.strict else None
