"""Shards made on a cluster: the bytes of one machine, whatever dies, comes late or is refused.

The cluster is one of plain processes (plain_driver.py); tests/interop/test_ray_map.py has Ray.
"""

import contextlib
import functools
import importlib
import os
import pickle
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from plain_driver import Attempt, PlainCluster

import loaderkit as lk
from loaderkit.cli import main
from loaderkit.errors import ClusterError, ResumeMismatchError, TransportError
from loaderkit.formats._writing import target
from loaderkit.formats._writing.cluster import ClusterWork
from loaderkit.formats._writing.cluster_task import Answer, pack_program
from loaderkit.formats._writing.shard_result import ShardResult

pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX may be loaded by another test

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def driver_is_found(monkeypatch):
    """By its process and by those that it starts."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parents[1])]))


class OddError(KeyError):
    """Of the user's."""


def files(folder):
    """All but the index and its parts, which have the times of files, and made.json, which names the folder's files."""
    found = (path for path in sorted(Path(folder).rglob("*")) if path.is_file())
    return {
        path.name: path.read_bytes()
        for path in found
        if path.suffix not in (".lkx", ".part") and path.name != "made.json"
    }


def once(flag):
    """Whether this is the first call with this name, in any process."""
    with contextlib.suppress(FileExistsError), open(flag, "x"):
        return True
    return False


def has_ended(pid):
    """Whether the process that a file names waits to be reaped by its parent."""
    with contextlib.suppress(OSError, ValueError):  # no file yet, or an empty one
        return ") Z " in Path(f"/proc/{pid.read_text()}/stat").read_text()
    return False


def mapped(function, path, **options):
    options = {"version": 1, "format": "tar", "shards": 4, **options}
    return lk.offline.map_shards(function, range(40), path, **options)


def test_a_corpus_is_tokenised_on_hosts(tmp_path):
    """With the bytes of one machine; another tokenizer doesn't go on with a run's shards."""
    words = pytest.importorskip("tokenizers")

    def encode(*known):
        vocabulary = {word: number for number, word in enumerate(("?", *known))}
        made = words.Tokenizer(words.models.WordLevel(vocabulary, "?"))
        made.pre_tokenizer = words.pre_tokenizers.Whitespace()
        return lk.interop.tokenizers.Encode(made, None)

    texts, one = [f"a text of {number % 3} words" for number in range(40)], encode("a", "of", "2")
    how = {"format": "tokens", "shards": 4}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    lk.offline.map_shards(one, texts, whole, **how)
    lk.write(lk.MapDataSource(texts, one), tmp_path / "written", **how)
    assert files(tmp_path / "written") == files(whole)
    dying = PlainCluster(how={"die": 3})
    with pytest.raises(ClusterError):
        lk.offline.map_shards(one, texts, killed, cluster=dying, **how)
    with pytest.raises(ResumeMismatchError, match=r"tokenizer: function\.tokenizer: 'tokenizers of 4 ids"):
        lk.offline.map_shards(encode("a", "text"), texts, killed, **how)
    lk.offline.map_shards(one, texts, killed, **how)
    assert files(killed) == files(whole)


def test_files_and_what_says_that_they_are_done_are_those_of_one_machine(tmp_path):
    """Also those of bad records; an error arrives with class, record and shard, the first in the order of shards."""

    def odd(record):
        if record % 10 == 3:
            raise ValueError("three")
        if record in (25, 39):
            raise OddError(record)
        return {"x": record}

    def strict(record):
        return {"x": record} if record % 10 == 3 else odd(record)

    raised, partial = [], []
    for name, cluster in (("here", None), ("there", PlainCluster())):
        with pytest.raises(OddError) as caught:
            mapped(strict, tmp_path / name, cluster=cluster)
        raised.append((caught.value.args, caught.value.__notes__[:2]))
        partial.append(files(tmp_path / f"{name}.partial"))
        mapped(odd, tmp_path / name, cluster=cluster, on_record_error="drop", version=2)
    assert raised[0] == raised[1] == ((25,), ["record_key 25", "while shard 2 of 4 was made"])
    assert partial[0] == partial[1] and sum(name.endswith(".done") for name in partial[1]) == 2
    assert files(tmp_path / "here") == files(tmp_path / "there") and len(files(tmp_path / "there")) == 4
    lists = [(tmp_path / f"{name}.dropped.jsonl").read_bytes() for name in ("here", "there")]
    assert lists[0] == lists[1] and len(lists[0].splitlines()) == 1 + 6
    assert len(os.listdir(tmp_path)) == 4


