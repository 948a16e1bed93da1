"""Folders that `save_to_disk` of Hugging Face's datasets wrote: their Arrow files are mapped."""

import importlib.util
import json
import subprocess
import sys

import pytest

import loaderkit as lk
from loaderkit.errors import DataFormatError

pyarrow = pytest.importorskip("pyarrow")
ROWS = [{"input_ids": [*range(k, k + 5)], "text": f"t{k}"} for k in range(50)]


@pytest.fixture
def folder(tmp_path):
    """As version 5 of the library writes it: streams, named by state.json, and a cache that isn't."""
    schema = pyarrow.schema({"input_ids": pyarrow.list_(pyarrow.int32()), "text": pyarrow.string()})
    names = [f"data-{shard:05}-of-00002.arrow" for shard in range(2)]
    for name, rows in zip([*names, "cache-1234.arrow"], (ROWS[:25], ROWS[25:], ROWS[:5])):
        with pyarrow.OSFile(str(tmp_path / name), "wb") as file, pyarrow.ipc.new_stream(file, schema) as out:
            out.write_table(pyarrow.Table.from_pylist(rows, schema), max_chunksize=10)
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (tmp_path / "dataset_info.json").write_text(json.dumps({"features": {}, "citation": ""}))
    return tmp_path


def plain(record):
    return {"input_ids": record["input_ids"].tolist(), "text": record["text"]}


def test_rows_are_those_of_the_listed_files_which_are_mapped(folder):
    """Caches beside them are left out; lists of numbers are read from the mapped file, without a column in memory."""
    before = pyarrow.total_allocated_bytes()
    source = lk.open(folder)
    assert [*map(plain, map(source.__getitem__, range(len(source))))] == ROWS
    assert pyarrow.total_allocated_bytes() == before


def test_a_list_that_isnt_one_is_named(folder):
    """An error with the file; a file that is gone is one, too."""
    (folder / "state.json").write_text("{")
    with pytest.raises(DataFormatError, match=r"state\.json: expected the files"):
        lk.open(folder)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "gone.arrow"}]}))
    with pytest.raises(FileNotFoundError, match=r"gone\.arrow"):
        lk.open(folder)


def test_what_the_library_saves(tmp_path):
    """Rows of several files that it wrote just now."""
    if importlib.util.find_spec("datasets") is None:
        pytest.skip("datasets isn't installed")
    code = (
        "import datasets, json, sys; rows = datasets.Dataset.from_list(json.loads(sys.argv[2])); "
        "rows.save_to_disk(sys.argv[1], num_shards=3)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "saved"), json.dumps(ROWS)], check=True)
    source = lk.open(tmp_path / "saved")
    assert [*map(plain, map(source.__getitem__, range(len(source))))] == ROWS
