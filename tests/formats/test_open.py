"""Data sets by name: versions, splits, cards that are wrong, files that changed."""

import contextlib
import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.version import version_of
from loaderkit.errors import ChecksumError, DataFormatError, FileChangedError
from loaderkit.formats._datasets.card import CARD, DatasetCard, ShardFile, read_card, write_card
from loaderkit.formats.open import open as open_dataset
from loaderkit.sources import ConcatDataSource, SubsetDataSource
from loaderkit.sources.record_features import features_of

RECORDS = {
    "train": [{"x": k, "y": k % 3} for k in range(25)],
    "test": [{"x": -k, "y": 0} for k in range(1, 4)],
}
SHARDS = {"train": (10, 25), "test": (3,)}


def write_version(data_dir, version, name="numbers", keys=("x", "y"), add=0):
    """A data set of JSON Lines, with a card of ours."""
    folder = data_dir / name / version
    splits = {}
    for split, records in RECORDS.items():
        start, files = 0, []
        (folder / split).mkdir(parents=True)
        for number, stop in enumerate(SHARDS[split]):
            path = folder / split / f"{number:05}-of-{len(SHARDS[split]):05}.jsonl"
            path.write_text("".join(json.dumps({**r, "x": r["x"] + add}) + "\n" for r in records[start:stop]))
            data = path.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            files.append(ShardFile(f"{split}/{path.name}", stop - start, len(data), digest))
            start = stop
        splits[split] = tuple(files)
    features = features_of(RECORDS["train"])
    card = DatasetCard(name, version, "jsonl", features, splits, {}, keys, libraries={"loaderkit": "0"})
    write_card(str(folder), card)
    return folder, card


@pytest.fixture
def data_dir(tmp_path):
    for version, add in (("1.0.0", 100), ("1.2.0", 0), ("1.10.0", 300), ("2.0.0", 400)):
        write_version(tmp_path, version, add=add)
    (tmp_path / "numbers" / "3.0.0").mkdir()  # without a card: not a data set yet
    return tmp_path


def test_a_name_means_its_newest_version(data_dir, monkeypatch):
    """By numbers; a folder without a card doesn't count; data_dir comes from the environment too."""
    first = {"numbers:1.0.0": 100, "numbers:1.2.*": 0, "numbers:1.*": 300, "numbers:1": 300, "numbers": 400}
    monkeypatch.setenv("LOADERKIT_DATA_DIR", str(data_dir))
    for name, x in first.items():
        assert open_dataset(name, "train")[0] == {"x": x, "y": 0}
    folder = data_dir / "numbers"
    assert open_dataset(folder, "train")[0]["x"] == 400
    assert open_dataset(f"{folder}:1.0.*", "train")[0]["x"] == 100
    assert open_dataset(folder / "1.2.0", "train")[0]["x"] == 0
    assert open_dataset(folder / "1.2.0" / CARD, "train")[0]["x"] == 0


def test_splits_slices_and_pairs(data_dir):
    """Slices are subsets by a range, a sum is a concatenation, pairs follow the card's keys."""

    def of(split, **options):
        return open_dataset("numbers:1.2.0", split=split, data_dir=data_dir, **options)

    train, test = RECORDS["train"], RECORDS["test"]
    part = of("train[10%:20%]")
    assert isinstance(part, SubsetDataSource)
    assert list(part) == train[2:5]
    both = of("train[1shard]+test")
    assert isinstance(both, ConcatDataSource)
    assert list(both) == train[10:] + test
    assert list(of("all")) == train + test
    assert list(of("train[-2:] + test[:1]", as_supervised=True)) == [(23, 2), (24, 0), (-1, 0)]
    assert both.__getitems__([15, 0]) == [test[0], train[10]]
    assert pickle.loads(pickle.dumps(part))[2] == train[4]


