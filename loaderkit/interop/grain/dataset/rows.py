"""Rows of chains behind `to_iter_dataset` whose every element is found by arithmetic, for W streams that take turns.

    stream w of W   has what Grain's worker w of W has, which slices every MapDataset [w::W]
    index i         row i // W of stream i % W: what workers are asked for, in any order
    used            rows of a stream that were given; a state of Grain's says the same, in the words of the steps

An element that isn't there, such as one that a filter drops, is ABSENT among these rows. A step that counts elements
can't do without knowing how many are absent: it raises an error at one that no filter has announced.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._source.optional import advised_calls
from loaderkit.errors import StateError

from .map_dataset import Indices
from .selecting import selected
from .transforming import ABSENT, RngPool, each_made, nodes_of

ENDLESS = 1 << 62  # rows: no run reads that many, and indices stay below 2**63
State = dict[str, Any]


def sized(name: str, value: Any, most: int) -> int:
    """A number of a state, from 0 to `most`; StateError for what is no number, IndexError for one out of range."""
    try:
        number = at_least(name, value, 0)
    except (TypeError, ValueError) as error:
        raise (IndexError if isinstance(value, int) else StateError)(str(error)) from None
    if number > most:
        raise IndexError(
            f"{name}: expected 0 to {most}, got {number}: the data set is another than that of the state"
        )
    return number


def of_state(state: Any, *names: str) -> list[Any]:
    """Fields of a state; StateError where it has others."""
    if not isinstance(state, dict) or state.keys() != {*names}:
        raise StateError(
            f"state: expected an object with {', '.join(names)}, got {state!r:.120}: it is of other steps"
        )
    return [state[name] for name in names]


class Rows:
    """The rows of one step.

    Args:
        parents: of the steps before.
    """

    absent = False  # whether a filter has announced that rows may be absent
    unsure = False  # whether a function may give None, and so an absent row, without a filter

    def __init__(self, *parents: "Rows") -> None:
        self.parents = parents
        self.absent = self.absent or any(parent.absent for parent in parents)
        self.unsure = any(parent.unsure for parent in parents)

    def at(self, indices: Indices, streams: int) -> list[Any]:
        """The rows at indices."""
        return self.parents[0].at(indices, streams)

    def size(self, stream: int, streams: int) -> int:
        """Rows of a stream."""
        return self.parents[0].size(stream, streams)

    def state(self, used: int, stream: int, streams: int) -> State:
        """Grain's state of a stream."""
        return self.parents[0].state(used, stream, streams)

    def used(self, state: Any, stream: int, streams: int) -> int:
        """How many rows were given where a state of Grain's stands."""
        return self.parents[0].used(state, stream, streams)


