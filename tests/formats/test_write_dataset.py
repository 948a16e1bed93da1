"""lk.write_dataset: what was written is opened by its name, whole or not at all."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.formats import write_dataset as module

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


def test_token_files(tmp_path):
    """Documents of several files, in slices, with the records of each file in the card."""
    rows = [{"ids": np.arange(k % 5, dtype=np.uint16)} for k in range(20)]
    for name, options in {"a": {"shards": 3}, "b": {"shards": 3, "worker_count": 2}, "c": {}}.items():
        splits = {"train": rows, "test": iter(rows[:4])} if name == "c" else {"train": rows, "test": rows[:4]}
        lk.write_dataset(splits, f"{name}:1.0.0", format="tokens", data_dir=tmp_path, **options)
        source = lk.open(name, "train[1:]+test", data_dir=tmp_path)
        expected = [row["ids"].tolist() for row in [*rows[1:], *rows[:4]]]
        assert [row["ids"].tolist() for row in source] == expected
    card = json.loads((tmp_path / "a/1.0.0/dataset.json").read_text())
    assert [file["records"] for file in card["splits"]["train"]["files"]] == [6, 7, 7]
    assert contents(tmp_path / "a/1.0.0/train") == contents(tmp_path / "b/1.0.0/train")


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"x": 1}, r"got 'y' in one of 'train' and 'test' alone"),
        ({"x": 1, "y": {"a": 1, "c": 2}}, r"got 'y/c' in one of"),
        ({"x": 1, "y": 2}, r"got 'y' in one of"),
        (b"x", r"got dicts in one of"),
    ],
)
def test_splits_have_the_same_fields(tmp_path, test, message):
    splits = {"train": [{"x": 1, "y": {"a": 1}}], "test": [test]}
    with pytest.raises(ValueError, match=rf"^splits: expected records of the same fields .*{message}"):
        lk.write_dataset(splits, "numbers:1.0.0", format="array_record", data_dir=tmp_path)
    assert not (tmp_path / "numbers/1.0.0").exists()


KILLED_BEHIND_THE_RENAME = """
import os, signal, sys, loaderkit as lk
import loaderkit.formats.write_dataset as module

def sync(path):
    if os.path.basename(path) == "numbers":
        os.kill(os.getpid(), signal.SIGKILL)

module.sync = sync
lk.write_dataset({"train": [{"x": 1}]}, "numbers:1.0.0", format="jsonl", data_dir=sys.argv[1])
"""


def test_what_a_kill_behind_the_rename_left_is_deleted(tmp_path):
    run = subprocess.run([sys.executable, "-c", KILLED_BEHIND_THE_RENAME, str(tmp_path)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert (tmp_path / "numbers/1.0.0.partial").exists()
    with pytest.raises(FileExistsError, match="expected a version that isn't there"):
        written(tmp_path)
    assert os.listdir(tmp_path / "numbers") == ["1.0.0"]


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
        patch.setattr(module, "write", None)
        assert contents(written(tmp_path / "c")) == first
    assert os.listdir(tmp_path / "c" / "numbers") == ["1.0.0"]


@pytest.mark.parametrize("form", ["tar", "array_record", "tfrecord", "jsonl", "parquet", "arrow"])
def test_what_lk_write_takes_is_a_split(tmp_path, form):
    """Generators, functions that give one, loaders; files that are ended by bytes have their records in the card."""
    sizes = (
        {"shards": 3} if form in ("parquet", "arrow") else {"shard_bytes": 1500}
    )  # a table's group is 1 MB
    splits = {
        "made": (record for record in RECORDS),
        "called": lambda: iter(RECORDS),
        "loaded": lk.load(RECORDS[:9], num_epochs=1),
        "source": RECORDS,
    }
    lk.write_dataset(splits, "numbers:1.0.0", format=form, data_dir=tmp_path, **sizes)
    with (tmp_path / "numbers/1.0.0/dataset.json").open() as file:
        card = json.load(file)
    for split, expected in (
        ("made", RECORDS),
        ("called", RECORDS),
        ("loaded", RECORDS[:9]),
        ("source", RECORDS),
    ):
        files = card["splits"][split]["files"]
        assert sum(each["records"] for each in files) == len(expected)
        found = lk.open("numbers", split, data_dir=tmp_path)
        assert [record["txt"] for record in found] == [record["txt"] for record in expected]
    assert len(files) > 1 and files == [
        {**each, "name": each["name"].replace("made", "source")} for each in card["splits"]["made"]["files"]
    ]
    second = lk.open("numbers", "made[1shard]", data_dir=tmp_path)
    at = files[0]["records"]
    assert len(second) == files[1]["records"] and second[0]["txt"] == RECORDS[at]["txt"]


def test_a_generator_that_raises_leaves_nothing_under_the_name(tmp_path):
    """The error says which split, and the next run makes the set."""

    def failing():
        yield from RECORDS
        raise RuntimeError("no more")

    given = {"train": RECORDS, "test": failing}
    for sizes in ({}, {"shards": 2}):
        with pytest.raises(RuntimeError, match="no more") as caught:
            lk.write_dataset(given, "numbers:1.0.0", format="tar", data_dir=tmp_path, **sizes)
        assert caught.value.__notes__ == ["lk.write_dataset: split 'test' of numbers:1.0.0"]
        assert os.listdir(tmp_path / "numbers") == ["1.0.0.partial"]
    with pytest.raises(ValueError, match="records: expected one or more, got none"):
        lk.write_dataset({"train": iter([])}, "numbers:1.0.0", format="tar", data_dir=tmp_path)
    lk.write_dataset(
        {**given, "test": lambda: iter(RECORDS[:3])}, "numbers:1.0.0", format="tar", data_dir=tmp_path
    )
    assert len(lk.open("numbers", "train+test", data_dir=tmp_path)) == 53
    assert os.listdir(tmp_path / "numbers") == ["1.0.0"]


KILLED = """
import os, signal, sys, loaderkit as lk
folder, at = sys.argv[1], int(sys.argv[2])
class Source:
    def __len__(self): return 40
    def __getitem__(self, key):
        if key == int(sys.argv[2]): os.kill(os.getpid(), signal.SIGKILL)
        return {"x": key}
    def fingerprint(self): return {"n": 40}
