"""Records from a table of names and files, for `loaderkit convert --from-table`."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from loaderkit.errors import DataFormatError

from .open_source import PIPE


@contextlib.contextmanager
def table_records(name: str, folder: str) -> Iterator[Iterator[dict[str, bytes | str]]]:
    """The records of a table while the block runs.

    name: of the table, "-" for stdin. folder: of its files.
    """
    with contextlib.ExitStack() as stack:
        plan: TextIO = sys.stdin
        if name != PIPE:
            plan = stack.enter_context(open(name, encoding="utf-8", errors="surrogateescape"))
        yield planned_records(plan, name, Path(folder))


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