def test_the_fingerprint_is_of_the_content(data_dir, tmp_path):
    """A copy elsewhere is the same data; another slice, version or content isn't."""
    copy = tmp_path / "copy"
    shutil.copytree(data_dir / "numbers" / "1.2.0", copy)

    def seen(name, split="train[:5]"):
        return fingerprint_of(open_dataset(name, split, data_dir=data_dir))

    assert seen("numbers:1.2.0") == seen(copy)
    assert str(tmp_path) not in json.dumps(seen(copy))
    others = [seen("numbers:1.0.0"), seen("numbers:1.2.0", "train[:6]"), seen("numbers:1.2.0", "test")]
    assert all(other != seen(copy) for other in others)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (
            "numbers:4.*",
            FileNotFoundError,
            r"expected one of the versions 1.0.0, 1.2.0, 1.10.0, 2.0.0 in .*, got '4.\*'",
        ),
        (
            "letters",
            FileNotFoundError,
            r"letters: .* in .*letters, got no such folder; write it with .*no file or folder is '\./letters'",
        ),
        ("numbers:new", ValueError, r"version: expected a version or a pattern"),
        ("num bers", ValueError, r"name: expected the name of a data set, got 'num bers'"),
        ("../numbers", FileNotFoundError, r"expected a data set in"),
        (3, TypeError, r"name: expected a text or a path, got a int"),
    ],
)
def test_a_name_that_means_nothing(data_dir, name, error, message):
    """The error says what there is."""
    with pytest.raises(error, match=message):
        open_dataset(name, "train", data_dir=data_dir)


def test_a_path_that_looks_like_a_name(data_dir, monkeypatch, tmp_path):
    """The error says how to write it, where there is such a folder."""
    monkeypatch.chdir(data_dir)
    with pytest.raises(
        FileNotFoundError, match=r"got no such folder; write '\./numbers' for the folder here"
    ):
        open_dataset("numbers", "train", data_dir=tmp_path / "empty")
    assert open_dataset("./numbers", "train", data_dir=tmp_path / "empty")


def test_other_arguments_that_mean_nothing(data_dir, tmp_path):
    """Empty slices, no supervised keys, wrong types."""
    with pytest.raises(
        ValueError, match=r"split: expected one record or more, got 'train\[3:3\]' of numbers:2.0.0"
    ):
        open_dataset("numbers", "train[3:3]", data_dir=data_dir)
    write_version(tmp_path, "1.0.0", name="plain", keys=None)
    with pytest.raises(
        ValueError, match=r"as_supervised: expected a data set with supervised keys, got plain:1.0.0"
    ):
        open_dataset("plain", "train", as_supervised=True, data_dir=data_dir)
    with pytest.raises(TypeError, match=r"as_supervised: expected True or False, got 1"):
        open_dataset("numbers", "train", as_supervised=1, data_dir=data_dir)
    with pytest.raises(TypeError, match=r"data_dir: expected a path or None, got a int"):
        open_dataset("numbers", "train", data_dir=3)


def test_a_split_that_is_no_text(data_dir, tmp_path):
    """The error says which splits there are, and how several are written."""
    with pytest.raises(ValueError, match=r"split: expected one of 'train', 'test', a slice or .*, got None"):
        open_dataset("numbers", data_dir=data_dir)
    prepared = tmp_path / "mnist" / "1.0.0"
    prepared.mkdir(parents=True)
    (prepared / "dataset_info.json").write_text('{"splits": [{"name": "train"}, {"name": "test"}]}')
    with pytest.raises(ValueError, match=r"split: expected one of 'train', 'test', a slice or .*, got None"):
        open_dataset("mnist", data_dir=tmp_path)
    with pytest.raises(TypeError, match=r"split: expected a text, got a list; write 'train\+test', or open"):
        open_dataset("numbers", ["train", "test"], data_dir=data_dir)
    with pytest.raises(TypeError, match=r"split: expected a text, got a int; write for example"):
        open_dataset("numbers", 3, data_dir=data_dir)


