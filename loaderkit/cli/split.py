"""`loaderkit split`: the records of one or several files as files of like size."""

import argparse
import contextlib
import os
from collections.abc import Iterator
from typing import Any

from loaderkit.errors import DataFormatError
from loaderkit.writing.write_format import RecordEncoder, ShardWriter, WriteFormat

from .exit_status import ExitStatus, UsageError
from .open_source import add_source_arguments, open_source
from .output import Output, add_output_argument
from .printable import counted, size_text
from .write_output import WRITTEN, check_new, in_order, partial_file

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Write the records, in order, into files PREFIX-000000.tar, PREFIX-000001.tar, ... They get their names when "
        "all are whole."
    )
    add_source_arguments(parser)
    parser.add_argument("-n", "--number", type=int, metavar="N", help="of records in a file")
    parser.add_argument(
        "-s",
        "--size",
        metavar="BYTES",
        help="of a file at most, such as 256M or 1G; a larger record has its own file",
    )
    parser.add_argument("-o", "--output", metavar="PREFIX", required=True, help="what the names begin with")
    parser.add_argument("--max-shards", type=int, metavar="N", help="stop after this many files")
    parser.add_argument(
        "--to", choices=sorted(WRITTEN), default="tar", metavar="FORMAT", help="of the files (default: tar)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files of these names")
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Writes the files."""
    for name in ("number", "max_shards"):
        if (given := getattr(options, name)) is not None and given < 1:
            raise UsageError(f"--{name.replace('_', '-')}: expected 1 or more, got {given}")
    if options.number is None and options.size is None:
        raise UsageError("split: expected -n or -s, the records or the bytes of a file, got neither")
    most = None if options.size is None else bytes_of("--size", options.size)
    form = WRITTEN[options.to]()
    out = Output(as_json=options.json)
    with open_source(options) as opened, out.progress("records", len(opened)) as advance:
        if not len(opened):
            raise UsageError("SRC: expected a record or more, got none")
        shards = ShardFiles(options, form, most)
        with contextlib.ExitStack() as stack:
            shards.fill(in_order(opened.source), stack, advance)
    names, records, nbytes = shards.names, shards.records, shards.nbytes
    out.document({"outputs": names, "format": form.name, "records": records, "bytes": nbytes})
    for name, count, size in zip(names, records, nbytes):
        out.text(f"{name}: {counted(count, 'record')}, {size_text(size)}")
    return ExitStatus.DONE


class ShardFiles:
    """The files that are written: their names, records and bytes.

    options: of the command. form: of the files. most: bytes of a file, None for any number.
    """

    def __init__(self, options: argparse.Namespace, form: WriteFormat, most: int | None) -> None:
        self._options, self._form, self._most = options, form, most
        self.names: list[str] = []
        self.records: list[int] = []
        self.nbytes: list[int] = []
        self._writer: ShardWriter | None = None

    def fill(self, records: Iterator[Any], stack: contextlib.ExitStack, advance: Any) -> None:
        """Writes the records into files, whose names they get when the stack is closed."""
        encoder: RecordEncoder | None = None
        try:
            for number, record in enumerate(records):
                try:
                    encoder = encoder or self._form.encoder(record)
                    encoded = encoder.encode(record, number)
                except (ValueError, TypeError) as error:
                    raise DataFormatError(f"record {number}: {error}") from error
                if self._is_full(encoded):
                    self._end()
                    if len(self.names) == self._options.max_shards:
                        break
                if self._writer is None:
                    self._begin(stack, encoder)
                self._add(encoded, number)
                advance(1)
            self._end()
        except BaseException:
            if self._writer is not None:
                self._writer.abandon()
            raise

    def _is_full(self, encoded: Any) -> bool:
        if self._writer is None:
            return False
        more = (
            sum(len(part) for part in encoded if isinstance(part, bytes))
            if isinstance(encoded, tuple)
            else len(encoded)
        )
        return (self._options.number is not None and self.records[-1] >= self._options.number) or (
            self._most is not None and self._writer.nbytes + more > self._most
        )

    def _begin(self, stack: contextlib.ExitStack, encoder: RecordEncoder) -> None:
        name = f"{self._options.output}-{len(self.names):06d}.{self._form.extension}"
        check_new(name, overwrite=self._options.overwrite)
        os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
        self._writer = self._form.open(stack.enter_context(partial_file(name)), encoder)
        self.names.append(name)
        self.records.append(0)

    def _add(self, encoded: Any, number: int) -> None:
        assert self._writer is not None
        try:
            self._writer.add(encoded)
        except ValueError as error:
            raise DataFormatError(f"record {number}: {error}") from error
        self.records[-1] += 1

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self.nbytes.append(self._writer.nbytes)
            self._writer = None


def bytes_of(option: str, text: str) -> int:
    """A number of bytes as users write it; UsageError for another text.

    option: that has it. text: digits, and K, M, G or T for powers of 1024.

    >>> bytes_of("--size", "256M"), bytes_of("--size", "1.5K")
    (268435456, 1536)
    """
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    try:
        size = int(float(digits) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        size = 0
    if size < 1:
        raise UsageError(f"{option}: expected bytes, such as 1000000, 256M or 1G, got {text!r}")
    return size
