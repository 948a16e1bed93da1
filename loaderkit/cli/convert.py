"""`loaderkit convert`: records of any format into files of another."""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from loaderkit._base.sizes import number_of_bytes
from loaderkit._chunk_cache.settings import Cache
from loaderkit._storage.patterns import file_parts
from loaderkit.formats import registry
from loaderkit.sources import SubsetDataSource
from loaderkit.sources.tar_unpacking import unpacked_parts
from loaderkit.writing.formats import write_format as named_format
from loaderkit.writing.map_shards import map_shards
from loaderkit.writing.shard_function import unchanged
from loaderkit.writing.write import write

from .exit_status import ExitStatus, UsageError
from .mapped_records import mapped_records
from .named_function import named_function
from .open_source import PIPE, add_source_arguments, open_source, shown_name, usage_errors
from .output import Output, add_output_argument
from .printable import counted
from .read_each import shuffled_keys
from .write_output import (
    add_processes_argument,
    data_errors,
    format_of_target,
    write_file,
    write_format,
    write_source,
    written_format,
)

TGZ = (".tgz", ".tar.gz")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Write the records of SRC in another format, another order, or through a function. A run that was killed goes "
        "on with the files of a folder that it had finished, and the files are the same for any -p."
    )
    add_source_arguments(parser)
    parser.add_argument(
        "target",
        metavar="DST",
        help="a new file such as x.tar, or a new folder of files; - writes to stdout",
    )
    parser.add_argument(
        "--to",
        type=written_format,
        metavar="FORMAT",
        help="format of DST; default: as its name says, else as SRC has it",
    )
    parser.add_argument("--shards", type=int, metavar="N", help="files of a folder, of as many records each")
    parser.add_argument(
        "--shard-bytes",
        metavar="SIZE",
        help="end each file of a folder at this size, such as 256MB; a run that was killed begins again",
    )
    parser.add_argument(
        "--call",
        metavar="MODULE:FUNCTION",
        help="a function that takes a record and gives one, a list of them, or None for none",
    )
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="write the records in a shuffled order")
    add_processes_argument(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace DST")
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Converts the files."""
    if options.target == PIPE and (options.json or options.shards is not None or options.shard_bytes):
        raise UsageError("DST: expected a name with --json, --shards or --shard-bytes, got -")
    if options.shard_bytes is not None:
        if options.shards is not None:
            raise UsageError("--shard-bytes: expected alone, got --shards, too; give one of them")
        if _is_file(options.target):
            raise UsageError(
                f"--shard-bytes: expected a folder as DST, got the file {shown_name(options.target)}"
            )
        with usage_errors():
            options.shard_bytes = number_of_bytes("--shard-bytes", options.shard_bytes)
    function: Callable[[Any], Any] = unchanged
    if options.call is not None:
        function = named_function("--call", options.call)
    with _unpacked(options.sources) as names:
        options.sources = names
        with open_source(options) as opened:
            name = _target_format(options, opened.format)
            source = opened.source if options.shuffle is None else _shuffled(opened.source, options.shuffle)
            files = _write(options, source, function, name)
            records = len(source)
    out = Output(as_json=options.json)
    if options.target != PIPE:
        out.document({"output": options.target, "format": name, "files": files, "records_read": records})
        out.text(
            f"{shown_name(options.target)}: {counted(records, 'record')} read, {counted(files, 'file')} written"
        )
    return ExitStatus.DONE


def _write(options: argparse.Namespace, source: Any, function: Callable[[Any], Any], name: str) -> int:
    """Writes DST; gives the number of its files."""
    arguments: dict[str, Any] = {"format": name, "worker_count": options.processes}
    target = options.target
    if target != PIPE and os.path.lexists(target) and not options.overwrite:
        raise UsageError(
            f"DST: expected a new name, got {shown_name(target)}, which is there; or give --overwrite"
        )
    if target == PIPE or _is_file(target):
        if options.shards not in (None, 1):
            raise UsageError(f"--shards: expected a folder as DST, got the file {shown_name(target)}")
        form = write_format(target, name)
        if function is unchanged:
            write_source(target, source, form, overwrite=options.overwrite, worker_count=options.processes)
        else:
            found = mapped_records(function, source, options.processes)
            write_file(target, found, form, overwrite=options.overwrite)
        return 1
    with data_errors():
        if options.shard_bytes is not None:
            found = mapped_records(function, source, options.processes)
            size = options.shard_bytes
            return len(write(found, target, format=name, shard_bytes=size, overwrite=options.overwrite))
        shards = options.shards
        return len(
            map_shards(function, source, target, shards=shards, overwrite=options.overwrite, **arguments)
        )


def _target_format(options: argparse.Namespace, data_format: str) -> str:
    by_name = None if options.target == PIPE else format_of_target(options.target)
    name = options.to or by_name or data_format
    if name not in registry.writable():
        raise UsageError(f"--to: expected one of {', '.join(sorted(registry.writable()))}, got {name}")
    named_format(name)  # an ImportError names the extra
    return str(name)


def _is_file(target: str) -> bool:
    return format_of_target(target) is not None


def _shuffled(source: Any, seed: int) -> SubsetDataSource:
    return SubsetDataSource(source, shuffled_keys(len(source), seed))


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
