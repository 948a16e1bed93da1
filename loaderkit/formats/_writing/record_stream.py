"""Records one by one, and what the formats make of them."""

import itertools
from collections.abc import Iterable, Iterator
from operator import length_hint
from typing import Any, cast

from loaderkit._base.notes import annotate
from loaderkit._base.system.progress_bar import progress_bar
from loaderkit._runtime.worker.bad_record_handler import is_of_all
from loaderkit._source.naming import namer_of
from loaderkit._source.optional import many_reader
from loaderkit._source.protocol import read_record
from loaderkit._source.tables import library_names
from loaderkit.sources.checked import require_source

from .dropped import Dropped, dropped_record
from .write_format import RecordEncoder, RecordFiles, WriteFormat

# Records of one call of `__getitems__`: more take more memory, fewer take more calls.
_READ_AT_ONCE = 64


def source_or_none(records: Any, *, argument: str = "records") -> Any:
    """The records where they are a source; None for an iterable, and for a function that gives one.

    Args:
        records: TypeError for anything else, ValueError for an empty source.
        argument: named by these errors.

    >>> source_or_none(["a"]), source_or_none(iter("a"))
    (['a'], None)
    """
    # torch's IterableDataset, which WebDataset is one of, inherits a __getitem__ that raises.
    only_iterated = ("torch", "IterableDataset") in library_names(records) or (
        isinstance(records, Iterable) and not hasattr(type(records), "__len__")
    )
    if hasattr(type(records), "__getitem__") and not only_iterated:
        records = require_source(records, argument=argument)
        if len(records) == 0:
            raise ValueError(f"{argument}: expected one record or more, got none")
        return records
    if not (isinstance(records, Iterable) or callable(records)):
        raise TypeError(
            f"{argument}: expected a data source, an iterable or a function that gives one, got a "
            f"{type(records).__name__}"
        )
    return None


def record_stream(records: Any) -> Iterable[Any]:
    """The records of an iterable, or of what a function gives.

    TypeError where that is no iterable, ValueError for a loader without end.

    Args:
        records: what `source_or_none` gives None for.

    >>> list(record_stream(lambda: iter("ab")))
    ['a', 'b']
    """
    if isinstance(records, Iterable):
        length_hint(records)  # ValueError of a loader without end
        return records
    given = records()
    if not isinstance(given, Iterable) and not hasattr(type(given), "__getitem__"):
        raise TypeError(
            f"records: expected a function that gives an iterable, got one that gives a {type(given).__name__}"
        )
    length_hint(given)
    return cast(Iterable[Any], given)


def source_records(
    source: Any, dropped: Dropped, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, Any]]:
    """The number of each record of a source, and the record.

    Args:
        source: a data source.
        dropped: as `drop_or_raise` takes it, for reads that raise.
        start: the first number.
        stop: the number behind the last; None for all.

    >>> list(source_records("abc", None, 1))
    [(1, 'b'), (2, 'c')]
    """
    stop = len(source) if stop is None else stop
    read_many = many_reader(source)
    for begin in range(start, stop, _READ_AT_ONCE):
        keys = range(begin, min(begin + _READ_AT_ONCE, stop))
        if read_many is not None:
            try:
                found = list(zip(keys, read_many([*keys]), strict=True))
            except Exception:  # noqa: BLE001 - the records are read singly, so that the error names one
                found = None
            if found is not None:
                yield from found
                continue
        for key in keys:
            try:
                record = read_record(source, key)
            except Exception as error:  # noqa: BLE001 - the source's
                drop_or_raise(error, key, source, dropped)
                continue
            yield key, record


def drop_or_raise(error: Exception, key: int, source: Any, dropped: Dropped) -> None:
    """Adds a record to the list of those that are left out; raises the error, with the record's name, otherwise.

    Args:
        error: which reading the record, or a function on it, raised.
        key: of the record.
        source: that has it.
        dropped: the list; None where each error is raised. Those that aren't of one record always are: of a file that
            was changed all records would be left out.

    >>> dropped = []
    >>> drop_or_raise(ValueError("no picture"), 7, [], dropped)
    >>> dropped
    [{'record_key': 7, 'error': 'ValueError: no picture'}]
    """
    name = namer_of(source)(key)
    if dropped is None or is_of_all(error):
        annotate(error, f"record_key {key}" + ("" if name is None else f" ({name})"))
        raise error
    dropped.append(dropped_record(key, error, name))


def first_record(records: Iterable[Any]) -> tuple[Any, Iterator[Any]]:
    """The first record, and all of them again; ValueError where there is none.

    Args:
        records: in their order.

    >>> first, records = first_record(iter([1, 2]))
    >>> first, list(records)
    (1, [1, 2])
    """
    # Not iter(records): LitData's data set is its own iterator, and begins again wherever iter() is called on it.
    rest = (each for each in records)
    for one in rest:
        return one, itertools.chain([one], rest)
    raise ValueError("records: expected one or more, got none")


def files_for(writing: WriteFormat, records: Iterable[Any], drop: bool) -> tuple[RecordFiles, Iterator[Any]]:
    """Files for records like the first, or the first that the format can write; and all records again.

    Args:
        writing: the format.
        records: in their order.
        drop: whether records that can't be written are left out.
    """
    first, rest = first_record(records)
    if not drop:
        return _files(writing, first), rest
    seen = []
    for one in rest:
        seen.append(one)
        try:
            return _files(writing, one), itertools.chain(seen, rest)
        except (TypeError, ValueError):
            continue
    raise ValueError("records: expected one or more that can be written, got none")


def _files(writing: WriteFormat, first: Any) -> RecordFiles:
    _check_names(first, "record")
    return RecordFiles(writing, writing.encoder(first))


def _check_names(value: Any, path: str) -> None:
    """ValueError where a dict has the name "": some formats can't tell its fields from those around it."""
    if type(value) is dict:
        if "" in value:
            raise ValueError(f"{path}: expected names of fields, got ''; rename it by a Map")
        for name, each in value.items():
            _check_names(each, f"{path}[{name!r}]")
    elif type(value) in (list, tuple):
        for place, each in enumerate(value):
            _check_names(each, f"{path}[{place}]")


def encode(encoder: RecordEncoder, record: Any, number: int) -> Any:
    """The record as the encoder makes it; an error names the record by its number."""
    try:
        return encoder.encode(record, number)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"record {number}: {error}") from error


def encoded_records(records: Iterable[Any], encoder: RecordEncoder, dropped: Dropped) -> Iterator[Any]:
    """What the encoder makes of records, with a progress bar that counts them.

    Args:
        records: in the order of their numbers.
        encoder: of the format.
        dropped: gets the records that can't be encoded; None raises the error.
    """
    return encoded_each(_counted(records), encoder, dropped)


def _counted(records: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    with progress_bar("records", None) as advance:
        for numbered in enumerate(records):
            advance(1)
            yield numbered


def encoded_each(
    numbered: Iterable[tuple[int, Any]], encoder: RecordEncoder, dropped: Dropped, source: Any = None
) -> Iterator[Any]:
    """What the encoder makes of records with their numbers.

    Args:
        numbered: the records.
        encoder, dropped: as `encoded_records` takes them.
        source: names the records that are left out.
    """
    for number, record in numbered:
        try:
            one = encode(encoder, record, number)
        except (TypeError, ValueError) as error:
            if dropped is None:
                raise
            dropped.append(dropped_record(number, error, namer_of(source)(number)))
        else:
            yield one
