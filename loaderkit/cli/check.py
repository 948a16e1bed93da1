"""`loaderkit check`: whether the data is what was indexed, and what in it would harm a training."""

import argparse

import numpy as np

from loaderkit._storage.addresses import redacted
from loaderkit.errors import DataFormatError
from loaderkit.formats import registry

from .exit_status import ExitStatus, UsageError
from .findings import RULES_OF, Finding, finding, report
from .lint_records import RecordLint, sampled_stretches
from .lint_shards import lint_shards
from .open_source import named_data, open_source
from .output import Output
from .shard_checks import ShardChecks, compared, has_index, shard_findings

HELP = """
Compare the data with its index, where it has one, and look for what would harm a training: records that can't be
decoded, fields that differ, uneven or very small shards, labels that aren't shuffled. The exit status is 1 where
something was found.

SRC...
--only index|training  index: compare the data with its index, no more; training: look for what would harm a training,
        no more
--index FILE  the index (default: where sources look for it)
--full  compare every record: headers of tars, checksums of TFRecord and of the index, JSON, rows of CSV (default: sizes
        and samples of each shard)
-p --processes N[int]
--all  look at all records for what would harm a training (default: 16 stretches of 64 neighbours)
--label FIELD  the field of the labels (default: label, cls, ...)
--json

examples:
  loaderkit check 'train-{000..009}.tar'
  loaderkit check train@10.tar --only index --full -p 8
  loaderkit check train@10.tar --only training --all --label cls
"""
ONLY_FOR = {"index": ("all", "label"), "training": ("index", "full", "processes")}


def run(options: argparse.Namespace, out: Output) -> ExitStatus:
    """Checks the data, and prints what it found."""
    for name in ONLY_FOR.get(options.only, ()):
        if getattr(options, name):
            option = "-p" if name == "processes" else f"--{name}"
            raise UsageError(f"{option}: expected no --only {options.only}, got it; leave one of them out")
    facts, said = {"shards": 0, "records": 0}, list[str]()
    findings: list[Finding] = []
    if options.only != "index":
        findings = compressed(options.src)
        options.src = [name for name in options.src if not registry.is_compressed(name)]
    differing = False
    if options.src and options.only != "training":
        with named_data(options) as data:
            if options.only or options.full or options.index or has_index(options, data):
                facts, found = compared(options, data, out)
                how = "read" if options.full or not data.is_scanned else "compared by sizes and samples"
                said = [f"{facts['shards']:,} shards with {facts['records']:,} records, {how}"]
                findings += found
                differing = bool(found)
    if options.only != "index":
        facts = {**facts, "records_read": 0}
        # Of data that isn't what was indexed no record may be where its index says.
        if options.src and not differing:
            facts, found = linted(options, out)
            findings += [each for each in found if each not in findings]
        said.append(f"{facts['records']:,} records, of which {facts['records_read']:,} were read")
    rules = dict.fromkeys(
        rule for only in ("index", "training") for rule in RULES_OF[only] if options.only in (None, only)
    )
    return report(out, findings, facts, rules, f"nothing found in {'; in '.join(said)}")


def compressed(names: list[str]) -> list[Finding]:
    """A finding for each name of a compressed file."""
    problem = "records of a compressed file can't be read by key"
    shown = [redacted(name) for name in names if registry.is_compressed(name)]
    return [finding("compressed", name, problem, registry.how_to_unpack(name)) for name in shown]


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
        with named_data(options) as data:
            checks = data.is_scanned and ShardChecks(data.shards(), data.scanner(), None, full=True)
            malformed = checks and shard_findings(checks, out)
        if not malformed:
            raise
        return {"shards": 0, "records": 0, "records_read": 0}, malformed
