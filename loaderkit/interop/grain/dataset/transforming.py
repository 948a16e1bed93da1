"""Nodes that make elements of elements: maps, draws, filters, batches and flat maps."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from loaderkit._base.notes import annotate
from loaderkit.interop.grain._batching import make_batch
from loaderkit.transforms.base import name_of

from .map_dataset import Indices, exact, in_epochs
from .node import function_of
from .selecting import ENDLESS, MapNode


class RngPool:
    """Generators of one seed, each used again for other indices.

    Args:
        seed: int >= 0.

    >>> pool = RngPool(3)
    >>> rng = pool.acquire_rng(7)
    >>> first = rng.random()
    >>> pool.release_rng(rng)
    >>> pool.acquire_rng(7).random() == first
    True
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._free: list[np.random.Generator] = []
        state: Any = np.random.Philox(seed).state
        self._key: list[int] = state["state"]["key"].tolist()
        self._rest = {**state, "buffer": state["buffer"].tolist()}

    def __reduce__(self) -> Any:
        return RngPool, (self._seed,)

    def acquire_rng(self, index: int, *, op_seed: int = 0) -> np.random.Generator:
        """The generator of an index, to be given back.

        Args:
            index: 0 or more.
            op_seed: of the step, where one pool serves several.
        """
        try:
            rng = self._free.pop()
        except IndexError:  # none is free; another thread may have taken the last
            rng = np.random.Generator(np.random.Philox(0))
        # Of lists, from which it is set in a tenth of the time.
        rng.bit_generator.state = {
            **self._rest,
            "state": {"counter": [0, 0, op_seed, index], "key": self._key},
        }
        return rng

    def release_rng(self, rng: np.random.Generator) -> None:
        """Gives a generator back."""
        self._free.append(rng)

    def drawn(self, call: Callable[..., Any], index: int, row: Any) -> Any:
        """What a function makes of a row and the generator of an index.

        Args:
            call: takes the row and the generator.
            index: 0 or more.
            row: what it is given.
        """
        rng = self.acquire_rng(index)
        made = call(row, rng)
        self.release_rng(rng)
        return made


ABSENT: Any = type("Absent", (), {"__reduce__": lambda self: "ABSENT", "__repr__": lambda self: "ABSENT"})()


def each_made(
    rows: list[Any], indices: Indices, make: Callable[[int, Any], Any], call: Callable[..., Any]
) -> list[Any]:
    """What is made of each row that is there, in its place; an error gets a note with the index.

    Args:
        rows: None or ABSENT where there is none.
        indices: of the rows.
        make: takes an index and a row that a user's function may write into: of a dict or a list, which may be the
            source's own, it is a copy.
        call: that function, for the note.
    """
    place = 0
    try:
        for place, (index, row) in enumerate(zip(indices.tolist(), rows, strict=True)):
            if row is not None and row is not ABSENT:
                rows[place] = make(index, row.copy() if type(row) is dict or type(row) is list else row)
    except Exception as error:
        owner = getattr(call, "__self__", None)  # of a transform's method
        name = name_of(call) if owner is None else type(owner).__name__
        annotate(error, f"raised by {name} for index {indices[place]}")
        raise
    return rows


class CallingNode(MapNode):
    """A node that calls a user's function for each element that is there."""

    _may_give_none = True
    _transform: ClassVar[str]  # the kind of transform whose method may be given in place of a function

    def __init__(self, parent: Any, transform: Any) -> None:
        super().__init__(parent)
        self._call = function_of(transform, self._transform)

    def _rows(self, indices: Indices) -> list[Any]:
        return each_made(self._parent.__getitems__(indices), indices, self._made_of, self._call)

    def _made_of(self, index: int, row: Any) -> Any:
        raise NotImplementedError


class MapMapDataset(CallingNode, step="MapDataset.map"):
    """Each element as a function makes it."""

    _transform = "Map"

    def _made_of(self, index: int, row: Any) -> Any:
        return self._call(row)


