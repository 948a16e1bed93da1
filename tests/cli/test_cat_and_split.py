"""`loaderkit convert`, also with --prefix: the same records in other files, whole or not at all."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from small_archives import tar_of

import loaderkit as lk
from loaderkit.formats.tar.writer import TarShardWriter

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "loaderkit"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def records_of(path):
    with lk.TarDataSource(path) as source:
        return source.__getitems__(range(len(source)))


def leftovers():
    return [path.name for path in Path().iterdir() if "partial" in path.name]


def test_all_records_in_order(loaderkit, tars):
    """The same bytes for any number of processes."""
    (told,) = loaderkit("convert", tars, "all.tar", "--json").documents
    assert told == {
        "output": "all.tar",
        "format": "tar",
        "files": 1,
        "records_read": 60,
        "records": 60,
        "bytes": Path("all.tar").stat().st_size,
    }
    assert records_of("all.tar") == records_of(tars)
    assert loaderkit("convert", tars, "again.tar", "-p", "2").status == 0
    assert Path("again.tar").read_bytes() == Path("all.tar").read_bytes()


def test_shuffled_as_the_sampler_does(loaderkit, tars):
    """So that a loader that shuffles with this seed has the same order."""
    assert loaderkit("convert", tars, "some.tar", "--shuffle", "3", "-n", "10").status == 0
    keys = lk.IndexSampler(60, shuffle=True, seed=3, num_epochs=1).record_keys(range(10))
    with lk.TarDataSource(tars) as source:
        assert records_of("some.tar") == source.__getitems__(keys)


def test_types_are_kept(loaderkit, tars):
    """Of records that aren't all bytes, and of formats whose records aren't dicts."""
    Path("x.txt").write_text("one\ntwo\n")
    assert loaderkit("convert", "x.txt", "x.tar").status == 0
    assert records_of("x.tar") == ["one", "two"]
    assert loaderkit("convert", "x.tar", "y.tar", "--shuffle", "0").status == 0
    assert sorted(records_of("y.tar")) == ["one", "two"]


def test_pipes(loaderkit, tars, monkeypatch):
    """stdin and stdout, as other programs have them."""
    stdin = io.TextIOWrapper(io.BytesIO(Path("x-000.tar").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    for name in (
        "tar",
        "array_record",
    ):  # one that is written through, and one that is written to a file first
        stdin.seek(0)
        Path(f"out.{name}").write_bytes(loaderkit("convert", "-", "-", "--to", name).raw)
    assert records_of("out.tar") == records_of("x-000.tar")
    with lk.ArrayRecordDataSource("out.array_record") as source:
        assert [*source] == records_of("x-000.tar")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert "convert: stdin: expected a file of a known format" in loaderkit("convert", "-", "no.tar").err


def test_stdout_that_is_a_file(tars):
    """What it has stays, as `>>` wants it, and what follows comes behind."""
    Path("one.jsonl").write_text('{"x": 1}\n')
    with open("all.jsonl", "ab") as file:
        file.write(b'{"x": 0}\n')
        file.flush()
        arguments = ["convert", "one.jsonl", "-", "--to", "jsonl"]
        subprocess.run([*COMMAND, *arguments], stdout=file, check=True, env=ENVIRONMENT)
    assert Path("all.jsonl").read_text() == '{"x": 0}\n{"x": 1}\n'


def test_a_reader_that_ends_early(tars):
    """It is no error."""
    tar_of("large.tar", [("0", {"bin": bytes(1 << 20)}), ("1", {"bin": bytes(1 << 20)})])
    with subprocess.Popen(
        [*COMMAND, "convert", "large.tar", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x-000.tar", "x-001.tar"], "x-001.tar, which is there"),
        (["x-000.tar", "folder.tar", "--overwrite"], "the folder"),
        (["x-000.tar", "y.tar", "-n", "0"], "--number: expected 1 or more"),
        (["x-000.tar", "y.tar", "-p", "-1"], "--processes: expected 0 or more"),
        (["x-000.tar", "y.tar", "--shuffle", "-1"], "--shuffle: expected a seed"),
        (["x-000.tar", "-", "--json"], "DST: expected a name with --json"),
    ],
)
def test_arguments_that_cant_be_carried_out(loaderkit, tars, arguments, said):
    """Status 2, and no file is touched."""
    Path("folder.tar").mkdir()
    before = Path("x-001.tar").read_bytes()
    ran = loaderkit("convert", *arguments)
    assert (ran.status, leftovers()) == (2, [])
    assert said in ran.err
    assert Path("x-001.tar").read_bytes() == before


def test_an_existing_file_is_replaced_where_told(loaderkit, tars):
    """Also one of those that are read."""
    wanted = records_of("x-000.tar")
    assert loaderkit("convert", "x-000.tar", "x-000.tar", "--overwrite", "-n", "5").status == 0
    assert records_of("x-000.tar") == wanted[:5]


@pytest.mark.parametrize("processes", ["0", "1"])
def test_duplicate_keys(loaderkit, tars, processes):
    """Readers would join the records: an error with the key, status 3, no file."""
    ran = loaderkit("convert", "x-000.tar", "x-000.tar", "x-000.tar[0:3]", "y.tar", "-p", processes)
    assert ran.status == 3 and "each key once in an archive, got '000000' again" in ran.err
    assert not Path("y.tar").exists() and not leftovers()


FULL_DISK = """
import resource, signal
from loaderkit.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
print(main(["convert", "large.tar", "y.tar"]), main(["convert", "large.tar", "y", "--records", "3", "--prefix"]),
      main(["convert", "large.tar", "y", "--size", "1G", "--prefix"]))
