"""Lineage: which documents a step read, at which steps a document was read, and how often each was.

A stream is a sampler, a position's segments and its ledger of bad records: all of it is arithmetic, and no record is
read. Both directions end in the same rows: the source's `origins` say what is at indices, and of a document that was
looked for its pieces are kept.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from reprlib import repr as _short
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass, fields
from loaderkit._base.system.optional_library import library
from loaderkit._base.system.progress_bar import progress_bar
from loaderkit._base.system.whole_file import partial_file, whole_file
from loaderkit._order.matches import matches
from loaderkit._order.metadata import MOST_INDEX
from loaderkit._order.permutation import Int64Array
from loaderkit._plan.bad_records import with_substitutions
from loaderkit._plan.position import Position
from loaderkit._plan.reads import StepReads, WholeSteps
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._source.origins import Corpus, corpora_of, origins_of, records_with
from loaderkit.samplers.optional import epochs_of, finds_keys, indices_of, reads_of
from loaderkit.samplers.protocol import record_keys_of
from loaderkit.sources.staged import StagedDataSource

_BLOCK = 1 << 16  # records looked at together
_CHUNK = 1 << 18  # documents counted together: a plan's blocks have up to 65,536
_NO_READS = StepReads(*[np.empty(0, np.int64)] * 3)
_COUNTED = {"count": np.dtype("<u4"), "pieces": np.dtype("<u4"), "last": np.dtype("<i8")}


@dataclass(frozen=True, slots=True)
class Documents:
    """What was read of documents: a row for each piece, by step, row and place in it; each column is an array (n,).

    Attributes:
        step, row: int64, row of the global batch.
        piece: int64, its number among those of the row.
        corpus: texts, or None where the source has no parts.
        document: int64, key in the corpus.
        id: what the source calls it, or None.
        file, record: its file and its place there, None and -1 where the source doesn't say it.
        start, stop: int64, its first token and the one behind the last; a stop of -1 is the document's end.
        epoch: int64, of its corpus where the loader mixes some; -1 where the sampler doesn't say how long one is.
    """

    step: Int64Array
    row: Int64Array
    piece: Int64Array
    corpus: NDArray[np.object_]
    document: Int64Array
    id: NDArray[np.object_]
    file: NDArray[np.object_]
    record: Int64Array
    start: Int64Array
    stop: Int64Array
    epoch: Int64Array

    def __len__(self) -> int:
        return len(self.step)

    def take(self, places: Any) -> "Documents":
        """Some rows, by their places or a mask (n,).

        >>> import loaderkit as lk
        >>> documents = lk.load([5, 6, 7], batch_size=2).documents(0)
        >>> documents.take(documents.document > 0).row
        array([1])
        """
        return Documents(*(getattr(self, each.name)[places] for each in fields(self)))

    def to_arrow(self) -> Any:
        """The columns as a pyarrow Table; it needs the extra parquet.

        >>> import loaderkit as lk
        >>> lk.load([5, 6, 7], batch_size=2).documents(0).to_arrow().num_rows
        2
        """
        pa = library("pyarrow", "Documents.to_arrow() needs", "parquet")
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        columns["id"] = [None if each is None else str(each) for each in self.id.tolist()]
        for name in ("corpus", "id", "file"):
            columns[name] = pa.array(columns[name], pa.string())
        return pa.table(columns)

    def __repr__(self) -> str:
        steps = f"{self.step.min()} to {self.step.max()}" if len(self) else "none"
        return f"Documents({len(self)} pieces, steps {steps})"


class Lineage:
    """The lineage of one stream, as it is planned and as its bad records changed it.

    Args:
        plan: of the stream.
        position: its segments say which indices steps read, and its ledger what was read instead of bad records.
        source: that is read.
        end: the step behind the last of which `steps_of` tells if nothing is said; None for the stream's last.

    Raises ValueError where operations change the number of rows: which indices a step has isn't known then.
    """

    def __init__(
        self, plan: SeekablePlan, position: Position, source: Any, *, end: int | None = None
    ) -> None:
        if plan.row_changing:
            raise ValueError(
                f"{plan.why_unknown('which documents a step reads')}; of the indices before a position of the run "
                "it.sampler.record_keys(indices) says the records"
            )
        self._end = MOST_INDEX if end is None and (plan.stop or plan.num_steps) is not None else end
        self.plan, self._position, self.source = plan, position, source
        self._sampler = with_substitutions(plan.sampler, position.losses.ledger)
        self._lost = np.array(sorted(position.losses.ledger), np.int64)

    def documents(self, steps: int | range) -> Documents:
        """The documents of a step or of steps, in order; IndexError for a step that isn't there."""
        blocks = [self._documents(reads) for reads in (_NO_READS, *self._blocks(steps))]
        return Documents(*(np.concatenate([getattr(b, e.name) for b in blocks]) for e in fields(Documents)))

    def write_documents(self, steps: int | range, path: str) -> None:
        """Writes them to a Parquet file, some at a time."""
        pq = library("pyarrow.parquet", "documents(steps, path) needs", "parquet")
        schema = self._documents(_NO_READS).to_arrow().schema
        with (
            partial_file(path) as partial,
            progress_bar("records", None) as advance,
            pq.ParquetWriter(partial, schema) as writer,
        ):
            for reads in self._blocks(steps):
                writer.write_table(self._documents(reads).to_arrow())
                advance(len(reads.indices))

    def steps_of(self, corpus: str | None, key: Any, id_: Any, start: int, until: int | None) -> Documents:
        """The pieces of documents that the steps from `start` to before `until` read."""
        of = self._corpus(corpus)
        if (key is None) == (id_ is None):
            raise TypeError("steps_of: expected key= or id= of a document, one of them")
        wanted = self._called(of, id_) if key is None else np.atleast_1d(np.asarray(key))
        if wanted.dtype.kind not in "iu" or wanted.ndim != 1:
            raise TypeError(f"key: expected an int, or ints of shape (n,), got {_short(key)}")
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < of.documents:
            raise IndexError(f"key: expected documents from 0 to {of.documents - 1}, got {_short(key)}")
        until = self._end if until is None else at_least("until", until, 0)
        if until is None:
            raise ValueError(
                "until: expected a step, as the stream has no end, got None; say up to which to look"
            )
        _, keys = records_with(self.source, wanted.astype(np.int64), of.name)
        parts = self.plan.reads(self._position, at_least("start", start, 0), until, strict=False)
        found = self.pieces_of(keys, parts)
        return found.take((found.corpus == of.name) & np.isin(found.document, wanted))

    def seen(self, step: int, path: str) -> dict[str | None, range]:
        """Writes how often each document was read before a step, and when last; gives the rows of each corpus."""
        parts = self.plan.reads(self._position, 0, step)
        counter = _Counter(self, parts)
        corpora = corpora_of(self.source)
        total, rows, begin = sum(each.documents for each in corpora), {}, 0
        with _table(path, total) as write, progress_bar("documents", total) as advance:
            for corpus in corpora:
                for low in range(0, corpus.documents, _CHUNK):
                    documents = np.arange(low, min(low + _CHUNK, corpus.documents))
                    write(corpus.name, documents, *counter.of_documents(corpus, documents))
                    advance(len(documents))
                rows[corpus.name] = range(begin, begin + corpus.documents)
                begin += corpus.documents
        return rows

    # --- reads ------------------------------------------------------------------------------------------------------

    def keys_at(self, indices: Int64Array) -> Int64Array:
        """The records of the source that were read at indices, (n,) int64 each."""
        return self.plan.plain_keys(record_keys_of(self._sampler, indices))

    def counted(
        self, keys: Int64Array, parts: Sequence[WholeSteps | StepReads]
    ) -> tuple[Int64Array, Int64Array]:
        """How often some of the steps read each key, and the last of them, -1 for none; each read is looked at."""
        reads = self._reads(np.unique(keys), parts)
        which, at = matches(keys, self.keys_at(reads.indices))
        last = np.full(keys.shape, -1)
        np.maximum.at(last, which, reads.steps[at])
        return np.bincount(which, minlength=len(keys)), last

    def pieces_of(self, keys: Int64Array, parts: Sequence[WholeSteps | StepReads]) -> Documents:
        """What some of the steps read of the records with keys."""
        return self._documents(self._reads(np.unique(keys), parts))

    def changed_keys(self, parts: Sequence[WholeSteps | StepReads]) -> Int64Array:
        """The keys that steps at the end of the stream read, and those that bad records changed; sorted."""
        ends = [part.indices for part in parts if isinstance(part, StepReads)]
        planned = self.plan.plain_keys(record_keys_of(self.plan.sampler, self._lost))
        return np.unique(np.concatenate([planned, self.keys_at(np.concatenate([self._lost, *ends]))]))

    def _blocks(self, steps: int | range) -> Iterator[StepReads]:
        if not isinstance(steps, range):
            start = at_least("step", steps, 0)
            steps = range(start, start + 1)
        if steps.step != 1 or steps.start < 0:
            raise ValueError(f"step: expected a step, or a range of steps one behind the other, got {steps}")
        for part in self.plan.reads(self._position, steps.start, steps.stop):
            yield from part.blocks(_BLOCK)

    def _reads(self, keys: Int64Array, parts: Sequence[WholeSteps | StepReads]) -> StepReads:
        """Where some of the steps read keys, which are sorted and distinct; by steps and rows."""
        spans = [part.span for part in parts if isinstance(part, WholeSteps)]
        indices = self._lost[:0]
        if spans:
            low, high = min(start for start, _ in spans), max(stop for _, stop in spans)
            _, indices = indices_of(self.plan.sampler, keys, low, high)
            lost = self._lost[np.isin(self.keys_at(self._lost), keys)]
            indices = np.union1d(np.setdiff1d(indices, self._lost), lost)
        found = []
        for part in parts:
            here = indices
            if isinstance(part, StepReads):
                here = part.indices[np.isin(self.keys_at(part.indices), keys)]
            found.append(part.of_indices(here))
        return StepReads(*map(np.concatenate, zip(_NO_READS, *found)))

    # --- documents --------------------------------------------------------------------------------------------------

    def _documents(self, reads: StepReads) -> Documents:
        found = origins_of(self.source, record_keys_of(self._sampler, reads.indices))
        firsts = np.searchsorted(found.which, np.arange(len(reads.indices)))
        pieces = np.arange(len(found.which)) - firsts[found.which]
        which, epochs = found.which, epochs_of(self.plan.sampler, reads.indices)
        columns: list[Any] = [reads.steps[which], reads.rows[which], pieces, *found[1:], epochs[which]]
        return Documents(*columns)

    def _corpus(self, name: str | None) -> Corpus:
        corpora = corpora_of(self.source)
        known = [each for each in corpora if each.name == name or (name is None and len(corpora) == 1)]
        if not known:
            names = [each.name for each in corpora]
            raise ValueError(f"corpus: expected one of {_short(names)}, got {name!r}")
        return known[0]

    def _called(self, corpus: Corpus, id_: Any) -> Int64Array:
        """The documents of a corpus that have an id: a pass over all records."""
        found: set[int] = set()
        for low in range(0, len(self.source), _BLOCK):
            origins = origins_of(self.source, np.arange(low, min(low + _BLOCK, len(self.source))))
            here = origins.corpora == corpus.name
            if here.any() and all(each is None for each in origins.ids[here].tolist()):
                raise LookupError(
                    "id: expected a source that says ids of its documents, such as token files with a column 'id', "
                    "got one without; give key=, the number of the document"
                )
            found.update(origins.documents[here & (origins.ids == id_)].tolist())
        if not found:
            raise LookupError(f"id: expected one that a document of the source has, got {id_!r}; give key=")
        return np.array(sorted(found), np.int64)