class MapWithIndexMapDataset(CallingNode, step="MapDataset.map_with_index"):
    """Each element as a function of its index and itself makes it."""

    _transform = "MapWithIndex"

    def _made_of(self, index: int, row: Any) -> Any:
        return self._call(index, row)


class RandomMapMapDataset(CallingNode, step="MapDataset.random_map"):
    """Each element as a function of itself and the generator of its index makes it."""

    _transform = "RandomMap"

    def __init__(self, parent: Any, transform: Any, seed: int | None = None) -> None:
        super().__init__(parent, transform)
        self._pool = RngPool(self._seed_or_default("random_map", seed))

    def _made_of(self, index: int, row: Any) -> Any:
        return self._pool.drawn(self._call, index, row)


class FilterMapDataset(CallingNode, step="MapDataset.filter"):
    """None in the place of elements for which a function isn't true."""

    _transform = "Filter"
    _filters = True

    def _made_of(self, index: int, row: Any) -> Any:
        return row if self._call(row) else None


class BatchMapDataset(MapNode, step="MapDataset.batch"):
    """Batches of consecutive elements; none has those of two epochs."""

    def __init__(
        self,
        parent: Any,
        batch_size: int,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[Any]], Any] | None = None,
    ) -> None:
        super().__init__(parent)
        if batch_size <= 0:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        if any(getattr(node, "_filters", False) for node in nodes_of(parent)):
            raise ValueError(
                "batch: expected a MapDataset without filter and flat map, which may leave out elements, got one with: "
                "write .to_iter_dataset() before .batch(...)"
            )
        self._size, self._within = batch_size, len(parent)
        # In floats, as in Grain, whose number of batches without an end is this one.
        self._length = self._within // batch_size if drop_remainder else math.ceil(self._within / batch_size)
        self._batch_fn = make_batch if batch_fn is None else batch_fn
        self._may_give_none = batch_fn is not None

    def __len__(self) -> int:
        return self._length

    def _rows(self, indices: Indices) -> list[Any]:
        epochs, places = in_epochs(exact(indices, self._size), self._length)
        firsts = epochs * self._within + places * self._size
        sizes = np.minimum(self._size, self._within - places * self._size)
        within = np.arange(self._size)
        there = (firsts[:, None] + within)[within < sizes[:, None].astype(np.int64)]
        rows = iter(self._parent.__getitems__(there))
        return [self._batch_fn([next(rows) for _ in range(size)]) for size in sizes.tolist()]


class FlatMapMapDataset(MapNode, step="MapDataset.flat_map"):
    """The elements that a FlatMap makes of one: `max_fan_out` indices each, of which the last have None.

    Args:
        parent: the data set before.
        transform: a FlatMap; ValueError where it makes more than its max_fan_out.
    """

    _filters = _may_give_none = True

    def __init__(self, parent: Any, transform: Any) -> None:
        super().__init__(parent)
        self._transform = transform

    def __len__(self) -> int:
        length: int = len(self._parent) * self._transform.max_fan_out
        return min(ENDLESS, length)

    def _rows(self, indices: Indices) -> list[Any]:
        most = self._transform.max_fan_out
        parents, places = in_epochs(indices, most)
        once: dict[int, Sequence[Any]] = dict.fromkeys(parents.tolist(), ())
        for parent, row in zip(once, self._parent.__getitems__([*once]), strict=True):
            once[parent] = [] if row is None else [*self._transform.flat_map(row)]
            if len(once[parent]) > most:
                raise ValueError(
                    f"{type(self._transform).__name__}: expected at most max_fan_out={most} elements for one, got "
                    f"{len(once[parent])}"
                )
        found = zip(map(once.__getitem__, parents.tolist()), places.tolist(), strict=True)
        return [children[place] if place < len(children) else None for children, place in found]


def nodes_of(ds: Any) -> Iterator[Any]:
    """A node and all before it.

    >>> import loaderkit.interop.grain as grain
    >>> [type(node).__name__ for node in nodes_of(grain.MapDataset.range(3).repeat())]
    ['RepeatMapDataset', 'RangeMapDataset']
    """
    yield ds
    for parent in getattr(ds, "_parents", ()):
        yield from nodes_of(parent)
