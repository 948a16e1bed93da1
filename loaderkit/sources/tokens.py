"""Documents of tokens, one behind the other in one array."""

import os
from reprlib import repr as _short
from typing import Any, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._system.descriptors import above_standard

from .content import content_hash, sampled_keys
from .megatron import read_megatron
from .protocol import check_key, check_keys
from .shared_arrays import MappedArray, SharedArrays

_CHECKED_AT_ONCE = 1 << 20  # offsets: 8 MB, for a file of any length

IntArray = NDArray[np.int64]


class TokenDataSource:
    """Documents of tokens in one array: record k is `{feature: tokens[offsets[k]:offsets[k + 1]]}`, read-only.

    Arrays are copied once to memory that all workers share; those in files stay there, and workers open them by name.
    For rows of one length make a plan and a `PackedDataSource`.

    Args:
        tokens: integers (tokens,): an array, a `np.memmap`, or the name of a `.npy` file, which is mapped.
        offsets: integers (documents + 1,), ascending: an array, a `np.memmap`, or the name of a `.npy` file. ValueError
            naming the first that is less than the one before, or beyond the tokens.
        feature: name of the tokens in a record.

    >>> source = TokenDataSource(np.array([5, 6, 7, 8, 9], np.uint16), [0, 2, 2, 5])
    >>> len(source), source[2]["tokens"].tolist(), source.lengths.tolist()
    (3, [7, 8, 9], [2, 0, 3])
    """

    def __init__(self, tokens: Any, offsets: Any, feature: str = "tokens") -> None:
        if not isinstance(feature, str):
            raise TypeError(f"feature: expected a name, got {_short(feature)}")
        self.feature = feature
        one = _integers("tokens", tokens)
        places = _integers("offsets", offsets)
        _check_offsets(places, len(one))
        self._held = (_held(one), _held(places))
        self._open()

    @classmethod
    def from_megatron(cls, path: str | os.PathLike[str], feature: str = "tokens") -> Self:
        """The documents of Megatron's `PREFIX.bin` and `PREFIX.idx`, which `preprocess_data.py` writes.

        Args:
            path: the prefix, or the name of either file. DataFormatError naming the file where one isn't of the format,
                or they don't fit together. The tokens stay in the file.
            feature: name of the tokens in a record.
        """
        return cls(*read_megatron(os.path.abspath(path)), feature)

    def _open(self) -> None:
        self._tokens, self._offsets = (
            held.view() if isinstance(held, MappedArray) else held.views()[0] for held in self._held
        )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, record_key: SupportsIndex) -> dict[str, NDArray[Any]]:
        key = check_key(record_key, len(self), self)
        return {self.feature: self._tokens[int(self._offsets[key]) : int(self._offsets[key + 1])]}

    def __getitems__(self, record_keys: ArrayLike) -> list[dict[str, NDArray[Any]]]:
        return [{self.feature: tokens} for tokens in self.slices(*self.bounds(record_keys))]

    def read_range(self, record_key: SupportsIndex, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """A part of a record, as `source[record_key]` gives the whole.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
            start, stop: the first token and the one behind the last; ValueError where the document has fewer.

        >>> TokenDataSource([5, 6, 7, 8], [0, 1, 4]).read_range(1, 1, 3)["tokens"].tolist()
        [7, 8]
        """
        key = check_key(record_key, len(self), self)
        begin, end = int(self._offsets[key]), int(self._offsets[key + 1])
        if not 0 <= start <= stop <= end - begin:
            raise ValueError(
                f"start, stop: expected tokens from 0 to {end - begin} of document {key}, got {start} to {stop}"
            )
        return {self.feature: self._tokens[begin + start : begin + stop]}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the tokens."""
        return self._tokens.dtype

    @property
    def lengths(self) -> NDArray[Any]:
        """The tokens of each document (documents,), for `plan_packing`; uint32 where all are below 2**32."""
        least = np.uint32 if len(self._tokens) < 1 << 32 else np.int64
        lengths: NDArray[Any] = np.empty(len(self), least)
        np.subtract(self._offsets[1:], self._offsets[:-1], out=lengths, casting="unsafe")
        return lengths

    def bounds(self, record_keys: ArrayLike) -> tuple[IntArray, IntArray]:
        """The place of the first token of each record, and the place behind its last.

        Args:
            record_keys: integers (n,); IndexError naming the first that is out of range.

        >>> TokenDataSource([5, 6, 7, 8], [0, 1, 4]).bounds([1, 0])
        (array([1, 0]), array([4, 1]))
        """
        keys = check_keys(record_keys, len(self), self)
        return self._offsets[keys].astype(np.int64), self._offsets[keys + 1].astype(np.int64)

    def slices(self, begins: IntArray, ends: IntArray) -> list[NDArray[Any]]:
        """Runs of tokens, read-only views.

        Args:
            begins, ends: place of the first token of each run, and the place behind its last (n,).

        >>> [
        ...     run.tolist()
        ...     for run in TokenDataSource([5, 6, 7, 8], [0, 1, 4]).slices(np.array([2]), np.array([4]))
        ... ]
        [[7, 8]]
        """
        tokens = self._tokens
        return [tokens[begin:end] for begin, end in zip(begins.tolist(), ends.tolist())]

    def fingerprint(self) -> dict[str, Any]:
        """Number and dtype of documents and tokens, and a hash of some of them."""
        some = self.__getitems__(sampled_keys(len(self)))
        return {
            "type": "TokenDataSource",
            "records": len(self),
            "tokens": [self.dtype.str, len(self._tokens)],
            "feature": self.feature,
            "content": content_hash([*some, np.asarray(self._offsets[:16], np.int64).tolist()]),
        }

    def __repr__(self) -> str:
        return f"TokenDataSource({len(self)} documents, {len(self._tokens)} tokens of {self.dtype}, {self.feature!r})"

    def __getstate__(self) -> tuple[str, Any]:
        return self.feature, self._held

    def __setstate__(self, state: tuple[str, Any]) -> None:
        self.feature, self._held = state
        self._open()


def _integers(name: str, given: Any) -> NDArray[Any]:
    if isinstance(given, str | os.PathLike):
        path = os.path.abspath(given)
        if not path.endswith(".npy"):
            raise ValueError(
                f"{name}: expected the name of a .npy file, got {path!r}; for a file of bare numbers give "
                "np.memmap(path, dtype, mode='r'), for Megatron's .bin and .idx TokenDataSource.from_megatron(path)"
            )
        with above_standard():
            given = np.load(path, mmap_mode="r", allow_pickle=False)
    array: NDArray[Any] = np.asanyarray(given)
    if array.ndim == 1 and not array.size and not isinstance(given, np.ndarray):
        array = array.astype(np.int64)  # numpy takes an empty list for floats
    if array.ndim != 1 or array.dtype.kind not in "iu" or isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: expected integers in one dimension, got {array.dtype} of shape {array.shape}"
            + ("; give the documents one behind the other, and their offsets" if array.ndim > 1 else "")
        )
    if not array.dtype.isnative:
        raise TypeError(
            f"{name}: expected the byte order of this machine, got {array.dtype.str}; convert it once with "
            ".astype(array.dtype.newbyteorder('='))"
        )
    return array


def _check_offsets(offsets: NDArray[Any], tokens: int) -> None:
    advice = "for lengths of documents give np.concatenate([[0], np.cumsum(lengths)])"
    if not len(offsets):
        raise ValueError(f"offsets: expected one more than there are documents, got none; {advice}")
    last = offsets[0]
    for lo in range(0, len(offsets), _CHECKED_AT_ONCE):
        part = np.concatenate([[last], offsets[lo : lo + _CHECKED_AT_ONCE]])
        less = part[1:] < part[:-1]
        if less.any():
            place = int(less.argmax())
            raise ValueError(
                f"offsets: expected ascending numbers, got {part[place + 1]} behind {part[place]} at place "
                f"{lo + place}; {advice}"
            )
        last = part[-1]
    if int(offsets[0]) < 0 or int(last) > tokens:
        raise ValueError(
            f"offsets: expected numbers from 0 to {tokens}, the number of tokens, got {offsets[0]} to {last}"
        )


def _held(array: NDArray[Any]) -> MappedArray | SharedArrays:
    mapped = MappedArray.of(array)
    if mapped is not None:
        return mapped
    shared = SharedArrays([(array.shape, array.dtype)])
    shared.writable()[0][...] = array
    return shared
