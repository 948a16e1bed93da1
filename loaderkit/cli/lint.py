"""What in the data would harm a training, for `loaderkit check`."""

import argparse
import contextlib

import numpy as np

from loaderkit._storage.addresses import redacted
from loaderkit.errors import DataFormatError
from loaderkit.formats import registry

from .findings import Finding, finding
from .lint_records import RECORD_RULES, RecordLint, sampled_stretches
from .lint_shards import SHARD_RULES, lint_shards
from .open_source import named_data, open_source
from .output import Output
from .shard_checks import ShardChecks, check_each

RULES = ("compressed", "malformed", *dict.fromkeys((*SHARD_RULES, *RECORD_RULES)))


def compressed(names: list[str]) -> list[Finding]:
    """A finding for each name of a compressed file."""
    return [
        finding(
            "compressed",
            redacted(name),
            "records of a compressed file can't be read by key",
            registry.how_to_unpack(redacted(name)),
        )
        for name in names
        if registry.is_compressed(name)
    ]


def linted(options: argparse.Namespace, out: Output) -> tuple[dict[str, int], list[Finding]]:
    """What would harm a training, with the numbers of shards and records, and of the records that were read."""
    try:
        with open_source(options) as opened:
            keys = np.arange(len(opened)) if options.all else sampled_stretches(len(opened))
            facts = {"shards": len(opened.names), "records": len(opened), "records_read": len(keys)}
            findings = [*lint_shards(opened)]
            with out.progress("records", len(keys)) as advance:
                return facts, [*findings, *RecordLint(opened, options.label).findings(keys, advance)]
    except DataFormatError:  # of the first shard that isn't of its format; there may be more
        malformed = _malformed(options, out)
        if not malformed:
            raise
        return {"shards": 0, "records": 0, "records_read": 0}, malformed


def _malformed(options: argparse.Namespace, out: Output) -> list[Finding]:
    with named_data(options) as data:
        if not data.is_scanned:
            return []
        with (
            contextlib.closing(ShardChecks(data.shards(), data.scanner(), None, full=True)) as checks,
            out.progress("shards", len(checks)) as advance,
        ):
            found: list[Finding] = []
            for shard in check_each(checks, 0):
                found += shard.findings
                advance(1)
            return found
