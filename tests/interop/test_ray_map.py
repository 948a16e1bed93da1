"""`lk.offline.map_shards` and commands on a Ray cluster of two nodes; Ray is never imported in the caller's process.

What doesn't need Ray is tested with plain processes: tests/formats/test_cluster_jobs.py.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray_case import PATIENCE_S, needs_ray, tell

import loaderkit as lk
from loaderkit.cli import main

HERE = Path(__file__).parent


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob("*.tar"))}


def wait_for(what, process):
    limit = time.monotonic() + PATIENCE_S
    while not what():
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.02)


SCRIPT = """
import os, signal, sys, time
import loaderkit as lk

class Numbers:
    def __len__(self):
        return 40

    def __getitem__(self, key):
        return {{"x": int(key)}}

def once(name):
    try:
        with open(f"{{folder}}/{{name}}.new", "x") as file:
            file.write(str(os.getpid()))
        os.link(f"{{folder}}/{{name}}.new", f"{{folder}}/{{name}}")
        return True
    except FileExistsError:
        return False

def here():
    import ray
    return ray.get_runtime_context().get_node_id()

{function}

if __name__ == "__main__":
    folder, address, second, name = sys.argv[1:]
    tasks = lk.interop.ray.Tasks(address=address)
    lk.offline.map_shards(doubled, Numbers(), f"{{folder}}/{{name}}", version=1, format="tar", shards=4, cluster=tasks)
    assert "ray" not in sys.modules
"""
# The second node is killed while it makes a shard, a worker of the other one by itself.
DYING = """
def doubled(record):
    if record["x"] and here() == second:  # the first one is made in the caller's process, too
        once("second")
        signal.pause()
    while record["x"] and not os.path.exists(f"{folder}/second"):
        time.sleep(0.02)
    if record["x"] == 5 and once("worker"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"x": 2 * record["x"]}
"""
STUCK = """
def doubled(record):
    if record["x"] >= 20:
        once("stuck")
        signal.pause()
    return {"x": 2 * record["x"]}
"""


def start(folder, nodes, function, name):
    """A script that maps on the cluster; its stderr goes to a file, which no output of Ray fills."""
    script = folder / f"{name}.py"
    script.write_text(SCRIPT.format(function=function))
    with (folder / "stderr").open("w") as stderr:
        return subprocess.Popen(
            [sys.executable, str(script), str(folder), nodes.address, nodes.second, name],
            env={
                **os.environ,
                "PYTHONPATH": str(HERE.parents[1]),
                "RAY_gcs_rpc_server_reconnect_timeout_s": "2",
            },
            stderr=stderr,
        )


def test_without_ray_the_extra_is_named(monkeypatch):
    """Where the hosts are named, not when the first task begins."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"^lk.interop.ray.Tasks needs ray: pip install '.\[ray\]'"):
        lk.interop.ray.Tasks()


@pytest.mark.parametrize("wrong", [{"num_cpus": -1}, {"other_cpus": "no"}, {"address": "ray://a:1"}])
def test_arguments_that_mean_nothing(wrong):
    """The argument is named, with what it may be."""
    needs_ray()
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=rf"^{name}: expected .*, got {value!r}"):
        lk.interop.ray.Tasks(**wrong)


@pytest.mark.slow
def test_doctor_has_a_line_for_each_host(nodes, tmp_path, capfd):
    """What it has and how fast it is, and whether it finds the data."""
    (tmp_path / "x.txt").write_text("a\nb\n")
    command = [
        "doctor",
        "--cluster",
        "ray",
        "--cluster-address",
        nodes.address,
        "--json",
        str(tmp_path / "x.txt"),
    ]
    assert main(command) == 0
    found = json.loads(capfd.readouterr().out)["findings"]
    assert len(found) == 2
    for host in found:
        assert host["ok"] and host["lacks"] == [] and host["round_trip_ms"] > 0 and host["mb_per_s"] > 0
        assert host["versions"].keys() == {"loaderkit", "numpy", "python"} and host["numerics"]["numpy"]
        assert host["text"].endswith(f"the same last bits as here; finds {tmp_path / 'x.txt'}")


@pytest.mark.slow
def test_ctrl_c_ends_the_tasks_and_one_machine_goes_on(at_night, nodes, tmp_path):
    """No process is left, and no attempt; two shards are done."""
    with start(tmp_path, nodes, STUCK, "out") as run:
        done = [tmp_path / f"out.partial/0000{shard}-of-00004.tar.done" for shard in (0, 1)]
        wait_for(lambda: all(each.exists() for each in (tmp_path / "stuck", *done)), run)
        worker = os.pidfd_open(int((tmp_path / "stuck").read_text()))
        run.send_signal(signal.SIGINT)
        assert (
            run.wait(PATIENCE_S) == -signal.SIGINT
            and "KeyboardInterrupt" in (tmp_path / "stderr").read_text()
        )
    assert select.select([worker], [], [], PATIENCE_S)[0]
    os.close(worker)
    assert not (tmp_path / "out.partial/attempts").exists()
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out.partial").glob("*.tar")}
    assert sorted(before) == ["00000-of-00004.tar", "00001-of-00004.tar"]
    write_here(tmp_path / "out")
    assert before.items() <= {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out").glob("*.tar")}.items()


def write_here(path):
    source = [{"x": k} for k in range(40)]
    lk.offline.map_shards(
        lambda record: {"x": 2 * record["x"]},
        source,
        path,
        version=1,
        format="tar",
        shards=4,
        allow=["source"],
    )


@pytest.mark.slow
def test_what_a_node_and_a_worker_were_making_is_made_again(at_night, nodes, tmp_path):
    """Both are killed; the files are those of one machine. After it the cluster has one node."""
    with start(tmp_path, nodes, DYING, "out") as run:
        wait_for((tmp_path / "second").exists, run)
        tell(nodes, "kill")
        assert run.wait(PATIENCE_S) == 0, (tmp_path / "stderr").read_text()
    assert (tmp_path / "worker").exists()
    write_here(tmp_path / "expected")
    assert files(tmp_path / "out") == files(tmp_path / "expected") and len(files(tmp_path / "out")) == 4


@pytest.mark.slow
def test_a_lost_head_is_an_error(at_night, nodes, tmp_path):
    """Ray ends the process that uses it, without an exception; it isn't the caller's."""
    with start(tmp_path, nodes, STUCK, "out") as run:
        wait_for((tmp_path / "stuck").exists, run)
        tell(nodes, "behead")
        assert run.wait(PATIENCE_S) == 1
        assert (
            "ClusterError: the process that drives the cluster ended with exit code"
            in (tmp_path / "stderr").read_text()
        )
    assert not (tmp_path / "out.partial/attempts").exists()
