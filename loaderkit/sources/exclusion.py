"""Documents that are left out of what records are made of.

Lists name documents: the records of the source that the sources of a loader are made of, such as the corpus of packed
rows. A source whose records each are one document has none of these members; it is its own documents.

* `documents`: the source of the documents.
* `rows_excluded(documents) -> (gone, touched)`: ascending record keys, (n,) int64: those with nothing left, and those
  that lose a part.
* `excluding(documents)`: a source of the same length whose records lack the documents.

Documents are (n,) ints, keys of `documents`; of a ConcatDataSource with names a mapping of such by name.
"""

from copy import copy
from typing import Any, SupportsIndex

import numpy as np

from loaderkit._order.permutation import Int64Array
from loaderkit._source.naming import namer_of
from loaderkit._source.origins import OriginsBelow
from loaderkit._source.record_key import check_key, check_keys

NONE = np.empty(0, np.int64)


def documents_of(source: Any) -> Any:
    """The source of the documents that a source's records are made of; itself where each record is one.

    >>> documents_of([5, 6])
    [5, 6]
    """
    return source.documents if callable(getattr(source, "rows_excluded", None)) else source


def rows_excluded(source: Any, documents: Any) -> tuple[Int64Array, Int64Array]:
    """The records with nothing left and those that lose a part, where documents are left out.

    Args:
        source: any data source.
        documents: keys of `documents_of(source)`; IndexError naming one that it doesn't have.

    >>> rows_excluded([5, 6, 7], [2, 0])
    (array([0, 2]), array([], dtype=int64))
    """
    own = getattr(source, "rows_excluded", None)
    if callable(own):
        gone, touched = own(documents)
        return gone, touched
    return np.unique(check_keys(documents, len(source), source)), NONE


def excluding(source: Any, documents: Any) -> Any:
    """A source whose records lack documents; the source itself where each record is one, which isn't read any more.

    Args:
        source, documents: as `rows_excluded` takes them.

    >>> excluding([5, 6, 7], [2])
    [5, 6, 7]
    """
    own = getattr(source, "excluding", None)
    return own(documents) if callable(own) else source


class OfDocuments(OriginsBelow):
    """A base class: each record is made of the record of the source below that has its key."""

    @property
    def documents(self) -> Any:
        """The documents that records are made of: those of the source below."""
        return documents_of(self._source)

    @property
    def epoch_lengths(self) -> tuple[int, ...] | None:
        """How many records are of each epoch, one after the other; None where the source below doesn't say it."""
        return getattr(self._source, "epoch_lengths", None)

    def rows_excluded(self, documents: Any) -> tuple[Int64Array, Int64Array]:
        """The records with nothing left, and those that lose a part, as keys.

        Args:
            documents: keys of `documents` that are left out.
        """
        return rows_excluded(self._source, documents)

    def excluding(self, documents: Any) -> Any:
        """The same records without some documents.

        Args:
            documents: keys of `documents`.
        """
        made = copy(self)
        made._source = excluding(self._source, documents)
        return made

    def name(self, record_key: SupportsIndex) -> str | None:
        """The name that the source gives the record, None where it gives none.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        return namer_of(self._source)(check_key(record_key, len(self._source), self))
