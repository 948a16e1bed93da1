"""Language models, from token files to an audit: each file of this folder has rows of the table."""

from importlib import import_module
from pkgutil import iter_modules

from benchmarks.benchmark import Benchmark

BENCHMARKS: tuple[Benchmark, ...] = tuple(
    benchmark
    for found in sorted(iter_modules(__path__), key=lambda found: found.name)
    for benchmark in import_module(f"{__name__}.{found.name}").BENCHMARKS
)
