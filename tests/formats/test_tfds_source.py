"""A TFDS builder, prepared here as ArrayRecord, is a source as it is, without TensorFlow."""

import pickle
import sys

import numpy as np
import pytest

from loaderkit._source.content import content_hash, sampled_keys
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.protocol import read_records
from loaderkit.formats.array_record.source import ArrayRecordDataSource
from loaderkit.sources import ConcatDataSource, SubsetDataSource
from loaderkit.sources.checked import check_source
from loaderkit.sources.foreign_files import foreign_files

tfds = pytest.importorskip("tensorflow_datasets")

COUNTS = {"train": 40, "test": 10}


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    """Pictures and labels that are a function of a number, written by TFDS itself to several shards."""

    class LoaderkitSquares(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.2.0")

        def _info(self):
            features = tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Tensor(shape=(4, 4), dtype=np.uint8),
                    "label": tfds.features.Scalar(dtype=np.int64),
                    "name": tfds.features.Text(),
                }
            )
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, dl_manager):
            return {split: self._generate_examples(count) for split, count in COUNTS.items()}

        def _generate_examples(self, count):
            for i in range(count):
                yield i, {"image": np.full((4, 4), i, np.uint8), "label": i * i, "name": f"square {i}"}

    folder = tmp_path_factory.mktemp("tfds")
    config = tfds.download.DownloadConfig(num_shards=3)
    builder = LoaderkitSquares(data_dir=folder, file_format="array_record")
    builder.download_and_prepare(download_config=config)
    return builder


def check_record(record):
    i = int(record["image"][0, 0])
    assert record["image"].tolist() == [[i] * 4] * 4
    assert (record["label"], record["name"]) == (i * i, f"square {i}".encode())
    return i


def test_every_record_is_read_without_tensorflow(builder):
    """What builder.as_data_source gives: each record once, decoded, one by one or many at a time."""
    assert "tensorflow" not in sys.modules
    for split, count in COUNTS.items():
        source = builder.as_data_source(split=split)
        check_source(source)
        one_by_one = [check_record(source[key]) for key in range(count)]
        assert sorted(one_by_one) == list(range(count))
        keys = [count - 1, 0, 3, 3]
        assert [check_record(r) for r in read_records(source, keys)] == [one_by_one[key] for key in keys]
    assert "tensorflow" not in sys.modules


def test_the_function_gives_the_same_as_the_builder(builder):
    """tfds.data_source finds the prepared files by name, with a slice of a split."""
    part = tfds.data_source(
        "loaderkit_squares", split="train[:25%]", data_dir=builder.data_path.parent.parent
    )
    whole = builder.as_data_source(split="train")
    assert len(part) == 10
    assert [check_record(part[key]) for key in range(10)] == [check_record(whole[key]) for key in range(10)]


def test_all_splits_at_once_are_no_source(builder):
    """Without split= TFDS gives a dict; the error says to choose one."""
    with pytest.raises(TypeError, match=r"data_source: .*got a dict with the keys 'train', 'test'.*a split"):
        check_source(builder.as_data_source())


def test_the_fingerprint_names_data_set_version_and_split(builder):
    """The same when it is opened again; another split is other data."""
    seen = fingerprint_of(builder.as_data_source(split="train"))
    assert seen["kind"] == "foreign"
    assert (seen["tfds"], seen["split"], seen["records"]) == ("loaderkit_squares/1.2.0", "train", 40)
    again = tfds.data_source(
        "loaderkit_squares:1.2.0", split="train", data_dir=builder.data_path.parent.parent
    )
    assert seen == fingerprint_of(again)
    assert seen != fingerprint_of(builder.as_data_source(split="train[:39]"))
    assert seen != fingerprint_of(builder.as_data_source(split="test"))


def test_its_content_is_known_as_it_is_stored(builder):
    """No record is decoded for it; the files that workers open by name are known."""
    source = builder.as_data_source(split="train")
    stored = source.data_source
    content = fingerprint_of(source)["content"]
    assert content == content_hash([stored[key] for key in sampled_keys(40)])
    assert len(foreign_files(source)) == 3
    assert all("squares-train.array_record" in path for path in foreign_files(source))


def test_it_travels_to_a_worker(builder, in_child):
    """Opened read-only, as by name, it is pickled and read in another process."""
    source = tfds.builder_from_directory(builder.data_dir).as_data_source(split="test")
    expected = [check_record(source[key]) for key in range(10)]
    assert in_child(source, lambda source: [int(source[key]["image"][0, 0]) for key in range(10)]) == expected
    assert pickle.loads(pickle.dumps(source))[3]["label"] == source[3]["label"]


def test_sources_of_ours_go_around_it(builder):
    """Concatenations and subsets of TFDS sources, whose batched reads are used."""
    train, test = (builder.as_data_source(split=split) for split in ("train", "test"))
    source = SubsetDataSource(ConcatDataSource([train, test]), [45, 0, 39])
    assert [check_record(record) for record in source.__getitems__([0, 1, 2])] == [
        check_record(test[5]),
        check_record(train[0]),
        check_record(train[39]),
    ]


def test_its_files_are_array_records(builder):
    """The files that TFDS wrote, and the instructions that it gives for a part, are read by our own source."""
    files = ArrayRecordDataSource(f"{builder.data_dir}/loaderkit_squares-train.array_record@3")
    assert len(files) == 40
    instructions = builder.info.splits["train[10:30]"].file_instructions
    part = ArrayRecordDataSource(instructions)
    assert list(part) == [files[key] for key in range(10, 30)]
    decode = builder.info.features.deserialize_example_np
    theirs = builder.as_data_source(split="train[10:30]")
    assert [check_record(decode(record)) for record in part] == [
        check_record(theirs[key]) for key in range(20)
    ]