def test_files_that_changed(data_dir):
    """A missing file, and one of another size, are named before any record is read."""
    path = data_dir / "numbers" / "2.0.0" / "train" / "00001-of-00002.jsonl"
    path.write_text(path.read_text() + '{"x": 1}\n')
    with pytest.raises(
        FileChangedError, match=r"00001-of-00002.jsonl: expected \d+ bytes as the data set's card says"
    ):
        open_dataset("numbers", "train", data_dir=data_dir)
    assert len(open_dataset("numbers", "test", data_dir=data_dir)) == 3
    path.unlink()
    with pytest.raises(
        FileNotFoundError, match=r"00001-of-00002.jsonl: expected a file of the data set's card, got none"
    ):
        open_dataset("numbers", "train", data_dir=data_dir)


def test_a_card_comes_back(tmp_path):
    """What is written is read, and equal cards are equal bytes."""
    folder, card = write_version(tmp_path, "1.0.0")
    assert read_card(str(folder / CARD)) == card
    before = (folder / CARD).read_bytes()
    write_card(str(folder), card)
    assert (folder / CARD).read_bytes() == before
    assert read_card(str(folder / CARD)).features == {"x": "int64()", "y": "int64()"}


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["kind"], "tfds", "kind: expected 'loaderkit data set', got 'tfds'"),
        (["card_version"], 2, "card_version: expected 1, got 2; a newer loaderkit may read it"),
        (["version"], "1.0", "version: expected MAJOR.MINOR.PATCH, got 1.0"),
        (["name"], "../x", "name: expected letters, digits, _, - and ., got ../x"),
        (["format"], None, "format: expected str, got None"),
        (["features"], {"x": 3}, "features: expected a tree of texts"),
        (["supervised_keys"], ["x"], r"supervised_keys: expected two or three names, got \['x'\]"),
        (
            ["splits", "train", "records"],
            26,
            "splits.train.records: expected 25, the sum of its files, got 26",
        ),
        (
            ["splits", "train", "files", 0, "name"],
            "../a",
            r"splits.train.files\[0\].name: expected a path within",
        ),
        (
            ["splits", "train", "files", 0, "sha256"],
            "00",
            r"splits.train.files\[0\].sha256: expected 64 hexadecimal",
        ),
        (
            ["splits", "train", "files", 1, "bytes"],
            True,
            r"splits.train.files\[1\].bytes: expected int, got True",
        ),
        (["splits", "all"], {}, "splits: expected names of letters, digits, _ and -, and not 'all', got all"),
        (["splits"], {}, "splits: expected one split or more, got none"),
        (
            ["version"],
            "1.0.1",
            "version: expected 1.0.0 as its folder is named, got 1.0.1; rename the folder",
        ),
        (["more"], 1, "more: expected one of kind, card_version, name"),
    ],
)
def test_a_card_that_is_wrong(tmp_path, place, value, message):
    """The file, the field, what is expected."""
    folder, _ = write_version(tmp_path, "1.0.0")
    document = json.loads((folder / CARD).read_text())
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    if place == ["version"]:
        del document["digest"]  # as who edits a card is told
    (folder / CARD).write_text(json.dumps(document))
    with pytest.raises(DataFormatError, match=rf"dataset\.json: {message}"):
        open_dataset("numbers", "train", data_dir=tmp_path)


def test_a_card_with_a_flipped_bit(tmp_path):
    """In a value that is as good as the one that was written."""
    folder, _ = write_version(tmp_path, "1.0.0")
    text = (folder / CARD).read_text()
    place = text.index('"sha256": "') + 11
    (folder / CARD).write_text(text[:place] + "10"[text[place] == "1"] + text[place + 1 :])
    with pytest.raises(
        ChecksumError, match=r"dataset\.json: .*; write the set again or, if you have edited it, take out"
    ):
        open_dataset("numbers", "train", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "line 1: expected JSON, got its end"),
        (b'{\n"kind": 1,\n}', r"line \d: expected JSON, got '.*'"),
        (b'{"kind": "\xff"}', "byte 10: expected UTF-8, got 0xff"),
        (b"[]", "kind: expected 'loaderkit data set', got \\[]"),
        (b"null", "kind: expected 'loaderkit data set', got None"),
        (b'{"kind": 1, "kind": 2}', "kind: expected one value, got two"),
        (b"[" * 100000, "the card: expected JSON, got brackets nested too deeply"),
    ],
)
def test_a_file_that_is_no_card(tmp_path, text, message):
    """Any other text is a DataFormatError that names the file."""
    folder, _ = write_version(tmp_path, "1.0.0")
    (folder / CARD).write_bytes(text)
    with pytest.raises(
        DataFormatError, match=rf"dataset\.json: {message}; write it again with lk.write_dataset"
    ):
        open_dataset("numbers", "train", data_dir=tmp_path)