"""


def test_a_full_disk(tars):
    """Status 3, and nothing is left."""
    tar_of("large.tar", [(str(k), {"bin": bytes(1 << 19)}) for k in range(4)])
    command = [sys.executable, "-c", FULL_DISK]
    ran = subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=True, text=True)
    assert ran.stdout == "3 3 3\n"
    assert ran.stderr.count("File too large") == 3 and "Traceback" not in ran.stderr
    assert not list(Path().glob("y*")) and not leftovers()


def test_ctrl_c(loaderkit, tars, monkeypatch):
    """No file is left."""
    add = TarShardWriter.add

    def interrupted(self, encoded):
        add(self, encoded)
        raise KeyboardInterrupt

    monkeypatch.setattr(TarShardWriter, "add", interrupted)
    assert loaderkit("convert", tars, "y.tar").status == 130
    assert loaderkit("convert", tars, "y", "--size", "1G", "--prefix").status == 130
    assert not list(Path().glob("y*")) and not leftovers()


KILLED = """
import os, signal
from loaderkit.cli import main
from loaderkit.formats.tar.writer import TarShardWriter
add, count = TarShardWriter.add, []
def killed(self, encoded):
    add(self, encoded)
    count.append(1)
    if len(count) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
TarShardWriter.add = killed
main(["convert", "x-000.tar", "z", "--records", "2", "--prefix"])
"""


def test_a_split_that_was_killed_goes_on(loaderkit, tars):
    """No file has its name before all are whole; those that are finished aren't written again."""
    command = [sys.executable, "-c", KILLED]
    assert subprocess.run(command, env=ENVIRONMENT, check=False).returncode == -9
    assert not list(Path().glob("z-*"))
    finished = Path("z.partial/z-000000.tar").stat().st_ino
    assert loaderkit("convert", "x-000.tar", "z", "--records", "2", "--prefix").status == 0
    assert Path("z-000000.tar").stat().st_ino == finished
    assert records_of("z-{000000..000009}.tar") == records_of("x-000.tar")
    assert not leftovers()


def test_fewer_files_than_are_there(loaderkit, tars):
    """The rest of the former set would be read with the new one: nothing is replaced before it is away."""
    assert loaderkit("convert", "x-000.tar", "out", "--records", "5", "--prefix").status == 0
    before = {path.name: path.read_bytes() for path in Path().glob("out-*.tar")}
    for size, other in ((["--records", "10"], "out-000002.tar"), (["--size", "1M"], "out-000001.tar")):
        ran = loaderkit("convert", "x-000.tar", "out", *size, "--overwrite", "--prefix")
        assert ran.status == 2 and f"got {other}" in ran.err, ran.err
        assert {path.name: path.read_bytes() for path in Path().glob("out-*.tar")} == before
    for name in ("out-000002.tar", "out-000003.tar"):
        os.unlink(name)
    assert loaderkit("convert", "x-000.tar", "out", "--records", "10", "--overwrite", "--prefix").status == 0
    assert records_of("out-*.tar") == records_of("x-000.tar")
    assert leftovers() == []


def test_files_of_like_size(loaderkit, tars):
    """By records, by bytes, or what is reached first; the last may be smaller."""
    (told,) = loaderkit("convert", tars, "n/part", "--records", "25", "--json", "--prefix").documents
    assert told["outputs"] == [f"n/part-{k:06d}.tar" for k in range(3)]
    assert told["records"] == [25, 25, 10]
    assert told["bytes"] == [Path(name).stat().st_size for name in told["outputs"]]
    assert records_of("n/part-{000000..000002}.tar") == records_of(tars)
    (told,) = loaderkit(
        "convert", tars, "s", "--prefix", "--size", "20K", "--records", "12", "--json", "--max-shards", "5"
    ).documents
    assert len(told["records"]) == 5 and max(told["records"]) <= 12
    assert 20 * 1024 <= max(told["bytes"]) <= 20 * 1024 + 2048
    assert not leftovers()


@pytest.mark.parametrize(
    "arguments",
    [
        ["y"],
        ["y", "--records", "0"],
        ["y", "--size", "many"],
        ["x", "--records", "20"],
        ["-", "--records", "20"],
    ],
)
def test_splits_that_cant_be_made(loaderkit, tars, arguments):
    """Also where one of the files is there."""
    Path("x-000001.tar").touch()
    assert loaderkit("convert", tars, *arguments, "--prefix").status == 2
    assert not Path("x-000000.tar").exists() and not leftovers()


def test_files_are_readable_by_tarfile(loaderkit, tars):
    """Each of the split files is an archive of its own, with its description."""
    Path("x.txt").write_text("one\ntwo\n")
    assert loaderkit("convert", "x.txt", "y", "--records", "1", "--prefix").status == 0
    with tarfile.open("y-000001.tar") as archive:
        assert archive.getnames() == ["__loaderkit__", "000000001.txt"]
    assert records_of("y-000001.tar") == ["two"]
    assert np.array_equal(records_of(["y-000000.tar", "y-000001.tar"]), ["one", "two"])
