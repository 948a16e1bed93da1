"""The process of one contender: `python -m benchmarks.child`, started by the runner, writes its metrics to a file.

In a smoke run one process takes several contenders in turn, none with more than one worker: most of its time is the
start of processes.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from benchmarks.benchmark import Size
from benchmarks.workloads import benchmarks_of


def main() -> None:
    """Measures what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.child")
    parser.add_argument("workload")
    parser.add_argument("benchmark")
    parser.add_argument("contenders", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--latency-s", type=float, required=True)
    parser.add_argument("--megabytes", type=int, required=True)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()

    (benchmark,) = (b for b in benchmarks_of(asked.workload) if b.name == asked.benchmark)
    by_name = {contender.name: contender for contender in benchmark.contenders}
    size = Size(
        seconds=asked.seconds,
        smoke=asked.smoke,
        folder=asked.folder,
        latency_s=asked.latency_s,
        megabytes=asked.megabytes,
    )
    contenders = [by_name[name] for name in asked.contenders]
    if size.smoke:
        contenders = [replace(contender, workers=min(contender.workers, 1)) for contender in contenders]
    metrics = {contender.name: benchmark.measure(contender, size) for contender in contenders}
    asked.out.write_text(json.dumps(metrics))


if __name__ == "__main__":
    main()
