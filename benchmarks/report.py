"""`python -m benchmarks.report FIGURES.json [MORE.json …]`: the comparisons of earlier runs as one table."""

import json
import sys
from pathlib import Path

from benchmarks import table
from benchmarks.runner import Outcome
from benchmarks.workloads import benchmarks_of


def main(paths: list[str]) -> int:
    """Prints the table of the files that `--json` wrote, and the rows where a peer is ahead."""
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    documents = [json.loads(Path(path).read_text()) for path in paths]
    for document in documents:
        names = ", ".join(dict.fromkeys(found["workload"] for found in document["benchmarks"]))
        how = document["how"]
        versions = {name: what for name, what in document["versions"].items() if what != "not installed"}
        print(
            f"{names}: {how['repeats']} rounds, windows of {how['seconds']:g} s; {table.listed(document['machine'])} "
            f"{table.listed(versions)}\n"
        )
    outcomes = [outcome_of(found) for document in documents for found in document["benchmarks"]]
    print(table.of_all(outcomes))
    print(f"\n{table.ahead(outcomes)}")
    return 0


def outcome_of(found: dict[str, object]) -> Outcome:
    """The result of a benchmark that `--json` wrote, with the present definition of that benchmark."""
    workload, name = str(found["workload"]), str(found["name"])
    (benchmark,) = [benchmark for benchmark in benchmarks_of(workload) if benchmark.name == name]
    rounds, failed, not_run = found["rounds"], found["failed"], found["not run"]
    assert isinstance(rounds, list) and isinstance(failed, dict) and isinstance(not_run, dict)
    return Outcome(workload, benchmark, rounds, failed, not_run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