def generate():
    for key in range(40):
        if key == at - 100: os.kill(os.getpid(), signal.SIGKILL)
        yield {"x": key}
lk.write_dataset(
    {"train": Source(), "test": generate}, "numbers:1.0.0", format="jsonl", data_dir=folder, shards=4
)
"""


@pytest.mark.parametrize("at", [25, 125])
def test_a_killed_run_goes_on(tmp_path, at):
    """Files of the source that were finished stay; the generator begins again."""
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    assert subprocess.run([*command, str(at)], check=False).returncode == -signal.SIGKILL
    assert os.listdir(tmp_path / "numbers") == ["1.0.0.partial"]
    [first] = (tmp_path / "numbers").rglob("train*/00000-of-00004.jsonl")
    inode = first.stat().st_ino
    subprocess.run([*command, "-1"], check=True)
    folder = tmp_path / "numbers" / "1.0.0"
    assert os.listdir(tmp_path / "numbers") == ["1.0.0"]
    assert sorted(os.listdir(folder)) == ["dataset.json", "test", "train"]
    assert (folder / "train" / first.name).stat().st_ino == inode
    assert [record["x"] for record in lk.open(folder, "train+test")] == [*range(40), *range(40)]


@pytest.mark.parametrize("records", [lambda: iter(RECORDS), [*RECORDS[:49], {"x": 1}]])
def test_supervised_keys_are_held_against_the_records_written(tmp_path, records):
    """Of an iterable, and of records after the first; the set hasn't got its name."""
    keys = ("x", "cls") if isinstance(records, list) else ("x", "label")
    with pytest.raises(ValueError, match=rf"^supervised_keys: expected fields .*, got '{keys[1]}'"):
        lk.write_dataset(
            {"train": records}, "numbers:1.0.0", format="jsonl", data_dir=tmp_path, supervised_keys=keys
        )
    assert os.listdir(tmp_path / "numbers") == ["1.0.0.partial"]


def test_a_run_that_was_killed_behind_its_card_goes_on(tmp_path, monkeypatch):
    """The card lay beside the files; the next run writes its own."""

    def killed(folder, card, write_card=module.write_card):
        write_card(folder, card)
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_card", killed)
        with pytest.raises(OSError, match="killed"):
            written(tmp_path)
    assert [*tmp_path.rglob("dataset.json")]
    first = contents(written(tmp_path))
    assert first == contents(written(tmp_path / "other"))


