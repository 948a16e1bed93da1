"""Documents of any length packed into rows of tokens."""

from benchmarks.workloads.packing import planning, remote, restore, rows, windows

BENCHMARKS = tuple(
    benchmark for part in (planning, rows, windows, remote, restore) for benchmark in part.BENCHMARKS
)
