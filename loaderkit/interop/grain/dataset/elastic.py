"""ElasticIterator: batches of all processes together, and a state that any number of processes goes on from."""

from functools import cached_property
from typing import Any

from loaderkit.interop.grain.options import MultiprocessingOptions, ReadOptions

from .iter_dataset import DatasetIterator, IterDataset
from .map_dataset import MapDataset
from .rows import of_state, sized
from .selecting import ENDLESS
from .transforming import nodes_of


class _ElasticIterator(DatasetIterator):
    def __init__(self, node: "ElasticIterator") -> None:
        super().__init__()
        self._node, self._next = node, 0

    @cached_property
    def _iterator(self) -> Any:
        return self._node._from(self._next)

    def __next__(self) -> Any:
        made = next(self._iterator)
        self._next += self._node._global_batch_size
        return made

    def get_state(self) -> dict[str, Any]:
        return {"global_next_index": self._next}

    def set_state(self, state: dict[str, Any]) -> None:
        (index,) = of_state(state, "global_next_index")
        index = sized("global_next_index", index, ENDLESS)
        self.close()
        self._next = index

    def close(self) -> None:
        iterator = self.__dict__.pop("_iterator", None)
        if iterator is not None:
            iterator.close()


class ElasticIterator(IterDataset):
    """This process's rows of global batches; the state is the same in all processes, whatever their number.

    Args:
        ds: a MapDataset without filter, neither batched nor sliced for this process.
        global_batch_size: rows of all processes together; ValueError where they can't have as many each.
        shard_options: which of the processes this one is.
        read_options, multiprocessing_options: how this process makes its rows.

    Raises TypeError for what is no MapDataset, ValueError for one with a filter.

    >>> import loaderkit.interop.grain as grain
    >>> ds = ElasticIterator(MapDataset.range(8), 4, grain.ShardOptions(shard_index=1, shard_count=2))
    >>> [rows.tolist() for rows in ds]
    [[1, 3], [5, 7]]
    """

    def __init__(
        self,
        ds: Any,
        global_batch_size: int,
        shard_options: Any,
        *,
        read_options: ReadOptions = ReadOptions(),  # noqa: B008 - as Grain's signature has it; it is never changed
        multiprocessing_options: MultiprocessingOptions | None = None,
    ) -> None:
        super().__init__()
        if isinstance(ds, IterDataset):
            raise TypeError(f"ds: expected a MapDataset, got {type(ds).__name__}: its elements have no index")
        if any(getattr(node, "_filters", False) for node in nodes_of(ds)):
            raise ValueError(
                "ds: expected a MapDataset without filter, got one with: its batches would differ in size"
            )
        self._ds, self._global_batch_size, self._shard = ds, global_batch_size, shard_options
        self._read_options, self._workers = read_options, multiprocessing_options

    @cached_property
    def _only(self) -> _ElasticIterator:
        return _ElasticIterator(self)

    def __iter__(self) -> DatasetIterator:
        return self._only

    def __next__(self) -> Any:
        return next(self._only)

    def get_state(self) -> dict[str, Any]:
        """The place in the global order."""
        return self._only.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from a state that any process has saved.

        Args:
            state: what its get_state gave.
        """
        self._only.set_state(state)

    def close(self) -> None:
        """Ends the workers."""
        self._only.close()

    def _from(self, index: int) -> Any:
        shard: MapDataset = self._ds[index + self._shard.shard_index :: self._shard.shard_count]
        rows, left = divmod(self._global_batch_size, self._shard.shard_count)
        if left:
            raise ValueError(
                f"global_batch_size: expected a multiple of the {self._shard.shard_count} shards, got "
                f"{self._global_batch_size}"
            )
        ds = shard.batch(rows, drop_remainder=True).to_iter_dataset(self._read_options)
        return iter(ds if self._workers is None else ds.mp_prefetch(self._workers))
