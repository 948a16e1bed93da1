"""Data files, local and on a server: tar, TFRecord and JSON Lines, their index, the cache, the order by chunks."""

from benchmarks.workloads.storage import index, json_lines, keys, large, server, tar, tfrecord

BENCHMARKS = tuple(
    benchmark
    for part in (tar, tfrecord, json_lines, index, keys, large, server)
    for benchmark in part.BENCHMARKS
)
