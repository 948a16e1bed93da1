"""Documents of tokens, one behind the other in one array."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from reprlib import repr as _short
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from loaderkit._base.block_checksums import CheckedBlocks
from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.numbers import true_or_false
from loaderkit._source.content import content_hash, sampled_keys
from loaderkit._source.record_key import check_key, check_keys
from loaderkit._storage.addresses import redacted
from loaderkit._storage.open_ranges import FileAccess
from loaderkit.errors import DataFormatError
from loaderkit.sources.shared_arrays import MappedArray, SharedArrays

from .document_layout import OFFSETS_HEAD
from .documents import ADVICE, open_documents
from .integers import Integers, in_memory, open_integers
from .megatron import read_megatron

if TYPE_CHECKING:
    from loaderkit._storage.cache.settings import Cache

    from .file import TokenFile

_CHECKED_AT_ONCE = 1 << 20  # offsets: 8 MB, for a file of any length
_CHUNK_BYTES = 1 << 20  # of the documents that a ChunkSampler reads together

IntArray = NDArray[np.int64]


class TokenDataSource:
    """Documents of tokens in one array: record k is `{feature: tokens[offsets[k]:offsets[k + 1]]}`, read-only.

    Arrays are copied once to memory that all workers share; those in files stay there, and workers open them by name.
    Of objects on servers (http, https, s3, gs, az, and what fsspec knows) only the ranges are read that are asked for,
    all of one call together. For rows of one length make a plan and a `PackedDataSource`.

    Args:
        tokens: integers (tokens,): an array, a `np.memmap`, or the name of a file or object: one that
            `lk.write(..., format="tokens")` made, a `.npy`, or bare numbers with `dtype`. DataFormatError where it was
            truncated. A file that is written to, and an object that is replaced, are a FileChangedError. A file of
            `lk.write` is compared with its checksums as it is read, of a server without a cache the blocks of 64 KiB
            that a read has whole: a ChecksumError names the bytes.
        offsets: integers (documents + 1,), ascending, given as the tokens are; in a file of bare numbers int64. Those
            of an object are read once, to shared memory. None for a file of `lk.write`, which has them. ValueError
            naming the first that is less than the one before, or beyond the tokens.
        feature: name of the tokens in a record; "tokens", or what a file of `lk.write` says.
        dtype: of the tokens in a file of bare numbers.
        mmap: False reads local files instead of mapping them: for files that may be cut short while they are read,
            where the kernel ends a process that has them mapped.
        cache: keeps chunks of the tokens of a server on the disk, 1 MiB each: for rows that are read more than once, or
            by a `ChunkSampler`. Without it only what is asked for is read.
        storage_options: of the servers: credentials, endpoint, as the other sources take them.

    >>> source = TokenDataSource(np.array([5, 6, 7, 8, 9], np.uint16), [0, 2, 2, 5])
    >>> len(source), source[2]["tokens"].tolist(), source.lengths.tolist()
    (3, [7, 8, 9], [2, 0, 3])
    """

    @former_arguments(removed_in="0.3.0", by_place=["feature"])
    def __init__(
        self,
        tokens: Any,
        offsets: Any = None,
        *,
        feature: str | None = None,
        dtype: DTypeLike | None = None,
        mmap: bool = True,
        cache: Cache | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        access = FileAccess(storage_options, cache, true_or_false("mmap", mmap))
        if offsets is None:
            whole = open_documents(tokens, access)
            named = whole.feature if feature is None else feature
            try:
                self._hold(whole.tokens, whole.offsets, named, whole.checksums, whole.digest)
            except ValueError as error:  # an older file, without checksums
                raise DataFormatError(f"{redacted(os.fspath(tokens))}: {error}; {ADVICE}") from error
            return
        one = open_integers("tokens", tokens, access, dtype)
        places = in_memory(open_integers("offsets", offsets, replace(access, cache=None), np.int64))
        try:
            self._hold(one, places, "tokens" if feature is None else feature)
        except ValueError as error:
            if isinstance(offsets, str | os.PathLike):
                raise ValueError(f"{redacted(os.fspath(offsets))}: {error}") from None
            raise

    def _hold(
        self,
        tokens: Integers,
        offsets: NDArray[Any],
        feature: str,
        checksums: NDArray[np.uint32] | None = None,
        digest: str | None = None,
    ) -> None:
        if not isinstance(feature, str):
            raise TypeError(f"feature: expected a name, got {_short(feature)}")
        self.feature = feature
        _check_offsets(offsets, len(tokens))
        held_checksums = None if checksums is None else _held_array(checksums)
        self._held = (_held(tokens), _held_array(offsets), held_checksums)
        self._digest = digest
        self._open()

    @classmethod
    @former_arguments(removed_in="0.3.0", by_place=["feature"])
    def from_megatron(
        cls,
        path: str | os.PathLike[str],
        *,
        feature: str = "tokens",
        cache: Cache | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """The documents of Megatron's `PREFIX.bin` and `PREFIX.idx`, which `preprocess_data.py` writes.

        Args:
            path: the prefix, or the name of either file, local or of a server. DataFormatError naming the file where
                one isn't of the format, or they don't fit together. The tokens stay in the file.
            feature: name of the tokens in a record.
            cache, storage_options: as for the class.
        """
        tokens, offsets = read_megatron(path, FileAccess(storage_options, cache))
        source = cls.__new__(cls)
        source._hold(tokens, offsets, feature)
        return source

    def _open(self) -> None:
        tokens, offsets, checksums = self._held
        self._tokens: Integers = _view(tokens) if isinstance(tokens, MappedArray | SharedArrays) else tokens
        self._mapped = [held for held in (tokens, offsets) if isinstance(held, MappedArray)]
        self._blocks: CheckedBlocks | None = None
        if checksums is not None and not isinstance(tokens, SharedArrays):
            here = self._tokens
            data = np.asarray(here).view(np.uint8) if isinstance(here, np.ndarray) else here.as_bytes
            table = _view(checksums)
            self._blocks = CheckedBlocks(tokens.path, data, table, offset=OFFSETS_HEAD, advice=ADVICE)
        self._offsets: NDArray[Any] = _view(offsets)
        self._content: str | None = None

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, record_key: SupportsIndex) -> dict[str, NDArray[Any]]:
        key = check_key(record_key, len(self), self)
        self._check_files()
        return {self.feature: self._run(int(self._offsets[key]), int(self._offsets[key + 1]))}

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
        self._check_files()
        begin, end = int(self._offsets[key]), int(self._offsets[key + 1])
        if not 0 <= start <= stop <= end - begin:
            raise ValueError(
                f"start, stop: expected tokens from 0 to {end - begin} of document {key}, got {start} to {stop}"
            )
        return {self.feature: self._run(begin + start, begin + stop)}

    def _check_files(self) -> None:
        for mapped in self._mapped:
            mapped.check()

    def _run(self, begin: int, end: int) -> NDArray[Any]:
        if isinstance(self._tokens, np.ndarray):
            if self._blocks is not None:
                self._blocks.check(begin * self._tokens.itemsize, end * self._tokens.itemsize)
            return self._tokens[begin:end]
        return self.slices(np.array([begin]), np.array([end]))[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the tokens."""
        return self._tokens.dtype

    @property
    def lengths(self) -> NDArray[Any]:
        """The tokens of each document (documents,), for `plan_packing`; uint32 where all are below 2**32."""
        least = np.uint32 if len(self._tokens) < 1 << 32 else np.int64
        self._check_files()
        lengths: NDArray[Any] = np.empty(len(self), least)
        np.subtract(self._offsets[1:], self._offsets[:-1], out=lengths, casting="unsafe")
        return lengths

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay: 0 for arrays and local files, 4 where reads wait for a server."""
        return 0 if isinstance(self._tokens, np.ndarray) else self._tokens.read_ahead

    @property
    def chunk_records(self) -> int:
        """Documents of about 1 MiB: what `ChunkSampler` should read together."""
        nbytes = self.dtype.itemsize * int(self._offsets[-1] - self._offsets[0])
        return max(1, _CHUNK_BYTES * len(self) // max(1, nbytes))

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk, on average."""
        nbytes = self.dtype.itemsize * int(self._offsets[-1] - self._offsets[0])
        return max(1, nbytes * self.chunk_records // max(1, len(self)))

    def bounds(self, record_keys: ArrayLike) -> tuple[IntArray, IntArray]:
        """The place of the first token of each record, and the place behind its last.

        Args:
            record_keys: integers (n,); IndexError naming the first that is out of range.

        >>> TokenDataSource([5, 6, 7, 8], [0, 1, 4]).bounds([1, 0])
        (array([1, 0]), array([4, 1]))
        """
        keys = check_keys(record_keys, len(self), self)
        self._check_files()
        return self._offsets[keys].astype(np.int64), self._offsets[keys + 1].astype(np.int64)

    def slices(self, begins: IntArray, ends: IntArray) -> list[NDArray[Any]]:
        """Runs of tokens, read-only; those of an array are views.

        Args:
            begins, ends: place of the first token of each run, and the place behind its last (n,).

        >>> [
        ...     run.tolist()
        ...     for run in TokenDataSource([5, 6, 7, 8], [0, 1, 4]).slices(np.array([2]), np.array([4]))
        ... ]
        [[7, 8]]
        """
        tokens = self._tokens
        self._check_files()
        if not isinstance(tokens, np.ndarray):
            return tokens.slices(begins, ends, self._blocks)
        if self._blocks is not None:
            self._blocks.check_each(begins * tokens.itemsize, ends * tokens.itemsize)
        return [tokens[begin:end] for begin, end in zip(begins.tolist(), ends.tolist())]

    def fingerprint(self) -> dict[str, Any]:
        """Number and dtype of documents and tokens, and a hash of some of them; the same wherever they lie.

        It is exact, as `checksums`, where the file has those of its blocks.
        """
        return {
            "type": "TokenDataSource",
            "records": len(self),
            "tokens": [self.dtype.str, len(self._tokens)],
            "feature": self.feature,
            "content": self._content_hash(),
            **({} if self._digest is None else {"checksums": self._digest}),
        }

    def _content_hash(self) -> str:
        if self._content is not None:
            return self._content
        some = self.__getitems__(sampled_keys(len(self)))
        content = content_hash([*some, np.asarray(self._offsets[:16], np.int64).tolist()])
        if not isinstance(self._tokens, np.ndarray):
            self._content = content  # another content of the object is an error anyway
        return content

    def __repr__(self) -> str:
        return f"TokenDataSource({len(self)} documents, {len(self._tokens)} tokens of {self.dtype}, {self.feature!r})"

    def __getstate__(self) -> tuple[str, Any, str | None]:
        return self.feature, self._held, self._digest

    def __setstate__(self, state: tuple[str, Any, str | None]) -> None:
        self.feature, self._held, self._digest = state
        self._open()


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


def _held(integers: Integers) -> MappedArray | SharedArrays | TokenFile:
    return _held_array(integers) if isinstance(integers, np.ndarray) else integers


def _held_array(array: NDArray[Any]) -> MappedArray | SharedArrays:
    return MappedArray.of(array) or SharedArrays.of([array])


def _view(held: MappedArray | SharedArrays) -> NDArray[Any]:
    return held.view() if isinstance(held, MappedArray) else held.views()[0]
