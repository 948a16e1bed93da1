"""Files of tables, written and read: Parquet and Arrow beside Hugging Face's data sets."""

from benchmarks.workloads.formats import tables

BENCHMARKS = tables.BENCHMARKS
