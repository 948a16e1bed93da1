"""Mixtures: their keys, reading through them, restoring them, and the chunks that hosts read."""

from benchmarks.workloads.mixture import chunks, keys, reads, restore

BENCHMARKS = tuple(benchmark for part in (keys, reads, restore, chunks) for benchmark in part.BENCHMARKS)
