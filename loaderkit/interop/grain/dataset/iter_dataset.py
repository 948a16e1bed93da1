"""IterDataset and DatasetIterator, the bases of all steps that go through elements in order, a user's among them.

An iterator has `__next__`, and `get_state` and `set_state` with Grain's JSON as a dict. The chain of one of W streams
(of `mp_prefetch` with W workers) is a copy of the nodes, each with the copies of its parents: `_sliced`.
"""

import abc
import copy
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, ClassVar, Self

from loaderkit.interop.grain import checkpoint
from loaderkit.interop.grain.options import MultiprocessingOptions

from .node import Dataset, made

_ROOM = __name__.rpartition(".")[0]


class IterDataset(Dataset, abc.ABC):
    """Elements in an order; iterate to get them.

    Args:
        parents: the node or the nodes before this one.

    A class of a user's defines `__iter__`, which gives a DatasetIterator over those of its parents. It runs in order in
    the calling process, and so do all steps after it: one warning says so.
    """

    _kind: ClassVar[str] = "IterDataset"
    _warned: ClassVar[bool] = False
    # (w, W): the elements are those of stream w of W, and a number k of an element in it is w + k * W for generators.
    _stream: tuple[int, int] = (0, 1)
    _last_of_worker: bool = (
        False  # whether worker processes of Grain give these elements, and they are several
    )

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        if not cls._warned and not cls.__module__.startswith(_ROOM):
            cls._warned = True
            warnings.warn(
                f"{cls.__name__}: its elements, and the steps after it, are made in order in this process, one by one; "
                "workers make the steps before it. A restored state goes on exactly if its iterator's get_state says "
                "all that the iterator holds: loaderkit.testing.check_iter_dataset(ds) finds out",
                stacklevel=2,
            )
        return super().__new__(cls)

    @staticmethod
    def mix(datasets: Any, weights: Any = None) -> Any:
        """Elements of several data sets by weights, alike if none are given, until one of them has no more.

        Args:
            datasets: in a list or by name.
            weights: for each, likewise.
        """
        return made("IterDataset.mix", datasets, weights)

    @abc.abstractmethod
    def __iter__(self) -> "DatasetIterator":
        """An iterator from the beginning."""

    def _sliced(
        self, stream: int, streams: int, leaf: Callable[["IterDataset"], "IterDataset | None"]
    ) -> Any:
        """The chain of one of several streams.

        Args:
            stream, streams: w and W.
            leaf: gives what takes the place of a node and all before it, None where the node is copied.

        A class that reads no data set before it has `set_slice(slice)`, which leaves it the elements [w::W]; ValueError
        where there are several streams and it has none.
        """
        replaced = leaf(self)
        if replaced is None:
            # A function of the user's may keep state, and streams are made in several threads.
            try:
                mine: Any = copy.deepcopy(self, {id(parent): parent for parent in self._parents})
            except Exception:  # noqa: BLE001 - the user's copying may raise anything
                mine = copy.copy(self)
            mine._stream = (stream, streams)
            if hasattr(mine, "set_slice"):
                mine.set_slice(slice(stream, None, streams))
            elif all(isinstance(parent, IterDataset) for parent in self._parents) and self._parents:
                mine._parents = tuple(parent._sliced(stream, streams, leaf) for parent in self._parents)
                # A class of a user's may have its parents under names of its own.
                new = {id(old): parent for old, parent in zip(self._parents, mine._parents, strict=True)}
                vars(mine).update({name: new[id(it)] for name, it in vars(mine).items() if id(it) in new})
            elif streams > 1:
                raise ValueError(
                    f"mp_prefetch: expected steps over IterDatasets, or a method set_slice(slice), got "
                    f"{type(self).__name__} without: it can't be divided among {streams} workers"
                )
            replaced = mine
        return replaced

    def _planned(self) -> "DatasetIterator | None":
        """An iterator of elements that the engine makes; None where they are made in order."""
        return self._made("planned")  # type: ignore[no-any-return]

    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[Any]], Any] | None = None,
    ) -> Any:
        """Batches of consecutive elements.

        Args:
            batch_size: elements of a batch, 1 or more.
            drop_remainder: whether a last, smaller batch is left out.
            batch_fn: takes the list of elements and gives the batch, instead of stacking.
        """
        return self._made("batch", batch_size, drop_remainder=drop_remainder, batch_fn=batch_fn)

    def seed(self, seed: int) -> Any:
        """The same elements; the steps after it that are given no seed make theirs of this one.

        Args:
            seed: int >= 0.
        """
        return self._made("seed", seed=seed)

    def filter(self, transform: Any) -> Any:
        """The elements for which a function is true.

        Args:
            transform: takes an element and gives a bool, or a Filter.
        """
        return self._made("filter", transform)

    def map(self, transform: Any) -> Any:
        """Each element as a function makes it.

        Args:
            transform: takes an element and gives the one in its place, or a Map.
        """
        return self._made("map", transform)

    def random_map(self, transform: Any, *, seed: int | None = None) -> Any:
        """Each element as a function that draws makes it.

        Args:
            transform: takes an element and a numpy.random.Generator and gives the one in its place, or a RandomMap.
            seed: int >= 0; None for one made of the last `seed` before.
        """
        return self._made("random_map", transform, seed=seed)

    def map_with_index(self, transform: Any) -> Any:
        """Each element as a function of its number makes it.

        Args:
            transform: takes the number in the stream and an element and gives the one in its place, or a
                MapWithIndex.
        """
        return self._made("map_with_index", transform)

    def prefetch(self, multiprocessing_options: Any) -> Any:
        """The former name of `mp_prefetch`.

        Args:
            multiprocessing_options: its options.
        """
        warnings.warn("prefetch: write mp_prefetch", DeprecationWarning, stacklevel=2)
        return self.mp_prefetch(multiprocessing_options)

    def mp_prefetch(
        self, options: Any = None, worker_init_fn: Any = None, sequential_slice: bool = False
    ) -> Any:
        """The elements that Grain gives with `options.num_workers` workers, made by worker processes.

        Args:
            options: MultiprocessingOptions; 10 workers if not given.
            worker_init_fn, sequential_slice: aren't here; NotImplementedError.
        """
        if worker_init_fn is not None or sequential_slice:
            raise NotImplementedError("mp_prefetch: worker_init_fn and sequential_slice aren't here")
        options = MultiprocessingOptions(num_workers=10) if options is None else options
        return self._made("mp_prefetch", options) if options.num_workers else self


