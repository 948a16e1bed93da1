"""Documents of any length packed into rows of tokens."""

from benchmarks.workloads.packing import planning, remote, rows

BENCHMARKS = tuple(benchmark for part in (planning, rows, remote) for benchmark in part.BENCHMARKS)
