"""OUT: records written to a file or to stdout, which commands that make data files share."""

import argparse
import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._loader.loader import DataLoader
from loaderkit.errors import DataFormatError
from loaderkit.samplers import IndexSampler, SequentialSampler
from loaderkit.writing.tar import TarWriting
from loaderkit.writing.write_format import RecordEncoder, ShardWriter, WriteFormat

from .data_format import format_by_name
from .exit_status import UsageError
from .open_source import PIPE, OpenedSource, shown_name
from .output import Output
from .printable import counted, size_text

WRITTEN: dict[str, Callable[[], WriteFormat]] = {"tar": TarWriting}
STREAMED = frozenset(("tar",))  # formats whose writers only append, so that a pipe can take them
READ_TOGETHER = 256  # records of one read at most; fewer cost more of Python for each


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """-o, --to and --overwrite."""
    parser.add_argument(
        "-o", "--output", metavar="OUT", required=True, help="the new file; - writes to stdout"
    )
    parser.add_argument(
        "--to",
        choices=sorted(WRITTEN),
        metavar="FORMAT",
        help="of the file (default: as its name says; of stdout tar)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a file of that name")


def add_processes_argument(parser: argparse.ArgumentParser) -> None:
    """-p: workers that read and encode."""
    parser.add_argument(
        "-p",
        "--processes",
        type=int,
        default=0,
        metavar="N",
        help="worker processes that read and encode (default: 0)",
    )


def write_format(name: str, to: str | None) -> WriteFormat:
    """The format of a new file; UsageError for one that can't be written.

    name: of the file, or "-". to: what --to says.

    >>> write_format("x.tar", None).name, write_format("-", None).name
    ('tar', 'tar')
    """
    said = to or ("tar" if name == PIPE else format_by_name(name))
    if said not in WRITTEN:
        raise UsageError(
            f"--output: expected a name that ends with .{', .'.join(sorted(WRITTEN))}, got {name}; or give --to"
        )
    return WRITTEN[said]()


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What was written: records and bytes."""

    records: int
    nbytes: int


def write_file(
    path: str, records: Iterable[Any], form: WriteFormat, *, overwrite: bool = False
) -> WrittenFile:
    """Writes records in order into one file, which is there when all are in it, or to stdout.

    path: of the file, "-" for stdout. records: of any number, each like the first. form: of the file. overwrite:
    whether a file of that name is replaced; else it is a UsageError. DataFormatError for a record that the format can't
    hold or that can't be read; UsageError without any record.
    """
    left = iter(records)
    check_new(path, overwrite=overwrite)
    with _data_errors():
        first = next(left, _NOTHING)
        if first is _NOTHING:
            raise UsageError(f"--output: expected a record or more for {path}, got none")
        encoder = form.encoder(first)
        return _write(path, form, encoder, _encoded(itertools.chain([first], left), encoder))


def write_source(
    path: str, source: Any, form: WriteFormat, out: Output, *, overwrite: bool = False, worker_count: int = 0
) -> WrittenFile:
    """`write_file` of a data source with a progress bar.

    source: of one record or more. out: shows the bar. worker_count: processes that read and encode the records; the
    file is the same for any number.
    """
    check_new(path, overwrite=overwrite)
    with _data_errors(), out.progress("records", len(source)) as advance:
        encoder = form.encoder(source[0])
        encoded = (
            _encoded(in_order(source), encoder)
            if worker_count == 0
            else _by_workers(EncodedSource(source, encoder), worker_count)
        )
        return _write(path, form, encoder, _counted(encoded, advance))


class EncodedSource:
    """A data source of the encoded records of another.

    source: gives the records. encoder: encodes them by their numbers.
    """

    def __init__(self, source: Any, encoder: RecordEncoder) -> None:
        self._source, self._encoder = source, encoder

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, record_key: int) -> Any:
        return self._encoder.encode(self._source[record_key], int(record_key))


def in_order(source: Any) -> Iterator[Any]:
    """The records of a source, some MiB in memory at a time."""
    together = max(1, min(READ_TOGETHER, getattr(source, "chunk_records", None) or 16))
    many = getattr(source, "__getitems__", None)
    for begin in range(0, len(source), together):
        keys = range(begin, min(begin + together, len(source)))
        yield from many(np.array(keys)) if many is not None else map(source.__getitem__, keys)


def shuffled_keys(total: int, seed: int) -> NDArray[np.int64]:
    """(total,) int64: the keys in the order of `lk.IndexSampler` with this seed; UsageError for another seed."""
    if not 0 <= seed < 1 << 64:
        raise UsageError(f"--shuffle: expected a seed in [0, 2**64), got {seed}")
    sampler = IndexSampler(total, shuffle=True, seed=seed, num_epochs=1)
    return np.asarray(sampler.record_keys(range(total)), np.int64)


def check_new(path: str, *, overwrite: bool) -> None:
    """UsageError where a file can't get this name."""
    if path == PIPE:
        return
    if os.path.isdir(path):
        raise UsageError(f"--output: expected the name of a file, got the folder {shown_name(path)}")
    if os.path.lexists(path) and not overwrite:
        raise UsageError(
            f"--output: expected a new file, got {shown_name(path)}, which is there; give another name, or --overwrite"
        )


