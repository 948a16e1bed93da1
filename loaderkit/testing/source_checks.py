"""Whether a data source keeps what loaderkit relies on: single reads, and reads in other threads and processes."""

from collections.abc import Callable, Collection
from functools import cached_property, partial
from typing import Any

import numpy as np

from loaderkit._base.notes import text_of
from loaderkit._base.numbers import at_least
from loaderkit._base.tree import flatten, paths
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.protocol import read_record
from loaderkit.sources.checked import check_source as refuse_text
from loaderkit.sources.checked import require_methods

from .conformance import Checks, ConformanceReport, Mismatch, Skip, expect, expect_same, run_checks
from .snapshot import snapshot_of
from .source_method_checks import METHOD_CHECKS
from .source_samples import SourceSamples, as_python, expect_error
from .workers import in_another_process, in_threads, pickled_copy

_READ_CHECKS = Checks[SourceSamples]()
_COPY_CHECKS = Checks[SourceSamples]()


def check_source(
    source: Any, *, records: int = 16, skip: Collection[str] = (), progress: bool | None = None
) -> ConformanceReport:
    """Reads some records in several ways and asks for all else that a source may offer: each answer must be the same.

    Args:
        source: what is to be a DataLoader's data_source, or a function that makes it: then one that another process
            makes is compared as well. TypeError for what can't be a source, such as a path.
        records: how many to read, at least 2: the first, the last and others, the same ones in each call.
        skip: names of checks to leave out, such as "threads" for a source that no threads share.
        progress: whether a line on stderr says how far it is; None where that is a terminal.

    Returns what was checked, and what wasn't and why. ConformanceError, an AssertionError, for the first that fails.
    The source is pickled, read in threads, and sent to a worker process that is started for it; it isn't closed.

    >>> class Reader:
    ...     def __init__(self):
    ...         self.reads = 0
    ...
    ...     def __len__(self):
    ...         return 100
    ...
    ...     def __getitem__(self, record_key):
    ...         self.reads += 1
    ...         return {"key": record_key, "reads": self.reads}
    >>> try:
    ...     check_source(Reader(), records=2)
    ... except AssertionError as error:
    ...     print(error.check, "-", str(error).partition(": expected ")[2].partition(". ")[0])
    read again - leaf ['reads'] of record_key 0 to be 1 when it is read again, got 3
    """
    make = None
    if callable(source) and not isinstance(source, type) and not hasattr(source, "__getitem__"):
        make, source = source, source()
    if isinstance(source, str | bytes):
        refuse_text(source)
    source = require_methods(source, argument="source")
    samples = SourceSamples(source, at_least("records", records, 2), make)
    checks = [*_READ_CHECKS, *METHOD_CHECKS, *_COPY_CHECKS]
    return run_checks(checks, samples, name="check_source", skip=skip, progress=progress)


# --- single reads ----------------------------------------------------------------------------------------------------


@_READ_CHECKS("length")
def _length(samples: SourceSamples) -> None:
    """len(source) is the same int again

    Count the records once, when the source is made: a loader plans a run by their number.
    """
    length, again = samples.length, len(samples.source)
    expect(again == length, f"len(source) to be {length} again", str(again))


@_READ_CHECKS("records")
def _records(samples: SourceSamples) -> None:
    """the first record, the last one and others between them can be read

    A source reads every record from 0 to len(source) - 1; on_record_error of a loader is for records that are bad.
    """
    assert samples.expected


@_READ_CHECKS("read again")
def _read_again(samples: SourceSamples) -> None:
    """a record that is read again is the same

    A record has to be a function of its key: no counter, no clock, no random number.
    """
    for key in samples.keys:
        for _ in range(2):  # after others, and after itself
            samples.compare(key, samples.read(key), "when it is read again")


@_READ_CHECKS("another order")
def _another_order(samples: SourceSamples) -> None:
    """records are the same in another order

    A record has to be a function of its key, not of what was read before: seek before each read.
    """
    for key in reversed(samples.keys):
        samples.compare(key, samples.read(key), "when the keys are read in another order")


@_READ_CHECKS("kept records")
def _kept_records(samples: SourceSamples) -> None:
    """a record stays as it was when others are read

    Give each record arrays of its own: a batch is made of records that were read one after the other.
    """
    if len(samples.keys) < 2:
        raise Skip("the source has only one record")
    held = [(key, read_record(samples.source, key)) for key in samples.keys]
    for key, record in held:
        samples.compare(key, snapshot_of(record), "after other records were read")


@_READ_CHECKS("shared arrays")
def _shared_arrays(samples: SourceSamples) -> None:
    """no numpy array that can be written to is handed out twice

    Give a copy, or a view after view.flags.writeable = False: an operation that writes into it would change the
    source for the next reader.
    """
    for key in samples.keys:
        one, structure = flatten(read_record(samples.source, key))
        two, _ = flatten(read_record(samples.source, key))
        for path, leaf, other in zip(paths(structure), one, two, strict=True):
            arrays = isinstance(leaf, np.ndarray) and isinstance(other, np.ndarray)
            if arrays and leaf.flags.writeable and np.may_share_memory(leaf, other):
                raise Mismatch(
                    f"an array of its own at {path or 'record'} of record_key {key}, or one that can't be written to",
                    "one in memory that the next reader of the record gets, too",
                )