class DatasetIterator(Iterator[Any], abc.ABC):
    """The base of all iterators of data sets, a user's among them, which has `__next__` and the two methods of states.

    Args:
        parents: the iterator or the iterators that this one reads.
    """

    _parents: Sequence[Any] = ()

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        # Where the program has imported the real Grain, whose handlers ask for the class.
        grain = sys.modules.get("grain._src.python.dataset.dataset")
        if grain is not None:
            grain.DatasetIterator.register(DatasetIterator)
        return super().__new__(cls)

    def __init__(self, parents: Any = ()) -> None:
        self._parents = tuple(parents) if isinstance(parents, Sequence) else (parents,)

    @property
    def _parent(self) -> Any:
        (parent,) = self._parents
        return parent

    def __iter__(self) -> Self:
        return self

    @abc.abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Where it stands."""

    @abc.abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes to where a state stands.

        Args:
            state: what `get_state` gave.
        """

    def _mark(self) -> Any:
        """Where it stands, in what takes less time to make than a state."""
        return self.get_state()

    def _state_at(self, mark: Any) -> dict[str, Any]:
        """The state at a mark of this iterator's that was made since its last set_state."""
        return mark  # type: ignore[no-any-return]

    def start_prefetch(self) -> None:
        """Begins to make elements now instead of at the first next()."""
        for parent in self._parents:
            parent.start_prefetch()

    def close(self) -> None:
        """Stops making elements; a second call does nothing."""
        for parent in self._parents:
            parent.close()

    def _get_next_index(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}: the index of its next element isn't known")

    def _set_next_index(self, index: int) -> None:
        raise NotImplementedError(f"{type(self).__name__}: can't go to an index; set a state")

    async def save(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Orbax's StatefulCheckpointable: takes the state now, writes it in what is returned.

        Args:
            directory: the folder, as Orbax gives it.
        """
        return await checkpoint.save_async(self, directory)

    async def load(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Orbax's StatefulCheckpointable: goes to the state saved there in what is returned.

        Args:
            directory: the folder, as Orbax gives it.
        """
        return checkpoint.load_saved(self, directory)
