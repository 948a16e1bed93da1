"""lk.offline.map_shards: the same bytes for any workers, what is done isn't done again, values folded in order."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.formats._writing.shard_result import ShardResult, read_result
from loaderkit.formats._writing.target import WriteTarget

N = 600


class Numbers:
    """Record k is k; each read is a line of a file."""

    def __init__(self, log=None, bad=()):
        self.log, self.bad = log, bad

    def __len__(self):
        return N

    def __getitem__(self, key):
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{key}\n")
        if key in self.bad:
            raise OSError(f"{key} is bad")
        return {"x": int(key)}

    def name(self, key):
        return f"number {key}"

    def fingerprint(self):
        return {"numbers": N}


def doubled(record):
    return {"x": 2 * record["x"]}


def some(record):
    """None, one or several: as a list and as a generator."""
    x = record["x"]
    return None if x % 3 == 0 else {"x": x} if x % 3 == 1 else [{"x": x}, {"x": -x}]


def several(record):
    for sign in (1, -1):
        yield {"x": sign * record["x"]}


def running(records):
    """Per shard: sums of neighbours."""
    last = 0
    for record in records:
        last += record["x"]
        yield {"x": last}


def read(folder):
    return [record["x"] for record in lk.TarDataSource(f"{folder}/*.tar")]


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob("*.tar"))}


@pytest.mark.parametrize("function", [doubled, some, several, running])
def test_files_have_what_the_function_gives(tmp_path, function):
    """In the order of the records, in files of consecutive ones."""
    per = "shard" if function is running else "record"
    names = lk.offline.map_shards(
        function, Numbers(), tmp_path / "out", version=1, format="tar", per=per, shards=3
    )
    assert [os.path.basename(name) for name in names] == [f"0000{i}-of-00003.tar" for i in range(3)]
    xs = [{"x": k} for k in range(N)]
    expected = {
        doubled: [2 * k for k in range(N)],
        some: [x for k in range(N) for x in ([], [k], [k, -k])[k % 3]],
        several: [x for k in range(N) for x in (k, -k)],
        running: [x["x"] for part in (xs[:200], xs[200:400], xs[400:]) for x in running(part)],
    }
    assert read(tmp_path / "out") == expected[function]
    assert os.listdir(tmp_path) == ["out"]


def test_keys_are_given_once_in_a_set(tmp_path):
    """Records without one are numbered, also where a shard has more of them than its source has."""
    records = [{"a.txt": b"%d" % k} for k in range(5)]
    lk.offline.map_shards(
        lambda record: [record] * 3, records, tmp_path / "out", version=1, format="tar", shards=2
    )
    keys = [record["__key__"] for record in lk.TarDataSource(f"{tmp_path}/out/*.tar")]
    assert len(keys) == len(set(keys)) == 15
    numbers = [*map(int, keys)]
    assert numbers == [0, 1, 5, 7, 9, 11, 2, 3, 4, 6, 8, 10, 12, 14, 16]


def test_the_bytes_are_the_same_for_any_workers(tmp_path):
    """Inline, threads, processes."""
    for name, workers in {
        "inline": {},
        "threads": {"worker_count": 2, "worker_kind": "thread"},
        "processes": {"worker_count": 2},
    }.items():
        lk.offline.map_shards(
            doubled, Numbers(), tmp_path / name, version=1, format="tar", shards=5, **workers
        )
    assert contents(tmp_path / "inline") == contents(tmp_path / "threads") == contents(tmp_path / "processes")


def test_values_are_folded_in_order(tmp_path):
    """Per record and per shard; the result is kept in a JSON file where one is named."""

    def both(a, b):
        return {"count": a["count"] + b["count"], "last": b["last"]}

    def value(record):
        return {"count": 1, "last": record["x"]}

    def of_shard(records):
        xs = [record["x"] for record in records]
        return {"count": len(xs), "last": xs[-1]}

    path = tmp_path / "counts.json"
    expected = {"count": N, "last": N - 1}
    assert lk.offline.map_shards(value, Numbers(), path, version=1, reduce=both, worker_count=2) == expected
    assert json.loads(path.read_text()) == expected and os.listdir(tmp_path) == ["counts.json"]
    assert (
        lk.offline.map_shards(of_shard, Numbers(), version=1, per="shard", shards=7, reduce=both) == expected
    )
    words = lk.offline.map_shards(str.split, ["b a", "", "c"], version=1, shards=2, reduce=lambda a, b: a + b)
    assert words == ["b", "a", "c"]
    # A first value that is false is a value.
    assert lk.offline.map_shards(lambda record: record, [0, -5], version=1, shards=1, reduce=max) == 0


def test_bad_records(tmp_path):
    """Raised with the record's name, or left out; by the source or by the function."""
    source = Numbers(bad={7, 250})

    def odd(record):
        return {"x": 1 // (record["x"] - 3) * 0 + record["x"]}

    with pytest.raises(OSError, match=r"7 is bad") as caught:
        lk.offline.map_shards(
            doubled, source, tmp_path / "out", version=1, format="tar", on_record_error="raise"
        )
    assert any("record_key 7 (number 7)" in note for note in caught.value.__notes__)
    with pytest.raises(ZeroDivisionError) as caught:
        lk.offline.map_shards(odd, Numbers(), tmp_path / "out", version=1, format="tar")
    assert any("record_key 3 (number 3)" in note for note in caught.value.__notes__)
    lk.offline.map_shards(odd, source, tmp_path / "out", version=1, format="tar", on_record_error="drop")
    assert read(tmp_path / "out") == [k for k in range(N) if k not in (3, 7, 250)]
    _, *entries = map(json.loads, (tmp_path / "out.dropped.jsonl").read_text().splitlines())
    assert [(each["record_key"], each["name"]) for each in entries] == [
        (k, f"number {k}") for k in (3, 7, 250)
    ]
    assert [each["error"].partition(":")[0] for each in entries] == [
        "ZeroDivisionError",
        "OSError",
        "OSError",
    ]


def test_a_value_that_cannot_be_folded_names_its_record():
    """Also where reduce fails."""
    records = [1, 2, "x"]
    for function in (lambda record: {record} if record == "x" else 1, lambda record: record):
        with pytest.raises(TypeError) as caught:
            lk.offline.map_shards(function, records, version=1, reduce=lambda a, b: a + b)
        assert caught.value.__notes__[0] == "record_key 2"


def test_what_is_done_is_not_done_again(tmp_path):
    """After an error in the last shard the others stay; another version does all again."""
    log = tmp_path / "log"
    source = Numbers(log)

    def until(stop):
        def function(record):
            if record["x"] >= stop:
                raise ValueError("stop")
            return record

        return function

    def run(stop, **options):
        log.write_text("")
        options = {"version": 1, "format": "tar", "shards": 6, **options}
        with pytest.raises(ValueError, match="stop") if stop < N else contextlib.nullcontext():
            lk.offline.map_shards(until(stop), source, tmp_path / "out", **options)
        return len(set(map(int, log.read_text().split())))

    assert run(450) == 451
    assert sorted(os.listdir(tmp_path)) == ["log", "out.partial"]
    assert run(450) == 1 + 51  # one for the fields of all, and of the shard that failed
    assert run(450, version=2) == 451
    assert run(N, version=2) == 1 + 200
    whole = contents(tmp_path / "out")
    lk.offline.map_shards(until(N), Numbers(), tmp_path / "again", version=2, format="tar", shards=6)
    assert contents(tmp_path / "again") == whole
    with pytest.raises(
        FileExistsError,
        match=r"^path: expected a new folder, a name that isn't there, got .*out; overwrite=True",
    ):
        run(N)
    lk.offline.map_shards(
        doubled, source, tmp_path / "out", version=2, format="tar", shards=2, overwrite=True
    )
    assert read(tmp_path / "out") == [2 * k for k in range(N)]
    assert len(contents(tmp_path / "out")) == 2


def test_a_run_of_another_kind_was_killed_before_its_rename(tmp_path, monkeypatch):
    """What it had finished is in the way of neither files nor a value."""
    records = [{"x": 1}, {"x": 2}]
    files = {"version": 1, "format": "tar", "shards": 2}
    value = {"version": 1, "shards": 2, "reduce": lambda a, b: a + b}

    def killed(*_):
        raise KeyboardInterrupt

    for first, then in ((files, value), (value, files)):
        function = {True: lambda record: record["x"], False: doubled}
        path = tmp_path / ("set" if first is files else "value")
        with monkeypatch.context() as patch:
            patch.setattr(WriteTarget, "finish", killed)
            with pytest.raises(KeyboardInterrupt):
                lk.offline.map_shards(function[first is value], records, path, **first)
        lk.offline.map_shards(function[then is value], records, path, overwrite=True, **then)
        assert (json.loads(path.read_text()) == 3) if then is value else (read(path) == [2, 4])
    assert sorted(os.listdir(tmp_path)) == ["set", "value"]


def test_a_file_of_another_version_is_not_taken_for_one_of_this(tmp_path, monkeypatch):
    """Two runs of files of equal size were killed: before the rename, and between a file and its .done."""
    records = [{"x": 1}, {"x": 2}]

    def run(version):
        make = {1: doubled, 2: lambda record: {"x": record["x"]}}[version]
        lk.offline.map_shards(make, records, tmp_path / "out", version=version, format="tar", shards=2)

    def killed(*_):
        raise KeyboardInterrupt

    places = ((WriteTarget, "finish"), (ShardResult, "write"))
    for (owner, name), version in zip(places, (1, 2)):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, killed)
            with pytest.raises(KeyboardInterrupt):
                run(version)
    run(1)
    assert read(tmp_path / "out") == [2, 4]


