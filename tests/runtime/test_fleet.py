"""A fleet has keepers started elsewhere, again and again, and nothing of it is left. Its hosts are this one."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fleet_trainer import FleetTrainer, ended
from plain_fleet import HOST, PlainWorkers

from loaderkit._runtime.remote.fleet_process import Places, told_of_end
from loaderkit._runtime.remote.keeper import LONELY, REFUSED

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def driver_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its process."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, [HERE, HERE.parent, HERE.parents[1]])))


def test_the_process_is_started_again_when_it_is_killed_and_ends_with_the_fleet() -> None:
    """One warning; the port stays; neither a process nor a keeper is left."""
    with FleetTrainer(PlainWorkers(1)) as trainer:
        trainer.until(lambda: trainer.arrived)
        assert trainer.asked == [(HOST, 0)] and trainer.told == []
        assert trainer.fleet._child is not None
        trainer.fleet._child.process.kill()
        before = [os.pidfd_open(keeper) for keeper in trainer.keepers]
        trainer.until(lambda: trainer.told and not trainer.arrived)
        assert "exit code -9 (SIGKILL)" in trainer.told[0] and ended(before)
        trainer.later = 2.0
        trainer.until(lambda: len(trainer.asked) == 2)
        assert len(trainer.told) == 1 and trainer.asked == [(HOST, 0)] * 2
        after = os.pidfd_open(trainer.fleet._child.process.pid)
        trainer.fleet.close()
        assert ended([after])


def test_what_the_trainer_started_ends_with_it_and_not_with_its_forks() -> None:
    """A fork that closes the fleet ends nothing; one that lives on keeps nothing alive."""
    command = [sys.executable, str(HERE / "forked_fleet.py")]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as trainer:
        assert trainer.stdin is not None and trainer.stdout is not None
        fork, *others = [os.pidfd_open(int(pid)) for pid in trainer.stdout.readline().split()]
        assert len(others) == 2
        trainer.kill()
        assert ended(others)
        signal.pidfd_send_signal(fork, 0)  # it is there
        trainer.stdin.close()
        assert ended([fork])


class Shut(FleetTrainer):
    """Its port is in use."""

    def _open(self, host: str, port: int) -> tuple[str, int]:
        self.asked.append((host, port))
        if len(self.asked) == 1:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        return host, port


def test_a_cluster_that_is_not_there_is_told_and_tried_again(tmp_path: Path) -> None:
    """So is a port that can't be opened; keepers get the address that is advertised."""
    how = {"fail": "no cluster", "once": str(tmp_path / "failed")}
    workers = PlainWorkers(1, listen="0.0.0.0:7", advertise="elsewhere", how=how)
    with Shut(workers) as trainer:
        trainer.until(lambda: trainer.told)
        trainer.later = 2.0
        trainer.until(lambda: trainer.asked)
        assert (
            "raised ValueError: no cluster. It is tried again" in trainer.told[0] and len(trainer.told) == 2
        )
        assert trainer.told[1].startswith("this process can't listen at 0.0.0.0:7: [Errno 98]")
        assert trainer.asked == [("0.0.0.0", 7)] and trainer.fleet._address(HOST) == "elsewhere:7"
        workers.advertise = None
        assert trainer.fleet._address(HOST) == f"{HOST}:7"


class Listed:
    """Keepers as a list of what was asked for; `gone` are those that have ended."""

    host = HOST

    def __init__(self) -> None:
        self.there: list[list[int]] = []
        self.gone: list[tuple[Any, str]] = []

    def begin(self, address: str, workers: int) -> list[int]:
        self.there.append([workers])
        return self.there[-1]

    def end(self, keeper: Any) -> None:
        self.there = [each for each in self.there if each is not keeper]

    def ended(self) -> list[tuple[Any, str]]:
        gone, self.gone = self.gone, []
        for keeper, _ in gone:
            self.end(keeper)
        return gone


def test_as_many_workers_as_are_wanted() -> None:
    """More and fewer; a keeper stays where it can, and one that has ended isn't started again once it is too many."""
    keepers = Listed()
    places = Places(keepers, "", 4)
    for wanted, sizes in ((10, [4, 4, 2]), (13, [4, 4, 2, 3]), (9, [4, 4, 1]), (0, []), (4, [4])):
        first = keepers.there[:2]
        places.resize(wanted)
        places.look(0.0)
        assert [keeper[0] for keeper in keepers.there] == sizes
        assert all(now is before for now, before in zip(keepers.there, first, strict=False))
    keepers.gone = [(keepers.there[0], "")]
    places.look(0.0)
    places.resize(0)
    places.look(9.0)
    assert keepers.there == []


def test_a_keeper_that_ends_is_started_again_after_longer_and_longer_pauses() -> None:
    """Others of the fleet aren't held up; what the user is told of it is passed on."""
    keepers = Listed()
    places = Places(keepers, "", 1)
    places.resize(2)
    now, pauses = 0.0, []
    for _ in range(8):
        places.look(now)
        steady, fails = keepers.there
        keepers.gone = [(fails, "why")]
        assert places.look(now) == ["why"] and keepers.there == [steady]
        began = now
        while len(keepers.there) == 1:
            now += 0.5
            places.look(now)
        pauses.append(now - began)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_what_is_told_of_a_keeper_names_its_host() -> None:
    """Of a refusal the door tells."""
    assert told_of_end(REFUSED, "far", "here:1") == ""
    assert "far gets no answer" in told_of_end(LONELY, "far", "here:1")
    assert "exit code 1;" in told_of_end(1, "far", "here:1")
