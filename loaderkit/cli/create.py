"""`loaderkit create`: a data file from a table of names and files."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from loaderkit.errors import DataFormatError

from .exit_status import ExitStatus
from .open_source import PIPE
from .output import Output, add_output_argument
from .write_output import add_target_arguments, check_pipe, report_written, write_file, write_format


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Write the files that a table names into one data file. A line of the table is NAME, a tab, and a file, where "
        "NAME is KEY.FIELD; text: in place of a file is followed by the value itself. Lines with one key that follow "
        "each other are one record."
    )
    parser.add_argument("plan", metavar="PLAN", help="the table; - reads stdin")
    parser.add_argument(
        "-C", "--folder", default=".", help="where the table's files lie (default: the current folder)"
    )
    add_target_arguments(parser)
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Writes the file."""
    check_pipe(options)
    form = write_format(options.output, options.to)
    out = Output(as_json=options.json)
    with contextlib.ExitStack() as stack:
        plan: TextIO = sys.stdin
        if options.plan != PIPE:
            plan = stack.enter_context(open(options.plan, encoding="utf-8", errors="surrogateescape"))
        records = planned_records(plan, options.plan, Path(options.folder))
        written = write_file(options.output, records, form, overwrite=options.overwrite)
    report_written(out, options.output, form, written)
    return ExitStatus.DONE


def planned_records(plan: TextIO, name: str, folder: Path) -> Iterator[dict[str, bytes | str]]:
    """The records of a table, a file's bytes for each field.

    plan: the table's lines. name: of the table, for errors. folder: of the files. DataFormatError with the line.
    """
    record: dict[str, bytes | str] = {}
    for number, line in enumerate(plan, 1):
        if not line.strip() or line.startswith("#"):
            continue
        member, tab, value = line.rstrip("\r\n").partition("\t")
        path, last = member.rpartition("/")[0], member.rpartition("/")[2]
        stem, dot, field = last.partition(".")
        if not (tab and stem and dot and field and value):
            raise DataFormatError(
                f"{name}, line {number}: expected KEY.FIELD, a tab and the name of a file, got {line.rstrip()!r}"
            )
        key = f"{path}/{stem}" if path else stem
        if record and record["__key__"] != key:
            yield record
            record = {}
        if field.lower() in record:
            raise DataFormatError(
                f"{name}, line {number}: expected each field once in a record, got {member!r} again"
            )
        record["__key__"] = key
        if value.startswith("text:"):
            record[field.lower()] = value.removeprefix("text:").encode("utf-8", "surrogateescape")
        else:
            try:
                record[field.lower()] = (folder / value).read_bytes()
            except OSError as error:
                raise DataFormatError(
                    f"{name}, line {number}: expected a file to read, got {value!r}: {error}"
                ) from error
    if record:
        yield record