@pytest.mark.parametrize(
    "data_format", ["array_record", "arrow", "jsonl", "parquet", "tar", "tfrecord", "tokens"]
)
def test_a_flipped_bit_of_a_data_set(tmp_path, data_format):
    """By default no format gives other records; with verify=True none is opened, whatever the bit."""
    for library in {"parquet": ["pyarrow"], "arrow": ["pyarrow"], "tfrecord": ["google_crc32c"]}.get(
        data_format, ()
    ):
        pytest.importorskip(library)
    records = [{"tokens": np.arange(50, dtype=np.uint16) + number} for number in range(100)]
    if data_format != "tokens":
        records = [{"name": f"record {number}" * 9} for number in range(100)]
    folder = lk.write_dataset({"train": records}, "a:1.0.0", format=data_format, data_dir=tmp_path, shards=1)
    (path,) = (path for path in Path(folder, "train").iterdir() if path.suffix not in (".json", ".lkx"))
    data, status = path.read_bytes(), path.stat()
    before = [repr(record) for record in lk.open("a", "train", data_dir=tmp_path)]
    errors = ChecksumError, DataFormatError, FileChangedError
    end = len(data)
    if data_format == "parquet":  # its footer, whose length is before the magic, has no checksum
        end -= 8 + int.from_bytes(data[-8:-4], "little")
    places = [place for place in range(end) if data[place]]
    for place in places[7 :: len(places) // 12]:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(errors):
            list(lk.open("a", "train", data_dir=tmp_path, verify=True))
        with contextlib.suppress(*errors):
            assert [repr(record) for record in lk.open("a", "train", data_dir=tmp_path)] == before


@pytest.mark.parametrize("workers", [0, 1])
def test_files_are_compared_with_the_card(tmp_path, workers):
    """With verify=True, each before its first record, in each process."""
    pytest.importorskip("pyarrow")
    records = [{"name": f"record {number}"} for number in range(30)]
    folder = lk.write_dataset({"train": records}, "a:1.0.0", format="arrow", data_dir=tmp_path, shards=3)
    damaged = Path(folder, "train", "00001-of-00003.arrow")
    damaged.write_bytes(damaged.read_bytes().replace(b"d 15", b"d 16"))
    assert list(lk.open("a", "train", data_dir=tmp_path))[15] == {"name": "record 16"}
    changed = version_of(lk.open("a", "train", data_dir=tmp_path))
    os.utime(damaged, ns=(0, 0))
    assert version_of(lk.open("a", "train", data_dir=tmp_path)) != changed
    source = lk.open("a", "train", data_dir=tmp_path, verify=True)
    assert [source[0], *source.__getitems__([29, 3])] == [records[0], records[29], records[3]]
    for read in (lambda: source[10], lambda: source.__getitems__([0, 19])):
        with pytest.raises(
            lk.errors.ChecksumError, match=r"00001-of-00003\.arrow: .* sha256 .* get a new copy"
        ):
            read()
    with (
        lk.load(source, num_epochs=1, worker_count=workers) as loader,
        pytest.raises(lk.errors.ChecksumError, match=r"00001-of-00003"),
    ):
        list(loader)
    with pytest.raises(TypeError, match="verify: expected True or False, got 1"):
        lk.open("a", "train", data_dir=tmp_path, verify=1)
