"""`loaderkit convert`: records of any format into files of another."""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from loaderkit._base.numbers import number_of_bytes
from loaderkit._storage.cache.settings import Cache
from loaderkit._storage.patterns import file_parts
from loaderkit.errors import DataFormatError
from loaderkit.formats import registry
from loaderkit.formats._writing.dropped import list_path, records_in_list
from loaderkit.formats._writing.shard_function import unchanged
from loaderkit.formats._writing.write_format import WriteFormat, write_format
from loaderkit.formats.map_shards import finished_files, map_shards
from loaderkit.formats.tar.unpacking import unpacked_parts
from loaderkit.formats.write import write
from loaderkit.interop.tokenizers import Encode
from loaderkit.sources import MapDataSource, SubsetDataSource

from .cluster import cluster_of
from .exit_status import UsageError
from .named_function import named_function
from .open_source import PIPE, OpenedSource, named_data, open_named, shown_name, usage_errors
from .options import check_pairs
from .output import Output
from .printable import counted
from .read_each import shuffled_keys
from .sort import open_scattered, sorted_keys
from .split import check_split, write_split
from .write_output import check_new, check_records, data_errors, format_of_target, mapped_records, write_file

HELP = """
Write the records of SRC, which are one set, into one file or a folder of files: in another format, another order,
through a function, or as tokens. Keys, fields and types are kept, and the files are the same for any -p. A run that was
killed goes on with the files of a folder that it had finished; one that is finished has nothing to do.

SRC...
DST  a new file such as x.tar, or a new folder of files; - writes to stdout
--to FORMAT[written_format]  format of DST; default: as its name says, else as SRC has it
-n --number N[int]  of records (default: all)
one of:
  --shuffle SEED[int]  in the order of lk.IndexSampler with this seed
  --by FIELD  in the order of a field, or of a path into JSON; __key__ is the key. The members of a tar's key that lie
        apart are brought together
--numeric  with --by: compare texts and bytes as the numbers they are
--reverse  with --by: the greatest first
--call MODULE:FUNCTION  a function that takes a record and gives one, a list of them, or None for none
--tokenizer FILE  write tokens of a text, by a tokenizer.json, or a SentencePiece .model; a column `origin` has the
        number of the text's record in SRC
--field NAME  with --tokenizer: the text of a record (default: text)
--append TOKEN  with --tokenizer: a token behind each text, such as "</s>", or its id
--prepend TOKEN  with --tokenizer: a token before each text
--keep NAME...  with --tokenizer: a field to keep for each document, or FIELD=NAME to call it otherwise, such as url=id,
        the name by which `explain --document id:...` finds it; may be given several times
--on-error raise|drop[=raise]  what becomes of a record of a folder that fails: dropped ones are listed in
        DST.dropped.jsonl
--file  DST is one file, although its name says no format
--shards N[int]  files of a folder, of as many records each
--shard-bytes SIZE  end each file of a folder at this size, such as 256MB; a run that was killed begins again
--prefix  DST is what the names of the files begin with: DST-000000.tar, ...; with --records, --size or both
--records N[int]  with --prefix: of each file
--size BYTES  with --prefix: a file is ended where it has so many, such as 256M or 1G
--max-shards N[int]  with --prefix: stop after this many files
--from-table  SRC is a table: a line is KEY.FIELD, a tab and a file, or text: and the value; lines with one key are one
        record
-C --folder FOLDER  with --from-table: where its files lie (default: the current one)
-p --processes N[workers=0]
--cluster KIND[cluster]
--overwrite  replace DST
--json

examples:
  loaderkit convert a.tar b.tar c.tar all.tar
  loaderkit convert all.tar all.parquet
  loaderkit convert all.tar shuffled --shuffle 7 --shards 64 -p 8
  loaderkit convert all.tar sorted.tar --by json.width --numeric
  loaderkit convert all.tar part --prefix --records 1000
  loaderkit convert plan.tsv all.tar --from-table -C pictures
  loaderkit convert texts.jsonl corpus --tokenizer tokenizer.json --append "</s>" --keep id -p 8
"""
_ONLY_WITH = {
    "by": ("numeric", "reverse"),
    "prefix": ("records", "size", "max_shards"),
    "from_table": ("folder",),
    "tokenizer": ("field", "append", "prepend", "keep"),
}
_NOT_WITH = {
    "cluster": ("shard_bytes", "from_table", "prefix", "file"),
    "from_table": ("number", "shuffle", "by", "call", "shards", "shard_bytes", "prefix"),
    "prefix": ("call", "file", "shards", "shard_bytes"),
    "tokenizer": ("call", "from_table", "prefix"),
}
TGZ = (".tgz", ".tar.gz")


