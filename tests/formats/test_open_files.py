"""`lk.open` of data files: all that `lk.write` makes, in every way to name it, and what can't be opened."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from loaderkit import cli
from loaderkit.formats import registry

RECORDS = [{"__key__": f"{k:03d}", "x": np.arange(k, k + 3, dtype=np.int32), "cls": k % 3} for k in range(9)]
TOKENS = [{"tokens": np.arange(k % 4 + 1, dtype=np.uint16)} for k in range(9)]
CLASSES = {name: registry.of_name(name).source_name for name in registry.writable()}


def records_of(name):
    return TOKENS if name == "tokens" else RECORDS


def write(name, path, **options):
    return lk.write(records_of(name), path, format=name, **options)


def same(source, records):
    """Whether a source gives these records, with their types; formats without keys or with JSON's types keep values."""
    assert len(source) == len(records)
    for got, record in zip((source[k] for k in range(len(source))), records):
        for field, value in record.items():
            if field == "__key__" and field not in got:
                continue
            assert np.array_equal(got[field], value), (field, got)
            if isinstance(value, np.ndarray) and isinstance(got[field], np.ndarray):
                assert got[field].dtype == value.dtype or got[field].dtype == np.int64


@pytest.mark.parametrize(
    "name", sorted({*registry.writable()} - {"megatron", "webdataset"})
)  # two files; tar
def test_what_is_written_is_opened(name, tmp_path, monkeypatch):
    """As a file, a folder, a list, a pattern and numbered shards; by the bytes where the name says nothing."""
    monkeypatch.chdir(tmp_path)
    extension = registry.of_name(name).extensions[0]
    write(name, f"one.{extension}")
    expected = records_of(name)
    same(lk.open(f"one.{extension}"), expected)
    same(lk.open(tmp_path / f"one.{extension}"), expected)
    assert type(lk.open(f"one.{extension}")).__name__ == CLASSES[name]
    if registry.of_name(name).begins is not None:
        shutil.copy(f"one.{extension}", "nameless")
        same(lk.open("nameless"), expected)
    shutil.copy(f"one.{extension}", "other.name")
    same(lk.open("other.name", format=name), expected)
    if name == "tokens":
        write(name, "folder", shards=1)
        same(lk.open("folder"), expected)
        return
    files = write(name, "folder", shards=3)
    for what in ("folder", tmp_path / "folder", files, tuple(files), f"folder/*.{extension}", "./folder/"):
        same(lk.open(what), expected)
    for k, file in enumerate(files):
        shutil.copy(file, f"part-{k:05d}-of-00003.{extension}")
    same(lk.open(f"part@3.{extension}"), expected)
    same(lk.open(f"part-{{00000..00002}}-of-00003.{extension}"), expected)
    loader = lk.DataLoader(data_source=lk.open("folder"), sampler=lk.SequentialSampler(9), worker_count=2)
    with loader:
        assert [int(each["cls"]) for each in loader] == [each["cls"] for each in RECORDS]


