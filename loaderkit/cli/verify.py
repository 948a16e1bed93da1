"""The data against its index, for `loaderkit check`."""

import argparse
import contextlib
import os
from collections.abc import Iterator

import numpy as np

from loaderkit.errors import DataFormatError
from loaderkit.formats._index.find import cached_path, other_set, path_beside
from loaderkit.formats._index.record_index import RecordIndex
from loaderkit.formats._index.shard_set import ShardSet

from .exit_status import UsageError
from .findings import Finding, finding
from .open_source import NamedData, OpenedSource, open_named, shown_name
from .output import Output
from .read_each import read_each
from .shard_checks import RULES as SHARD_RULES
from .shard_checks import ShardChecks, check_each

RULES = ("damaged-index", "other-set", *SHARD_RULES, "unreadable")


def has_index(options: argparse.Namespace, data: NamedData) -> bool:
    """Whether the data has an index that it can be compared with."""
    return data.is_scanned and _index_path(options, data.shards(), data.scanner().kind) is not None


def compared(
    options: argparse.Namespace, data: NamedData, out: Output
) -> tuple[dict[str, int], list[Finding]]:
    """What differs between the data and its index, with the numbers of shards and records that were compared.

    Data of a format that has its own index is read. UsageError for data without an index.
    """
    if data.is_scanned:
        return _with_index(data, out, options)
    with open_named(data) as opened:
        return _facts(opened), list(_unreadable(opened, out))


def _index_path(options: argparse.Namespace, shards: ShardSet, kind: str) -> str | None:
    candidates = [options.index] if options.index else [path_beside(shards), cached_path(shards, kind)]
    return next((path for path in candidates if path and os.path.exists(path)), None)


def _with_index(
    data: NamedData, out: Output, options: argparse.Namespace
) -> tuple[dict[str, int], list[Finding]]:
    shards, format = data.shards(), data.scanner()  # noqa: A001 - the word of the field
    path = _index_path(options, shards, format.kind)
    if path is None:
        raise UsageError(
            "SRC: expected data with an index, got none; `loaderkit index` with the same names makes it"
        )
    facts = {"shards": len(shards.paths), "records": 0}
    try:
        index = RecordIndex(path)
        index.check()
    except DataFormatError as error:
        return facts, [finding("damaged-index", shown_name(path), str(error))]
    facts["records"] = len(index)
    if difference := other_set(index, shards, format):
        return facts, [finding("other-set", shown_name(path), difference)]
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
                yield finding("unreadable", opened.location(key), str(record))
