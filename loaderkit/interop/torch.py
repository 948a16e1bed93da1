"""PyTorch: batches as tensors, a loader as an IterableDataset, torch's samplers as loaderkit's."""

from collections.abc import Iterable, Iterator, Mapping, Sized
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from loaderkit._base.tree import map_leaves
from loaderkit._loader.iterator.iterator import DataLoaderIterator, WrappedIterator
from loaderkit._loader.loader import DataLoader, settings_of
from loaderkit.samplers import KeysSampler
from loaderkit.transforms import Batch

__all__ = ["LoaderDataset", "TensorIterator", "from_batch_sampler", "from_sampler", "tensors"]

_STATE = "loaderkit"  # the key of the position in state_dict()
_MOST_KEYS = 1 << 26  # of a sampler without a length: some GB in Python's numbers
_NEXT_STEP, _SHARE = "next_step", "share"

# What numpy has from ml_dtypes and torch has itself: name -> the integers of the same width that both have.
_SMALL_FLOATS = {"bfloat16": np.int16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}


def tensors(
    batches: DataLoader[Any] | DataLoaderIterator[Any],
    *,
    pin_memory: bool = False,
    device: Any = None,
    non_blocking: bool = False,
) -> "TensorIterator":
    """The same trees with a torch tensor for each array.

    A tensor shares the memory of the batch: nothing is copied, and the memory isn't used for another batch while a
    tensor refers to it. A read-only array is copied, since a tensor can always be written to; so is one with negative
    strides or another byte order. Strings, bytes, times, objects and Python's numbers stay as they are.

    Args:
        batches: a loader, or an iterator of one, whose position the tensors' then is.
        pin_memory: whether each tensor is copied into page-locked memory, from which a GPU copies in the background.
        device: where the tensors go, as torch writes it; None leaves them in the memory of the batch.
        non_blocking: as of `Tensor.to`: whether the copy from pinned memory to the device may still be under way.

    Raises ValueError for `pin_memory=True` where torch has no accelerator.

    >>> import loaderkit as lk
    >>> it = tensors(lk.load([{"x": 1.5, "name": "a"}, {"x": 2.5, "name": "b"}], batch_size=2))
    >>> next(it)["x"]
    tensor([1.5000, 2.5000], dtype=torch.float64)
    """
    if not isinstance(batches, DataLoader | DataLoaderIterator):
        raise TypeError(f"batches: expected a DataLoader or an iterator of one, got {type(batches).__name__}")
    if pin_memory and not torch.accelerator.is_available():
        raise ValueError("pin_memory: expected False where torch has no accelerator, got True")
    it = iter(batches) if isinstance(batches, DataLoader) else batches
    return TensorIterator(it, pin_memory=pin_memory, device=device, non_blocking=non_blocking)


