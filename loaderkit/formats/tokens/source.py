"""Documents of tokens, one behind the other in one array."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from reprlib import repr as _short
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.numbers import true_or_false
from loaderkit._source.content import content_hash, sampled_keys
from loaderkit._source.origins import Origins
from loaderkit._source.record_key import check_key, check_keys
from loaderkit._storage.addresses import redacted
from loaderkit._storage.open_ranges import FileAccess
from loaderkit.sources.has_card import HasCard, file_sizes
from loaderkit.sources.sliced import sliced

from .documents import TokenDocuments, open_documents
from .integers import Numbers, in_memory, is_names, named_files, open_integers
from .joined import IntArray, JoinedOffsets, JoinedValues
from .megatron import read_megatron

if TYPE_CHECKING:
    from loaderkit._storage.cache.settings import Cache

_CHUNK_BYTES = 1 << 20  # of the documents that a ChunkSampler reads together


class TokenDataSource(HasCard):
    """Documents of tokens, one behind the other: record k is `{feature: tokens[offsets[k]:offsets[k + 1]]}`, read-only.

    Any number of files are one corpus, with the documents of the first file, then those of the next one. It is the same
    however it is cut into files: a state or a plan of one file serves its shards, and the other way round.

    Arrays are copied once to memory that all workers share; those in files stay there, and workers open them by name.
    Of objects on servers (http, https, s3, gs, az, and what fsspec knows) only the ranges are read that are asked for,
    all of one call together. For rows of one length make a plan and a `PackedDataSource`.

    Args:
        tokens: integers (tokens,): an array, a `np.memmap`, or names of files or objects: those that
            `lk.write(..., format="tokens")` made, a `.npy`, or bare numbers with `dtype`. A name may be a pattern,
            "web@8" for the shards of a set, or a folder of `.tokens` files, which are sorted by name; several may be in
            a list, in its order. DataFormatError naming a file that was truncated, or that has another dtype, feature
            or columns than the first. A file that is written to, and an object that is replaced, are a
            FileChangedError. A file of `lk.write` is compared with its checksums as it is read, of a server without a
            cache the blocks of 64 KiB that a read has whole: a ChecksumError names the bytes.
        offsets: integers (documents + 1,), ascending, given as the tokens are; in a file of bare numbers int64. Those
            of an object are read once, to shared memory. None for files of `lk.write`, which have them. ValueError
            naming the first that is less than the one before, or beyond the tokens.
        feature: name of the tokens in a record; "tokens", or what the files of `lk.write` say.
        columns: which of the files' columns records have beside their tokens: arrays of a value for each token, numbers
            and texts of the document. None for all.
        dtype: of the tokens in files of bare numbers.
        mmap: False reads local files instead of mapping them: for files that may be cut short while they are read,
            where the kernel ends a process that has them mapped.
        cache: keeps chunks of the files of a server on the disk, 1 MiB each: for rows that are read more than once, or
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
        columns: Sequence[str] | None = None,
        dtype: DTypeLike | None = None,
        mmap: bool = True,
        cache: Cache | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(feature, str | None):
            raise TypeError(f"feature: expected a name, got {_short(feature)}")
        access = FileAccess(storage_options, cache, true_or_false("mmap", mmap))
        if offsets is None:
            if not is_names(tokens):
                raise ValueError(
                    "offsets: expected integers (documents + 1,) beside an array of tokens, got None; for lengths of "
                    "documents give np.concatenate([[0], np.cumsum(lengths)])"
                )
            self._hold(open_documents(tokens, access, feature, columns))
            return
        if columns:
            raise ValueError(f"columns: expected none of arrays, got {_short(columns)}; lk.write writes them")
        numbers = open_integers("tokens", tokens, access, dtype)
        places = in_memory(open_integers("offsets", offsets, replace(access, cache=None), np.int64))
        files, of_offsets = (
            named_files(name, given, storage_options) if is_names(given) else []
            for name, given in (("tokens", tokens), ("offsets", offsets))
        )
        named = "tokens" if feature is None else feature
        self._hold(_without_columns(files, numbers, places, named, of_offsets))

    def _hold(self, whole: TokenDocuments) -> None:
        self.feature, self._columns, self._digest = whole.feature, whole.columns, whole.digest
        self._names, self._tokens, self._offsets = whole.names, whole.tokens, whole.offsets
        self._content: str | None = None

    @classmethod
    @former_arguments(removed_in="0.3.0", by_place=["feature"])
    def from_megatron(
        cls,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        feature: str = "tokens",
        cache: Cache | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """The documents of Megatron's `PREFIX.bin` and `PREFIX.idx`, which `preprocess_data.py` writes.

        Args:
            path: the prefix, or the name of either file, local or of a server; a pattern or a folder of several, or a
                list. DataFormatError naming the file where one isn't of the format, has another dtype than the first,
                or doesn't fit to its pair. The tokens stay in the files.
            feature: name of the tokens in a record.
            cache, storage_options: as for the class.
        """
        names, tokens, offsets = read_megatron(path, FileAccess(storage_options, cache))
        source = cls.__new__(cls)
        source._hold(_without_columns(names, tokens, offsets, feature, names))
        return source

    def __len__(self) -> int:
        return len(self._offsets)

    @sliced
    def __getitem__(self, key: int) -> dict[str, Any]:
        return self.__getitems__([key])[0]

    def __getitems__(self, record_keys: ArrayLike) -> list[dict[str, Any]]:
        keys = check_keys(record_keys, len(self), self)
        return self._records(keys, *self._offsets.bounds(keys))

    def _records(self, keys: IntArray, begins: IntArray, ends: IntArray) -> list[dict[str, Any]]:
        tokens = self._tokens.slices(begins, ends)
        if not self._columns:
            return [{self.feature: run} for run in tokens]
        names = [self.feature, *self._columns]
        columns = [column.of(keys, begins, ends) for column in self._columns.values()]
        return [dict(zip(names, values)) for values in zip(tokens, *columns)]

    def read_range(self, record_key: SupportsIndex, start: int, stop: int) -> dict[str, Any]:
        """A part of a record, as `source[record_key]` gives the whole.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
            start, stop: the first token and the one behind the last; ValueError where the document has fewer.

        >>> TokenDataSource([5, 6, 7, 8], [0, 1, 4]).read_range(1, 1, 3)["tokens"].tolist()
        [7, 8]
        """
        keys = np.array([check_key(record_key, len(self), self)])
        begins, ends = self._offsets.bounds(keys)
        length = int((ends - begins)[0])
        if not 0 <= start <= stop <= length:
            raise ValueError(
                f"start, stop: expected tokens from 0 to {length} of document {keys[0]}, got {start} to {stop}"
            )
        return self._records(keys, begins + start, begins + stop)[0]

    def name(self, record_key: SupportsIndex) -> str | None:
        """The document's file and its place among the file's documents, such as "web.tokens[17]"; None of an array.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        (file,), (place,) = self._offsets.places(np.array([check_key(record_key, len(self), self)]))
        return f"{self._names[file]}[{place}]" if self._names else None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the tokens."""
        return self._tokens.dtype

    @property
    def columns(self) -> dict[str, tuple[str, np.dtype[Any]]]:
        """What a record has beside its tokens: by name "token", "number" or "text", and the dtype of the values.

        A column of "token" has a value for each token, the others one for each document.
        """
        return {name: (column.per, column.values.dtype) for name, column in self._columns.items()}

    def document_column(self, name: str, record_keys: ArrayLike) -> NDArray[Any]:
        """The numbers or texts (n,) of some documents; their tokens aren't read.

        Args:
            name: of a column with one value for each document; ValueError for another. Texts come as objects.
            record_keys: integers (n,); IndexError naming the first that is out of range.
        """
        column = self._columns.get(name)
        if column is None or column.per == "token":
            known = [each for each, (per, _) in self.columns.items() if per != "token"]
            raise ValueError(f"name: expected a column of documents, one of {known}, got {_short(name)}")
        return column.of_documents(check_keys(record_keys, len(self), self))

    @property
    def lengths(self) -> NDArray[Any]:
        """The tokens of each document (documents,), for `plan_packing`; uint32 where all are below 2**32."""
        return self._offsets.lengths

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay: 0 for arrays and local files, 4 where reads wait for a server."""
        return self._tokens.read_ahead

    @property
    def _nbytes(self) -> int:
        first, last = self._offsets.ends
        return self.dtype.itemsize * (last - first)

    @property
    def chunk_records(self) -> int:
        """Documents of about 1 MiB: what `ChunkSampler` should read together."""
        return max(1, _CHUNK_BYTES * len(self) // max(1, self._nbytes))

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk, on average."""
        return max(1, self._nbytes * self.chunk_records // max(1, len(self)))

    def bounds(self, record_keys: ArrayLike) -> tuple[IntArray, IntArray]:
        """The place of the first token of each record, and the place behind its last.

        Args:
            record_keys: integers (n,); IndexError naming the first that is out of range.

        >>> TokenDataSource([5, 6, 7, 8], [0, 1, 4]).bounds([1, 0])
        (array([1, 0]), array([4, 1]))
        """
        return self._offsets.bounds(check_keys(record_keys, len(self), self))

    def origins(self, record_keys: ArrayLike) -> Origins:
        """Records as whole documents, as `_source/origins.py` says them; a column `id` of documents is their ids.

        Args:
            record_keys: integers (n,).
        """
        keys = check_keys(record_keys, len(self), self)
        begins, ends = self._offsets.bounds(keys)
        found = Origins.of_documents(keys, stops=ends - begins)
        if self.columns.get("id", ("token",))[0] != "token":
            found = found._replace(ids=self.document_column("id", keys).astype(object))
        return found.in_files(self._names, *self._offsets.places(keys)) if self._names else found

    def slices(self, begins: IntArray, ends: IntArray, column: str | None = None) -> list[NDArray[Any]]:
        """Runs of tokens, read-only; those of an array are views.

        Args:
            begins, ends: place of the first token of each run, and the place behind its last (n,).
            column: one with a value for each token, of which those of these tokens are given; None for the tokens.

        >>> [
        ...     run.tolist()
        ...     for run in TokenDataSource([5, 6, 7, 8], [0, 1, 4]).slices(np.array([2]), np.array([4]))
        ... ]
        [[7, 8]]
        """
        return (self._tokens if column is None else self._columns[column].values).slices(begins, ends)

    def data_files(self) -> dict[str, int | None]:
        """The files, and the bytes of each."""
        return file_sizes(self._names)

    def fingerprint(self) -> dict[str, Any]:
        """Number and dtype of documents and tokens, and a hash of some of them; the same wherever they lie.

        It is exact, as `checksums`, where the file has those of its blocks.
        """
        columns = {name: str(dtype) for name, (_, dtype) in self.columns.items()}
        told = {"columns": columns, "checksums": self._digest}
        return {
            "type": "TokenDataSource",
            "records": len(self),
            "tokens": [self.dtype.str, len(self._tokens)],
            "feature": self.feature,
            "content": self._content_hash(),
            **{name: value for name, value in told.items() if value},
        }

    def _content_hash(self) -> str:
        if self._content is not None:
            return self._content
        content = content_hash([*self.__getitems__(sampled_keys(len(self))), self._offsets.first])
        if self.read_ahead:
            self._content = content  # another content of an object is an error anyway
        return content

    def __repr__(self) -> str:
        return f"TokenDataSource({len(self)} documents, {len(self._tokens)} tokens of {self.dtype}, {self.feature!r})"


def open_megatron(paths: Any, **options: Any) -> TokenDataSource:
    """The source of Megatron's files, as `TokenDataSource.from_megatron` makes it of the same arguments."""
    return TokenDataSource.from_megatron(paths, **options)


def _without_columns(
    files: list[str], tokens: Numbers, offsets: list[NDArray[Any]], feature: str, of_offsets: list[str]
) -> TokenDocuments:
    values = JoinedValues(tokens)
    if len(offsets) != len(values.counts):
        raise ValueError(
            f"offsets: expected those of {len(values.counts)} files of tokens, got {len(offsets)}; name as many files"
        )
    places = JoinedOffsets(offsets, values.counts, [*map(redacted, of_offsets)])
    return TokenDocuments([*map(redacted, files)], values, places, feature, {}, None)