TOGETHER = """
import sys, loaderkit as lk
folder, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
records = [{"x": key} for key in range(200)]
try:
    lk.write_dataset({"train": records}, name, format="jsonl", data_dir=folder, shards=20)
except FileExistsError as error:
    print(error)
else:
    print("written")
"""


def test_processes_write_versions_at_the_same_time(tmp_path):
    """Two versions are written beside each other; of two processes that write one version, one does."""
    names = ["numbers:1.0.0", "numbers:1.0.0", "numbers:1.1.0"]
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", TOGETHER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for run in runs:
        assert run.stdout.readline() == "ready\n"
    for run in runs:  # all have been imported: they write at the same time
        run.stdin.write("\n")
        run.stdin.flush()
    told = [run.communicate(timeout=60)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert told[2] == "written\n" and "written\n" in told[:2]
    assert sum("numbers:1.0.0, which is in" in each for each in told) == 1
    assert sorted(os.listdir(tmp_path / "numbers")) == ["1.0.0", "1.1.0"]
    for name in names:
        assert [record["x"] for record in lk.open(name, "train", data_dir=tmp_path)] == [*range(200)]


def test_files_of_another_run_are_not_taken_for_those_of_this(tmp_path, monkeypatch):
    """A run of other records was killed when it had replaced the files of a split."""
    first, second = [{"x": 1}, {"x": 2}], [{"x": 3}, {"x": 4}]

    def run(records):
        lk.write_dataset({"train": records}, "n:1.0.0", format="jsonl", data_dir=tmp_path, shards=2)

    for name, records in (("write_card", first), ("_inspect", second)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, None)
            with pytest.raises(TypeError, match="NoneType"):
                run(records)
    run(first)
    assert [*lk.open("n", "train", data_dir=tmp_path)] == first


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
        (TypeError, r"^splits: expected a dict from names to records", {"splits": RECORDS}),
        (ValueError, r"^splits\['train'\]: expected one record or more", {"splits": {"train": []}}),
        (
            TypeError,
            r"^splits\['train'\]: expected a data source, an iterable or a function that gives one, got a int",
            {"splits": {"train": 3}},
        ),
        (TypeError, r"^supervised_keys: expected two or three names, got 'xy'", {"supervised_keys": "xy"}),
        (TypeError, r"^description: expected a text or None, got 3", {"description": 3}),
        (ValueError, r"^data_dir: expected a local folder, got 's3://b/x'; copy", {"data_dir": "s3://b/x"}),
        (TypeError, r"^provenance: expected JSON values", {"provenance": object()}),
        (ValueError, r"^format: expected one of .*, got 'zip'", {"format": "zip"}),
        (ValueError, r"^format: expected one of array_record, .*, got None", {"format": None}),
        (ValueError, r"^shards: expected .*, got 0", {"shards": 0}),
        (ValueError, r"^shards: expected .*, got 51", {"shards": 51}),
        (ValueError, r"^shards: expected None beside shard_bytes", {"shards": 2, "shard_bytes": 9}),
        (TypeError, r"^supervised_keys: expected two or three names, got 3", {"supervised_keys": 3}),
        (
            TypeError,
            r"^supervised_keys: expected two or three names, got \{'",
            {"supervised_keys": {"x", "cls"}},
        ),
        (
            ValueError,
            r"^supervised_keys: expected fields of each record, such as 'x', 'cls', 'txt', got 'label'",
            {"supervised_keys": ("x", "label")},
        ),
        (
            ValueError,
            r"^supervised_keys: expected None for records that aren't dicts, got .* and a bytes",
            {"splits": {"train": [b"a"]}, "supervised_keys": ("x", "label")},
        ),
        (
            TypeError,
            r"^records: expected a function that gives an iterable, got one that gives a int",
            {"splits": {"train": lambda: 3}},
        ),
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
    assert [*tmp_path.glob("numbers/*")] == []


def test_a_version_is_written_once(tmp_path):
    """Another one is beside it."""
    written(tmp_path)
    with pytest.raises(
        FileExistsError, match=r"^name: expected a version that isn't there, got numbers:1.0.0, which is"
    ):
        written(tmp_path)
    written(tmp_path, "numbers:1.1.0", shards=1)
    assert sorted(os.listdir(tmp_path / "numbers")) == ["1.0.0", "1.1.0"]
