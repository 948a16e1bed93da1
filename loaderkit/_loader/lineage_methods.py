"""What loaders and their iterators say of documents, by `inspect/lineage.py`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, overload

from loaderkit._base.numbers import at_least

if TYPE_CHECKING:
    from .inspect.lineage import Documents, Lineage


class LineageMethods:
    """A loader says it of its stream as its arguments plan it; an iterator of its own history.

    That is with the weights, batch sizes and skips of the run, and with what was read instead of bad records: of those
    of this process, and after a restore of all whose states were given.
    """

    def _lineage(self) -> Lineage:
        raise NotImplementedError

    @overload
    def documents(self, step: int | range, path: None = None) -> Documents: ...
    @overload
    def documents(self, step: int | range, path: str | os.PathLike[str]) -> None: ...
    def documents(self, step: int | range, path: str | os.PathLike[str] | None = None) -> Documents | None:
        """What a step, or a range of steps, reads of which documents, over all shards; reads no data.

        Args:
            step: from 0 on; IndexError for one that isn't there.
            path: of a Parquet file, which is written some steps at a time; nothing is returned then.

        Raises ValueError where operations change the number of rows: which documents are in a row isn't known then.

        >>> import loaderkit as lk
        >>> source = lk.ConcatDataSource({"web": [5, 6, 7], "code": [8, 9]})
        >>> read = lk.load(source, batch_size=4).documents(0)
        >>> read.corpus.tolist(), read.document.tolist()
        (['web', 'web', 'web', 'code'], [0, 1, 2, 0])
        """
        if path is not None:
            self._lineage().write_documents(step, os.fspath(path))
            return None
        return self._lineage().documents(step)

    def steps_of(
        self,
        corpus: str | None = None,
        *,
        key: Any = None,
        id: Any = None,  # noqa: A002
        start: int = 0,
        until: int | None = None,
    ) -> Documents:
        """What steps read of a document: as `documents`, its pieces alone.

        Args:
            corpus: its name, as `documents` says it; None where the source has one.
            key: of the document in it, or several, (n,) ints. IndexError for one that isn't there.
            id: instead of the key; all records of the source are looked at. LookupError where no document has it.
            start, until: the first step, and the one behind the last; without `until` an iterator says the steps that
                it has made, and a loader all that there are.

        Raises ValueError where operations change the number of rows, without `until` for a loader that has no end, and
        for another corpus.

        >>> import loaderkit as lk
        >>> loader = lk.load([5, 6, 7], shuffle=True, seed=0, num_epochs=3, batch_size=2)
        >>> read = loader.steps_of(key=1)
        >>> read.step.tolist(), read.epoch.tolist()
        ([1, 1, 4], [0, 1, 2])
        """
        return self._lineage().steps_of(corpus, key, id, start, until)

    def seen(self, step: int, path: str | os.PathLike[str]) -> dict[str | None, range]:
        """Writes how often each document was read by the steps before a step, and by which last; in bounded memory.

        Args:
            step: 0 or more. IndexError where there are fewer steps.
            path: a name that ends in .npy, for one array of three fields: `count`, how often pieces of the document
                were read, as many as rows that `documents` gives; `pieces`, how many records have one, so that count /
                pieces is epochs; and `last`, the step, -1 for never. Or a name that ends in .parquet, for a table of
                these, `corpus` and `document`.

        Returns the rows of each corpus. Raises ValueError where operations change the number of rows. Where the sampler
        doesn't say where it reads a key, as a WeightedSampler, it takes 16 bytes a record.

        >>> import tempfile
        >>> import numpy as np
        >>> import loaderkit as lk
        >>> loader = lk.load([5, 6, 7], shuffle=True, seed=0, batch_size=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = loader.seen(2, folder + "/seen.npy")
        ...     np.load(folder + "/seen.npy").tolist(), rows
        ([(1, 1, 0), (2, 1, 1), (1, 1, 0)], {None: range(0, 3)})
        """
        return self._lineage().seen(at_least("step", step, 0), os.fspath(path))
