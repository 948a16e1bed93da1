"""`loaderkit explain`, also with --step, and `doctor`: what they do with a script, a function and a machine."""

import json
import platform
import subprocess
import sys
import types

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._base.system.processor_level import present_level
from loaderkit.cli import main

SCRIPT = """
import atexit, sys
import loaderkit as lk

atexit.register(print, "at exit")

class Named:
    def __len__(self):
        return 100
    def __getitem__(self, key):
        raise AssertionError("data was read")
    def name(self, key):
        return f"train[{key}]"

batch = int(sys.argv[1])
loader = lk.load(Named(), shuffle=True, seed=0, batch_size=batch)
try:
    for element in loader:
        print("an element")
finally:
    print("finally")
"""

MODULE = """
import time
import loaderkit as lk

def slow(x):
    time.sleep(0.002)
    return x

def loader():
    return lk.load(range(1000), operations=[slow], batch_size=4)

def fails():
    return [].nothing

def loader_and_step():
    return lk.load(range(1000), batch_size=4), lambda batch: time.sleep(0.3)
"""


def ran(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "loaderkit", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_records_of_a_scripts_step(tmp_path):
    """No data is read, and nothing of the script runs behind its iter(loader)."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = ran("explain", script, "--step", "1000000000", "--", "4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "step 1,000,000,000, epoch 40,000,000, indices 4,000,000,000..4,000,000,003"
    expected = lk.load(range(100), shuffle=True, seed=0, batch_size=4).records(10**9)
    assert [line.split()[-1] for line in lines[1:]] == [f"train[{record.record_key}]" for record in expected]


def test_records_through_a_state(loaderkit, tmp_path, monkeypatch):
    """What was skipped is left out, and what was read instead of a bad record is named."""
    module = (
        "import loaderkit as lk\n\ndef bad(x):\n    if x == 3:\n        raise ValueError(x)\n    return x\n\n"
    )
    module += "def loader():\n    return lk.load(range(20), operations=[bad], batch_size=4, "
    module += "on_record_error='replace')\n"
    (tmp_path / "job_of_records.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import job_of_records

    with iter(job_of_records.loader()) as it:
        next(it)
        it.skip(1)
        next(it)
        (tmp_path / "state.json").write_bytes(it.get_state())
        expected = [record.record_key for record in it.records(1)]
    arguments = ("job_of_records:loader", "--state", tmp_path / "state.json", "--json")
    (document,) = loaderkit("explain", *arguments, "--step", "1").documents
    assert [each["record_key"] for each in document["records"]] == expected == [8, 9, 10, 11]
    (document,) = loaderkit("explain", *arguments, "--step", "0").documents
    assert document["records"][3]["read_instead"]["record_key"] not in (3, None)


def test_documents_of_steps_and_steps_of_documents(loaderkit, tmp_path, monkeypatch):
    """With a state they are those of the run; how often each was read goes to a file."""
    (tmp_path / "job_of_documents.py").write_text(
        "import loaderkit as lk\n\nsource = lk.ConcatDataSource({'web': range(9), 'code': range(5)})\n\n"
        "def loader():\n    return lk.load(source, shuffle=True, seed=0, batch_size=4)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import job_of_documents

    loader = job_of_documents.loader()
    with iter(loader) as it:
        it.skip(3)
        it.seek(9)
        (tmp_path / "state.json").write_bytes(it.get_state())
        run = [it.documents(step).document.tolist() for step in range(9)]
        steps = it.steps_of("code", key=2).step.tolist()
    state = ("--state", "state.json")
    (said,) = loaderkit("explain", "job_of_documents:loader", "--step", "4", "--json", *state).documents
    assert [each["document"] for each in said["documents"]] == run[4]
    lines = loaderkit("explain", "job_of_documents:loader", "--step", "4").out.splitlines()
    first = loader.documents(4)
    assert lines[lines.index("documents") + 1] == f"  row 0  {first.corpus[0]} document {first.document[0]}"
    asked = ("explain", "job_of_documents:loader", "--document", "2", "--corpus", "code")
    (said,) = loaderkit(*asked, *state, "--json").documents
    assert [each["step"] for each in said["reads"]] == steps
    done = loaderkit(*asked, "--until", "9")
    assert len(done.out.splitlines()) == len(loader.steps_of("code", key=2, until=9))
    assert "epoch 0, step " in done.out and "code document 2" in done.out
    done = loaderkit("explain", "job_of_documents:loader", "--seen", "7", "--to", "seen.npy")
    assert (done.out, len(np.load("seen.npy"))) == ("seen.npy: 14 documents\n", 14)
    for wrong in (
        asked,
        (*asked[:4], "2"),
        (*asked[:4], "x"),
        (*asked[:2], "--seen", "7"),
        (*asked[:2], "--until", "3"),
    ):
        assert loaderkit(*wrong).status == 2


def test_what_is_no_loader(loaderkit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "job_without.py").write_text("def nothing():\n    return 3\n")
    assert loaderkit("explain", "job_without:nothing", "--step", "0").status == 2
    assert loaderkit("explain", "job_without:other", "--step", "0").status == 2
    assert loaderkit("explain", tmp_path / "no.py", "--step", "0").status == 2
    (tmp_path / "script.py").write_text("x = 1\n")
    done = loaderkit("explain", tmp_path / "script.py", "--step", "0")
    assert (done.status, "without iter(loader)" in done.err) == (2, True)


def test_explain_without_a_step_says_how_the_command_gets_one(loaderkit, tmp_path, monkeypatch):
    """And of a function that yields, what it should return."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "job_without_step.py").write_text(MODULE + "\n\ndef yields():\n    yield loader()\n")
    done = loaderkit("explain", "job_without_step:loader", "--seconds", "1")
    assert done.status == 0 and "name a function that returns `loader, step`" in done.out
    done = loaderkit("explain", "job_without_step:yields")
    assert done.status == 2 and "`return loader`" in done.err


def test_explain_writes_a_timeline(loaderkit, tmp_path, monkeypatch):
    """Of so many steps of the loader."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "job_to_trace.py").write_text(MODULE)
    asked = ("explain", "job_to_trace:loader_and_step", "--trace", "run.json", "--steps", "2")
    assert loaderkit(*asked, "--json").documents == [{"steps": 2, "file": "run.json"}]
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert sum(event["name"] == "step" for event in events) == 2
    assert loaderkit(*asked[:-1], "0").status == 2
    assert loaderkit(*asked, "--seconds", "3").status == 2
    assert loaderkit("explain", "job_to_trace:loader", "--steps", "7").status == 2


def test_explain_prints_the_answer_first(loaderkit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "job_to_explain.py").write_text(MODULE)
    done = loaderkit("explain", "job_to_explain:loader_and_step", "--seconds", "1")
    assert done.status == 0
    assert done.out.splitlines()[0] == "The loader is not the bottleneck. Limit: the trainer's step."
    (document,) = loaderkit("explain", "job_to_explain:loader_and_step", "--seconds", "1", "--json").documents
    assert "limit" in document and "advice" in document
    for seconds in ("0", "nan", "inf"):
        assert loaderkit("explain", "job_to_explain:loader", "--seconds", seconds).status == 2
    assert loaderkit("explain", "job_to_explain:time", "--seconds", "1").status == 2
    with pytest.raises(AttributeError, match="nothing"):  # the user's own error, not a name that isn't there
        loaderkit("explain", "job_to_explain:fails")


def test_doctor_starts_and_kills_a_worker(loaderkit, caplog):
    """What it reports of the worker is the finding alone: a log of a death would alarm."""
    (document,) = loaderkit("doctor", "--no-devices", "--json").documents
    assert not caplog.messages
    found = {each["name"]: each for each in document["findings"]}
    assert found["worker"]["ok"]
    assert found["worker"]["text"].endswith("64 of 64 records")
    assert found["processors"]["text"].endswith(present_level() or platform.machine())
    assert all(each["ok"] or each["fix"] for each in document["findings"])


class Unread:
    """Ten million records, none of which may be read."""

    def __len__(self):
        return 10_000_000

    def __getitem__(self, key):
        raise AssertionError("a record was read")


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_step_far_away_costs_no_more_calls_than_a_near_one(shuffle, capsys, monkeypatch):
    """Neither reads nor steps in between: what Python calls for step 10^9 it calls for step 3 too."""
    module = types.ModuleType("far_away")
    module.make = lambda: lk.load(Unread(), shuffle=shuffle, seed=0, batch_size=256, worker_count=2)
    monkeypatch.setitem(sys.modules, "far_away", module)

    def calls(step):
        counted = 0

        def count(frame, event, argument):
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            assert main(["explain", "far_away:make", "--step", str(step)]) == 0
        finally:
            sys.setprofile(None)
        return counted

    calls(3)  # imports
    near, far = calls(3), calls(10**9)
    assert "step 1,000,000,000, epoch 25,600" in capsys.readouterr().out
    assert far <= 1.1 * near
