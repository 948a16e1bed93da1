"""Files of tables, written and read: Parquet and Arrow beside Hugging Face's data sets; TFRecord beside tf.data."""

from benchmarks.workloads.formats import tables, tfrecord

BENCHMARKS = tables.BENCHMARKS + tfrecord.BENCHMARKS
