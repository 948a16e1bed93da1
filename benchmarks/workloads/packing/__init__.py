"""Documents of any length packed into rows of tokens."""

from benchmarks.workloads.packing import planning

BENCHMARKS = tuple(benchmark for part in (planning,) for benchmark in part.BENCHMARKS)
