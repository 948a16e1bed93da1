"""`loaderkit verify`: the data against its index."""

import argparse
import contextlib
import os
from collections.abc import Iterator

import numpy as np

from loaderkit._record_index.find import cached_path, other_set, path_beside
from loaderkit._record_index.record_index import RecordIndex
from loaderkit.errors import DataFormatError

from .exit_status import UsageError
from .findings import Finding, report, unreadable
from .index import add_workers_argument
from .open_source import NamedData, OpenedSource, add_source_arguments, named_data, open_named, shown_name
from .output import Output, add_output_argument
from .read_each import read_each
from .shard_checks import RULES as SHARD_RULES
from .shard_checks import ShardChecks, check_each

RULES = ("damaged-index", "other-set", *SHARD_RULES, "unreadable")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Compare data with its index: sizes and samples of each shard, with --full every record. The exit status is 1 "
        "where something differs."
    )
    add_source_arguments(parser, pipe=False)
    parser.add_argument("--index", metavar="FILE", help="the index (default: where sources look for it)")
    parser.add_argument(
        "--full",
        action="store_true",
        help="read every record: headers of tars, checksums of TFRecord and of the index, JSON, rows of CSV",
    )
    add_workers_argument(parser)
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Compares, and prints what differs."""
    out = Output(as_json=options.json)
    with named_data(options) as data:
        if not data.is_scanned:
            facts, findings = _without_index(data, out)
        else:
            facts, findings = _with_index(data, out, options)
    how = "read" if options.full or not data.is_scanned else "compared by sizes and samples"
    nothing = f"nothing found in {facts['shards']:,} shards with {facts['records']:,} records, {how}"
    return report(out, findings, facts, RULES, nothing)


def _without_index(data: NamedData, out: Output) -> tuple[dict[str, int], list[Finding]]:
    with open_named(data) as opened:
        return _facts(opened), list(_unreadable(opened, out))


def _with_index(
    data: NamedData, out: Output, options: argparse.Namespace
) -> tuple[dict[str, int], list[Finding]]:
    shards, format = data.shards(), data.scanner()  # noqa: A001 - the word of the field
    candidates = [options.index] if options.index else [path_beside(shards), cached_path(shards, format.kind)]
    path = next((path for path in candidates if path and os.path.exists(path)), None)
    if path is None:
        raise UsageError(
            "SRC: expected data with an index, got none; `loaderkit index` with the same names makes it"
        )
    facts = {"shards": len(shards.paths), "records": 0}
    try:
        index = RecordIndex(path)
        index.check()
    except DataFormatError as error:
        remedy = "remove it; `loaderkit index` makes it again"
        return facts, [Finding("damaged-index", "error", shown_name(path), str(error), remedy)]
    facts["records"] = len(index)
    if difference := other_set(index, shards, format):
        remedy = "name the files that were indexed, or make the index again by `loaderkit index`"
        return facts, [Finding("other-set", "error", shown_name(path), difference, remedy)]
    findings: list[Finding] = []
    with (
        contextlib.closing(ShardChecks(shards, format, index, full=options.full)) as checks,
        out.progress("shards", len(checks)) as advance,
        contextlib.closing(check_each(checks, options.processes or 0)) as found,
    ):
        for shard in found:
            findings += shard.findings
            advance(1)
    if options.full and not findings:
        with open_named(data, index, verify=True) as opened:
            findings += _unreadable(opened, out)
    return facts, findings


def _facts(opened: OpenedSource) -> dict[str, int]:
    return {"shards": len(opened.names), "records": len(opened)}


def _unreadable(opened: OpenedSource, out: Output) -> Iterator[Finding]:
    with out.progress("records", len(opened)) as advance:
        for key, record in read_each(opened, np.arange(len(opened)), advance):
            if isinstance(record, Exception):
                yield unreadable(opened.location(key), record)