def test_a_done_file_of_another_job_is_no_result(tmp_path):
    """The fields of all files may differ where a run goes on with another source, which is allowed to differ."""
    path = str(tmp_path / "00000-of-00001.tar.done")
    result = ShardResult(3, job="this")
    result.write(path)
    assert [read_result(path, job, None) for job in ("this", "another")] == [result, None]


def test_a_damaged_done_file_is_no_result(tmp_path):
    """The value of a shard was folded from it, whatever it said."""

    def failing(record):
        if record == 599:
            raise ValueError("stop")
        return record

    run = functools.partial(
        lk.offline.map_shards, path=tmp_path / "sum", version=1, reduce=int.__add__, shards=3
    )
    with pytest.raises(ValueError, match="stop"):
        run(failing, range(600))
    for done in (tmp_path / "sum.partial").glob("*.done"):
        done.write_text(done.read_text().replace('"value": 1', '"value": 7'))
    assert run(int, range(600)) == sum(range(600))


SCRIPT = """
import os, sys, time
import loaderkit as lk
sys.path.insert(0, {here!r})
from test_map_shards import Numbers, doubled

def slow(record):
    if record["x"] == 350 and not os.path.exists({flag!r}):
        open({flag!r}, "w").close()
        {what}
    return doubled(record)

lk.offline.map_shards(slow, Numbers({log!r}), {out!r}, version=1, format="tar", shards=6, worker_count=1)
"""


