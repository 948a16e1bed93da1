"""What is read from front to back once becomes a source: commands, servers without ranges, packed files, iterables."""

import bz2
import gzip
import json
import lzma
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from range_server import RangeServer

import loaderkit as lk
from loaderkit.formats import fetch
from loaderkit.formats._index.unpacked_text import zstd_library


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with three archives of ten records each, and the records."""
    folder = tmp_path_factory.mktemp("written")
    for shard in range(3):
        records = [{"__key__": f"{shard}-{k}", "cls": shard * 10 + k, "txt": "é" * k} for k in range(10)]
        lk.write(records, folder / f"t-{shard}.tar", format="webdataset")
    return folder, [*lk.TarDataSource(f"{folder}/t-{{0..2}}.tar")]


@pytest.fixture
def shards(written, tmp_path, monkeypatch):
    """The archives are in the working folder; their records."""
    monkeypatch.chdir(tmp_path)
    for path in written[0].iterdir():
        shutil.copy2(path, tmp_path)
    return written[1]


def kept(folder):
    return sorted(each.name for each in Path(folder).iterdir() if each.suffix not in (".lkx", ".json"))


def test_the_output_of_commands_is_kept_as_it_is(shards):
    """One shard a command, its bytes, with an index of checksums; a second call runs no command."""
    command = "pipe:echo >> runs; cat t-{0..2}.tar"
    source = fetch(command, "kept", allow_commands=True)
    assert [*source] == shards and source[29]["cls"] == b"29"
    assert kept("kept") == [f"0000{shard}-of-00003.tar" for shard in range(3)]
    assert Path("kept/00001-of-00003.tar").read_bytes() == Path("t-1.tar").read_bytes()
    assert "checksums" in source.fingerprint()
    assert [*fetch(command, "kept", allow_commands=True)] == shards
    assert Path("runs").read_text() == "\n" * 3
    assert [*fetch(command, "kept", allow_commands=True, overwrite=True, worker_count=2)] == shards
    assert Path("runs").read_text() == "\n" * 6
    states = []
    for workers in (0, 2):
        with lk.load(
            source, shuffle=True, seed=0, num_epochs=1, worker_count=workers, worker_kind="thread"
        ) as loader:
            states.append([each["__key__"] for each in loader])
    assert states[0] == states[1]


def test_no_command_runs_without_leave(shards):
    """The reason is said, and neither the command nor what may be secret in it; so it is where no set is kept."""
    for call in (
        lambda: fetch("pipe:touch ran; cat t-0.tar", "kept"),
        lambda: fetch(["t-0.tar", "pipe:touch ran"], "kept", allow_commands=False),
    ):
        with pytest.raises(
            ValueError, match=r"allow_commands: expected True .* a shell runs with your rights"
        ):
            call()
    for call in (lk.TarDataSource, lk.open):
        with pytest.raises(ValueError, match=r"lk\.formats\.fetch\(url, folder, allow_commands=True\)"):
            call("pipe:touch ran; cat t-0.tar")
    assert not os.path.exists("ran") and not os.path.exists("kept")


PACKERS = {
    "gz": lambda data: gzip.compress(data[:700]) + gzip.compress(data[700:]),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstd_library().compress(data),
}


@pytest.mark.parametrize("extension", PACKERS)
def test_packed_files_are_unpacked(shards, extension):
    """Also of several members; one that is cut is an error, and no set."""
    for shard in range(3):
        Path(f"t-{shard}.tar.{extension}").write_bytes(
            PACKERS[extension](Path(f"t-{shard}.tar").read_bytes())
        )
    assert [*fetch(f"t-*.tar.{extension}", "kept")] == shards
    packed = Path(f"t-0.tar.{extension}").read_bytes()
    Path(f"cut.tar.{extension}").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(lk.errors.DataFormatError, match=f"cut.tar.{extension}: .*copy"):
        fetch(f"cut.tar.{extension}", "other")
    assert not os.path.exists("other")


def test_a_server_without_ranges(shards):
    """Whole answers, with a length and without, also packed; one that ends early is asked for again."""
    Path("numbers.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    with RangeServer(".") as server:
        server.script("short", "503")
        server.always("whole")
        server.always("chunked", "t-1.tar")
        for name in ("t-1.tar", "t-2.tar"):  # as scripts say of all that they send
            server.types[name] = "text/html"
        names = [server.url(f"t-{shard}.tar?key=secret") for shard in range(3)]
        assert [*fetch(names, "kept")] == shards
        assert fetch(server.url("numbers.csv.gz"), "csv")[1] == {"a": "3", "b": "4"}
        assert not any(request.begin is not None for request in server.requests)
        with pytest.raises(FileNotFoundError, match=r"no-such\.tar"):
            fetch(server.url("no-such.tar?key=secret"), "other")
        with pytest.raises(ValueError, match=r"storage_options: expected default_headers .*, got region"):
            fetch(server.url("t-0.tar"), "other", storage_options={"region": "x"})
        fetch(server.url("t-0.tar"), "headers", storage_options={"default_headers": {"X-Mine": "7"}})
        assert {name.lower(): value for name, value in server.requests[-1].headers.items()}["x-mine"] == "7"
    assert "secret" not in Path("kept/made.json").read_text()


class Stopped(Exception):  # noqa: N818 - it ends an iterable of the tests
    pass


def records(count=10, stop=None, seed=0):
    for k in range(count):
        if k == stop:
            raise Stopped
        yield {"label": k, "x": np.arange(k) + seed, "text": "é" * k, "none": None}


def endless():
    while True:
        yield os.urandom(1 << 20)


def same(one, other):
    return str(one) == str(other)


@pytest.mark.parametrize("name", ["array_record", "tar", "parquet"])
def test_an_iterable_goes_on_at_its_shards(tmp_path, name):
    """Finished shards of a run that was stopped stay as they are; what comes is what a run at once gives."""
    size = {"format": name, "shard_records": 3}
    whole = fetch(partial(records), tmp_path / "whole", **size)
    assert len(whole) == 10 and same(dict(whole[7]) | {"__key__": 0}, dict([*records()][7]) | {"__key__": 0})
    with pytest.raises(Stopped):
        fetch(partial(records, stop=8), tmp_path / "stopped", **size)
    unfinished = tmp_path / "stopped.partial"
    times = {path: path.stat().st_mtime_ns for path in unfinished.glob(f"0000[01].{name}")}
    assert len(times) == 2 and not (tmp_path / "stopped").exists()
    with pytest.raises(Stopped):
        fetch(partial(records, stop=9), tmp_path / "stopped", **size)
    assert times == {path: path.stat().st_mtime_ns for path in times}
    fetch(partial(records), tmp_path / "stopped", **size)
    for path in [*Path(tmp_path / "whole").glob("0*")]:
        assert path.read_bytes() == (tmp_path / "stopped" / path.name).read_bytes()


def test_other_records_than_those_of_the_finished_shards_are_an_error(tmp_path):
    """An iterable with another order, and one that has fewer; `overwrite` begins again."""
    with pytest.raises(Stopped):
        fetch(partial(records, stop=8), tmp_path / "kept", shard_records=3)
    for others in (partial(records, seed=1), partial(records, count=4)):
        with pytest.raises(lk.errors.ResumeMismatchError, match=r"00000\.array_record: .*others|00001"):
            fetch(others, tmp_path / "kept", shard_records=3)
    with pytest.raises(lk.errors.ResumeMismatchError, match="shard_records"):
        fetch(partial(records), tmp_path / "kept", shard_records=4)
    assert len(fetch(records, tmp_path / "kept", shard_records=4, overwrite=True)) == 10
    for others in ([1, 2, 3], partial(records)):
        with pytest.raises(lk.errors.ResumeMismatchError, match="read"):
            fetch(others, tmp_path / "kept", shard_records=4)


def test_a_kept_source_is_known_by_its_records(tmp_path):
    """A list of others of the same length is an error, and so is another version, 0 included."""
    fetch([b"a", b"b"], tmp_path / "kept")
    assert len(fetch([b"a", b"b"], tmp_path / "kept")) == 2
    for what, version in (([b"a", b"c"], None), ([b"a", b"b"], 0)):
        with pytest.raises(lk.errors.ResumeMismatchError, match="read"):
            fetch(what, tmp_path / "kept", version=version)


class Steps:
    """As a `tf.data.Dataset` has them."""

    def __iter__(self):
        raise AssertionError("tensors")

    def as_numpy_iterator(self):
        return ({"x": np.int64(k)} for k in range(4))


class Streaming:
    """As a streaming data set has them: it is iterated, again and again, and has no length."""

    def __iter__(self):
        return iter([{"text": "a", "more": {"n": [1, 2]}}, {"text": "b", "more": None}])


def test_data_sets_of_other_libraries(tmp_path):
    """One of tf.data gives numpy's values, a streaming one its dicts, and a sequence its records."""
    assert [each["x"] for each in fetch(Steps(), tmp_path / "steps")] == [0, 1, 2, 3]
    assert [*fetch(Streaming(), tmp_path / "streaming")] == [*Streaming()]
    assert [*fetch([{"x": 1}, {"x": 2}], tmp_path / "list")] == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize("library", ["datasets", "tensorflow"])
