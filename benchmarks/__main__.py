"""`python -m benchmarks`: runs benchmarks and prints their tables."""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import machine, table
from benchmarks.augment import run as augment_table
from benchmarks.benchmark import Size
from benchmarks.chunk_order import run as chunk_order_table
from benchmarks.conformance.table import run as conformance_table
from benchmarks.contender import LIBRARIES
from benchmarks.crop_bound import run as crop_bound_table
from benchmarks.grain_scripts.table import run as grain_scripts_table
from benchmarks.growth import run as growth_table
from benchmarks.photographs import VARIABLE
from benchmarks.runner import Outcome, run
from benchmarks.summary import summarised
from benchmarks.visibility.table import run as visibility_table
from benchmarks.workloads import NAMES, benchmarks_of

PEERS = tuple(name for name in LIBRARIES if name not in ("bare", "loaderkit"))

# Tables that aren't workloads; "all" doesn't run them.
OTHER_TABLES = (
    "conformance",
    "grain-scripts",
    "chunk-order",
    "growth",
    "visibility",
    "augment",
    "crop-bound",
)


def other_tables(asked: argparse.Namespace, peers: set[str]) -> None:
    """Prints the tables that were asked for."""
    if "conformance" in asked.names:
        print(conformance_table(peers, smoke=asked.smoke, say=say))
    if "grain-scripts" in asked.names:
        print(grain_scripts_table(repeats=asked.repeats, smoke=asked.smoke, say=say))
    if "chunk-order" in asked.names:
        print(chunk_order_table(repeats=asked.repeats, smoke=asked.smoke, say=say))
    if "growth" in asked.names:
        print(growth_table(repeats=asked.repeats, smoke=asked.smoke, say=say))
    if "augment" in asked.names:
        print(augment_table(peers, repeats=asked.repeats, smoke=asked.smoke, say=say))
    if "crop-bound" in asked.names:
        print(crop_bound_table(repeats=asked.repeats, smoke=asked.smoke, say=say))
    if "visibility" in asked.names:
        print(visibility_table(peers, smoke=asked.smoke, say=say))


def main(arguments: list[str] | None = None) -> int:
    """Runs what the command line asks for; 1 if a contender failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"{', '.join(NAMES)}, all of these, or {', '.join(OTHER_TABLES)}",
    )
    parser.add_argument("--peers", help=f"some of {','.join(PEERS)}; by default all that are installed")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="rounds (5)")
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="length of a steady window (2)"
    )
    parser.add_argument(
        "--latency", type=float, default=20.0, metavar="MS", help="of the server of `storage` (20)"
    )
    parser.add_argument(
        "--megabytes",
        type=int,
        default=1_200,
        metavar="MB",
        help="of data on the server of `storage` (1,200)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for every round's figures")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help=f"folder of real photographs (or ${VARIABLE})"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="only check that everything runs: the figures mean nothing"
    )
    asked = parser.parse_args(arguments)
    names = NAMES if asked.names in ([], ["all"]) else tuple(n for n in asked.names if n not in OTHER_TABLES)
    peers = set(PEERS if asked.peers is None else filter(None, asked.peers.split(",")))
    if unknown := {*names} - {*NAMES}:
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}: {', '.join(NAMES)}, or all")
    if unknown := peers - {*PEERS}:
        parser.error(f"--peers: no {', '.join(sorted(unknown))}: {', '.join(PEERS)}")
    if asked.repeats < 1:
        parser.error("--repeats: at least 1")
    if asked.data is not None:
        if not asked.data.is_dir():
            parser.error(f"--data: {asked.data} is not a folder")
        os.environ[VARIABLE] = str(asked.data.resolve())
    other_tables(asked, peers)
    if not names:
        return 0
    if asked.smoke:
        peers, asked.repeats, asked.seconds = set(), 1, 0.01

    about: dict[str, Any] = {"machine": machine.machine(), "versions": machine.versions()}
    print(table.heading(about["machine"], about["versions"], repeats=asked.repeats, seconds=asked.seconds))
    outcomes = []
    load_before = machine.load()
    with tempfile.TemporaryDirectory(prefix="loaderkit-benchmarks-") as folder:
        size = Size(
            seconds=asked.seconds,
            smoke=asked.smoke,
            folder=Path(folder),
            latency_s=asked.latency / 1e3,
            megabytes=asked.megabytes,
        )
        for name in names:
            for benchmark in benchmarks_of(name):
                outcome = run(name, benchmark, peers=peers, repeats=asked.repeats, size=size, say=say)
                print(f"\n{table.of_outcome(outcome)}", flush=True)
                outcomes.append(outcome)
    print(f"\n{table.ahead(outcomes)}")
    loads = {"before": load_before, "after": machine.load()}
    print(f"\nLoad of the machine before {loads['before']}, after {loads['after']}.")
    if asked.json is not None:
        how = {
            "repeats": asked.repeats,
            "seconds": asked.seconds,
            "smoke": asked.smoke,
            "load": loads,
            "latency": asked.latency,
            "megabytes": asked.megabytes,
        }
        document = {**about, "how": how, "benchmarks": [as_json(outcome) for outcome in outcomes]}
        asked.json.write_text(json.dumps(document, indent=1) + "\n")
    return 1 if any(outcome.failures for outcome in outcomes) else 0


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Every measured figure, and the comparisons made of them."""
    comparisons = []
    for comparison in outcome.benchmark.comparisons:
        summary = summarised(comparison, outcome.rounds)
        if summary is None:
            continue
        bound = comparison.bound
        comparisons.append(
            {
                "label": comparison.label,
                "values": summary.values,
                "median": summary.median,
                "interval": summary.interval,
                "confidence": summary.confidence,
                "to reach": None if bound is None else str(bound),
                "reached": None if bound is None else bound.holds(summary.median, summary.interval),
            }
        )
    return {
        "name": outcome.benchmark.name,
        "workload": outcome.workload,
        "what": outcome.benchmark.what,
        "rounds": outcome.rounds,
        "comparisons": comparisons,
        "not run": outcome.left_out,
        "failed": outcome.failures,
    }


def say(line: str) -> None:
    """Prints progress to stderr, since stdout has the tables."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
