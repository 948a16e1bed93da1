"""What check finds, and how it is printed."""

import re
from collections.abc import Iterable, Sequence

from loaderkit._base.system.dataclasses import asdict, dataclass

from .exit_status import ExitStatus
from .output import Output
from .printable import counted

SHOWN = 10  # findings of one rule, as text; --json has all
STYLES = {"error": "bold red", "warning": "bold yellow"}
_REPLACED = "put the file back that was indexed, or make the index again: `loaderkit index` with the names of the data"
# A row for each rule: its severity, for which --only it is looked for, and what to do where the finding doesn't say it.
_RULES = f"""
compressed error training:
damaged-index error index: remove it; `loaderkit index` makes it again
other-set error index: name the files that were indexed, or make the index again by `loaderkit index`
missing-shard error index: put the file back
other-size error index: {_REPLACED}
other-content error index: {_REPLACED}
malformed error index training:
index-differs error index: {_REPLACED}
empty-shard warning training: remove the file
uneven-shards warning training: loaderkit reads them well; loaders that give each process whole shards lose or
        repeat records
small-shards warning training:
fields-differ error training: a batch needs the same fields in all its records: give the fields you need by
        lk.TarDataSource(..., fields=...), or leave such records out by lk.Filter
empty-value warning training: write the records again, or leave them out by lk.Filter
unreadable error index training: get a new copy of the shard, or write it again without the record
undecodable error training: write the record again; a loader can skip such records by on_record_error='replace'
duplicate-key warning training: source.find gives the first of them; give each record a key of its own where
        you look records up
unshuffled-labels warning training: shuffle all records while reading: lk.IndexSampler(len(source), shuffle=True,
        seed=0); with lk.ChunkSampler such chunks need a larger window; `loaderkit convert --shuffle SEED` writes the
        records shuffled
"""
_ROWS = re.findall(r"(\S+) (error|warning) ([a-z ]+):(.*(?:\n {8}.*)*)", _RULES)
RULES = {rule: (severity, " ".join(remedy.split())) for rule, severity, _, remedy in _ROWS}
RULES_OF = {
    only: [rule for rule, _, said, _ in _ROWS if only in said.split()] for only in ("index", "training")
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with the data.

    rule: a name that stays the same between versions. severity: "error" where a training would fail or read other data,
    "warning" where it would be slower or worse. location: the shard, with the record or the byte where it is known.
    problem: what is wrong. remedy: what to do.
    """

    rule: str
    severity: str
    location: str
    problem: str
    remedy: str


def finding(rule: str, location: str, problem: str, remedy: str = "") -> Finding:
    """What a rule found; the fields are those of `Finding`, and a remedy is given where the rule has none."""
    severity, usual = RULES[rule]
    return Finding(rule, severity, location, problem, remedy or usual)


def report(
    out: Output, findings: Sequence[Finding], facts: dict[str, int], checked: Iterable[str], nothing: str
) -> ExitStatus:
    """Prints the findings, and gives the exit status.

    facts: numbers of what was looked at, for --json. checked: the rules that were applied. nothing: the line for data
    without a finding.
    """
    out.document({**facts, "checked": list(checked), "findings": [asdict(each) for each in findings]})
    for rule in dict.fromkeys(each.rule for each in findings):
        same = [each for each in findings if each.rule == rule]
        out.text(f"{same[0].severity} {rule}", style=STYLES[same[0].severity])
        for each in same[:SHOWN]:
            out.text(f"  {each.location}: {each.problem}")
        if len(same) > SHOWN:
            out.text(f"  and {len(same) - SHOWN:,} more; --json has all")
        for remedy in dict.fromkeys(each.remedy for each in same if each.remedy):
            out.text(f"  -> {remedy}")
    if not findings:
        out.text(nothing)
    else:
        errors = sum(each.severity == "error" for each in findings)
        out.text(f"{counted(errors, 'error')}, {counted(len(findings) - errors, 'warning')}")
    return ExitStatus.FINDINGS if findings else ExitStatus.DONE
