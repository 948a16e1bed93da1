"""Several sources, one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from operator import call
from reprlib import repr as _short
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.structure import Structure
from loaderkit._base.tree import flatten, unflatten
from loaderkit._order.groups import groups
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.naming import namer_of
from loaderkit._source.optional import (
    ColumnsDifferError,
    F,
    advised_bytes,
    advised_chunk,
    column_reader,
    has_tokens,
    lacking,
    many_reader,
    only_where,
    part_reader,
)
from loaderkit._source.origins import Corpus, Origins, corpora_of, origins_of, records_with
from loaderkit._source.protocol import holds_own_objects, read_record, read_records
from loaderkit._source.record_key import check_key, check_keys

from .exclusion import NONE, documents_of, excluding, rows_excluded
from .has_card import SAMPLED, HasCard
from .of_tokens import OfTokens, where_of_tokens
from .parts import calls_of_parts, parts_of, parts_repr
from .sliced import sliced

_MOST_SMALL = 1 << 16  # places that fit in uint16
# Keys found together: of 256 each costs 90 ns more than in its own source, one alone 230 ns, of 32 each 270 ns.
_LEAST_EACH = 48
_FINDERS: dict[str, Callable[[Any], Any]] = {
    "__getitems__": many_reader,
    "take": column_reader,
    "chunk_records": advised_chunk,
    "chunk_bytes": advised_bytes,
    "read_range": part_reader,
}
_PLACE_BITS = 44  # of a token's place in its source
_MADE_ON_OPENING = ("_readers", "_end_list", "_start_list", "_takes")


def where_all_have(name: str) -> Callable[[F], F]:
    """`only_where` all sources that aren't empty have an optional member."""
    return only_where(lambda self: self._require(name))


