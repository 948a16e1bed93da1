"""TfdsDataSource: what TFDS gives for the same files and split, of ArrayRecord and TFRecord sets."""

import pickle
import shutil
import sys

import numpy as np
import pytest
from tfds_squares import prepared_squares

import loaderkit as lk
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit.errors import DataFormatError

tfds = pytest.importorskip("tensorflow_datasets")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("tfds")
    array_record = prepared_squares(data_dir / "array_record")
    return {"array_record": array_record, "tfrecord": prepared_squares(data_dir / "tfrecord", tfrecord=True)}


@pytest.fixture(params=["array_record", "tfrecord"])
def folder(request, folders):
    return folders[request.param]


def same(mine, theirs):
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert type(mine[name]) is type(theirs[name])
        np.testing.assert_array_equal(mine[name], theirs[name])


@pytest.mark.parametrize("split", ["train", "train[10%:20%]+test", "train[1shard]", "all", "train[-3:]"])
def test_records_are_those_of_tfds(folder, folders, split):
    """In TFDS's order, one by one or many at a time, without TensorFlow."""
    theirs = tfds.builder_from_directory(folders["array_record"]).as_data_source(split=split)
    with lk.formats.TfdsDataSource(folder, split) as mine:
        assert len(mine) == len(theirs)
        for record, expected in zip(mine, theirs, strict=True):
            same(record, expected)
        for record, key in zip(mine.__getitems__([1, 0, 1]), [1, 0, 1]):
            same(record, theirs[key])
    assert "tensorflow" not in sys.modules


def test_pairs_and_decoders(folder):
    """TFDS's supervised keys, and its decoders."""
    image, label = lk.formats.TfdsDataSource(folder, "test", as_supervised=True)[3]
    assert image.shape == (4, 4) and label == int(image[0, 0]) ** 2
    raw = lk.formats.TfdsDataSource(folder, "test", decoders={"name": tfds.decode.SkipDecoding()})
    assert raw[3]["name"] == f"square {image[0, 0]}".encode()


def test_a_name_is_found_in_data_dir(folder):
    """With a pattern of versions, by lk.formats.TfdsDataSource and by lk.open."""
    data_dir = folder.parent.parent
    seen = lk.formats.TfdsDataSource("loaderkit_squares:1.*.*", "train", data_dir=data_dir)
    opened = lk.open("loaderkit_squares:1.*", "train", data_dir=data_dir)
    pairs = lk.open(folder, "train", as_supervised=True)
    for key in (0, 39):
        same(seen[key], opened[key])
        assert pairs[key][1] == seen[key]["label"]


def test_a_worker_reads_it(folder):
    """It is pickled without features and data; batches are the same in a worker process."""
    source = lk.formats.TfdsDataSource(folder, "train[:8]")
    assert len(pickle.dumps(source)) < 4000
    batches = [
        next(iter(lk.load(source, batch_size=8, operations=[label_only], worker_count=count)))
        for count in (0, 1)
    ]
    assert batches[0].tolist() == batches[1].tolist() == [record["label"] for record in source]


def label_only(record):
    return record["label"]


def test_the_fingerprint_is_of_data_and_decoding(folders, tmp_path):
    """A copy elsewhere is the same data; another split, decoding or format isn't."""
    copy = tmp_path / "copy"
    shutil.copytree(folders["array_record"], copy)
    seen = fingerprint_of(lk.formats.TfdsDataSource(copy, "train"))
    assert seen == fingerprint_of(lk.formats.TfdsDataSource(folders["array_record"], "train"))
    assert seen["dataset"] == "loaderkit_squares/1.2.0" and str(tmp_path) not in str(seen)
    for other in (
        lk.formats.TfdsDataSource(copy, "train[:39]"),
        lk.formats.TfdsDataSource(copy, "train", as_supervised=True),
        lk.formats.TfdsDataSource(copy, "train", decoders={"name": tfds.decode.SkipDecoding()}),
        lk.formats.TfdsDataSource(folders["tfrecord"], "train"),
    ):
        assert fingerprint_of(other) != seen


def test_what_cannot_be_opened(folders, tmp_path):
    """Each error says what is expected."""
    folder = folders["array_record"]
    with pytest.raises(
        FileNotFoundError, match=r"^my_set: expected a data set that TFDS has prepared in .*, got none"
    ):
        lk.formats.TfdsDataSource("my_set", "train", data_dir=tmp_path)
    with pytest.raises(ValueError, match=r"Unknown split 'val'"):
        lk.formats.TfdsDataSource(folder, "val")
    with pytest.raises(ValueError, match=r"^split: expected one record or more, got 'train\[3:3\]'"):
        lk.formats.TfdsDataSource(folder, "train[3:3]")
    with pytest.raises(TypeError, match=r"^split: expected a text such as .*, got a NoneType"):
        lk.formats.TfdsDataSource(folder, None)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    info = copy / "dataset_info.json"
    info.write_text(info.read_text().replace('"fileFormat": "array_record"', '"fileFormat": "riegeli"'))
    with pytest.raises(
        DataFormatError, match=r"expected files of the format array_record or tfrecord, got riegeli"
    ):
        lk.formats.TfdsDataSource(copy, "train")
