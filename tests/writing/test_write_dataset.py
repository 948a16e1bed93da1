"""lk.write_dataset: what was written is opened by its name, whole or not at all."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.datasets import write_dataset as module

RECORDS = [
    {"x": np.full((3, 1 + k % 2), k, np.float32), "cls": k % 3, "txt": f"number {k}"} for k in range(50)
]


def written(data_dir, name="numbers:1.0.0", **options):
    options = {"format": "tar", "shards": 3, "supervised_keys": ("x", "cls"), **options}
    return lk.write_dataset({"train": RECORDS, "test": RECORDS[:7]}, name, data_dir=data_dir, **options)


def contents(folder):
    """All but the indexes, which hold the times of the files."""
    files = [path for path in Path(folder).rglob("*") if path.is_file() and path.suffix != ".lkx"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_what_was_written_is_opened(tmp_path):
    """Records, pairs, slices by shards, the card."""
    folder = written(tmp_path, description="Numbers", provenance={"made": "here"})
    assert folder == str(tmp_path / "numbers" / "1.0.0") and os.listdir(tmp_path / "numbers") == ["1.0.0"]
    source = lk.open("numbers", "train[1shard]+test[:1]", data_dir=tmp_path)
    assert [record["txt"] for record in source] == [*(r["txt"] for r in RECORDS[16:33]), "number 0"]
    x, label = lk.open("numbers", "train", as_supervised=True, data_dir=tmp_path)[5]
    np.testing.assert_array_equal(x, RECORDS[5]["x"])
    assert label == 2
    card = json.loads((tmp_path / "numbers/1.0.0/dataset.json").read_text())
    assert card["features"]["x"] == "float32(3, ?)" and card["features"]["txt"] == "str"
    assert card["splits"]["train"]["records"] == 50 and len(card["splits"]["train"]["files"]) == 3
    assert card["description"] == "Numbers" and card["provenance"] == {"made": "here"}
    assert card["libraries"]["loaderkit"] == lk.__version__


@pytest.mark.parametrize("form", ["array_record", "jsonl", "tfrecord"])
def test_other_formats(tmp_path, form):
    """The same records from each."""
    written(tmp_path, format=form)
    for record, expected in zip(lk.open("numbers", "train", data_dir=tmp_path), RECORDS, strict=True):
        np.testing.assert_array_equal(record["x"], expected["x"])
        assert (record["cls"], record["txt"]) == (expected["cls"], expected["txt"])


def test_workers_and_restarts_change_no_byte(tmp_path, monkeypatch):
    """What an interrupted run has done isn't done again, and the folder has its name at the end only."""
    first = contents(written(tmp_path / "a"))
    assert contents(written(tmp_path / "b", worker_count=2)) == first

    def disk_full(folder, card):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_card", disk_full)
        with pytest.raises(OSError, match="disk full"):
            written(tmp_path / "c")
    assert os.listdir(tmp_path / "c" / "numbers") == ["1.0.0.partial"]
    with pytest.raises(FileNotFoundError, match="expected a version in"):
        lk.open("numbers", "train", data_dir=tmp_path / "c")
    with monkeypatch.context() as patch:
        patch.setattr(module, "map_shards", None)
        assert contents(written(tmp_path / "c")) == first
    assert os.listdir(tmp_path / "c" / "numbers") == ["1.0.0"]


@pytest.mark.parametrize(
    ("error", "message", "given"),
    [
        (
            ValueError,
            r"^name: expected NAME:VERSION such as 'digits:1.0.0', got 'numbers'",
            {"name": "numbers"},
        ),
        (ValueError, r"^name: expected NAME:VERSION", {"name": "numbers:1.*"}),
        (
            ValueError,
            r"^splits: expected names of letters.* and not 'all', got 'all'",
            {"splits": {"all": RECORDS}},
        ),
        (TypeError, r"^splits: expected a dict from names to data sources", {"splits": RECORDS}),
        (ValueError, r"^splits\['train'\]: expected one record or more", {"splits": {"train": []}}),
        (
            TypeError,
            r"^splits\['train'\]: expected an object with __len__",
            {"splits": {"train": iter(RECORDS)}},
        ),
        (TypeError, r"^supervised_keys: expected two or three names, got 'xy'", {"supervised_keys": "xy"}),
        (TypeError, r"^provenance: expected JSON values", {"provenance": object()}),
        (ValueError, r"^format: expected one of .*, got 'zip'", {"format": "zip"}),
    ],
)
def test_arguments_that_mean_nothing(tmp_path, error, message, given):
    """Each error says what is expected, and nothing is there under the final name."""
    arguments = {
        "splits": {"train": RECORDS},
        "name": "numbers:1.0.0",
        "format": "tar",
        "data_dir": tmp_path,
        **given,
    }
    with pytest.raises(error, match=message):
        lk.write_dataset(**arguments)
    assert not (tmp_path / "numbers" / "1.0.0").exists()


def test_a_version_is_written_once(tmp_path):
    """Another one is beside it."""
    written(tmp_path)
    with pytest.raises(
        FileExistsError, match=r"^name: expected a version that isn't there, got numbers:1.0.0, which is"
    ):
        written(tmp_path)
    written(tmp_path, "numbers:1.1.0", shards=1)
    assert sorted(os.listdir(tmp_path / "numbers")) == ["1.0.0", "1.1.0"]
