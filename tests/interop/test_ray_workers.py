"""A loader's workers on a Ray cluster of two nodes of a processor each; Ray is never imported in the trainer's process.

What doesn't need Ray is tested with plain processes: tests/runtime/test_fleet.py.
"""

import os
import re
import sys

import pytest
from fleet_trainer import FleetTrainer, ended
from ray_case import needs_ray, tell

import loaderkit as lk
from loaderkit.errors import ClusterError


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 0},
        {"count": 2.0},
        {"count": 1, "per_host": 0},
        {"count": 1, "num_cpus": -1},
        {"count": 1, "runtime_env": {"py_modules": [os]}},
        {"count": 1, "listen": "0.0.0.0"},
        {"count": 1, "listen": "a:65536"},
        {"count": 1, "advertise": "a b"},
    ],
)
def test_arguments_that_mean_nothing(wrong):
    """The argument is named, with what it may be."""
    needs_ray()
    name, value = [*wrong.items()][-1]
    with pytest.raises(ValueError, match=f"^{name}: expected .*, got {re.escape(repr(value))[:60]}"):
        lk.interop.ray.Workers(**wrong)


def test_connections_that_would_be_in_clear_are_an_error(monkeypatch):
    """Where Ray's are encrypted."""
    needs_ray()
    monkeypatch.setenv("RAY_USE_TLS", "1")
    with pytest.raises(ClusterError, match="in clear"):
        lk.interop.ray.Workers(1)


def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


class OnlyHere:
    """Can't be read where a variable is set, as on other hosts."""

    def __len__(self):
        if "ELSEWHERE" in os.environ:
            raise FileNotFoundError("no such file")
        return 4

    def __getitem__(self, key):
        return key

    def fingerprint(self):
        return {}


@pytest.mark.slow
def test_a_refused_host_is_left_out(at_night, nodes, monkeypatch):
    """One keeper tries each host once, and one that joins later."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    elsewhere = {"env_vars": {"ELSEWHERE": "1"}}
    workers = lk.interop.ray.Workers(
        2, per_host=2, num_cpus=0.5, runtime_env=elsewhere, address=nodes.address
    )
    with FleetTrainer(workers, OnlyHere()) as trainer:
        trainer.until(lambda: len(trainer.refused) == 2)
        tell(nodes, "kill")
        tell(nodes, "add")
        trainer.until(lambda: len(trainer.refused) == 3)
        assert all("no such file" in refused for refused in trainer.refused) and trainer.told == []


@pytest.mark.slow
def test_workers_follow_the_cluster(at_night, nodes, monkeypatch):
    """What started them is killed, a node is killed, another one comes, more and fewer are wanted, the head is lost.

    Nothing is left of those that are too many, and nothing at the end.
    """
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "2")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    workers = lk.interop.ray.Workers(4, per_host=2, num_cpus=0.5, address=nodes.address)
    seen = []

    def settle(count, keepers):
        """Until there are so many workers of so many keepers."""
        trainer.until(lambda: len(trainer.arrived) == count and len(trainer.keepers) == keepers)
        present = [os.pidfd_open(pid) for pid in (*trainer.keepers, *map(parent, trainer.keepers))]
        seen.extend(present)

    with FleetTrainer(workers) as trainer:
        settle(4, 2)
        assert trainer.asked == [(trainer.door.address[0], 0)] != [("127.0.0.1", 0)]
        first = {*trainer.keepers}
        killed = parent(min(first))
        os.kill(killed, 9)
        trainer.until(lambda: len(trainer.keepers - first) == 1)
        settle(4, 2)
        for wanted, keepers in ((2, 1), (3, 2), (4, 3), (2, 1), (4, 2)):
            trainer.fleet.resize(wanted)
            settle(wanted, keepers)
        tell(nodes, "kill")
        settle(2, 1)
        tell(nodes, "add")
        settle(4, 2)
        assert trainer.told == []
        tell(nodes, "behead")
        trainer.until(lambda: trainer.told and not trainer.arrived)
        assert "has lost the cluster's head" in trainer.told[0]
    assert ended(seen)
    assert "ray" not in sys.modules
