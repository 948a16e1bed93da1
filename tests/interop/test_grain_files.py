"""ArrayRecord files under Grain's names: a job that reads them can be taken over, however their names are written."""

import errno
import json
import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest

import loaderkit.interop.grain as grain

pytest.importorskip("array_record", reason="needs the array-record package")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two files of five records in the current folder."""
    from array_record.python.array_record_module import ArrayRecordWriter

    for name in ("a.array_record", "b.array_record"):
        writer = ArrayRecordWriter(str(tmp_path / name), "group_size:1")
        for number in range(5):
            writer.write(f"{name}{number}".encode())
        writer.close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def instruction(name, skip, take):
    return SimpleNamespace(filename=name, skip=skip, take=take, examples_in_shard=5)


SPELLINGS = {
    "relative": lambda folder: "a.array_record",
    "dot": lambda folder: "./a.array_record",
    "up": lambda folder: f"../{folder.name}//a.array_record",
    "absolute": lambda folder: str(folder / "a.array_record"),
    "path": lambda folder: Path("a.array_record"),
    "dot path": lambda folder: Path("./a.array_record"),
    "absolute path": lambda folder: folder / "a.array_record",
    "list": lambda folder: ["a.array_record", "./b.array_record"],
    "tuple": lambda folder: (Path("b.array_record"), str(folder / "a.array_record")),
    "part": lambda folder: ["./a.array_record[1:4]", "b.array_record[0:2]"],
    "instruction": lambda folder: instruction("a.array_record", 1, 3),
    "instructions": lambda folder: [
        instruction("./a.array_record", 0, 2),
        instruction(Path("b.array_record"), 2, 3),
    ],
}


def iterator_of(g, source):
    sampler = g.IndexSampler(len(source), g.NoSharding(), shuffle=True, num_epochs=2, seed=3)
    return iter(g.DataLoader(data_source=source, sampler=sampler, operations=[g.Batch(2)]))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_job_is_taken_over_however_its_files_are_written(installed_grain, folder, spelling):
    """The repr and the paths are Grain's, and a state goes from either to the other; after a pickle, too."""
    paths = SPELLINGS[spelling](folder)
    theirs, ours = installed_grain.ArrayRecordDataSource(paths), grain.ArrayRecordDataSource(paths)
    copy = pickle.loads(pickle.dumps(ours))
    assert repr(ours) == repr(copy) == repr(theirs)
    assert ours.paths == copy.paths == theirs.paths
    assert list(ours) == list(copy) == list(theirs)
    runs = [iterator_of(grain, ours), iterator_of(installed_grain, theirs)]
    for run in runs:
        next(run)
    states = [run.get_state() for run in runs]
    rest = [[batch.tolist() for batch in run] for run in runs]
    assert json.loads(states[0]) == json.loads(states[1])
    assert rest[0] == rest[1]
    for again, state in ((runs[0], states[1]), (runs[1], states[0])):
        again.set_state(state)
        assert [batch.tolist() for batch in again] == rest[0]


def test_files_of_a_pattern_have_their_absolute_names(folder):
    """Grain knows no patterns: their names are those of the files that were found."""
    source = grain.ArrayRecordDataSource(["*.array_record", "./b.array_record"])
    assert source.paths == [
        str(folder / "a.array_record"),
        str(folder / "b.array_record"),
        "./b.array_record",
    ]


def test_a_file_that_cant_be_read_is_grains_error(installed_grain, folder):
    """A missing or damaged file: RuntimeError, as in Grain, and the OSError that it is."""
    (folder / "damaged").write_bytes(b"x" * 100)
    for name, kind in (
        ("missing", FileNotFoundError),
        (str(folder), IsADirectoryError),
        ("damaged", OSError),
    ):
        with pytest.raises(RuntimeError):
            installed_grain.ArrayRecordDataSource(name)
        with pytest.raises(RuntimeError, match=name) as caught:
            grain.ArrayRecordDataSource(name)
        assert isinstance(caught.value, kind)
    assert caught.value.__cause__ is None
    with pytest.raises(FileNotFoundError) as missing:
        grain.ArrayRecordDataSource("missing")
    assert missing.value.filename == str(folder / "missing")
    assert (missing.value.errno, missing.value.strerror) == (errno.ENOENT, "no such ArrayRecord file")


def test_an_error_of_a_file_keeps_its_kind_and_its_notes(folder):
    """A folder is an IsADirectoryError, what is forbidden a PermissionError, RuntimeErrors besides."""

    class Forbidden(os.PathLike):
        def __fspath__(self):
            error = PermissionError(errno.EACCES, "forbidden", "secret")
            error.add_note("ask for it")
            raise error

    with pytest.raises(IsADirectoryError) as of_folder:
        grain.ArrayRecordDataSource(folder)
    with pytest.raises(PermissionError) as forbidden:
        grain.ArrayRecordDataSource(Forbidden())
    for caught, name in ((of_folder, str(folder)), (forbidden, "secret")):
        assert isinstance(caught.value, RuntimeError) and caught.value.filename == name
    assert forbidden.value.__notes__ == ["ask for it"]
