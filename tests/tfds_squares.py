"""A small data set that TFDS prepares, as ArrayRecord or TFRecord files, without TensorFlow and without a download."""

import struct
from pathlib import Path

import google_crc32c
import numpy as np

from loaderkit.formats.array_record.source import ArrayRecordDataSource

COUNTS = {"train": 40, "test": 10}


def square(i):
    return {"image": np.full((4, 4), i, np.uint8), "label": i * i, "name": f"square {i}"}


def prepared_squares(folder, *, version="1.2.0", tfrecord=False):
    """The folder of the version. TFDS itself writes ArrayRecord; as TFRecord it would need TensorFlow."""
    import tensorflow_datasets as tfds

    class LoaderkitSquares(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version(version)

        def _info(self):
            features = tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Tensor(shape=(4, 4), dtype=np.uint8),
                    "label": tfds.features.Scalar(dtype=np.int64),
                    "name": tfds.features.Text(),
                }
            )
            return tfds.core.DatasetInfo(builder=self, features=features, supervised_keys=("image", "label"))

        def _split_generators(self, dl_manager):
            return {split: self._generate_examples(count) for split, count in COUNTS.items()}

        def _generate_examples(self, count):
            for i in range(count):
                yield i, square(i)

    builder = LoaderkitSquares(data_dir=folder, file_format="array_record")
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=3))
    path = Path(builder.data_dir)
    if tfrecord:
        for file in sorted(path.glob("*.array_record-*")):
            records = list(ArrayRecordDataSource(str(file)))
            file.with_name(file.name.replace("array_record", "tfrecord")).write_bytes(
                b"".join(map(framed, records))
            )
            file.unlink()
        info = path / "dataset_info.json"
        info.write_text(info.read_text().replace("array_record", "tfrecord"))
    return path


def framed(record: bytes) -> bytes:
    """A record of a TFRecord file."""

    def masked(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)
