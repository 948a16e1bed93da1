"""Documents of any length packed into rows of tokens."""

from benchmarks.workloads.packing import planning, rows

BENCHMARKS = tuple(benchmark for part in (planning, rows) for benchmark in part.BENCHMARKS)