class ConcatDataSource(OfTokens, HasCard):
    """The records of the first source, then those of the second, and so on.

    It has `__getitems__`, `take`, `chunk_records`, `lengths` and `read_range` where all of its sources that aren't
    empty have it, and what a `TokenDataSource` has where all have that, with tokens of one name and dtype: a mixture of
    corpora is packed as fast as one.

    Args:
        sources: one data source or more, of any kinds, in a sequence or a mapping from names. ValueError for none,
            TypeError naming the place or the name of an object that isn't a data source.

    names: of the sources in their order where a mapping was given, else None. With names the fingerprint has the
    sources by name, so that a saved state of a mixture can tell which of them were added, dropped or changed. It has
    the order of the names too, which decides what a record key means; a mixture whose own names follow it restores
    with any order.

    >>> source = ConcatDataSource([range(3), "ab"])
    >>> len(source), source[2], source[3]
    (5, 2, 'a')
    >>> ConcatDataSource({"numbers": range(3), "letters": "ab"}).names
    ('numbers', 'letters')
    """

    def __init__(self, sources: Sequence[Any] | Mapping[str, Any]) -> None:
        self.names, self._sources = parts_of(sources)
        # (sources,) int64: ends[i] is the first key past source i
        self._ends = np.cumsum([len(source) for source in self._sources], dtype=np.int64)
        self._starts = np.concatenate([np.zeros(1, np.int64), self._ends[:-1]])
        # By optional method, whether all have it: asked once, as there may be thousands of sources.
        self._has: dict[str, bool] = {}
        self._open()

    def _open(self) -> None:
        self._records = int(self._ends[-1])
        self._end_list: list[int] = self._ends.tolist()
        self._start_list: list[int] = self._starts.tolist()
        self._readers = [self._reader_of(place) for place in range(len(self._sources))]
        # By place, looked up once: to look at a method's signature costs as much as a thousand rows.
        self._takes: list[Callable[..., Any] | None] = []

    def _reader_of(self, place: int) -> Callable[[int], Any]:
        source = self._sources[place]
        reader: Callable[[int], Any] = source.__getitem__
        return partial(read_record, source) if holds_own_objects(source) else reader

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _MADE_ON_OPENING}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __len__(self) -> int:
        return self._records

    @sliced
    def __getitem__(self, key: int) -> Any:
        place = bisect_right(self._end_list, key)
        return self._readers[place](key - self._start_list[place])

    def read_each(self, record_keys: NDArray[np.int64]) -> Iterator[Any]:
        """The records of many keys, each read when it is asked for.

        Args:
            record_keys: (n,) int64. A key out of range is an IndexError when its record is asked for.
        """
        if len(record_keys) < _LEAST_EACH or record_keys.view(np.uint64).max() >= self._records:
            return map(self.__getitem__, record_keys.tolist())
        places = np.searchsorted(self._ends, record_keys, side="right")
        theirs = record_keys - self._starts[places]
        return map(call, map(self._readers.__getitem__, places.tolist()), theirs.tolist())

    def _offers(self, name: str) -> bool:
        """Whether all sources that aren't empty have it; for `take` with like columns."""
        if name not in self._has:
            find = _FINDERS[name]
            has = all(find(source) is not None for source in self._sources if len(source))
            self._has[name] = has and (name != "take" or self._alike())
        return self._has[name]

    def _require(self, name: str) -> None:
        if not self._offers(name):
            raise lacking(self, name, needs=f"sources that all have `{name}`")

    @where_all_have("__getitems__")
    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        """Many records, one call for each source; only where all have `__getitems__`, else an AttributeError."""
        keys = check_keys(record_keys, self._records, self)
        order, shares = self._shares(keys)
        records: list[Any] = []
        for place, theirs in shares:
            records += self._records_of(place, theirs.tolist())
        if order is None:
            return records
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return list(map(records.__getitem__, places.tolist()))

    def _records_of(self, place: int, keys: list[int]) -> list[Any]:
        return read_records(self._sources[place], keys)

    def _shares(
        self, keys: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp] | None, list[tuple[int, NDArray[np.int64]]]]:
        """The places of the sources that have the records, ascending, each with its keys; and the rows in that order.

        The rows are (n,) intp, None where they are in order as they are.
        """
        if not len(keys):
            return None, []
        places = np.searchsorted(self._ends, keys, side="right")
        first = int(places[0])
        if (places == first).all():
            return None, [(first, keys - self._starts[first])]
        # Numpy sorts small integers by counting them, in a fifth of the time.
        if len(self._sources) <= _MOST_SMALL:
            places = places.astype(np.uint16)
        order = np.argsort(places, kind="stable")
        places = places[order]
        theirs = keys[order] - self._starts[places]
        cuts = [0, *(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist(), len(keys)]
        found = places[cuts[:-1]].tolist()
        return order, [(place, theirs[low:high]) for place, low, high in zip(found, cuts, cuts[1:])]

    @where_all_have("take")
    def take(self, record_keys: ArrayLike, out: list[NDArray[Any]] | None = None) -> Any:
        """Many records as columns; only where all have `take` with like columns, else an AttributeError.

        One record of each source is read, once, to see whether dtypes, shapes and the order of keys are the same.

        Args:
            record_keys: integers (n,). ColumnsDifferError where the columns of their sources differ nevertheless.
            out: for each leaf, in the order of the tree, an array (n, ...) to be filled.
        """
        keys = check_keys(record_keys, self._records, self)
        if not len(keys):
            return self._columns_of(int(np.argmax(self._ends > 0)), keys, out)
        order, shares = self._shares(keys)
        if len(shares) == 1:
            return self._columns_of(shares[0][0], shares[0][1], out)
        first: Structure | None = None
        low = 0
        for place, theirs in shares:
            leaves, structure = flatten(self._columns_of(place, theirs, None))
            first = first or structure
            if not first.same_order(structure):
                raise ColumnsDifferError(f"take: expected records of the form {first}, got {structure}")
            if out is None:
                out = [np.empty((len(keys), *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
            assert order is not None
            _fill(out, order[low : low + len(theirs)], leaves)
            low += len(theirs)
        assert out is not None and first is not None
        return unflatten(first, out)

    def _alike(self) -> bool:
        first: tuple[Structure, list[Any]] | None = None
        for place, source in enumerate(self._sources):
            if not len(source):
                continue
            try:
                leaves, structure = flatten(self._columns_of(place, np.zeros(1, np.int64), None))
                forms = [(leaf.dtype, leaf.shape[1:]) for leaf in leaves]
            except Exception:  # noqa: BLE001 - a bad record: it is said where it is read by itself
                return False
            first = first or (structure, forms)
            if not first[0].same_order(structure) or first[1] != forms:
                return False
        return first is not None

    def _columns_of(self, place: int, keys: NDArray[np.int64], out: list[NDArray[Any]] | None) -> Any:
        if not self._takes:
            self._takes = [column_reader(source) for source in self._sources]
        take = self._takes[place]
        assert take is not None
        return take(keys) if out is None else take(keys, out=out)

    @property
    def lengths(self) -> NDArray[Any]:
        """The tokens of each record (records,), for `plan_packing`; only where all have it, else an AttributeError."""
        found = [getattr(source, "lengths", None) for source in self._sources if len(source)]
        if any(lengths is None for lengths in found):
            raise lacking(self, "lengths", needs="sources that all have `lengths`")
        return np.concatenate([np.empty(0, np.uint32), *found])

    @where_all_have("read_range")
    def read_range(self, record_key: SupportsIndex, start: int, stop: int) -> Any:
        """A part of a record; only where all have it, else an AttributeError.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
            start: of its first token.
            stop: behind its last token.
        """
        place, key = self._place(record_key)
        return self._sources[place].read_range(key, start, stop)

    def _sampled(self) -> list[int]:
        first: list[int] = self._starts[self._ends > self._starts].tolist()
        return first[:SAMPLED]

    def _place(self, record_key: SupportsIndex) -> tuple[int, int]:
        key = check_key(record_key, self._records, self)
        place = bisect_right(self._end_list, key)
        return place, key - self._start_list[place]

    @property
    def _of_tokens(self) -> tuple[Any, ...]:
        """The sources that aren't empty, where all are of tokens of one name and dtype, and have the same columns."""
        if "tokens" not in self._has:
            self._has["tokens"] = False
            some = [source for source in self._sources if len(source)]
            if some and all(map(has_tokens, some)):
                kinds = [(one.feature, one.dtype, getattr(one, "columns", {})) for one in some]
                self._has["tokens"] = all(kind == kinds[0] for kind in kinds)
        if not self._has["tokens"]:
            raise lacking(self, "slices", needs="sources of tokens of one name and dtype")
        return self._sources

    @property
    def _first_of_tokens(self) -> Any:
        return next(source for source in self._of_tokens if len(source))

    @where_of_tokens
    def bounds(self, record_keys: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of records (n,) for `slices`: the first token of each, and the one behind its last.

        Args:
            record_keys: integers (n,); IndexError naming the first that is out of range.
        """
        keys = check_keys(record_keys, self._records, self)
        begins, ends = np.empty((2, len(keys)), np.int64)
        for place, rows, theirs in self._by_source(keys):
            # A place says its source in the bits above those of the source's own places.
            begins[rows], ends[rows] = (place << _PLACE_BITS) + np.array(self._sources[place].bounds(theirs))
        return begins, ends

    @where_of_tokens
    def slices(
        self, begins: NDArray[np.int64], ends: NDArray[np.int64], column: str | None = None
    ) -> list[NDArray[Any]]:
        """Runs of tokens, or of values of a column.

        Args:
            begins, ends: of each run (n,), places that `bounds` gave and what lies between two of these.
            column: its name; None for the tokens.
        """
        found: list[Any] = [None] * len(begins)
        for place, rows in groups(begins >> _PLACE_BITS):
            base = place << _PLACE_BITS
            options = () if column is None else (column,)
            runs = self._sources[place].slices(begins[rows] - base, ends[rows] - base, *options)
            for row, run in zip(rows.tolist(), runs):
                found[row] = run
        return found

    @where_of_tokens
    def document_column(self, name: str, record_keys: ArrayLike) -> NDArray[Any]:
        """The values (n,) of a column of documents, as a `TokenDataSource` gives them.

        Args:
            name: of the column.
            record_keys: integers (n,); IndexError naming the first that is out of range.
        """
        keys = check_keys(record_keys, self._records, self)
        found = np.empty(len(keys), self._first_of_tokens.document_column(name, []).dtype)
        for place, rows, theirs in self._by_source(keys):
            found[rows] = self._sources[place].document_column(name, theirs)
        return found

    def _by_source(self, keys: NDArray[np.int64]) -> Iterator[tuple[int, Any, NDArray[np.int64]]]:
        """Each source that has some of the keys, the rows of these, and its own keys."""
        order, shares = self._shares(keys)
        low = 0
        for place, theirs in shares:
            yield place, slice(None) if order is None else order[low : low + len(theirs)], theirs
            low += len(theirs)

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay: the most that one of the sources says, as `parts.calls_of_parts` explains."""
        return calls_of_parts(self._sources, in_bulk=self._offers("__getitems__"))

    @property
    def chunk_records(self) -> int:
        """Consecutive records that are read together, in the mean; only where all have it, else an AttributeError."""
        self._require("chunk_records")
        return max(1, round(len(self) / max(self._chunks, 1)))

    @property
    def chunk_bytes(self) -> int:
        """Bytes of so many records, in the mean; only where all have it and `chunk_records`, else an AttributeError."""
        self._require("chunk_records")
        self._require("chunk_bytes")
        nbytes = sum(
            len(source) * (advised_bytes(source) or 0) / (advised_chunk(source) or 1)
            for source in self._sources
        )
        return max(1, round(nbytes / max(self._chunks, 1)))

    @property
    def _chunks(self) -> float:
        return sum(len(source) / (advised_chunk(source) or 1) for source in self._sources)

    @property
    def chunk_feed(self) -> Any:
        """The chunks of the records of all sources, for the process that fetches them ahead; None without a cache."""
        feeds = [getattr(source, "chunk_feed", None) for source in self._sources]
        if all(feed is None for feed in feeds):
            return None
        from loaderkit._storage.cache.joint_feed import JointChunkFeed

        return JointChunkFeed(feeds, self._ends)

    @property
    def documents(self) -> ConcatDataSource:
        """The documents of all sources, one source after the other, with their names."""
        found = [documents_of(source) for source in self._sources]
        return ConcatDataSource(found if self.names is None else dict(zip(self.names, found)))

    def rows_excluded(self, documents: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The records with nothing left, and those that lose a part, as keys of this source.

        Args:
            documents: keys of `documents` that are left out; where the sources have names a mapping of keys of each
                one's own documents by name.
        """
        gone, touched = [NONE], [NONE]
        for source, start, theirs in zip(self._sources, self._starts, self._documents_of_each(documents)):
            if theirs is not None:
                of_source = rows_excluded(source, theirs)
                gone.append(of_source[0] + start)
                touched.append(of_source[1] + start)
        return np.concatenate(gone), np.concatenate(touched)

    def excluding(self, documents: Any) -> ConcatDataSource:
        """The same records without some documents.

        Args:
            documents: as `rows_excluded` takes them.
        """
        made = copy(self)
        made._sources = tuple(
            source if theirs is None else excluding(source, theirs)
            for source, theirs in zip(self._sources, self._documents_of_each(documents))
        )
        made._open()
        return made

    def _documents_of_each(self, documents: Any) -> list[Any]:
        """Those of each source; None for one that loses none."""
        if self.names is None:
            ends = np.cumsum([len(documents_of(source)) for source in self._sources])
            keys = np.unique(check_keys(documents, int(ends[-1]), self))
            parts = np.split(keys, keys.searchsorted(ends[:-1]))
            return [part - start if len(part) else None for part, start in zip(parts, [0, *ends[:-1]])]
        if not isinstance(documents, Mapping):
            raise TypeError(
                f"documents: expected keys by the names {list(self.names)}, got {_short(documents)}; write "
                f"{{{self.names[0]!r}: keys}}"
            )
        if strange := [name for name in documents if name not in self.names]:
            raise ValueError(f"documents: expected names among {list(self.names)}, got {strange[0]!r}")
        return [documents.get(name) for name in self.names]

    def name(self, record_key: SupportsIndex) -> str | None:
        """The name that the record's own source gives it, None where it gives none.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        place, key = self._place(record_key)
        return namer_of(self._sources[place])(key)

    def origins(self, record_keys: ArrayLike) -> Origins:
        """Where records are from, as `_source/origins.py` says it: with the names of the sources.

        Args:
            record_keys: integers (n,).
        """
        keys = check_keys(record_keys, self._records, self)
        every, parts = np.arange(len(keys)), [Origins.of_documents(keys[:0])]
        for place, rows, theirs in self._by_source(keys):
            found = origins_of(self._sources[place], theirs).of_rows(every[rows])
            inner = found.corpora.tolist()
            names = {each: self._corpus(place, each) for each in {*inner}}
            parts.append(found._replace(corpora=np.array([names[each] for each in inner], object)))
        return Origins.joined(parts)

    def records_with(
        self, documents: NDArray[np.int64], corpus: str | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The records that have pieces of documents: of each the place of the document, and its key.

        Args:
            documents: (n,) int64, keys in the corpus.
            corpus: one of `corpora()`, else a LookupError.
        """
        for place, source in enumerate(self._sources):
            for each in corpora_of(source):
                if self._corpus(place, each.name) == corpus:
                    which, keys = records_with(source, documents, each.name)
                    return which, keys + self._starts[place]
        raise LookupError(f"corpus: expected one of {[each.name for each in self.corpora()]}, got {corpus!r}")

    def corpora(self) -> list[Corpus]:
        """Those of all sources, by their names."""
        return [
            each._replace(name=self._corpus(place, each.name))
            for place, source in enumerate(self._sources)
            for each in corpora_of(source)
        ]

    def _corpus(self, place: int, inner: str | None) -> str:
        name = str(place) if self.names is None else self.names[place]
        return name if inner is None else f"{name}/{inner}"

    def fingerprint(self) -> dict[str, Any]:
        """The fingerprints of the sources: by name, with the names in order, where they have names, else in order."""
        if self.names is not None:
            # Without the number of all records: each source is compared by itself.
            named = {name: fingerprint_of(source) for name, source in zip(self.names, self._sources)}
            return {"type": "ConcatDataSource", "names": list(self.names), "sources": named}
        return {
            "type": "ConcatDataSource",
            "records": len(self),
            "sources": [fingerprint_of(source) for source in self._sources],
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({parts_repr(self.names, self._sources)})"


def _fill(out: list[NDArray[Any]], rows: NDArray[np.intp], leaves: list[Any]) -> None:
    for place, leaf in zip(out, leaves, strict=True):
        if (place.dtype, place.shape[1:]) != (leaf.dtype, leaf.shape[1:]):
            raise ColumnsDifferError(
                f"take: expected a column of {place.dtype}{list(place.shape[1:])}, "
                f"got {leaf.dtype}{list(leaf.shape[1:])}"
            )
        place[rows] = leaf