def test_data_sets_of_the_libraries_themselves(tmp_path, library, at_night):
    """Equal records, also in an order that was shuffled by a seed."""
    module = pytest.importorskip(library)
    if library == "datasets":
        (tmp_path / "s.jsonl").write_text("".join(json.dumps({"n": k, "l": [k]}) + "\n" for k in range(30)))
        files = {"train": str(tmp_path / "s.jsonl")}
        data = module.load_dataset("json", data_files=files, streaming=True, cache_dir=tmp_path / "hf")[
            "train"
        ]
        data = data.shuffle(seed=3, buffer_size=7)
        expected = [*data]
    else:
        data = module.data.Dataset.from_tensor_slices({"n": np.arange(30), "f": np.ones((30, 2), np.float32)})
        data = data.shuffle(7, seed=3, reshuffle_each_iteration=False)
        expected = [*data.as_numpy_iterator()]
    assert same([*fetch(data, tmp_path / "kept", shard_records=7)], expected)


@pytest.mark.parametrize(
    ("what", "options", "error", "message"),
    [
        ("pipe:cat no-such.tar", {}, lk.errors.StorageError, "exit status 0 of the command, got 1"),
        ("pipe:cat no-such.tar | cat", {}, lk.errors.StorageError, "got 1"),
        ("pipe:head -c 3000 t-0.tar", {}, lk.errors.DataFormatError, "at byte 2560: .*truncated"),
        ("pipe:true x.tar", {}, lk.errors.DataFormatError, "expected bytes of the format tar, got b''"),
        ("pipe:echo '<html>' x.tar", {}, lk.errors.DataFormatError, "format tar, got b'<html> x.tar"),
        (
            "pipe:echo a",
            {},
            ValueError,
            "format: expected one of files for pipe:..., got a name that says none",
        ),
        ("pipe:cat t-0.tar", {"shard_bytes": 9}, ValueError, "shard_bytes: expected None for names"),
        ("t-0.tar[2:3]", {}, ValueError, "expected names of whole files"),
        ("t-*.tar", {"limit": 20_000}, ValueError, "limit: expected 20000 bytes or fewer of all shards, got"),
        ("no-such.tar", {}, FileNotFoundError, "no-such.tar"),
        (["t-0.tar", 3], {}, TypeError, "got 3|got a int"),
        (iter(()), {}, ValueError, "expected one or more, got none"),
        ([], {}, ValueError, "expected one record or more, got none"),
        (3, {}, TypeError, "what: expected a data source, an iterable"),
        ([{"x": object()}], {}, TypeError, "object"),
        ([b"x"], {"format": "csv"}, ValueError, "format: expected one of"),
        ([b"x"] * 9, {"limit": 20, "shard_records": 3}, ValueError, "limit: expected 20 bytes"),
        (endless(), {"limit": "1MB"}, ValueError, "limit: expected 1000000 bytes"),
    ],
)
def test_what_cannot_be_kept_is_named(shards, what, options, error, message):
    """A command that fails, also in a pipeline, cut or other bytes, no records, no room: no set is there."""
    with pytest.raises(error, match=message):
        fetch(what, "kept", allow_commands=True, **options)
    assert not os.path.exists("kept")


