"""What check finds, and how it is printed."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from .exit_status import ExitStatus
from .output import Output
from .printable import counted

Severity = Literal["error", "warning"]
SHOWN = 10  # findings of one rule, as text; --json has all
STYLES = {"error": "bold red", "warning": "bold yellow"}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with the data.

    rule: a name that stays the same between versions. severity: "error" where a training would fail or read other data,
    "warning" where it would be slower or worse. location: the shard, with the record or the byte where it is known.
    problem: what is wrong. remedy: what to do.
    """

    rule: str
    severity: Severity
    location: str
    problem: str
    remedy: str


def unreadable(location: str, error: Exception) -> Finding:
    """The finding of a record that can't be read."""
    remedy = "get a new copy of the shard, or write it again without the record"
    return Finding("unreadable", "error", location, str(error), remedy)


def report(
    out: Output, findings: Sequence[Finding], facts: dict[str, int], checked: Iterable[str], nothing: str
) -> ExitStatus:
    """Prints the findings, and gives the exit status.

    facts: numbers of what was looked at, for --json. checked: the rules that were applied. nothing: the line for data
    without a finding.
    """
    out.document({**facts, "checked": list(checked), "findings": [asdict(finding) for finding in findings]})
    for rule in dict.fromkeys(finding.rule for finding in findings):
        same = [finding for finding in findings if finding.rule == rule]
        out.text(f"{same[0].severity} {rule}", style=STYLES[same[0].severity])
        for finding in same[:SHOWN]:
            out.text(f"  {finding.location}: {finding.problem}")
        if len(same) > SHOWN:
            out.text(f"  and {len(same) - SHOWN:,} more; --json has all")
        for remedy in dict.fromkeys(finding.remedy for finding in same if finding.remedy):
            out.text(f"  -> {remedy}")
    if not findings:
        out.text(nothing)
    else:
        errors = sum(finding.severity == "error" for finding in findings)
        out.text(f"{counted(errors, 'error')}, {counted(len(findings) - errors, 'warning')}")
    return ExitStatus.FINDINGS if findings else ExitStatus.DONE