def report_written(out: Output, path: str, form: WriteFormat, written: WrittenFile) -> None:
    """Prints what was written, to stderr where stdout has the data."""
    if path == PIPE:
        return
    out.document({"output": path, "format": form.name, "records": written.records, "bytes": written.nbytes})
    out.text(f"{path}: {counted(written.records, 'record')}, {size_text(written.nbytes)}")


def check_pipe(options: argparse.Namespace) -> None:
    """UsageError where stdout would have both the data and a JSON document."""
    if options.output == PIPE and options.json:
        raise UsageError("--json: expected -o with the name of a file, got -, where stdout has the data")


@contextlib.contextmanager
def partial_file(path: str) -> Iterator[str]:
    """The name of an unfinished file; it gets its own when the block ends, and is deleted where that is by an error."""
    partial = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.partial"
    try:
        yield partial
        descriptor = os.open(partial, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)


_NOTHING = object()


def _write(path: str, form: WriteFormat, encoder: RecordEncoder, encoded: Iterable[Any]) -> WrittenFile:
    if path != PIPE:
        with partial_file(path) as partial:
            return _fill(form.open(partial, encoder), encoded)
    if form.name not in STREAMED:
        raise UsageError(f"--output: expected the name of a file for {form.name}, got -")
    sys.stdout.flush()
    return _fill(form.open(f"/dev/fd/{sys.stdout.fileno()}", encoder), encoded)


def _fill(writer: ShardWriter, encoded: Iterable[Any]) -> WrittenFile:
    count = 0
    try:
        for each in encoded:
            writer.add(each)
            count += 1
        writer.close()
    except BaseException:
        writer.abandon()
        raise
    return WrittenFile(count, writer.nbytes)


def _encoded(records: Iterable[Any], encoder: RecordEncoder) -> Iterator[Any]:
    for number, record in enumerate(records):
        try:
            encoded = encoder.encode(record, number)
        except (ValueError, TypeError) as error:
            raise DataFormatError(f"record {number}: {error}") from error
        yield encoded


def _by_workers(source: EncodedSource, worker_count: int) -> Iterator[Any]:
    loader: DataLoader[Any] = DataLoader(
        data_source=source,
        sampler=SequentialSampler(len(source)),
        operations=[],
        worker_count=worker_count,
    )
    with iter(loader) as found:
        yield from found


def _counted(encoded: Iterable[Any], advance: Callable[[int], None]) -> Iterator[Any]:
    for each in encoded:
        yield each
        advance(1)


@contextlib.contextmanager
def _data_errors() -> Iterator[None]:
    """What a record can't be is an error of the data, with the status for it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise DataFormatError(str(error)) from error


def named_field(record: Any, name: str, opened: OpenedSource, key: int) -> Any:
    """The value of a field, or of a path into one such as "json.label"; UsageError where the record has none.

    record: of any type. name: of the field. opened, key: say which record it is.
    """
    found = field_value(record, name)
    if found is _NOTHING:
        has = ", ".join(map(str, record)) if isinstance(record, dict) else type(record).__name__
        raise UsageError(
            f"--field: expected a field of {opened.location(key)}, which has {has}, got {name!r}"
        )
    return found


def field_value(record: Any, name: str, missing: Any = _NOTHING) -> Any:
    """The value of a field: by its whole name, or by a path through JSON and dicts.

    >>> (
    ...     field_value({"json": b'{"a": {"b": 3}}', "seg.png": b"."}, "json.a.b"),
    ...     field_value({"seg.png": 1}, "seg.png"),
    ... )
    (3, 1)
    """
    if isinstance(record, dict) and name in record:
        return record[name]
    first, dot, rest = name.partition(".")
    while dot:
        if isinstance(record, dict) and first in record:
            return field_value(_parsed(record[first]), rest, missing)
        more, dot, rest = rest.partition(".")
        first = f"{first}.{more}"
    if name == "record" and not isinstance(record, dict):
        return record
    return missing


def _parsed(value: Any) -> Any:
    if isinstance(value, bytes | str):
        import json

        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value
