"""Where the records of a source are from: which parts of which documents, of which corpus, file and record of it.

document  a record of the innermost source, by its key there; a packed row is made of pieces of some
corpus    the part of a ConcatDataSource that has the document, by its name, else its number, as text; of a part that
          has parts itself both, as "web/cc"; None where a source has no parts
piece     some consecutive tokens of a document

A source says it by three optional members, and without them each record is a document: `origins(record_keys)`,
`records_with(documents, corpus)`, the way back, and `corpora`. One that reads files has `origins` alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .optional import own_member

Int64Array = NDArray[np.int64]


class Origins(NamedTuple):
    """The pieces of some records, record by record: (m,) each, of objects where nothing else is said.

    Attributes:
        which: int64, places of their records among those that were asked for, ascending.
        corpora: texts or None.
        documents: int64 record keys.
        ids: what the source calls the documents, or None.
        files: names, or None.
        records: int64, places of the documents in their files, -1 without a file.
        starts, stops: int64, the first token and the one behind the last; a stop of -1 is the document's end.
    """

    which: Int64Array
    corpora: NDArray[np.object_]
    documents: Int64Array
    ids: NDArray[np.object_]
    files: NDArray[np.object_]
    records: Int64Array
    starts: Int64Array
    stops: Int64Array

    @classmethod
    def of_documents(cls, documents: Int64Array, **known: Any) -> "Origins":
        """Records that are whole documents; known: other fields than the usual ones.

        >>> Origins.of_documents(np.array([7])).stops
        array([-1])
        """
        nothing, unknown = np.full(documents.shape, None, object), np.full(documents.shape, -1)
        which, starts = np.arange(documents.size), np.zeros(documents.shape, np.int64)
        usual = cls(which, nothing, documents, nothing, nothing, unknown, starts, unknown)
        return usual._replace(**known)

    def in_files(self, names: Sequence[str], numbers: NDArray[Any], records: Int64Array) -> "Origins":
        """These with the files that they are in.

        Args:
            names: of all files.
            numbers: (m,) ints, the file of each.
            records: (m,) int64, the place of each in its file.

        >>> found = Origins.of_documents(np.array([3, 0])).in_files(
        ...     ["a", "b"], np.array([1, 0]), np.array([1, 0])
        ... )
        >>> found.files.tolist(), found.records.tolist()
        (['b', 'a'], [1, 0])
        """
        some, places = np.unique(numbers, return_inverse=True)
        files = np.array([names[number] for number in some.tolist()], object)[places]
        return self._replace(files=files, records=records)

    def of_rows(self, rows: Int64Array) -> "Origins":
        """These as pieces of other records: record k is number rows[k] among those, ascending; (n,) int64."""
        return self._replace(which=rows[self.which])

    def take(self, places: Int64Array) -> "Origins":
        """Those at some places, (k,) int64."""
        columns: Any = (column[places] for column in self)
        return Origins(*columns)

    @classmethod
    def joined(cls, parts: Sequence["Origins"]) -> "Origins":
        """Those of all parts, one or more, in the order of their records."""
        if len(parts) == 1:
            return parts[0]
        columns: Any = (np.concatenate(each) for each in zip(*parts))
        whole = cls(*columns)
        return whole.take(np.argsort(whole.which, kind="stable"))


class Corpus(NamedTuple):
    """Documents with keys of their own: the corpus's name, None without one, and how many there are."""

    name: str | None
    documents: int


def origins_of(source: Any, record_keys: ArrayLike) -> Origins:
    """The origins of records, by the source's `origins`; without it each record is a document.

    >>> origins_of("abc", np.array([2, 0])).documents
    array([2, 0])
    """
    if (own := own_member(source, "origins")) is None:
        return Origins.of_documents(np.asarray(record_keys, np.int64))
    found: Origins = own(record_keys)
    return found


def records_with(source: Any, documents: Int64Array, corpus: str | None) -> tuple[Int64Array, Int64Array]:
    """The records that have pieces of documents: of each the place of the document, and its key; (m,) int64 each.

    Args:
        source: any.
        documents: (n,) int64, keys in the corpus; those that it doesn't have are in no record.
        corpus: one of `corpora_of(source)`.

    >>> records_with("abc", np.array([2, 3]), None)
    (array([0]), array([2]))
    """
    if (own := own_member(source, "records_with")) is not None:
        which, keys = own(documents, corpus)
        return which, keys
    here = np.flatnonzero((documents >= 0) & (documents < len(source)))
    return here, documents[here]


def corpora_of(source: Any) -> list[Corpus]:
    """The corpora of a source, in the order of its parts: those of the documents, not of the records.

    >>> corpora_of("abc")
    [Corpus(name=None, documents=3)]
    """
    own = own_member(source, "corpora")
    return [Corpus(None, len(source))] if own is None else own()


class OriginsBelow:
    """A base class: each record is the one of the same key of the source below, or is made of that source's."""

    _source: Any

    def origins(self, record_keys: ArrayLike) -> Origins:
        """Where records are from, as `_source/origins.py` says it.

        Args:
            record_keys: integers (n,).
        """
        return origins_of(self._source, record_keys)

    def records_with(self, documents: Int64Array, corpus: str | None) -> tuple[Int64Array, Int64Array]:
        """The records that have pieces of documents: of each the place of the document, and its key.

        Args:
            documents: (n,) int64, keys in the corpus.
            corpus: one of `corpora()`.
        """
        return records_with(self._source, documents, corpus)

    def corpora(self) -> list[Corpus]:
        """Those of the source below, whose documents are counted."""
        return corpora_of(self._source)