def test_names_of_folders_and_of_other_streams(shards):
    """A file's name, a server's, a folder of other names, and a version in place of the names."""
    for folder in ("kept.tar", "s3://bucket/kept", "kept-%d"):
        with pytest.raises(ValueError, match="folder: expected a local folder"):
            fetch("t-0.tar", folder)
    with pytest.raises(FileExistsError):
        fetch("t-0.tar", ".")
    fetch("t-0.tar", "kept", version=1)
    assert len(fetch("t-1.tar", "kept", version=1)) == 10
    for other in ({"version": 2}, {}):
        with pytest.raises(lk.errors.ResumeMismatchError, match="read"):
            fetch("t-0.tar", "kept", **other)


def test_a_pipeline_may_end_before_its_first_command(shards):
    """`head` closes the pipe of the command before it, which is no failure; a text's format is given."""
    source = fetch("pipe:yes 1,2 | head -n 50000", "kept", allow_commands=True, format="lines")
    assert len(source) == 50_000


def test_callers_at_once_keep_one_set(shards):
    """One reads; the others wait for it and open what it kept."""
    with ThreadPoolExecutor(3) as pool:
        call = ("pipe:echo >> runs; cat t-0.tar", "kept")
        found = [*pool.map(lambda _: fetch(*call, allow_commands=True), range(3))]
    assert all([*each] == shards[:10] for each in found) and Path("runs").read_text() == "\n"


