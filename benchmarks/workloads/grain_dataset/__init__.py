"""Grain's Dataset API, and the same names here: scripts with the import changed."""

from benchmarks.workloads.grain_dataset import packing, records

BENCHMARKS = tuple(benchmark for part in (packing, records) for benchmark in part.BENCHMARKS)