class TensorIterator(WrappedIterator, Iterator[Any]):
    """A loader's iterator with tensors for arrays; `tensors` makes it.

    Args:
        it: a loader's iterator, whose position this iterator's is.
        pin_memory, device, non_blocking: as `tensors` says.

    >>> import loaderkit as lk
    >>> it = TensorIterator(iter(lk.load([5, 6, 7], batch_size=1)))
    >>> state = (next(it), it.state_dict())[1]
    >>> expected = next(it)
    >>> it.load_state_dict(state)
    >>> next(it) == expected
    tensor([True])
    """

    def __init__(
        self,
        it: DataLoaderIterator[Any],
        *,
        pin_memory: bool = False,
        device: Any = None,
        non_blocking: bool = False,
    ) -> None:
        super().__init__(it)
        self._pin_memory, self._device, self._non_blocking = pin_memory, device, non_blocking
        self._place = self._placed if pin_memory or device is not None else _tensor_of

    def __next__(self) -> Any:
        return map_leaves(self._place, next(self._it))

    def state_dict(self) -> dict[str, Any]:
        """The position under the name that torch's libraries ask for: `{"loaderkit": the state's JSON}`."""
        return {_STATE: self.get_state().decode()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes to a position that `state_dict` gave.

        Args:
            state_dict: ValueError for a dict of another library.
        """
        self.set_state(_state_in(state_dict))

    def _placed(self, leaf: Any) -> Any:
        tensor = _tensor_of(leaf)
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if self._pin_memory:
            tensor = tensor.pin_memory()
        return tensor if self._device is None else tensor.to(self._device, non_blocking=self._non_blocking)


def _tensor_of(leaf: Any) -> Any:
    """The leaf as a tensor over the same memory, where torch has its dtype and can write to it.

    >>> _tensor_of(np.zeros(2, np.uint16)).dtype, _tensor_of("a")
    (torch.uint16, 'a')
    """
    if not isinstance(leaf, np.ndarray | np.generic):
        return leaf
    torch_has, bits, small = _as_torch_has(leaf.dtype)
    if not torch_has:
        return leaf
    array = np.asarray(leaf)
    if bits is not None:
        array = array.view(bits)
    if not array.flags.writeable or not array.dtype.isnative or min(array.strides, default=0) < 0:
        array = array.astype(array.dtype.newbyteorder("="))
    tensor = torch.from_numpy(array)
    return tensor if small is None else tensor.view(small)


@cache
def _as_torch_has(dtype: np.dtype) -> tuple[bool, np.dtype | None, Any]:
    """Whether torch has the dtype; for a small float, which integers to view it as, and torch's dtype for those."""
    if dtype.name in _SMALL_FLOATS:
        return True, np.dtype(_SMALL_FLOATS[dtype.name]), getattr(torch, dtype.name)
    return (
        (dtype.kind in "biuf" and dtype.itemsize <= 8) or (dtype.kind == "c" and dtype.itemsize <= 16),
        None,
        None,
    )


def _state_in(state_dict: Mapping[str, Any]) -> bytes:
    try:
        document: str = state_dict[_STATE]
    except (KeyError, TypeError):
        raise ValueError(
            f"state_dict: expected what state_dict() of this class gave, {{{_STATE!r}: ...}}, got {state_dict!r:.80}"
        ) from None
    return document.encode()


class LoaderDataset(IterableDataset[Any]):  # type: ignore[misc, unused-ignore]  # Any without torch's types
    """A loader as an IterableDataset, for training loops that are written for torch's DataLoader.

    Give it `batch_size=None`, for the elements are batches already, and its workers are better left at 0: those of the
    loader, `worker_count`, share each batch and write it in place. With `num_workers=W` of torch, worker w makes the
    steps w, w + W, w + 2W ..., which torch takes in turns: the stream is the loader's. `worker_count` of the loader
    must be 0 then, and its operations must keep the number of rows where W is above 1.

    `torchdata`'s StatefulDataLoader saves and restores the position exactly, by `state_dict` and `load_state_dict`;
    the latter holds for the next iteration. The position is that of the iterator that was made last. Another pass
    over the data set iterates the loader again: the order of epoch e is that of `LoaderDataset(loader.epoch(e))`.

    Args:
        loader: any loader. `torch.utils.data.get_worker_info` says which share of it is made here.

    Arrays are tensors, as `tensors` says. Raises ValueError in iteration for workers inside of workers, for operations
    that change the number of rows under several workers of torch, and for a state of another number of workers.

    >>> import loaderkit as lk
    >>> dataset = LoaderDataset(lk.load([1, 2, 3, 4], batch_size=2, num_epochs=1))
    >>> list(torch.utils.data.DataLoader(dataset, batch_size=None))
    [tensor([1, 2]), tensor([3, 4])]
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        if not isinstance(loader, DataLoader):
            raise TypeError(f"loader: expected a loaderkit DataLoader, got {type(loader).__name__}")
        self._loader = loader
        self._it: TensorIterator | None = None
        self._next_step = 0
        self._restored: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        share, shares = _share_of(self._loader)
        it = self._it = tensors(self._loader)
        restored, self._restored = self._restored, None
        self._next_step = share
        if restored is not None:
            state = _state_in(restored)
            if restored[_SHARE] != [share, shares]:
                raise ValueError(
                    f"load_state_dict: expected the state of worker {share} of {shares}, got that of worker "
                    f"{restored[_SHARE][0]} of {restored[_SHARE][1]}; use as many workers of torch as when it was saved"
                )
            it.set_state(state)
            self._next_step = restored[_NEXT_STEP]
        return self._steps(it, shares)

    def _steps(self, it: TensorIterator, shares: int) -> Iterator[Any]:
        while True:
            if shares > 1 and it.step != self._next_step:
                try:
                    it.seek(self._next_step)
                except IndexError:  # the stream ends before the next step of this share
                    return
            try:
                element = next(it)
            except StopIteration:
                return
            self._next_step += shares
            yield element

    def state_dict(self) -> dict[str, Any]:
        """The position of the last iterator, in the worker that asks: plain values, for torch.save."""
        if self._restored is not None:
            return self._restored
        share, shares = _share_of(self._loader)
        it = self._it if self._it is not None else tensors(self._loader)
        return {
            **it.state_dict(),
            _NEXT_STEP: self._next_step if self._it else share,
            _SHARE: [share, shares],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Lets the next iteration begin at a position that `state_dict` gave.

        Args:
            state_dict: ValueError for a dict of another library.
        """
        _state_in(state_dict)
        self._restored = dict(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_it": None}  # an iterator belongs to its process


def _share_of(loader: DataLoader[Any]) -> tuple[int, int]:
    """Which steps this process makes under torch's DataLoader: (w, W); (0, 1) in the trainer."""
    info = get_worker_info()
    if info is None:
        return 0, 1
    settings = settings_of(loader)
    if settings.worker_count:
        raise ValueError(
            f"num_workers: expected 0 of torch's DataLoader for a loader with workers of its own, got "
            f"{info.num_workers} with worker_count={settings.worker_count}; only worker_count is needed"
        )
    if info.num_workers > 1 and loader._plan().row_changing:
        raise ValueError(
            f"num_workers: expected 0 or 1 where operations change the number of rows, got {info.num_workers}; use "
            "worker_count of the loader and num_workers=0, which gives one stream"
        )
    return info.id, info.num_workers


def from_sampler(sampler: Iterable[Any]) -> KeysSampler:
    """The keys that a torch Sampler gives in one pass, as a sampler of loaderkit of one epoch.

    Args:
        sampler: finite; it is read once, here. One that shuffles gives this order only: for another one in each epoch,
            `lk.IndexSampler(n, shuffle=True, seed=0)`.

    Raises ValueError where it gives more keys than its length, or than 67 million without one.

    >>> from_sampler(torch.utils.data.SequentialSampler(range(3))).keys.tolist()
    [0, 1, 2]
    """
    keys = _finite("sampler", sampler)
    if keys and isinstance(keys[0], list | tuple):
        raise TypeError("sampler: expected ints, got batches of them; use from_batch_sampler")
    return KeysSampler(keys, num_epochs=1)


def _finite(name: str, sampler: Iterable[Any]) -> list[Any]:
    most = len(sampler) if isinstance(sampler, Sized) else _MOST_KEYS
    given = [*islice(sampler, most + 1)]
    if len(given) > most:
        raise ValueError(
            f"{name}: expected at most {most:,}{' as its length says' if most != _MOST_KEYS else ''}, got more: one "
            "without end isn't read; use lk.IndexSampler(n, num_epochs=None), or itertools.islice(sampler, n)"
        )
    return given


def from_batch_sampler(batch_sampler: Iterable[Iterable[int]]) -> tuple[KeysSampler, Batch]:
    """A torch BatchSampler as `sampler=` of lk.DataLoader and the last of its `operations=`.

    Args:
        batch_sampler: finite, read once, here. All its batches have the same size, but that the last may be smaller.

    Raises ValueError for batches of other sizes, and for more of them than its length, or than 67 million without one.

    >>> import loaderkit as lk
    >>> by_three = torch.utils.data.BatchSampler(
    ...     torch.utils.data.SequentialSampler(range(5)), 3, drop_last=False
    ... )
    >>> sampler, batch = from_batch_sampler(by_three)
    >>> loader = lk.DataLoader(data_source=[5, 6, 7, 8, 9], sampler=sampler, operations=[batch])
    >>> [batch.tolist() for batch in loader]
    [[5, 6, 7], [8, 9]]
    """
    batches = [[*keys] for keys in _finite("batch_sampler", batch_sampler)]
    if not batches or not batches[0]:
        raise ValueError("batch_sampler: expected a batch of keys or more, got none")
    size = len(batches[0])
    for place, keys in enumerate(batches):
        last = place == len(batches) - 1
        if len(keys) != size and not (last and 0 < len(keys) < size):
            raise ValueError(
                f"batch_sampler: expected batches of {size} keys as the first one, got {len(keys)} in batch {place}; "
                "use lk.samplers.LengthBucketSampler for batches of several sizes"
            )
    return KeysSampler([key for keys in batches for key in keys], num_epochs=1), Batch(size)