def run(options: argparse.Namespace, out: Output) -> None:
    """Converts the files."""
    _check(options)
    if options.from_table:
        with table_records(options.src[0], options.folder or ".") as records:
            form = _target_format(options, "tar")
            written = write_file(options.dst, records, form, overwrite=options.overwrite)
        _report(options, out, form, written, 1, written)
        return
    function: Callable[[Any], Any] = unchanged
    if options.call is not None:
        function = named_function("--call", options.call)
    opening = open_named if options.by is None else open_scattered
    with _unpacked(options.src) as options.src, named_data(options) as data, opening(data) as opened:
        source = _ordered(options, opened, _tokens(options, opened.source), out)
        if options.prefix:
            write_split(options, source, opened.format, out)
            return
        form = _target_format(options, "tokens" if options.tokenizer else opened.format)
        if not _is_file(options):
            files = _finished(options, source, function, form)
            is_finished = files is not None
            if files is None:
                check_new(options.dst, overwrite=options.overwrite, kind="folder")
                files = _write_folder(options, source, function, form)
            _report(options, out, form, len(source), files, None, is_finished=is_finished)
            return
        check_records(source)
        if function is unchanged:
            records, workers = source, options.processes
        else:
            records, workers = mapped_records(function, source, options.processes), None
        written = write_file(options.dst, records, form, overwrite=options.overwrite, worker_count=workers)
        _report(options, out, form, len(source), 1, written)


def _check(options: argparse.Namespace) -> None:
    if options.number is not None and options.number < 1:
        raise UsageError(f"--number: expected 1 or more, got {options.number}")
    check_pairs(options, _ONLY_WITH, _NOT_WITH)
    if options.from_table and len(options.src) > 1:
        raise UsageError(f"SRC: expected one table with --from-table, got {len(options.src)}")
    if options.from_table and not _is_file(options):
        raise UsageError(f"DST: expected a file with --from-table, got {options.dst}; such as x.tar")
    if options.prefix:
        check_split(options)
    options.cluster = cluster_of(options)
    if options.cluster is not None and _is_file(options):
        raise UsageError(f"--cluster: expected a folder as DST, got the file {shown_name(options.dst)}")
    if options.dst == PIPE and (options.json or options.shards is not None or options.shard_bytes):
        raise UsageError("DST: expected a name with --json, --shards or --shard-bytes, got -")
    if options.dst == PIPE and options.prefix:
        raise UsageError("DST: expected what the names begin with, as --prefix is given, got -")
    if options.on_error == "drop" and (_is_file(options) or options.shard_bytes):
        raise UsageError("--on-error: expected a folder as DST, without --shard-bytes, to drop records")
    sizes = [name for name in ("shards", "shard_bytes") if getattr(options, name) not in (None, 1)]
    if sizes and _is_file(options):
        option = f"--{sizes[0].replace('_', '-')}"
        raise UsageError(f"{option}: expected a folder as DST, got the file {shown_name(options.dst)}")
    if options.shard_bytes is not None:
        if options.shards is not None:
            raise UsageError("--shard-bytes: expected alone, got --shards, too; give one of them")
        with usage_errors():
            options.shard_bytes = number_of_bytes("--shard-bytes", options.shard_bytes)


def _tokens(options: argparse.Namespace, source: Any) -> Any:
    """The source, or with --tokenizer one of the tokens of its texts."""
    if options.tokenizer is None:
        return source
    ends = {
        name: int(token) if (token := getattr(options, name) or "").isdecimal() else token or None
        for name in ("append", "prepend")
    }
    with usage_errors():
        keep = {
            field: name or field for field, _, name in (each.partition("=") for each in options.keep or ())
        }
        encode = Encode(options.tokenizer, options.field or "text", keep=keep, **ends)
    return MapDataSource(source, encode, key_name="origin")