@pytest.mark.parametrize("name", ["tar", "tfrecord", "jsonl", "parquet", "tokens"])
def test_files_on_a_server(name, tmp_path, range_server, monkeypatch):
    """Opened by the same call, where an index is beside them; a name that says nothing is known by the first bytes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    form = registry.of_name(name)
    (tmp_path / "served").mkdir()
    served = range_server(tmp_path / "served")
    names = [f"one.{form.extensions[0]}"] + (["nameless"] if form.begins is not None else [])
    for file in names:
        path = tmp_path / "served" / file
        write(name, tmp_path / f"one.{form.extensions[0]}", overwrite=True)
        shutil.copy(tmp_path / f"one.{form.extensions[0]}", path)
        if form.scanner is not None:
            assert cli.main(["index", "--format", name, "-o", f"{path}.lkx", str(path)]) == 0
        source = lk.open(served.url(file))
        same(source, records_of(name))
        getattr(source, "close", bool)()


def test_an_lmdb_folder(tmp_path):
    """Is one data set, known by its file data.mdb."""
    lmdb = pytest.importorskip("lmdb")
    with (
        lmdb.open(str(tmp_path / "set"), map_size=1 << 20) as environment,
        environment.begin(write=True) as t,
    ):
        t.put(b"a", b"1")
        t.put(b"b", b"2")
    with lk.open(tmp_path / "set") as source:
        assert type(source).__name__ == "LmdbDataSource" and len(source) == 2


def test_what_is_wrong_is_said(tmp_path, monkeypatch):
    """Each with the fix."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOADERKIT_DATA_DIR", str(tmp_path / "sets"))
    write("tar", "a.tar")
    write("jsonl", "b.jsonl")
    os.mkdir("empty")
    Path("empty.bin").touch()
    os.mkdir("two")
    shutil.copy("a.tar", "two/a.tar")
    shutil.copy("b.jsonl", "two/b.jsonl")
    shutil.copy("b.jsonl", "wrong.tar")
    shutil.copy("a.tar", "wrong.csv")
    os.makedirs("classes/cat")
    Path("x.tar.zst").touch()
    Path("odd").write_bytes(b"\xff\xfe\x00")
    for what, options, text in [
        ([], {}, "got an empty list"),
        (
            "empty",
            {},
            r"empty: expected a data set or files of one format, got an empty folder; give the files",
        ),
        (
            "empty.bin",
            {},
            r"empty\.bin: expected a file of a known format, got an empty file; give its format",
        ),
        ("odd", {}, r"odd: expected a file of a known format, got .*; give its format"),
        (
            "two",
            {},
            r"expected files of one format, got jsonl: b\.jsonl; tar: a\.tar; give those that are meant",
        ),
        (["a.tar", "b.jsonl"], {}, r"expected files of one format, got jsonl, tar; give the format"),
        (
            "wrong.tar",
            {},
            r"the format tar, as its name says, got one that begins as jsonl; rename it, or give format='jsonl'",
        ),
        ("wrong.csv", {}, r"the format csv, as its name says, got one that begins as tar; rename it"),
        ("classes", {}, r"got the folders cat; .*FolderDataSource"),
        ("x.tar.zst", {}, "got a compressed file; unpack it once: `unzstd x.tar.zst`"),
        ("a.tar", {"split": "train"}, r"expected neither for the files 'a.tar', got split='train'"),
        ("a.tar", {"as_supervised": True}, r"got as_supervised=True"),
    ]:
        with pytest.raises((ValueError, lk.errors.DataFormatError), match=text):
            lk.open(what, **options)
    with pytest.raises(TypeError, match=r"expected options of files for 'digits', a data set, got decode"):
        lk.open("digits", "train", decode=False)
    with pytest.raises(FileNotFoundError, match=r"nothing\.tar"):
        lk.open("nothing.tar")


def test_a_name_of_a_file_and_of_a_data_set(tmp_path, monkeypatch):
    """Is neither, until it is said which."""
    monkeypatch.chdir(tmp_path)
    lk.write_dataset({"train": RECORDS}, "digits.tar:1.0.0", format="tar", data_dir=tmp_path / "sets")
    write("tar", "digits.tar")
    with pytest.raises(
        ValueError, match=r"the name of both; give './digits\.tar' for the file, 'digits\.tar:\*' for"
    ):
        lk.open("digits.tar", data_dir=tmp_path / "sets")
    same(lk.open("./digits.tar", data_dir=tmp_path / "sets"), RECORDS)
    same(lk.open("digits.tar:*", "train", data_dir=tmp_path / "sets"), RECORDS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read any folder")
def test_a_folder_without_permission(tmp_path):
    """Is the system's error, with the folder's name."""
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(PermissionError, match="closed"):
        lk.open(tmp_path / "closed")


def test_options_go_to_the_source(tmp_path):
    """Those of the format's source; verify is the format's own."""
    write("tfrecord", tmp_path / "a.tfrecord")
    assert isinstance(lk.open(tmp_path / "a.tfrecord", decode=False)[0], bytes)
    lk.open(tmp_path / "a.tfrecord", verify=True)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TypeError, match="no argument sep"):
        lk.open(tmp_path / "a.csv", sep=";")


def test_the_folder_of_several_saved_splits_names_them(tmp_path):
    """A DatasetDict that Hugging Face saved."""
    (tmp_path / "train").mkdir()
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(ValueError, match=r"open one of \['.*train'\]"):
        lk.open(tmp_path)


@pytest.mark.parametrize("name", ["x-{000..003}.jsonl", "x@3.jsonl", "x*.jsonl", "x@3"])
def test_a_name_of_several_files_isnt_written(tmp_path, name):
    """It would be one file with that name."""
    with pytest.raises(ValueError, match="which names several files to read"):
        lk.write([{"n": 1}], tmp_path / name, format="jsonl")