# A child is forked for each run, so that the imports are paid once.
KILLED = """
import itertools, os, signal, sys
from pathlib import Path
import loaderkit as lk

root = sys.argv[1]
os.chdir(root)
state = {"left": None}

def hook(event, arguments):
    if state["left"] is not None and event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"):
        if str(arguments[0]).startswith(root):
            state["left"] -= 1
            if state["left"] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)

def records():
    return ({"label": k} for k in range(10))

WHAT = {"commands": "pipe:cat t-{0..2}.tar", "records": records}

def fetch(kind, folder):
    size = {"shard_records": 3} if kind == "records" else {}
    return lk.formats.fetch(WHAT[kind], folder, allow_commands=True, **size)

for kind in WHAT:
    expected = [*fetch(kind, f"{root}/{kind}")]
    for at in itertools.count():
        folder = f"{root}/{kind}-{at}"
        child = os.fork()
        if not child:
            state["left"] = at
            fetch(kind, folder)
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if os.path.exists(folder):
            assert [*fetch(kind, folder)] == expected, at
        times = {path.name[:5]: path.stat().st_mtime_ns for path in Path(f"{folder}.partial").glob("*.done")}
        if killed == 0:
            break
        assert killed == -signal.SIGKILL, killed
        source = fetch(kind, folder)
        assert [*source] == expected and "checksums" in source.fingerprint(), at
        assert not os.path.exists(f"{folder}.partial"), at
        stays = {path.name[:5]: path.stat().st_mtime_ns for path in Path(folder).glob("0*")}
        assert all(stays[name] <= time for name, time in times.items()), (at, "a finished shard was made again")
        print(kind, len(times))
"""


@pytest.mark.slow
def test_a_run_killed_at_each_operation(shards, tmp_path, at_night):
    """By SIGKILL, at each operation on files, also where the shards get their names: shards that are whole stay."""
    child = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(child, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    for kind in ("commands", "records"):
        assert {int(count) for each, count in found if each == kind} >= {0, 1, 2, 3}


def test_a_command_whose_shard_is_whole_is_not_run_again(shards):
    """The third command fails once; a second run begins with it."""
    names = [f"pipe:echo {k} >> runs; test {k} != 2 || test -e flag && cat t-{k}.tar" for k in range(3)]
    with pytest.raises(lk.errors.StorageError) as error:
        fetch(names, "kept", allow_commands=True)
    assert "while shard 2 of 3 was made" in error.value.__notes__
    Path("flag").touch()
    assert [*fetch(names, "kept", allow_commands=True)] == shards
    assert Path("runs").read_text().split() == ["0", "1", "2", "2"]
