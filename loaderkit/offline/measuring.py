"""`lk.offline.measure`: a value for each record of a source, computed once and kept in an array file; and `filtered`.

A DataLoader reads the records. What it has given is kept in the folder PATH.partial, with the loader's state, so that a
measurement that was killed goes on where it was.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.canonical_json import canonical
from loaderkit._base.system.made_folder import Made, delete_finished_work, unfinished_folder
from loaderkit._base.system.progress_bar import progress_bar
from loaderkit._base.system.resume import goes_on_from
from loaderkit._base.system.waited_lock import locked_folder
from loaderkit._loader.loader import DataLoader
from loaderkit._loader.one_pass import one_pass
from loaderkit._runtime.worker.bad_record_handler import OnRecordError
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._source.content import sampled_keys
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.naming import namer_of
from loaderkit._source.protocol import read_record
from loaderkit.errors import CheckpointMismatchError, StateError
from loaderkit.formats._writing.run_jobs import made_of
from loaderkit.sources.checked import check_source
from loaderkit.sources.subset import SubsetDataSource
from loaderkit.transforms.base import Batch, Map
from loaderkit.transforms.parameters import parameters_of

from .array_file import check_of_source, open_array
from .measured_values import MeasuredValues, rows_as_column
from .partial_array import OURS, PartialArray

_log = logging.getLogger("loaderkit")

BATCH = 256  # records of an element of the loader: more costs less for each record, less loses less in a kill
# Seconds between two saves of the progress: a kill loses so much, and each save waits for the disk.
SAVED_EVERY = 1.0
_ADVICE = "Delete it to measure again, or give another path"
CHECKED_RECORDS = 3  # of a file that is there, that are measured again


def measure(
    source: Any,
    fn: Callable[[Any], Any],
    path: str | os.PathLike[str],
    *,
    worker_count: int | None = 0,
    worker_kind: str = "process",
    read_options: ReadOptions | None = None,
    on_record_error: OnRecordError = "raise",
    version: str | int | None = None,
    allow: Collection[str] = (),
) -> NDArray[Any]:
    """A value for each record, as a mapped array (records,): from the file where it is there, else it is made.

    For lengths, which `plan_packing` takes, labels, or flags that say which records to keep. A run that was killed goes
    on when the same is asked for again. A progress bar is shown on a terminal where rich is installed.

    Args:
        source: any data source.
        fn: takes a record, gives a number, a bool or a label (a text of which there are few different ones). All
            values have one type; numbers keep their dtype, labels are numbered (int32), and
            `lk.offline.read_labels(path)` gives them. TypeError naming the record otherwise.
        path: of the array file. Where it is there, its values are returned, after some records were measured again;
            ValueError where it is of another source or function.
        worker_count, worker_kind, read_options: as DataLoader takes them.
        on_record_error: "raise", or a function of the error and the RecordMetadata that gives the value.
        version: of the function, which isn't compared then with that of a run that was killed; another begins again.
        allow: of "source", "function", "tokenizer" and "libraries" what may differ from that run.

    >>> import tempfile
    >>> import loaderkit as lk
    >>> texts = ["to be", "or", "not to be"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lengths = lk.offline.measure(texts, lambda text: len(text.split()), f"{folder}/lengths.npy")
    >>> lengths.tolist()
    [2, 1, 3]
    """
    source = check_source(source, "source")
    if not callable(fn):
        raise TypeError(f"fn: expected a function of a record, got {fn!r:.80}")
    if on_record_error != "raise" and not callable(on_record_error):
        raise ValueError(
            f"on_record_error: expected 'raise' or a function that gives the value, got {on_record_error!r:.80}; an "
            "array file has a value for each record"
        )
    function = Map(fn)
    function._may_give_none = True  # the error of its value names the record
    loader = one_pass(
        source,
        [function, Batch(BATCH, batch_fn=rows_as_column)],
        worker_count=worker_count,
        worker_kind=worker_kind,
        read_options=read_options,
        on_record_error=on_record_error,
    )
    target = os.path.abspath(path)
    asked = made_of(source, {"function": fn}, version=version, writer=1, arguments={})
    measured = _Measured(source, fn, asked, allow)
    if not os.path.lexists(target):
        with locked_folder(f"{target}.partial"):
            if not os.path.lexists(target):  # else another process has just finished
                with unfinished_folder(f"{target}.partial", Made(asked, OURS), allow=allow):
                    measured.make(loader, f"{target}.partial", target)
                return open_array(target)[0]
    delete_finished_work(f"{target}.partial")
    return measured.read(target)


def filtered(
    source: Any,
    predicate: Callable[[Any], bool],
    path: str | os.PathLike[str],
    *,
    worker_count: int | None = 0,
    worker_kind: str = "process",
    read_options: ReadOptions | None = None,
) -> SubsetDataSource:
    """The records of a source that a function keeps: a source with a length, which is shuffled and resumed as any.

    The function is called once for each record; its answers are kept in a file, by `lk.offline.measure`, and used
    again. A run that was killed goes on. `lk.Filter` among the operations needs no pass ahead, but reads each record in
    every epoch.

    Args:
        source: any data source.
        predicate: takes a record, gives True for those that are kept; TypeError for another type.
        path: of the file of answers, such as "cats.npy". ValueError where it is of another source or function.
        worker_count, worker_kind, read_options: as DataLoader takes them, for the first pass.

    Raises ValueError where no record is kept.

    >>> import tempfile
    >>> texts = ["a cat", "a dog", "two cats"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cats = filtered(texts, lambda text: "cat" in text, f"{folder}/cats.npy")
    >>> len(cats), cats[1]
    (2, 'two cats')
    """
    if not callable(predicate):
        raise TypeError(f"predicate: expected a function of a record, got {predicate!r:.80}")
    kept = measure(
        source, predicate, path, worker_count=worker_count, worker_kind=worker_kind, read_options=read_options
    )
    if kept.dtype != np.bool_:
        raise TypeError(
            f"predicate: expected True or False for each record, got values of {kept.dtype}; for numbers or labels use "
            f"lk.offline.measure and SubsetDataSource(source, np.flatnonzero(condition)), and delete {os.fspath(path)}"
        )
    keys = np.flatnonzero(kept)
    if not len(keys):
        raise ValueError(f"predicate: expected one record or more to be kept of {len(kept)}, got none")
    return SubsetDataSource(source, keys)


class _Measured:
    """The values of a function for the records of a source.

    Args:
        source, fn, allow: as `measure` takes them.
        asked: what the values are made of.
    """

    def __init__(
        self, source: Any, fn: Callable[[Any], Any], asked: dict[str, Any], allow: Collection[str]
    ) -> None:
        self._source, self._fn, self._asked, self._allow = source, fn, asked, allow
        self._name = namer_of(source)
        entry = parameters_of([Map(fn)])[0]
        self._function = entry["name"] + (
            f" {canonical(entry['parameters'])}" if "parameters" in entry else ""
        )

    def read(self, target: str) -> NDArray[Any]:
        """The values of a file that is there."""
        array, trailer = open_array(target)
        check_of_source(target, trailer.source, len(array), self._source)
        if trailer.function != self._function and "function" not in self._allow:
            raise ValueError(
                f"{target}: expected values of {self._function}, got those of {trailer.function}. {_ADVICE}"
            )
        self._check_values(target, array, trailer.labels)
        if trailer.made is not None:
            # Its code alone: what it uses may change while it runs, as a counter does.
            there, here = ({"function": _of_code(each["function"])} for each in (trailer.made, self._asked))
            if not goes_on_from(there, here, folder=target, allow=self._allow):
                raise ValueError(f"{target}: expected values of {here}, got those of {there}. {_ADVICE}")
        return array

    def make(self, loader: DataLoader[Any], folder: str, target: str) -> None:
        """Makes the file, or what is left of it.

        Args:
            loader: gives the values of all records in order.
            folder: of the unfinished file.
            target: the file's name.
        """
        records = len(self._source)
        with closing(PartialArray(folder, records)) as partial, loader, iter(loader) as batches:
            self._check_values(folder, partial.values(), partial.progress.labels)
            if partial.done:
                try:
                    # Both were compared: the parameters are the function's.
                    batches.set_state(partial.progress.state.encode(), allow={"parameters", "source"})
                except (CheckpointMismatchError, StateError) as error:
                    _log.warning("measuring from the beginning: %s is of another version: %s", folder, error)
                    partial.clear()
            progress = partial.progress
            dtype = None if progress.dtype is None else np.dtype(progress.dtype)
            values = MeasuredValues(self._describe, dtype, progress.labels)
            saved = time.monotonic()
            with progress_bar("records", records, partial.done) as advance:
                while partial.done < records:
                    try:
                        batch = next(batches)
                    except BaseException:  # a bad record, or Ctrl-C: what was measured before is kept
                        partial.save(values.dtype, values.labels, batches.get_state())
                        raise
                    partial.append(values.array(batch, partial.done))
                    advance(len(batch))
                    if time.monotonic() - saved >= SAVED_EVERY or partial.done == records:
                        partial.save(values.dtype, values.labels, batches.get_state())
                        saved = time.monotonic()
            told = {"function": self._function, "source": fingerprint_of(self._source)}
            partial.finish(target, made=self._asked, **told)

    def _check_values(self, path: str, values: NDArray[Any], labels: list[str] | None) -> None:
        """ValueError where a file is of a function that gives other values for some records.

        Two lambdas have the same name, and a function may have been changed since.
        """
        for key in sampled_keys(len(values), most=CHECKED_RECORDS):
            try:
                now = self._fn(read_record(self._source, key))
            except Exception:  # noqa: BLE001 - a bad record, which on_record_error gave a value
                continue
            was = values[key].item() if labels is None else labels[values[key]]
            if not _same(was, now):
                raise ValueError(
                    f"{path}: expected values of {self._function}, got those of another function of this name: it "
                    f"gives {now!r:.80} for {self._describe(key)}, where the file has {was!r:.80}. {_ADVICE}"
                )

    def _describe(self, record_key: int) -> str:
        name = self._name(record_key)
        return f"record_key {record_key}" + ("" if name is None else f" ({name})")


def _of_code(function: dict[str, Any]) -> dict[str, Any]:
    return {name: function[name] for name in ("code", "version") if name in function}


def _same(was: Any, now: Any) -> bool:
    # Another machine may round sums of floats in another way.
    if isinstance(was, float):
        return bool(np.isclose(was, now, rtol=1e-5, atol=1e-8, equal_nan=True))
    return bool(was == now)
