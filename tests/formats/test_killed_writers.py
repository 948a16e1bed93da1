"""SIGKILL of a worker changes no byte; of the writing process, at any of its file operations, leaves no half set."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import loaderkit as lk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc and audit events as on Linux")

N = 60


class KillsOnce:
    """Records; the process that reads record 20 first is killed, where `flag` names a file that isn't there."""

    def __init__(self, flag=None):
        self.flag = flag

    def __len__(self):
        return N

    def __getitem__(self, key):
        if key == 20 and self.flag is not None and not os.path.exists(self.flag):
            Path(self.flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": bytes([key]) * (50 + key), "label": key}

    def fingerprint(self):
        return {"n": N}


def digests(path):
    path = Path(path)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [file for file in files if file.suffix != ".lkx"]  # an index has the times of the files
    return [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]


WRITERS = {
    "shards": lambda source, path, count: lk.write(
        source, path, format="tfrecord", shards=4, worker_count=count
    ),
    "shard_bytes": lambda source, path, count: lk.write(
        source, path, format="tfrecord", shard_bytes=2_000, worker_count=count
    ),
    "map": lambda source, path, count: lk.offline.map_shards(
        dict, source, path, version=1, format="tfrecord", shards=4, worker_count=count
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_killed_worker_changes_no_byte(tmp_path, name):
    flag = tmp_path / "flag"
    WRITERS[name](KillsOnce(str(flag)), tmp_path / "killed", 2)
    WRITERS[name](KillsOnce(), tmp_path / "whole", 0)
    assert flag.exists() and digests(tmp_path / "killed") == digests(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["flag", "killed", "whole"]


def test_a_worker_of_convert_is_killed(tmp_path, monkeypatch):
    from loaderkit.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "killing_call.py").write_text(
        "import os, signal\n"
        "def same(record):\n"
        "    if record['label'] == 20 and os.path.exists('armed'):\n"
        "        os.unlink('armed')\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return record\n"
    )
    lk.write(KillsOnce(), "a.tfrecord")
    options = ["--to", "jsonl", "--shards", "4", "--call", "killing_call:same"]
    assert main(["convert", "a.tfrecord", "whole", *options]) == 0
    Path("armed").touch()
    assert main(["convert", "a.tfrecord", "killed", *options, "-p", "2"]) == 0
    assert not os.path.exists("armed") and digests("killed") == digests("whole")


# Opens, renames and deletions below the folder raise audit events; the process is killed in the middle of each in turn.
# A child is forked for each, so that the imports are paid once.
AT_EACH_OPERATION = """
import os, signal, sys, hashlib
import loaderkit as lk
sys.path.insert(0, {here!r})
from test_killed_writers import KillsOnce, digests

root, form, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
state = {{"left": None}}
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir")

def hook(event, arguments):
    if state["left"] is not None and event in EVENTS and str(arguments[0]).startswith(root):
        state["left"] -= 1
        if state["left"] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)

def write(path, as_file):
    if as_file:
        lk.write(KillsOnce(), path, overwrite=True)
    else:
        lk.write(KillsOnce(), path, format=form, shards=2, overwrite=True)

for as_file in (False, True):
    whole = f"{{root}}/whole" + (f".{{form}}" if as_file else "")
    write(whole, as_file)
    expected = [each[1] for each in digests(whole)]
    at, kills = 0, 0
    while True:
        path = f"{{root}}/{{at}}" + (f".{{form}}" if as_file else "")
        child = os.fork()
        if not child:
            state["left"] = at
            write(path, as_file)
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if os.path.exists(path):
            assert [each[1] for each in digests(path)] == expected, (at, "under the final name")
        if killed == 0:
            break
        assert killed == -signal.SIGKILL, killed
        kills += 1
        write(path, as_file)
        assert [each[1] for each in digests(path)] == expected, (at, "of the second run")
        assert not os.path.exists(path + ".partial"), at
        assert "checksums" in lk.open(path).fingerprint(), at
        at += step
    assert os.path.exists(path)
    print(kills)
"""


def kills_at_operations(folder, name, step):
    """The number of times that a write of a set and of a file was killed; what it left is checked."""
    code = AT_EACH_OPERATION.format(here=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", code, folder, name, str(step)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


FORMATS = ["array_record", "tar", "tfrecord", "jsonl", "parquet", "arrow"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_writer_killed_at_some_file_operations(tmp_path, name):
    assert all(count >= 2 for count in kills_at_operations(tmp_path, name, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_writer_killed_at_each_file_operation(tmp_path, name, nightly):
    """Those of native code, which raise no event, lie between two that do."""
    if not nightly:
        pytest.skip("nightly; by day at every third")
    assert all(count >= 4 for count in kills_at_operations(tmp_path, name, 1))
