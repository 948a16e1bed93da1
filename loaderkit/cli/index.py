"""`loaderkit index`: finds where each record lies, and keeps it in a file."""

import argparse
import contextlib
import os
import sys

from loaderkit._base.size_text import size_text
from loaderkit._codecs.scan import Scanner
from loaderkit.formats._index.build import build_counts, build_index
from loaderkit.formats._index.find import cached_path, locked_folder, path_beside
from loaderkit.formats._index.layout import MAGIC
from loaderkit.formats._index.part_file import ScanOptions
from loaderkit.formats._index.record_index import RecordIndex
from loaderkit.formats._index.scan_shard import REMOTE_WINDOW
from loaderkit.formats._index.shard_set import ShardSet

from .exit_status import UsageError
from .open_source import named_data, shown_name, usage_errors
from .output import Output
from .printable import counted, printable

ASKED_SIZES = 16  # of the shards on a server; each is a round trip

HELP = """
Find where each record lies. Local data is indexed at its first use, too; data on a server is indexed by this command
alone. A command that was stopped goes on with the shards that are left.

SRC..., not -
-o --output FILE  the index's file (default: where sources look for it)
--spans-only  leave out where the fields of each record lie: smaller, slower
--keys  keep the records' keys, for `loaderkit show --find`
--crc  keep a checksum of each record; reads every byte
--counts FILE  read no shard: take the records of each from wids' index or Energon's .info.json, or with the word stats
        from img2dataset's NAME_stats.json beside each; a shard is scanned when its first record is read
-p --processes N[int]
--json

examples:
  loaderkit index 'train-{000..009}.tar' --keys
  loaderkit index 's3://bucket/train-{000..009}.tar' -o train.lkx
"""


def run(options: argparse.Namespace, out: Output) -> None:
    """Makes the index, and prints what it holds."""
    if (options.processes or 0) < 0:
        raise UsageError(f"--processes: expected 0 or more, got {options.processes}")
    with named_data(options) as data:
        shards = data.shards()
        path = options.output or _default_path(shards, data.scanner().kind)
        _refuse_other_file(path)
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        if options.counts is not None:
            index = _count(options, shards, data.scanner(), path)
        else:
            index = _build(options, shards, data.scanner(), path, out)
    nbytes = os.path.getsize(path)
    out.document(
        {
            "index": shown_name(path),
            "index_bytes": nbytes,
            "format": data.format,
            "shards": index.shards,
            "records": len(index),
            "bytes": index.nbytes,
            "fields": list(index.fields),
            "members": index.has_members,
            "keys": index.has_keys,
            "checksums": index.checksums is not None,
        }
    )
    out.text(shown_name(path), style="bold")
    out.facts(
        [
            ("shards", f"{index.shards:,}"),
            ("records", f"{len(index):,}"),
            ("bytes", f"{size_text(index.nbytes)} ({index.nbytes:,})"),
            ("index", f"{size_text(nbytes)}, {nbytes / max(len(index), 1):.1f} B a record"),
            *([("fields", ", ".join(index.fields))] if index.fields else []),
        ]
    )
    if shards.remote and options.output is None and path_beside(shards):
        out.text(f"for other machines put a copy to {path_beside(shards)}")


def _count(options: argparse.Namespace, shards: ShardSet, data_format: Scanner, path: str) -> RecordIndex:
    if options.spans_only or options.keys or options.crc:
        raise UsageError(
            "--counts: expected alone, got --spans-only, --keys or --crc, which need a pass over the data"
        )
    with usage_errors():
        return build_counts(
            shards, data_format, path, source=None if options.counts == "stats" else options.counts
        )


def _build(
    options: argparse.Namespace, shards: ShardSet, data_format: Scanner, path: str, out: Output
) -> RecordIndex:
    if shards.remote:
        _announce(shards)
    scan = ScanOptions(members=not options.spans_only, keys=options.keys, checksums=options.crc)
    # Sources that make this index at their first use wait, too.
    with locked_folder(f"{path}.parts"), out.progress("shards", len(shards.paths)) as advance:
        return build_index(
            shards,
            data_format,
            path,
            options=scan,
            worker_count=options.processes,
            on_progress=lambda done, nbytes: advance(1),
        )


def _refuse_other_file(path: str) -> None:
    """UsageError where the path is of something else than an index, such as a file of the data."""
    if os.path.isdir(path):
        raise UsageError(f"--output: expected the name of a file, got the folder {shown_name(path)}")
    if os.path.isfile(path) and os.path.getsize(path):
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise UsageError(
                    f"--output: expected a new file or an index, got {shown_name(path)}, which is neither and would be "
                    "lost; give another name"
                )


def _default_path(shards: ShardSet, kind: str) -> str:
    beside = path_beside(shards)
    if beside and not shards.remote and os.access(shards.folder, os.W_OK):
        return beside
    return cached_path(shards, kind)


def _announce(shards: ShardSet) -> None:
    count = len(shards.paths)
    some = sorted({(count - 1) * place // max(ASKED_SIZES - 1, 1) for place in range(ASKED_SIZES)})
    with contextlib.closing(shards.open()) as ranges:
        mean = sum(ranges.version(shard).size for shard in some) / len(some)
    total = mean * count
    requests = max(count, round(total / REMOTE_WINDOW))
    about = "" if len(some) == count else "about "
    print(
        f"loaderkit index: {counted(count, 'shard')} with {about}{size_text(total)} on a server, "
        f"at most {counted(requests, 'request')}; what lies within large members of tars is left out: "
        f"{printable(shards.shown[0])}",
        file=sys.stderr,
    )