@pytest.mark.parametrize("victim", ["trainer", "worker"])
def test_after_sigkill_the_rest_is_done(tmp_path, victim):
    """Of the run's process: a second run does what lacks. Of a worker: the run goes on by itself."""
    log, flag, out = tmp_path / "log", tmp_path / "flag", tmp_path / "out"
    what = "time.sleep(60)" if victim == "trainer" else "os.kill(os.getpid(), 9)"
    script = SCRIPT.format(
        here=str(Path(__file__).parent), flag=str(flag), log=str(log), out=str(out), what=what
    )
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, str(tmp_path / "script.py")]
    child = subprocess.Popen(command, start_new_session=True)
    if victim == "trainer":
        while not flag.exists() and child.poll() is None:
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        assert not out.exists()
        log.write_text("")
        subprocess.run(command, check=True)
        read_again = set(map(int, log.read_text().split())) - set(
            range(100)
        )  # the first record is read for its fields
        assert read_again == set(range(300, N))
    else:
        assert child.wait() == 0
    lk.offline.map_shards(doubled, Numbers(), tmp_path / "expected", version=1, format="tar", shards=6)
    assert contents(out) == contents(tmp_path / "expected")


def test_arguments_that_mean_nothing(tmp_path):
    """Each error says what is expected."""
    source, out = Numbers(), tmp_path / "out"
    for error, message, given in [
        (TypeError, r"^path: expected a folder for the files, got None", {"path": None}),
        (ValueError, r"^format: expected one of array_record, tar, .*, got None", {"format": None}),
        (ValueError, r"^per: expected 'record' or 'shard', got 'batch'", {"per": "batch"}),
        (
            ValueError,
            r"^on_record_error: expected 'raise' or 'drop', got 'skip'",
            {"on_record_error": "skip"},
        ),
        (ValueError, r"^path: expected the name of a folder, got .*leave out", {"path": tmp_path / "x.tar"}),
        (TypeError, r"^version: expected a text, an int or None, got 1.5", {"version": 1.5}),
        (ValueError, r"^shards: ", {"shards": N + 1}),
        (TypeError, r"^function: expected a function, got 3", {"function": 3}),
        (
            ValueError,
            r"^function: expected one record or more to write, got none",
            {"function": lambda record: None},
        ),
        (
            TypeError,
            r"^function: expected an iterable of records for a shard, got a int",
            {"function": lambda records: 3, "per": "shard"},
        ),
        (TypeError, r"^reduce: expected a function of two values, got 'sum'", {"reduce": "sum"}),
        (
            TypeError,
            r"^function: expected a JSON value .*; numpy's values have .tolist\(\)",
            {"function": lambda record: np.zeros(2), "reduce": np.add},
        ),
    ]:
        arguments = {
            "function": doubled,
            "source": source,
            "path": out,
            "version": 1,
            "format": "tar",
            **given,
        }
        with pytest.raises(error, match=message):
            lk.offline.map_shards(**arguments)
    with pytest.raises(TypeError, match=r"source: expected an object with __len__"):
        lk.offline.map_shards(doubled, iter(source), out, version=1, format="tar")
    assert not out.exists()


def test_what_is_no_written_set_is_not_replaced(tmp_path):
    """A folder of the user's own files stays, whatever overwrite= says; so does one in place of a result's file."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    for function, options in ((dict, {"format": "jsonl", "shards": 1}), (len, {"reduce": int.__add__})):
        with pytest.raises(FileExistsError, match=r"path: expected a (folder|file)"):
            lk.offline.map_shards(
                function, [{"a": 1}], tmp_path / "mine", version=1, overwrite=True, **options
            )
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