@_READ_CHECKS("beyond the end")
def _beyond_the_end(samples: SourceSamples) -> None:
    """a key beyond the end is an error

    Raise IndexError from len(source) on, at which list(source) ends: a wrong key mustn't read another record.
    """
    for key in (samples.length, samples.length + 7):
        expect_error(key, partial(read_record, samples.source, key))


@_READ_CHECKS("negative keys")
def _negative_keys(samples: SourceSamples) -> None:
    """record_key -1 is the last record, or an error

    A loader asks for no key below 0: raise IndexError, or count from the end as a list does.
    """
    last = samples.keys[1:2] or samples.keys
    _same_or_error(samples, last[0], -1, "with the key -1")


@_READ_CHECKS("numpy keys")
def _numpy_keys(samples: SourceSamples) -> None:
    """a numpy integer reads the same record, or is an error

    A loader asks with Python ints; operator.index(record_key) makes one of either.
    """
    for key in samples.keys:
        _same_or_error(samples, key, np.int64(key), f"with the key np.int64({key})")


def _same_or_error(samples: SourceSamples, key: int, asked: Any, when: str) -> None:
    try:
        got = samples.read(asked)
    except Exception:  # noqa: BLE001 - a refusal is right, whatever its type
        return
    expect_same(as_python(samples.expected[key]), as_python(got), f"record_key {key}", when)


@_READ_CHECKS("threads")
def _threads(samples: SourceSamples) -> None:
    """records are the same when several threads read at once

    Threads read with worker_kind='thread' and ReadOptions(num_threads=...): keep no place in a file on self from one
    line of a read to the next, use os.pread or a lock. Where no threads share the source: skip=['threads'].
    """
    for key, got in in_threads(samples.read, samples.keys, "record_key"):
        samples.compare(key, got, "when several threads read at once")


# --- in other processes ----------------------------------------------------------------------------------------------


@_COPY_CHECKS("pickled copy")
def _pickled_copy(samples: SourceSamples) -> None:
    """a pickled copy has the same length, records and fingerprint

    Worker processes get a pickled copy: leave open files, locks and connections out of __getstate__ and open them
    when they are first needed. Where no worker process is used: skip=['pickled copy', 'another process'].
    """
    copy = samples.pickled()
    expect(len(copy) == samples.length, f"{samples.length} records of a pickled copy", str(len(copy)))
    for key in samples.keys:
        samples.compare(key, snapshot_of(read_record(copy, key)), "from a pickled copy")
    samples.fingerprint_again(copy, "of a pickled copy")


@_COPY_CHECKS("close")
def _closing(samples: SourceSamples) -> None:
    """a copy can be read within its with block and closed twice, and the source goes on

    Let close() do nothing the second time, and close nothing that another copy uses.
    """
    closes = callable(getattr(samples.source, "close", None))
    enters = hasattr(type(samples.source), "__exit__")
    if not closes and not enters:
        raise Skip("the source has no close() and is no context manager")
    copy, key = samples.copy, samples.keys[0]
    if enters:
        with copy as opened:
            samples.compare(key, snapshot_of(read_record(opened, key)), "within the with block of a copy")
    if closes:
        copy.close()
        copy.close()
    samples.compare(key, samples.read(key), "after a pickled copy was closed")


@_COPY_CHECKS("another process")
def _another_process(samples: SourceSamples) -> None:
    """a worker process reads the same records and fingerprint

    A record must not depend on the process: no hash() of a str, no order of a set (sort it), no id(), no os.getpid(),
    no environment that only the trainer has.
    """
    keys = samples.keys[::-1]
    assert samples.copy is not None  # or the check is skipped
    expected = []
    for key in keys:
        try:
            record, _ = pickled_copy(read_record(samples.source, key))
        except Exception as error:
            raise Skip(f"record_key {key} can't be sent back to be compared ({text_of(error)})") from error
        expected.append(snapshot_of(record))
    jobs: dict[str, Any] = {"in a worker process": partial(_read_there, samples.source, keys)}
    if samples.make is not None:
        jobs["of a source that another process made"] = partial(_read_made, _Made(samples.make), keys)
    for when, job in jobs.items():
        *records, said = in_another_process(job, len(keys) + 1)
        for key, before, record in zip(keys, expected, records, strict=True):
            expect_same(before, snapshot_of(record), f"record_key {key}", when)
        samples.compare_fingerprint(said["fingerprint"], when, of_copy=True)


class _Made:
    """A source that is made where it is first asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def source(self) -> Any:
        return require_methods(self._make(), argument="source")


def _read_made(made: _Made, keys: list[int], place: int) -> Any:
    return _read_there(made.source, keys, place)


def _read_there(source: Any, keys: list[int], place: int) -> Any:
    """Runs in the worker: a record for each key, and the fingerprint after the last."""
    if place < len(keys):
        return read_record(source, keys[place])
    return {"fingerprint": fingerprint_of(source)}


@_COPY_CHECKS("unchanged by reading")
def _unchanged(samples: SourceSamples) -> None:
    """length and fingerprint are what they were before all these reads

    Let reading change nothing that the source says of itself.
    """
    length = len(samples.source)
    expect(length == samples.length, f"{samples.length} records after all these reads", str(length))
    samples.fingerprint_again(samples.source, "after all these reads")