class _Counter:
    """How often steps read documents, by arithmetic; and where that needs a look at each index, by one pass.

    Args:
        lineage: of the stream.
        parts: the steps.
    """

    def __init__(self, lineage: Lineage, parts: Sequence[WholeSteps | StepReads]) -> None:
        self._lineage, self._parts, self._source = lineage, parts, lineage.source
        self._sampler = sampler = lineage.plan.sampler
        whole = [part for part in parts if isinstance(part, WholeSteps)]
        self._passed: tuple[Int64Array, Int64Array] | None = None
        if any(part.shaped is not None for part in whole) or not finds_keys(sampler):
            self._passed = self._pass()
            return
        self._spans: list[tuple[int, int]] = []
        for start, stop in (part.span for part in whole):
            if self._spans and self._spans[-1][1] == start:
                start = self._spans.pop()[0]
            self._spans.append((start, stop))
        numbers = [(part.index, part.step, part.stride) for part in whole] or [(0, 0, 1)]
        self._firsts, self._steps, self._strides = np.array(numbers, np.int64).T
        self._changed = lineage.changed_keys(parts)

    def of_documents(self, corpus: Corpus, documents: Int64Array) -> list[Int64Array]:
        """How often pieces of each were read, how many pieces it has, and the last step that read one, -1 for none."""
        which, keys = records_with(self._source, documents, corpus.name)
        pieces = np.bincount(which, minlength=len(documents))
        if isinstance(self._source, StagedDataSource):  # a row that was read may lack the document
            found = self._lineage.pieces_of(keys, self._parts)
            found = found.take((found.corpus == corpus.name) & np.isin(found.document, documents))
            at, latest = found.document - documents[0], np.full(len(documents), -1)
            np.maximum.at(latest, at, found.step)
            return [np.bincount(at, minlength=len(documents)), pieces, latest]
        if np.array_equal(which, np.arange(len(documents))):
            counts, last = self._of_keys(keys)
            return [counts, pieces, last]
        # Pieces of one row follow each other: it is looked at once.
        others = np.diff(keys, prepend=-1) != 0
        counts, last = (values[np.cumsum(others) - 1] for values in self._of_keys(keys[others]))
        read, latest = np.zeros(len(documents), np.int64), np.full(len(documents), -1)
        np.add.at(read, which, counts)
        np.maximum.at(latest, which, last)
        return [read, pieces, latest]

    def _of_keys(self, keys: Int64Array) -> tuple[Int64Array, Int64Array]:
        if self._passed is not None:
            counts, last = self._passed
            return counts[keys], last[keys]
        counts, indices = reads_of(self._sampler, keys, self._spans)
        at: Any = 0 if len(self._firsts) == 1 else np.searchsorted(self._firsts, indices, "right") - 1
        last = np.where(indices < 0, -1, self._steps[at] + (indices - self._firsts[at]) // self._strides[at])
        if self._changed.size:
            changed = np.flatnonzero(np.isin(keys, self._changed))
            counts[changed], last[changed] = self._lineage.counted(keys[changed], self._parts)
        return counts, last

    def _pass(self) -> tuple[Int64Array, Int64Array]:
        records = len(self._source)
        counts, last = np.zeros(records, np.int64), np.full(records, -1)
        for part in self._parts:
            for reads in part.blocks(_BLOCK):
                keys = self._lineage.keys_at(reads.indices)
                np.add.at(counts, keys, 1)
                np.maximum.at(last, keys, reads.steps)
        return counts, last


@contextmanager
def _table(path: str, records: int) -> Iterator[Callable[..., None]]:
    """Writes counts and last steps of documents, some at a time, to a file that is there whole or not at all."""
    if path.endswith(".parquet"):
        pa = library("pyarrow", "a .parquet file needs", "parquet")
        pq = library("pyarrow.parquet", "a .parquet file needs", "parquet")
        kinds = {"corpus": pa.string(), "document": pa.int64()} | {
            name: pa.from_numpy_dtype(kind) for name, kind in _COUNTED.items()
        }
        with partial_file(path) as partial, pq.ParquetWriter(partial, pa.schema(kinds)) as writer:
            yield lambda name, documents, *counted: writer.write_table(
                pa.table([[name] * len(documents), documents, *counted], schema=pa.schema(kinds))
            )
        return
    if not path.endswith(".npy"):
        raise ValueError(f"path: expected a name that ends in .npy or .parquet, got {path!r}")
    kind = np.dtype([*_COUNTED.items()])
    with whole_file(path) as file:
        head = {"descr": kind.descr, "fortran_order": False, "shape": (records,)}
        np.lib.format.write_array_header_1_0(file, head)

        def write(name: str | None, documents: Int64Array, *counted: Int64Array) -> None:
            rows = np.empty(len(documents), kind)
            for column, values in zip(_COUNTED, counted, strict=True):
                rows[column] = values
            file.write(rows.tobytes())

        yield write
