"""Files of tables beside Hugging Face's data sets; writers beside those of the formats."""

from benchmarks.workloads.formats import tables, writing

BENCHMARKS = tables.BENCHMARKS + writing.BENCHMARKS
