"""`loaderkit lint`: what in the data would harm a training."""

import argparse
import contextlib

import numpy as np

from loaderkit._storage.addresses import redacted
from loaderkit.errors import DataFormatError
from loaderkit.formats import registry

from .findings import Finding, report
from .lint_records import RECORD_RULES, RecordLint, sampled_stretches
from .lint_shards import SHARD_RULES, lint_shards
from .open_source import add_source_arguments, named_data, open_source
from .output import Output, add_output_argument
from .shard_checks import ShardChecks, check_each

RULES = ("compressed", "malformed", *dict.fromkeys((*SHARD_RULES, *RECORD_RULES)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Look for what would harm a training: records that can't be decoded, fields that differ, uneven or very small "
        "shards, labels that aren't shuffled. The exit status is 1 where something was found."
    )
    add_source_arguments(parser)
    parser.add_argument(
        "--all", action="store_true", help="read all records (default: 16 stretches of 64 neighbours)"
    )
    parser.add_argument("--label", metavar="FIELD", help="the field of the labels (default: label, cls, ...)")
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Looks at the shards and at records, and prints what it found."""
    out = Output(as_json=options.json)
    findings = [
        Finding(
            "compressed",
            "error",
            redacted(name),
            "records of a compressed file can't be read by key",
            registry.how_to_unpack(redacted(name)),
        )
        for name in options.sources
        if registry.is_compressed(name)
    ]
    options.sources = [name for name in options.sources if not registry.is_compressed(name)]
    facts = {"shards": 0, "records": 0, "records_read": 0}
    if options.sources:
        try:
            with open_source(options) as opened:
                keys = np.arange(len(opened)) if options.all else sampled_stretches(len(opened))
                facts = {"shards": len(opened.names), "records": len(opened), "records_read": len(keys)}
                findings += lint_shards(opened)
                with out.progress("records", len(keys)) as advance:
                    findings += RecordLint(opened, options.label).findings(keys, advance)
        except DataFormatError:  # of the first shard that isn't of its format; there may be more
            malformed = _malformed(options, out)
            if not malformed:
                raise
            findings += malformed
    nothing = f"nothing found in {facts['records']:,} records, of which {facts['records_read']:,} were read"
    return report(out, findings, facts, RULES, nothing)


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
