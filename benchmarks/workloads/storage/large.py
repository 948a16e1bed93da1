"""The index of 10^9 records in 10^5 shards, made up: a file of 4 GB, a hole but for the places of 100 shards.

Opening: reads the header and checks sections below 1 MiB. Lookup: `locate` in calls of 256 random records of those 100
shards. Memory: what both add to the process. No data is read.
"""

from benchmarks.benchmark import Benchmark, Metrics, Size, plain
from benchmarks.contender import Contender
from benchmarks.large_index import make_large_index, measure_large_index

OPENING, LOOKUP, MEMORY = "ms to open", "ns a key", "MiB held"
OURS = Contender("loaderkit, an index of 10^9 records", "loaderkit")


def measure(contender: Contender, size: Size) -> Metrics:
    """One opening and 512,000 lookups."""
    path = size.folder / "large.lkx"
    large = make_large_index(str(path), shards=size.pick(10**5, 1000), filled=size.pick(100, 10))
    found = measure_large_index(large, calls=size.pick(2000, 20))
    path.unlink()
    return {
        OPENING: found["opening_s"] * 1e3,
        LOOKUP: found["lookup_us"] * 1e3,
        MEMORY: max(found["memory_mib"], 0.01),
    }


BENCHMARKS = (
    Benchmark(
        "storage: 10^9 records",
        __doc__ or "",
        (OURS,),
        measure,
        (plain(OURS, OPENING), plain(OURS, LOOKUP), plain(OURS, MEMORY)),
    ),
)
