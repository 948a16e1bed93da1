"""The records of a source as files of like size, for `loaderkit convert --prefix`."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from loaderkit._base.size_text import size_text
from loaderkit._base.system.made_folder import Made, unfinished_folder
from loaderkit._base.system.waited_lock import locked_folder
from loaderkit.formats import registry
from loaderkit.formats._writing.parallel_encoding import encoded_by_workers
from loaderkit.formats._writing.run_jobs import made_of_format, run_jobs
from loaderkit.formats._writing.shard_jobs import DONE
from loaderkit.formats._writing.shard_stream import SourceShards, write_by_size
from loaderkit.formats._writing.write_format import RecordFiles, WriteFormat, write_format

from .exit_status import UsageError
from .open_source import shown_name
from .output import Output
from .printable import counted
from .write_output import check_new, check_records, data_errors, name_files

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def check_split(options: argparse.Namespace) -> None:
    """UsageError for options of files of like size that can't be carried out."""
    for name in ("records", "max_shards"):
        if (given := getattr(options, name)) is not None and given < 1:
            raise UsageError(f"--{name.replace('_', '-')}: expected 1 or more, got {given}")
    if options.records is None and options.size is None:
        raise UsageError("--prefix: expected --records or --size, of each file, got neither")
    if options.size is not None:
        options.size = bytes_of("--size", options.size)


def write_split(options: argparse.Namespace, source: Any, data_format: str, out: Output) -> None:
    """Writes files DST-000000.tar, DST-000001.tar, ... of --records records, or of --size bytes.

    They get their names when all are whole; with --records alone a command that was stopped goes on with the files
    that are left. data_format: of the source.
    """
    most = options.size
    check_records(source)
    form = write_format(options.to or (data_format if data_format in registry.writable() else "tar"))
    first = f"{options.dst}-{0:06d}.{form.extension}"
    check_new(first, overwrite=options.overwrite)
    os.makedirs(os.path.dirname(os.path.abspath(first)), exist_ok=True)
    folder = f"{options.dst}.partial"
    ours = rf"{re.escape(os.path.basename(options.dst))}-\d{{6}}\.{form.extension}({re.escape(DONE)})?"
    asked = None
    if most is None:
        asked = made_of_format(source, {}, form.name, number=options.records)
    with (
        data_errors(),
        locked_folder(folder),
        unfinished_folder(
            folder, Made(asked, ours), goes_on=most is None, overwrite=options.overwrite
        ) as made,
    ):
        files = RecordFiles(form, form.encoder(source[0]))
        if most is None:
            names, records = write_by_number(source, files, options, made)
        else:
            encoded = encoded_by_workers(source, files.encoder, None, options.processes, "process", None)
            places = range(options.max_shards or sys.maxsize)
            paths = (_partial(options, _name(options, form, place)) for place in places)
            records = write_by_size(encoded, files, paths, most, options.records)
            names = [_name(options, form, place) for place in range(len(records))]
        nbytes = [os.path.getsize(_partial(options, name)) for name in names]
        _check_others(options, names)
        name_files({name: _partial(options, name) for name in names}, form.name, options.processes)
    out.document(
        {
            "outputs": [shown_name(name) for name in names],
            "format": form.name,
            "records": records,
            "bytes": nbytes,
        }
    )
    for name, count, size in zip(names, records, nbytes):
        out.text(f"{shown_name(name)}: {counted(count, 'record')}, {size_text(size)}")


def write_by_number(
    source: Any, files: RecordFiles, options: argparse.Namespace, made: Made
) -> tuple[list[str], list[int]]:
    """Writes files of --records records into the folder for unfinished files; gives their final names and records.

    source: of the records. files: of the format. options: of the command. made: of the folder.
    """
    count = min(-(-len(source) // options.records), options.max_shards or len(source))
    names = [_name(options, files.format, place) for place in range(count)]
    shards = [
        range(place * options.records, min((place + 1) * options.records, len(source)))
        for place in range(count)
    ]
    results = run_jobs(
        SourceShards(source, files, shards, drop=False),
        [made.asked, repr(files.encoder)],
        shards,
        [_partial(options, name) for name in names],
        worker_count=options.processes,
    )
    return names, [made.records for made in results]


def _name(options: argparse.Namespace, form: WriteFormat, place: int) -> str:
    name = f"{options.dst}-{place:06d}.{form.extension}"
    check_new(name, overwrite=options.overwrite)
    return name


def _partial(options: argparse.Namespace, name: str) -> str:
    return os.path.join(f"{options.dst}.partial", os.path.basename(name))


def _check_others(options: argparse.Namespace, names: Sequence[str]) -> None:
    parent = os.path.dirname(os.path.abspath(names[0]))
    prefix, extension = os.path.basename(options.dst), os.path.splitext(names[0])[1]
    pattern = re.compile(rf"{re.escape(prefix)}-\d{{6}}{re.escape(extension)}")
    others = sorted({*filter(pattern.fullmatch, os.listdir(parent))} - {*map(os.path.basename, names)})
    if others:
        raise UsageError(
            f"DST: expected no other files of this prefix, got {others[0]}, which would be read with them; delete "
            "it, or give another prefix, and run the command again"
        )


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
