"""Records that are written one at a time make the files of `lk.write`, or none."""

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.formats import open_writer, registry

ANY = [{"tokens": np.arange(k + 1, dtype=np.uint16)} for k in range(7)]
RECORDS = {"webdataset": [{"npy": each["tokens"], "cls": 3} for each in ANY]}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix not in (".lkx", ".json")}


@pytest.mark.parametrize("name", sorted(registry.writable()))
def test_the_files_are_those_of_write(name, tmp_path):
    """Of each format, ended by records: the same bytes, names and index."""
    records = RECORDS.get(name, ANY)
    one_file = registry.of_name(name).beside  # a pair of files, and no folder of them
    paths = [tmp_path / each / "x.idx" if one_file else tmp_path / each for each in ("all", "single")]
    size = {} if one_file else {"shard_records": 3}
    lk.write(iter(records), paths[0], format=name, **size)
    with open_writer(paths[1], format=name, **size) as out:
        for record in records:
            out.write(record)
    assert out.records == 7 and len(out.paths) == (1 if one_file else 3)
    assert contents(tmp_path / "all") == contents(tmp_path / "single")
    indexes = [len([*(tmp_path / each).glob("*.lkx")]) for each in ("all", "single")]
    assert indexes[0] == indexes[1]


def test_sizes_and_kinds_of_paths(tmp_path):
    """Ended by bytes under names with a number, and one file."""
    with open_writer(tmp_path / "x-%03d.tar", shard_bytes=3072) as out:
        for k in range(5):
            out.write({"cls": k})
        assert not [*tmp_path.glob("x-*.tar")]
    assert [os.path.basename(path) for path in out.paths] == ["x-000.tar", "x-001.tar", "x-002.tar"]
    assert [each["cls"] for each in lk.TarDataSource(out.paths)] == [*range(5)]
    with open_writer(tmp_path / "one.jsonl") as out:
        out.write({"x": 1})
        out.write({"x": 2})
    assert [*lk.JsonLinesDataSource(tmp_path / "one.jsonl")] == [{"x": 1}, {"x": 2}]


def test_an_error_in_the_block_leaves_nothing(tmp_path):
    """No name of the set, and no unfinished file; another writer may write the same path then."""

    writer = open_writer(tmp_path / "x-%d.tar", shard_records=1)

    def fail() -> None:
        with writer as out:
            out.write({"cls": 1})
            out.write({"cls": 2})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not [*tmp_path.iterdir()]
    with pytest.raises(ValueError, match="open a new one"), writer:
        pass
    with open_writer(tmp_path / "x-%d.tar") as out:
        out.write({"cls": 1})
    assert len(out.paths) == 1


def test_a_record_that_does_not_fit_may_be_left_out(tmp_path):
    """An error of encoding leaves the set as it was; one of writing, such as a key that is there, ends it."""
    with open_writer(tmp_path / "x.tar") as out:
        out.write({"cls": 1})
        with pytest.raises(ValueError, match="record 1: field 'cls': expected int"):
            out.write({"cls": "x"})
        out.write({"cls": 2})
    assert [each["cls"] for each in lk.TarDataSource(out.paths)] == [1, 2]

    def twice() -> None:
        with open_writer(tmp_path / "y.tar") as out:
            out.write({"__key__": "a", "cls": 1})
            with contextlib.suppress(ValueError):
                out.write({"__key__": "a", "cls": 2})

    with pytest.raises(ValueError, match="each key once"):
        twice()
    assert not (tmp_path / "y.tar").exists()


def test_misuse_is_named(tmp_path):
    """A writer outside of its block, a second block, a set without a record, a path on a server, one that is there."""
    writer = open_writer(tmp_path / "x.tar")
    with pytest.raises(ValueError, match="expected a writer in its `with` block"):
        writer.write({"cls": 1})
    with writer:
        writer.write({"cls": 1})
    with pytest.raises(ValueError, match="open a new one"), writer:
        pass
    with pytest.raises(ValueError, match="expected one or more"), open_writer(tmp_path / "y.tar"):
        pass
    with pytest.raises(ValueError, match="path: expected a local path"):
        open_writer("s3://bucket/x.tar")
    with pytest.raises(FileExistsError, match="overwrite=True"), open_writer(tmp_path / "x.tar"):
        pass


KILLED = """
import os, sys
from loaderkit.formats import open_writer
with open_writer(sys.argv[1], shard_records=1) as out:
    out.write({"cls": 1})
    out.write({"cls": 2})
    os._exit(9)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_no_name_of_the_set(tmp_path):
    """Its unfinished files are replaced by the next run."""
    path = str(tmp_path / "x-%d.tar")
    assert subprocess.run([sys.executable, "-c", KILLED, path], check=False, timeout=120).returncode == 9
    assert [each.name for each in tmp_path.glob("*.tar*")] == ["x-%d.tar.partial"]
    with open_writer(path) as out:
        out.write({"cls": 3})
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".lkx", ".tar"]