def _ordered(options: argparse.Namespace, opened: OpenedSource, source: Any, out: Output) -> Any:
    """Of the source's records those that are asked for, in the order that is; `opened` says it."""
    total = len(opened)
    if options.by is not None:
        keys = sorted_keys(opened, options, out)
    elif options.shuffle is not None:
        keys = shuffled_keys(total, options.shuffle)
    elif options.number is not None:
        keys = np.arange(min(options.number, total))
    else:
        return source
    return SubsetDataSource(source, keys[: options.number])


def _finished(
    options: argparse.Namespace, source: Any, function: Callable[[Any], Any], form: WriteFormat
) -> int | None:
    """How many files an earlier run of this command line has finished; None where there is anything else."""
    has_list = os.path.lexists(list_path(options.dst))
    if options.overwrite or options.shard_bytes is not None or has_list != (options.on_error == "drop"):
        return None
    with data_errors():
        found = finished_files(function, source, options.dst, format_name=form.name, shards=options.shards)
    return None if found is None else len(found)


def _write_folder(
    options: argparse.Namespace, source: Any, function: Callable[[Any], Any], form: WriteFormat
) -> int:
    how: dict[str, Any] = {"format": form.name, "overwrite": options.overwrite}
    with data_errors():
        if options.shard_bytes is not None:
            found = mapped_records(function, source, options.processes)
            return len(write(found, options.dst, shard_bytes=options.shard_bytes, **how))
        how |= {"shards": options.shards, "worker_count": options.processes, "cluster": options.cluster}
        how |= {"on_record_error": options.on_error}
        return len(map_shards(function, source, options.dst, **how))


def _report(
    options: argparse.Namespace,
    out: Output,
    form: WriteFormat,
    read: int,
    files: int,
    written: int | None,
    *,
    is_finished: bool = False,
) -> None:
    """Prints what was written, unless stdout has the data.

    written: records of one file. is_finished: whether an earlier run has written all.
    """
    if options.dst != PIPE:
        found = {} if written is None else {"records": written, "bytes": os.path.getsize(options.dst)}
        dropped = records_in_list(list_path(options.dst)) if options.on_error == "drop" else 0
        facts = {"output": options.dst, "format": form.name, "files": files, "records_read": read}
        told = {**({"dropped": dropped} if dropped else {}), **({"finished": True} if is_finished else {})}
        out.document({**facts, **found, **told})
        shown = f"{counted(read, 'record')} read, {counted(files, 'file')} written"
        shown = f"nothing to do, an earlier run is finished: {shown}" if is_finished else shown
        shown += f", {dropped} dropped: {shown_name(list_path(options.dst))} lists them" if dropped else ""
        out.text(f"{shown_name(options.dst)}: {shown}")


def _target_format(options: argparse.Namespace, data_format: str) -> WriteFormat:
    by_name = None if options.dst == PIPE else format_of_target(options.dst)
    name = options.to or by_name or data_format
    if name not in registry.writable():
        raise UsageError(f"--to: expected one of {', '.join(sorted(registry.writable()))}, got {name}")
    return write_format(name)


def _is_file(options: argparse.Namespace) -> bool:
    return options.file or options.dst == PIPE or format_of_target(options.dst) is not None


@contextlib.contextmanager
def _unpacked(names: list[str]) -> Iterator[list[str]]:
    """The names, with unpacked copies in place of .tgz archives while the block runs."""
    if not any(name.endswith(TGZ) for name in names):
        yield names
        return
    with tempfile.TemporaryDirectory(prefix="loaderkit-") as folder:
        cache, unpacked = Cache(folder, sys.maxsize), list[str]()
        for name in names:
            if name.endswith(TGZ):
                unpacked += [part.path for part in unpacked_parts(file_parts([name]), cache, None)]
            else:
                unpacked.append(name)
        yield unpacked


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
