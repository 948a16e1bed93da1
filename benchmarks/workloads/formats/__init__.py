"""Files of tables beside Hugging Face's data sets; TFRecord beside tf.data; writers beside those of the formats."""

from benchmarks.workloads.formats import tables, tfrecord, writing

BENCHMARKS = tables.BENCHMARKS + tfrecord.BENCHMARKS + writing.BENCHMARKS