class MapRows(Rows):
    """The elements of a MapDataset.

    Args:
        ds: the data set.
        allow_nones: whether None is an element like others.
    """

    def __init__(self, ds: Any, allow_nones: bool) -> None:
        super().__init__()
        self.ds, self._allow_nones, self._length = ds, allow_nones, min(len(ds), ENDLESS)
        nodes = [*nodes_of(ds)]
        self.absent = not allow_nones and any(getattr(node, "_filters", False) for node in nodes)
        self.unsure = not allow_nones and any(getattr(node, "_may_give_none", True) for node in nodes)

    def at(self, indices: Indices, streams: int) -> list[Any]:
        rows: list[Any] = self.ds.__getitems__(indices)
        return rows if self._allow_nones else [ABSENT if row is None else row for row in rows]

    def size(self, stream: int, streams: int) -> int:
        return max(0, -(-(self._length - stream) // streams))

    def state(self, used: int, stream: int, streams: int) -> State:
        return {"next_index": used}

    def used(self, state: Any, stream: int, streams: int) -> int:
        (next_index,) = of_state(state, "next_index")
        return sized("next_index", next_index, self.size(stream, streams))


class CalledRows(Rows):
    """Each row as a function makes it; None stays None.

    Args:
        parent: the rows before.
        call: the function.
    """

    def __init__(self, parent: Rows, call: Callable[..., Any]) -> None:
        super().__init__(parent)
        self.call = call

    def at(self, indices: Indices, streams: int) -> list[Any]:
        make = partial(self._made_of, streams)
        return each_made(self.parents[0].at(indices, streams), indices, make, self.call)

    def _made_of(self, streams: int, index: int, row: Any) -> Any:
        return self.call(row)


class FilteredRows(CalledRows):
    """ABSENT in the place of rows for which a function isn't true."""

    absent = True

    def at(self, indices: Indices, streams: int) -> list[Any]:
        rows = self.parents[0].at(indices, streams)
        return [row if row is not ABSENT and self.call(row) else ABSENT for row in rows]


def all_there(rows: list[Any], indices: Indices, step: str) -> list[Any]:
    """The rows; ValueError where one is absent."""
    for row, index in zip(rows, indices.tolist(), strict=True):
        if row is ABSENT:
            raise ValueError(
                f"{step}: expected an element at index {index}, as no filter leaves out any, got None: write "
                ".filter(lambda element: element is not None) before .to_iter_dataset()"
            )
    return rows


class CountingRows(Rows):
    """A step whose state counts its elements, under a name."""

    _name: ClassVar[str]

    def at(self, indices: Indices, streams: int) -> list[Any]:
        return all_there(super().at(indices, streams), indices, self._name)

    def state(self, used: int, stream: int, streams: int) -> State:
        return {"parent": super().state(used, stream, streams), self._name: used}

    def used(self, state: Any, stream: int, streams: int) -> int:
        parent, count = of_state(state, "parent", self._name)
        used: int = super().used(parent, stream, streams)
        if count != used:
            raise StateError(
                f"state: expected {self._name}={used}, which the state before it says, got {count!r:.40}"
            )
        return used


class LimitedRows(CountingRows):
    """The first rows of each stream."""

    _name = "count_elements_read"

    def __init__(self, parent: Rows, count: int) -> None:
        super().__init__(parent)
        self._count = count

    def size(self, stream: int, streams: int) -> int:
        return min(self._count, super().size(stream, streams))


class NumberedRows(CountingRows, CalledRows):
    """Each row as a function of its number in the stream and itself makes it."""

    _name = "counter"

    def _made_of(self, streams: int, index: int, row: Any) -> Any:
        return self.call(index // streams, row)


class DrawnRows(CountingRows, CalledRows):
    """Each row as a function of itself and the generator of its index makes it.

    Args:
        parent: the rows before.
        call: the function.
        pool: of generators.
    """

    _name = "index_for_rng"

    def __init__(self, parent: Rows, call: Callable[..., Any], pool: RngPool) -> None:
        super().__init__(parent, call)
        self._pool = pool

    def _made_of(self, streams: int, index: int, row: Any) -> Any:
        return self._pool.drawn(self.call, index, row)


class BatchedRows(Rows):
    """Batches of consecutive rows of a stream.

    batch: a Batch of Grain's.
    make: of a list of rows.
    """

    def __init__(self, parent: Rows, batch: Any, make: Callable[[list[Any]], Any]) -> None:
        super().__init__(parent)
        self.batch, self._make = batch, make
        self._rows: int = batch.batch_size

    def at(self, indices: Indices, streams: int) -> list[Any]:
        numbers, turns = indices // streams, indices % streams
        every = {turn: self.parents[0].size(turn, streams) for turn in dict.fromkeys(turns.tolist())}
        sizes = np.minimum(self._rows, [*map(every.__getitem__, turns.tolist())] - numbers * self._rows)
        within = np.arange(self._rows)
        there = (numbers[:, None] * self._rows + within) * streams + turns[:, None]
        there = there[within < sizes[:, None]]
        rows = iter(all_there(self.parents[0].at(there, streams), there, "batch"))
        return [self._make([next(rows) for _ in range(size)]) for size in sizes.tolist()]

    def size(self, stream: int, streams: int) -> int:
        rows: int = super().size(stream, streams)
        return rows // self._rows if self.batch.drop_remainder else -(-rows // self._rows)

    def state(self, used: int, stream: int, streams: int) -> State:
        return super().state(min(used * self._rows, super().size(stream, streams)), stream, streams)

    def used(self, state: Any, stream: int, streams: int) -> int:
        rows = super().used(state, stream, streams)
        used, left = divmod(rows, self._rows)
        if left and rows < super().size(stream, streams):
            raise StateError(
                f"state: expected one after whole batches of {self._rows} rows, got one after {rows} rows"
            )
        size: int = self.size(stream, streams)
        return min(used + bool(left), size)


class MixedRows(Rows):
    """Rows of several chains by weights, until one of them has no more.

    Args:
        parents: the chains.
        weights: of each.
        names: of each in a state; None where the state has a list.
    """

    def __init__(self, parents: Sequence[Rows], weights: Sequence[int], names: Sequence[Any] | None) -> None:
        super().__init__(*parents)
        self._weights, self._names = tuple(weights), names

    def at(self, indices: Indices, streams: int) -> list[Any]:
        which, there = selected(indices // streams, self._weights)
        there = there * streams + indices % streams
        rows: list[Any] = [None] * len(indices)
        for number in dict.fromkeys(which.tolist()):
            places = np.flatnonzero(which == number)
            found = self.parents[number].at(there[places], streams)
            for place, row in zip(places.tolist(), found, strict=True):
                rows[place] = row
        return all_there(rows, indices, "mix")

    def _taken(self, used: int) -> list[int]:
        """How many of the first rows are each chain's."""
        left, rest, taken = sum(self._weights), used, []
        for weight in self._weights:
            after = rest * (left - weight) // left
            taken.append(rest - after)
            left, rest = left - weight, after
        return taken

    def size(self, stream: int, streams: int) -> int:
        sizes = [parent.size(stream, streams) for parent in self.parents]
        low, high = 0, ENDLESS // streams
        while low < high:  # the most rows of which no chain gives more than it has
            middle = (low + high + 1) // 2
            fits = all(taken <= size for taken, size in zip(self._taken(middle), sizes, strict=True))
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def state(self, used: int, stream: int, streams: int) -> State:
        pairs = zip(self.parents, self._taken(used), strict=True)
        states: Any = [parent.state(taken, stream, streams) for parent, taken in pairs]
        if self._names is not None:
            states = dict(zip(self._names, states, strict=True))
        return {"parents": states, "index": used, "stop": False}

    def used(self, state: Any, stream: int, streams: int) -> int:
        states, index, stop = of_state(state, "parents", "index", "stop")
        size = self.size(stream, streams)
        used: int = size if stop else sized("index", index, size)
        if self._names is not None:
            states = [states.get(name) for name in self._names]
        for parent, one, taken in zip(self.parents, states, self._taken(used), strict=True):
            found = None if one is None else parent.used(one, stream, streams)
            if not stop and found != taken:
                raise StateError(
                    f"state: expected {taken} elements of each part by index={index}, got {found}"
                )
        return used


class ZippedRows(Rows):
    """Tuples of the rows of several chains."""

    def at(self, indices: Indices, streams: int) -> list[Any]:
        columns = (all_there(parent.at(indices, streams), indices, "zip") for parent in self.parents)
        return [*zip(*columns, strict=True)]

    def size(self, stream: int, streams: int) -> int:
        return min(parent.size(stream, streams) for parent in self.parents)

    def state(self, used: int, stream: int, streams: int) -> State:
        return {"parents": [parent.state(used, stream, streams) for parent in self.parents]}

    def used(self, state: Any, stream: int, streams: int) -> int:
        (states,) = of_state(state, "parents")
        found = {parent.used(one, stream, streams) for parent, one in zip(self.parents, states, strict=True)}
        if len(found) != 1:
            raise StateError(f"state: expected the same number of elements of each part, got {sorted(found)}")
        return found.pop()


class ChainElements:
    """Rows as records of a data source.

    Args:
        rows: by arithmetic.
        streams: W.
        length: how many indices there are.
        may_lack: whether absent rows are dropped by an operation; else they are an error.
    """

    def __init__(self, rows: Rows, streams: int, length: int, may_lack: bool) -> None:
        self._rows, self._streams, self._length, self._may_lack = rows, streams, length, may_lack

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        (row,) = self.__getitems__([index])
        return row

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        at = np.asarray(indices, np.int64)
        rows = self._rows.at(at, self._streams)
        return rows if self._may_lack else all_there(rows, at, "to_iter_dataset")

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay, as a source of the tree says."""
        return max(map(advised_calls, sources_of(self._rows)), default=0)


def sources_of(rows: Rows) -> Iterator[Any]:
    """The data sources that rows are read from."""
    for parent in rows.parents:
        yield from sources_of(parent)
    if isinstance(rows, MapRows):
        yield from (node._source for node in nodes_of(rows.ds) if hasattr(node, "_source"))


def is_there(row: Any) -> bool:
    """Whether a row is an element.

    >>> is_there(ABSENT), is_there(None)
    (False, True)
    """
    return row is not ABSENT


def unless_none(call: Callable[[Any], Any], row: Any) -> Any:
    """What a function makes of a row; None of None.

    >>> unless_none(abs, -1), unless_none(abs, None)
    (1, None)
    """
    return None if row is None else call(row)
