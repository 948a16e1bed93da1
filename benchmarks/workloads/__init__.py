"""One module for each workload, loaded on demand: its data, its functions, its benchmarks."""

from importlib import import_module

from benchmarks.benchmark import Benchmark

NAMES = (
    "plan", "small", "mnist", "columnar", "images", "jpeg", "text", "arrayrecord", "transport", "chain", "resume",
    "start", "memory", "skewed", "slow", "busy", "scale", "storage", "mixture", "packing", "buckets", "interop",
    "formats", "remote", "grain-dataset", "language", "recipe", "example",
)  # fmt: skip


def benchmarks_of(name: str) -> tuple[Benchmark, ...]:
    """The benchmarks of the workload with that name."""
    found: tuple[Benchmark, ...] = import_module(f"benchmarks.workloads.{name.replace('-', '_')}").BENCHMARKS
    return found
