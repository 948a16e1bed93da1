"""TFRecordDataSource: the records that were written, by any names, and errors that name file and offset."""

import gzip
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from formats.records import example, tfrecord

import loaderkit as lk
from loaderkit.formats._index.record_index import RecordIndex

SHARDS = [[b"a", b"", b"ccc"], [], [b"d" * 3000, b"e"]]
RECORDS = [record for shard in SHARDS for record in shard]


@pytest.fixture
def folder(tmp_path):
    for number, shard in enumerate(SHARDS):
        (tmp_path / f"train-{number}.tfrecord").write_bytes(tfrecord(shard))
    return tmp_path


def test_records_in_the_order_of_the_files(folder):
    """By calls of many keys, single keys and negative ones, also in a copy for a worker."""
    with lk.TFRecordDataSource(folder / "train-*.tfrecord", verify=True) as source:
        for one in (source, pickle.loads(pickle.dumps(source))):
            assert len(one) == 5
            assert one.__getitems__([4, 0, 3, 1, 2, -1, -5]) == [RECORDS[k] for k in [4, 0, 3, 1, 2, -1, -5]]
            assert [one[k] for k in range(-5, 5)] == RECORDS * 2
            assert all(type(record) is bytes for record in one.__getitems__(np.arange(5)))
            with pytest.raises(IndexError, match="expected an int from"):
                one[5]
            one.close()
        assert source.name(3) == f"{folder}/train-2.tfrecord[0]"


def test_names_and_parts(folder):
    """Braces, parts of files, a list; the fingerprint is that of the data."""
    with lk.TFRecordDataSource(f"{folder}/train-{{0..2}}.tfrecord") as source:
        fingerprint = source.fingerprint()
        assert source.__getitems__(range(5)) == RECORDS
    with lk.TFRecordDataSource([f"{folder}/train-2.tfrecord[1:2]", f"{folder}/train-0.tfrecord"]) as source:
        assert source.__getitems__(range(4)) == [b"e", b"a", b"", b"ccc"]
        assert source.fingerprint() != fingerprint
    copy = folder / "copy"
    copy.mkdir()
    for file in folder.glob("*.tfrecord"):
        (copy / file.name).write_bytes(file.read_bytes())
    with lk.TFRecordDataSource(copy / "train-*.tfrecord") as source:
        assert source.fingerprint() == fingerprint


def test_a_damaged_record_is_an_error(folder):
    """That names file, record and offset; with verify=False the record is given as it is."""
    path = folder / "train-2.tfrecord"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with lk.TFRecordDataSource(path, verify=False) as source:
        assert source[0] != RECORDS[3] and source[1] == b"e"
    with lk.TFRecordDataSource(path) as source:
        assert source[1] == b"e"
        with pytest.raises(
            lk.errors.DataFormatError, match=r"train-2.tfrecord: at byte 12, in record 0: .* checksum"
        ):
            source.__getitems__([1, 0])


@pytest.mark.parametrize("size", [5_000, 40_000])
@pytest.mark.parametrize("verify", [False, True])
def test_large_records(folder, verify, size):
    """They are read without their heads, in any order and side by side; a wrong checksum is found all the same."""
    path = folder / "large.tfrecord"
    records = [bytes([k]) * size for k in range(9)]
    data = bytearray(tfrecord(records))
    path.write_bytes(data)
    with lk.TFRecordDataSource(path, verify=verify) as source:
        keys = [8, 3, 4, 6, 0, 3]
        found = source.__getitems__(keys)
        assert found == [records[key] for key in keys] and {type(record) for record in found} == {bytes}
    data[3 * (size + 16) + 100] ^= 1
    path.write_bytes(data)
    with lk.TFRecordDataSource(path, verify=verify) as source:
        if verify:
            with pytest.raises(
                lk.errors.DataFormatError, match=rf"at byte {3 * (size + 16) + 12}, in record 3: .* checksum"
            ):
                source.__getitems__(keys)
        else:
            assert source.__getitems__(keys)[2:5] == [records[4], records[6], records[0]]


