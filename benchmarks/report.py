"""`python -m benchmarks.report [FIGURES.json …]`: the comparisons of earlier runs as one table.

Without files it is made of `figures/*.json`, which are of one commit, and put into the README.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import table
from benchmarks.runner import Outcome
from benchmarks.workloads import benchmarks_of

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- made by python -m benchmarks.report -->\n", "<!-- end of what it made -->\n"


def main(paths: list[str]) -> int:
    """Prints the table of the files that `--json` wrote, and the rows where a peer is ahead."""
    if paths:
        print(report_of(documents_of(map(Path, paths))))
    else:
        README.write_text(with_report(README.read_text(), kept()))
    return 0


def documents_of(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """What `--json` wrote."""
    return [json.loads(path.read_text()) for path in paths]


def kept() -> list[dict[str, Any]]:
    """The figures of the README's table."""
    return documents_of(sorted(README.with_name("figures").glob("*.json")))


def with_report(text: str, documents: list[dict[str, Any]]) -> str:
    """The README with pictures and the table of figures; ValueError where they aren't of one commit.

    `python -m docs.pictures` draws the pictures.
    """
    commits = sorted({document["versions"]["loaderkit"] for document in documents})
    if len(commits) != 1 or "-dirty" in commits[0]:
        raise ValueError(f"expected figures of one commit without changes, got {', '.join(commits)}")
    before, rest = text.split(BEGIN)
    names = [document["benchmarks"][0]["workload"] for document in documents]  # a file has its own name's
    pictures = "\n\n".join(
        f"![The ratios of {name}, which the table has, too](figures/{name}.svg)" for name in names
    )
    return f"{before}{BEGIN}\n{pictures}\n\n{report_of(documents)}\n\n{END}{rest.split(END)[1]}"


def report_of(documents: list[dict[str, Any]]) -> str:
    """How each was measured, the table, and the rows where a peer is ahead."""
    parts = []
    for document in documents:
        names = ", ".join(dict.fromkeys(found["workload"] for found in document["benchmarks"]))
        how, load = document["how"], document["how"]["load"]
        versions = {name: what for name, what in document["versions"].items() if what != "not installed"}
        parts.append(
            f"{names}: {how['repeats']} rounds, windows of {how['seconds']:g} s, load of the machine {load['before']} "
            f"before and {load['after']} after; {table.listed(document['machine'])} {table.listed(versions)}"
        )
    outcomes = [outcome_of(found) for document in documents for found in document["benchmarks"]]
    return "\n\n".join((*parts, table.of_all(outcomes), table.ahead(outcomes)))


def outcome_of(found: dict[str, object]) -> Outcome:
    """The result of a benchmark that `--json` wrote, with the present definition of that benchmark."""
    workload, name = str(found["workload"]), str(found["name"])
    (benchmark,) = [benchmark for benchmark in benchmarks_of(workload) if benchmark.name == name]
    rounds, failed, not_run = found["rounds"], found["failed"], found["not run"]
    assert isinstance(rounds, list) and isinstance(failed, dict) and isinstance(not_run, dict)
    return Outcome(workload, benchmark, rounds, failed, not_run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