def test_values_are_folded_in_order():
    """Nothing is written, so nothing has to be shared."""
    options = {"version": 1, "reduce": lambda a, b: a + b, "shards": 3}
    assert lk.offline.map_shards(
        lambda x: [x], range(7), cluster=PlainCluster(other_cpus="warn"), **options
    ) == [*range(7)]


SCRIPT = """
import os, signal, sys
import loaderkit as lk
from plain_driver import PlainCluster
from test_cluster_jobs import once

def doubled(x):
    with open({log!r}, "a") as file:
        file.write(f"{{x}}\\n")
    if x == 25 and once({flag!r}):
        signal.pause()
    return {{"x": 2 * x}}

if __name__ == "__main__":
    cluster = PlainCluster() if sys.argv[1] == "there" else None
    lk.offline.map_shards(
        doubled, range(40), {out!r}, version=1, format="tar", shards=4, cluster=cluster, worker_count=1
    )
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["here", "there"])
def test_a_run_that_was_killed_goes_on_at_the_other_place(tmp_path, first):
    """What was done isn't done again; the function is one of a script."""
    log, flag, out = tmp_path / "log", tmp_path / "flag", tmp_path / "out"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(log=str(log), flag=str(flag), out=str(out)))
    begun = [flag, *(tmp_path / f"out.partial/{name}-of-00004.tar.done" for name in ("00000", "00001"))]
    with subprocess.Popen([sys.executable, str(script), first]) as killed:
        while not all(path.exists() for path in begun):
            assert killed.poll() is None
            time.sleep(0.02)
        killed.kill()
    assert not out.exists()
    done = {int(path.name[:5]) for path in (tmp_path / "out.partial").glob("*.done")}
    log.write_text("")
    other = {"here": "there", "there": "here"}[first]
    subprocess.run([sys.executable, str(script), other], check=True)
    again = {int(line) // 10 for line in log.read_text().split()}
    assert again - {0} == {0, 1, 2, 3} - done - {0} and {0, 1} <= done  # 0 is read for the fields of all
    mapped(lambda x: {"x": 2 * x}, tmp_path / "expected")
    assert files(out) == files(tmp_path / "expected")
    assert sorted(os.listdir(tmp_path)) == ["expected", "flag", "log", "out", "script.py"]


@pytest.mark.parametrize("goes_on", ["during the run", "after it"])
def test_an_attempt_that_comes_late_changes_nothing(tmp_path, goes_on):
    """The first answer of a shard counts: a process that was taken for lost goes on writing, and another file.

    During the run, both answer before the last shard does.
    """
    flag, pid = str(tmp_path / "flag"), tmp_path / "pid"
    during = goes_on == "during the run"

    def stopping(x):
        if x == 5 and once(flag):
            pid.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
            return {"x": -1}
        while during and x == 35 and not has_ended(pid):
            time.sleep(0.01)
        return {"x": x}

    try:
        mapped(
            stopping, tmp_path / "out", cluster=PlainCluster(how={"goes_on": during, "survive": not during})
        )
        before = files(tmp_path / "out")
    finally:
        if not during:
            late = os.pidfd_open(int(pid.read_text()))
            signal.pidfd_send_signal(late, signal.SIGCONT)
            select.select([late], [], [])
            os.close(late)
    mapped(lambda x: {"x": x}, tmp_path / "expected")
    assert files(tmp_path / "out") == before == files(tmp_path / "expected")
    assert sorted(os.listdir(tmp_path)) == ["expected", "flag", "out", "pid"]


def test_a_shard_whose_processes_die_is_made_again_and_at_last_named(tmp_path):
    """A record that ends its process each time is an error; what is done stays, and the run goes on."""
    flag = str(tmp_path / "flag")

    def dying(x):
        if (x == 7 and once(flag)) or x == 31:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": x}

    with pytest.raises(
        ClusterError, match=r"^shard 3, records 30 to 39, was lost 4 times .* status 9\. Does"
    ):
        mapped(dying, tmp_path / "out", cluster=PlainCluster())
    assert not (tmp_path / "out.partial/attempts").exists()
    assert len([*(tmp_path / "out.partial").glob("*.done")]) == 3
    mapped(lambda x: {"x": x}, tmp_path / "out")
    assert len(files(tmp_path / "out")) == 4


def test_the_end_of_the_driver_is_an_error(tmp_path):
    """It dies, or says why it can't begin; then no shard is lost that is done, and a finished run needs no cluster."""

    def same(x):
        return {"x": x}

    with pytest.raises(ClusterError, match="the process that drives the cluster ended with exit code -9"):
        mapped(same, tmp_path / "out", cluster=PlainCluster(how={"die": 3}))
    with pytest.raises(ClusterError, match=r"^no cluster at ALPHA$"):
        mapped(same, tmp_path / "out", cluster=PlainCluster(how={"fail": "no cluster at ALPHA"}))
    mapped(same, tmp_path / "out")
    assert len(files(tmp_path / "out")) == 4


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A module with a version, imported here; its file."""
    folder = tmp_path / "library"
    folder.mkdir()
    file = folder / "lk_library.py"
    file.write_text("__version__ = '1'\nname = 'x'\ndef make(shard, path): ...\n")
    monkeypatch.syspath_prepend(folder)
    yield file
    sys.modules.pop("lk_library", None)


def lines_of(tmp_path):
    (tmp_path / "x.txt").write_text("a\nb\nc\n")
    return lk.formats.LinesDataSource(str(tmp_path / "x.txt"))


@pytest.mark.parametrize("what", ["version", "module", "bits", "folder", "no data", "other data"])
def test_a_host_that_differs_says_what_it_lacks(tmp_path, library, what):
    """Before a record is made there: the program is packed here, something changes, and another process gets it."""
    module, source, bits = importlib.import_module("lk_library"), lines_of(tmp_path), {}
    attempts = tmp_path / "attempts"
    attempts.mkdir()
    work = ClusterWork(PlainCluster(), source, {}, {"lk_library": "1"} if what == "version" else {})
    make = functools.partial(ShardResult, value=module.name) if what != "module" else module.make
    program = pack_program(work, make, 1, str(attempts))
    data = tmp_path / "x.txt"
    change, expected = {
        "version": (
            lambda: library.write_text("__version__ = '2'"),
            "it has 2 of lk_library, and this machine 1",
        ),
        "module": (
            library.unlink,
            "No module named 'lk_library': install it there, or name it in runtime_env",
        ),
        "bits": (lambda: bits.update(numpy="0"), "numpy there computes other last bits than here"),
        "folder": (
            attempts.rmdir,
            f"it doesn't see {attempts}: path has to lie on storage that all hosts share",
        ),
        "no data": (
            data.unlink,
            "the data can't be opened there: FileNotFoundError: .*x.txt.*put the data on",
        ),
        "other data": (
            lambda: data.write_text("other"),
            "opened there: FileChangedError: .* had 6 bytes and has 5",
        ),
    }[what]
    change()
    if bits:
        facts, *rest = pickle.loads(program)
        program = pickle.dumps(({**facts, "numerics": facts["numerics"] | bits}, *rest))
    sys.modules.pop("lk_library")
    importlib.invalidate_caches()
    attempt = Attempt(0, program, {})
    answer = Answer(*pickle.loads(attempt.answer()))
    os.waitpid(attempt.pid, 0)
    assert re.search(expected, answer.refused) and answer.made is None and answer.host == os.uname().nodename


def test_a_host_that_is_refused_is_named(tmp_path):
    """The run ends, and no shard of it is done."""
    unseen = {"unseen": str(tmp_path / "out.partial/attempts")}
    with pytest.raises(
        ClusterError, match=rf"^host {os.uname().nodename} can't make shards of this run: it doesn't"
    ):
        mapped(lambda x: {"x": x}, tmp_path / "out", cluster=PlainCluster(how=unseen), shards=1)
    assert os.listdir(tmp_path) == []


def test_commands_have_a_cluster_make_their_shards(tmp_path, monkeypatch, capfd):
    """`map` and `convert` to a folder; what has no shards is refused."""
    monkeypatch.setattr(lk.interop.ray, "Tasks", lambda address: PlainCluster(how={"fail": f"no {address}"}))
    lk.write([{"a.txt": b"1"}], tmp_path / "x", format="tar", shards=1)
    source, out = str(tmp_path / "x/00000-of-00001.tar"), str(tmp_path / "out")
    ray = ["--cluster", "ray"]
    for command, status, told in (
        (["convert", source, out, *ray], 3, "no auto"),
        (["map", source, "-c", ":", "-o", f"{out}-{{}}.tar", *ray, "--cluster-address", "a:1"], 3, "no a:1"),
        (["doctor", *ray], 1, "no auto"),
        (["convert", source, f"{out}.tar", *ray], 2, "--cluster: expected a folder as DST, got the file"),
        (
            ["convert", source, out, "--cluster-address", "a:1"],
            2,
            "--cluster-address: expected with --cluster",
        ),
        (["doctor", "x.tar"], 2, "PATH: expected with --cluster, got it without"),
    ):
        assert main(command) == status
        assert told in "".join(capfd.readouterr())


def test_bits_that_show_behind_a_shard_only_are_compared_too(tmp_path, caplog):
    """As of a library that the function imports: it is refused, or a warning once a host."""
    how = {"numerics": {"numpy": "0"}}
    told = f"numpy on host {os.uname().nodename} computes other last bits than on this machine or other hosts"
    with pytest.raises(ClusterError, match=f"^{told}.*; other_cpus='warn' takes them"):
        mapped(lambda x: {"x": x}, tmp_path / "out", cluster=PlainCluster(how=how))
    assert not [*tmp_path.rglob("*.done")]
    mapped(lambda x: {"x": x}, tmp_path / "out", cluster=PlainCluster("warn", how=how))
    assert caplog.text.count(told) == 1 and len(files(tmp_path / "out")) == 4


def test_what_cannot_go_to_a_cluster_is_named_here(tmp_path):
    """No process is started for it."""
    held = threading.Lock()
    with pytest.raises(TransportError, match=r"function can't be sent .*'held'"):
        mapped(lambda x: {"x": x, "y": held is None}, tmp_path / "out", cluster=PlainCluster())
    with pytest.raises(TypeError, match=r"^cluster: expected lk.interop.ray.Tasks\(...\) or None, got 'ray'"):
        mapped(lambda x: {"x": x}, tmp_path / "out", cluster="ray")
    with pytest.raises(
        ValueError, match=r"^path: expected a folder of a file system, got the URL 's3://b/c'"
    ):
        mapped(lambda x: {"x": x}, "s3://b/c", cluster=PlainCluster())


def test_a_run_that_began_on_another_processor_goes_on_only_where_that_is_said(tmp_path, monkeypatch, caplog):
    """On a cluster it is refused, here and with other_cpus="warn" a warning says it."""

    def stops(x):
        if x == 39:
            raise ValueError("stop")
        return {"x": x}

    with monkeypatch.context() as patch:
        patch.setattr(target, "numerics", lambda: {"numpy": "0"})
        with pytest.raises(ValueError, match="stop"):
            mapped(stops, tmp_path / "out")
    told = r"out.partial: numpy of this process computes other last bits than where the run began"
    with pytest.raises(ResumeMismatchError, match=told):
        mapped(stops, tmp_path / "out", cluster=PlainCluster())
    mapped(lambda x: {"x": x}, tmp_path / "out")
    assert told in caplog.text and len(files(tmp_path / "out")) == 4


class PlanOrder:
    """Of 4,000 documents; it counts the blocks that are planned by it, and stops once at one."""

    def __init__(self, log, flag):
        self.log, self.flag = log, flag

    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return lk.RecordMetadata(index=index, record_key=index)

    def record_keys(self, indices):
        if len(indices) == 100 and self.log:  # of a block
            with open(self.log, "a") as file:
                file.write(f"{indices[0]}\n")
            if indices[0] == 3000 and once(self.flag):
                signal.pause()
        return indices

    def fingerprint(self):
        return {"order": "own"}


PLAN = """
import sys
import loaderkit as lk
from loaderkit.offline import plan_jobs
from plain_driver import PlainCluster
from test_cluster_jobs import PlanOrder

plan_jobs._RUN = 4
if __name__ == "__main__":
    cluster = PlainCluster() if sys.argv[1] == "there" else None
    order = PlanOrder({log!r}, {flag!r})
    lk.plan_packing({lengths!r}, 4096, {out!r}, block=100, order=order, cluster=cluster)
"""


def test_a_plan_of_each_epoch_has_the_bytes_of_one_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("loaderkit.offline.plan_jobs._RUN", 3)
    lk.offline.measure(range(1, 801), int, tmp_path / "lengths.npy")
    for name, cluster in (("here", None), ("there", PlainCluster())):
        path = tmp_path / name
        lk.plan_packing(tmp_path / "lengths.npy", 4096, path, block=100, epochs=2, cluster=cluster)
    assert files(tmp_path / "here") == files(tmp_path / "there") and len(files(tmp_path / "there")) == 2
    with pytest.raises(ValueError, match="path: expected a file on storage that the hosts of cluster= share"):
        lk.plan_packing([3], 4, cluster=PlainCluster())


@pytest.mark.usefixtures("at_night")
@pytest.mark.parametrize("then", ["there", "here"])
def test_a_plan_that_was_killed_goes_on(tmp_path, then):
    """With the bytes of one machine, and what was planned on the cluster isn't planned again there."""
    log, flag, out = tmp_path / "log", tmp_path / "flag", tmp_path / "out.plan"
    lk.offline.measure(range(1, 4001), int, tmp_path / "lengths.npy")
    lengths, script = str(tmp_path / "lengths.npy"), tmp_path / "script.py"
    script.write_text(PLAN.format(log=str(log), flag=str(flag), out=str(out), lengths=lengths))
    with subprocess.Popen([sys.executable, str(script), "there"]) as killed:
        done = out.with_name("out.plan.partial") / "blocks-00000036.done"
        while not flag.exists() or not done.exists():  # all others were begun before it
            time.sleep(0.01)
        killed.kill()
    before = len(log.read_text().split())
    subprocess.run([sys.executable, str(script), then], check=True)
    again = len(log.read_text().split()) - before
    assert again == 40 if then == "here" else again < 12  # of four, and what a host looks at when it begins
    lk.plan_packing(lengths, 4096, tmp_path / "own.plan", block=100, order=PlanOrder("", ""))
    assert out.read_bytes() == (tmp_path / "own.plan").read_bytes()
    assert not out.with_name("out.plan.partial").exists()