@pytest.mark.parametrize("size", [20_000, 50_000])
@pytest.mark.parametrize("verify", [False, True])
def test_an_index_that_lies_is_an_error(folder, verify, size):
    """A file of the same size and time that holds other records, which the samples of the index don't show."""
    path = folder / "big.tfrecord"
    records = [bytes([k]) * size for k in range(10)]
    path.write_bytes(tfrecord(records))
    with lk.TFRecordDataSource(path, verify=verify) as source:
        assert source[3] == records[3]
        stat = path.stat()
        data = bytearray(path.read_bytes())
        begin = 3 * (size + 16)
        assert data[begin : begin + 2] == size.to_bytes(2, "little")
        data[begin] ^= 1
        source.close()
        with path.open("r+b") as file:
            file.write(data)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert source[2] == records[2]
        with pytest.raises(
            lk.errors.FileChangedError,
            match=rf"big.tfrecord: at byte {begin}: .*record 3: .*length {size + 1}",
        ):
            source.__getitems__([2, 5, 3])


@pytest.mark.parametrize("size", [20_000, 400_000])
def test_an_index_whose_span_has_no_room_for_a_record_is_an_error(folder, monkeypatch, size):
    """Also among large records, whose parts are read by themselves."""
    path = folder / "big.tfrecord"
    path.write_bytes(tfrecord([bytes([k]) * size for k in range(10)]))
    with lk.TFRecordDataSource(path) as source:
        locate = RecordIndex.locate

        def lying(index, keys):
            shards, begins, ends = locate(index, keys)
            return shards, begins, np.where(keys == 3, begins + 5, ends)

        monkeypatch.setattr(RecordIndex, "locate", lying)
        with pytest.raises(lk.errors.FileChangedError, match=r"big.tfrecord: at byte .*record 3"):
            source.__getitems__([0, 5, 3])


@pytest.mark.parametrize("cut", [5, 15, 20])
def test_a_truncated_file_is_an_error(folder, cut):
    """When it is indexed, and when it is read after that."""
    path = folder / "train-0.tfrecord"
    whole = path.read_bytes()
    with lk.TFRecordDataSource(path) as source:
        path.write_bytes(whole[:cut])
        with pytest.raises(lk.errors.FileChangedError, match=r"train-0.tfrecord"):
            source[2]
    with pytest.raises(lk.errors.DataFormatError, match=r"train-0.tfrecord: at byte (0|17): .*truncated"):
        lk.TFRecordDataSource(path)


def test_compressed_files_are_refused(folder):
    """With what to do."""
    path = folder / "train.tfrecord.gz"
    path.write_bytes(gzip.compress(tfrecord(RECORDS)))
    with pytest.raises(
        lk.errors.DataFormatError, match=r"train.tfrecord.gz: at byte 0: .* gzip; unpack it first: gzip -d"
    ):
        lk.TFRecordDataSource(path)


def test_checksums_need_their_library(folder, monkeypatch):
    """Only verify=True does, at once."""
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[tfrecord\]'"):
        lk.TFRecordDataSource(folder / "train-0.tfrecord", verify=True)
    with lk.TFRecordDataSource(folder / "train-0.tfrecord") as source:
        assert source[2] == b"ccc"
    with pytest.raises(TypeError, match="verify: expected True, False or None, got 1"):
        lk.TFRecordDataSource(folder / "train-0.tfrecord", verify=1)


@pytest.mark.parametrize("worker_count", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_in_a_loader(tmp_path: Path, worker_count):
    """One stream of decoded batches, for any number of workers."""
    for shard in range(2):
        (tmp_path / f"{shard}.tfrecord").write_bytes(
            tfrecord(example({"label": [10 * shard + k], "x": [0.5] * k}) for k in range(10))
        )
    source = lk.TFRecordDataSource(tmp_path / "*.tfrecord")
    loader = lk.load(
        source,
        batch_size=4,
        num_epochs=1,
        operations=[lk.transforms.decode.Example({"label": np.int64})],
        worker_count=worker_count,
    )
    with source, iter(loader) as batches:
        assert np.concatenate([batch["label"] for batch in batches]).tolist() == [*range(20)]
