"""Workers on other hosts make the bytes of local ones, whatever happens to them. Keepers are processes on this host."""

import contextlib
import errno
import importlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from remote_trainer import SECRET, Batches, Trainer, alone, program_of, streams
from runtime_loaders import all_same

import loaderkit as lk
from loaderkit._base.system.shared_memory import SharedBuffer
from loaderkit._runtime.remote.facts import host_facts
from loaderkit._runtime.remote.handshake import KeeperHandshake
from loaderkit._runtime.remote.keeper import LONELY, REFUSED
from loaderkit._runtime.start.first_messages import pack_parcel
from loaderkit._runtime.transport.pickling import Packer
from loaderkit.errors import TransportError


@pytest.fixture(scope="module")
def lasting() -> Iterator[Trainer]:
    """A trainer with a keeper of two workers, which serves one program after the other."""
    with Trainer() as trainer:
        trainer.slots.free(trainer.slots.alloc(4 << 20))  # memory that no test leaves behind
        trainer.keeper(workers=2)
        yield trainer


@pytest.fixture
def trainer(lasting: Trainer) -> Iterator[Trainer]:
    """The same, with no worker of an earlier program."""
    lasting.dismiss()
    lasting.made.clear()
    lasting.lost.clear()
    lasting.numerics = 0
    yield lasting
    lasting.door.offer(None)
    lasting.dismiss()


def halved(x: dict[str, Any], rng: Any) -> dict[str, Any]:
    return {"x": x["x"] / 2, "key": x["key"], "noise": rng.random(3)}


def odd(x: Any) -> bool:
    return bool(x % 2)


def twice(x: Any) -> list[Any]:
    return [x, ("again", x)]


class Named:
    """An object of a class of this script."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def columns(count: int = 48) -> lk.ArrayDataSource:
    return lk.ArrayDataSource({"x": np.arange(count * 3.0).reshape(count, 3), "key": np.arange(count)})


class Draw(lk.RandomMap):
    """Draws, as an operation of the user's."""

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """With noise."""
        return halved(element, rng)


@pytest.mark.parametrize("operations", [(), (Draw(),)], ids=["columns", "rows"])
def test_rows_in_place_are_those_of_a_local_worker(trainer: Trainer, operations: tuple[Any, ...]) -> None:
    """Cut anyhow over batches and workers, with seals; the source lies in shared memory, which other hosts copy."""
    source = columns()
    sampler = lk.IndexSampler(48, shuffle=False, seed=7, num_epochs=1)
    trainer.offer(program_of(source, *operations, lk.Batch(8), verify=bool(operations)))
    rows = alone(source, *operations, sampler=sampler)
    batches = Batches(trainer, rows, 8, (5, 11, 2), verify=bool(operations))
    trainer.do(batches.tasks)
    assert all(part.in_place for result, _ in trainer.made.values() for part in result.parts)  # type: ignore[union-attr]
    assert all_same(batches.read(), alone(source, *operations, lk.Batch(8), sampler=sampler))
    assert not trainer.lost and trainer.slots.used == 0


def test_elements_of_any_number_are_those_of_a_local_worker(trainer: Trainer) -> None:
    """Packed outputs come into a reserve, or into the memory that the trainer gives on their arrival."""
    operations = lk.Filter(odd), lk.FlatMap(twice), lk.Map(Named)
    trainer.offer(program_of(range(60), *operations, row_changing=True))
    tasks = [
        task if task.id % 2 else task._replace(reserve=trainer.slots.alloc(1 << 16))
        for task in streams(60, 7)
    ]
    trainer.do(tasks)
    found = [element for task in tasks for element in trainer.made[task.id][1][0]]
    assert found == alone(range(60), *operations)
    assert trainer.slots.used == 0


class Broken:
    """Records are their keys, but for some."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, key: int) -> int:
        if key in (3, 4, 11):
            raise OSError(f"{key} is down")
        return key


@pytest.mark.usefixtures("at_night")
def test_bad_records_are_replaced_and_their_losses_told(trainer: Trainer) -> None:
    """The worker asks the trainer what to read instead, which plans that."""
    trainer.offer(program_of(Broken(), row_changing=True, on_record_error="replace"))
    trainer.do(tasks := streams(20, 5))
    found = [element for task in tasks for element in trainer.made[task.id][1][0]]
    assert found == [0, 1, 2, 5, 5, *range(5, 11), 12, *range(12, 20)]
    losses = [loss.index for task in tasks for loss in trainer.made[task.id][0].losses]  # type: ignore[union-attr]
    assert losses == [3, 4, 11]


@pytest.mark.usefixtures("at_night")
def test_files_are_opened_by_name_on_the_other_host(
    trainer: Trainer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data by equal fingerprint, not by inode, and modules in the trainer's folders, where these are there too.

    Such a worker says of itself what local ones say.
    """
    (tmp_path / "beside_the_script.py").write_text("def key_of(record):\n    return record['key']\n")
    monkeypatch.syspath_prepend(tmp_path)
    operation = lk.Map(importlib.import_module("beside_the_script").key_of)
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps({"key": k}) + "\n" for k in range(30)))
    source = lk.open(path)
    trainer.offer(program_of(source, operation, row_changing=True))
    again = tmp_path / "again"
    path.rename(again)
    path.write_bytes(again.read_bytes())  # another inode, the same bytes
    os.utime(path, ns=(again.stat().st_atime_ns, again.stat().st_mtime_ns))
    trainer.do(tasks := streams(30, 4))
    found = [element for task in tasks for element in trainer.made[task.id][1][0]]
    assert found == [*range(30)]
    workers = trainer.workers.values()
    while sum(worker.counters(()).tasks for worker in workers) < len(tasks):
        trainer.ahead_of_time += 2.0  # the next question is due
        trainer.round()
    trainer.ahead_of_time = 0.0
    assert 1 <= trainer.numerics <= 2 and sum(worker.counters(()).records for worker in workers) == 30
    assert all(worker.rtt is not None for worker in workers)


# --- losses -----------------------------------------------------------------------------------------------------


class Wide:
    """Records of 16 MB."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, key: int) -> np.ndarray:
        return np.full(2 << 20, key, np.float64)


@pytest.mark.usefixtures("at_night")
@pytest.mark.parametrize("which", ["keeper", "worker", "stopped"])
def test_a_loss_in_the_middle_of_a_row_changes_no_byte(which: str) -> None:
    """The keeper or its worker is killed, or the keeper's host says nothing more, while a row arrives."""
    source, cut = Wide(), []
    with Trainer() as trainer:
        trainer.offer(program_of(source, lk.Batch(2)))
        keeper = trainer.keeper()
        batches = Batches(trainer, [source[0], source[1], source[2], source[3]], 2, (1,))

        def in_a_row() -> None:
            if cut or not any(
                worker._payload and worker._payload.left for worker in trainer.workers.values()
            ):
                trainer.ahead_of_time += 4.0 if cut and which == "stopped" and not trainer.lost else 0.0
                return
            cut.append(which)
            if which == "worker":
                for child in children_of(keeper.pid):
                    os.kill(child, signal.SIGKILL)
                return
            os.kill(keeper.pid, signal.SIGKILL if which == "keeper" else signal.SIGSTOP)
            trainer.keeper()

        def each_round() -> None:
            in_a_row()
            if trainer.lost:
                trainer.ahead_of_time = 0.0

        trainer.do(batches.tasks, each_round)
        assert cut and all_same(batches.read(), [np.stack([source[k], source[k + 1]]) for k in (0, 2)])
        if which != "worker":  # whose row was complete at its keeper may be the last one that it did
            assert len(trainer.lost) == 1


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


class Deadly:
    """One record kills its worker, once on each host's first try."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __len__(self) -> int:
        return 12

    def __getitem__(self, key: int) -> int:
        if key == 5 and not os.path.exists(self.path):
            with open(self.path, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return key

    def fingerprint(self) -> dict[str, Any]:
        return {}


@pytest.mark.usefixtures("at_night")
def test_a_worker_that_is_killed_says_how_it_ended_and_is_followed_by_another(
    trainer: Trainer, tmp_path: Any
) -> None:
    """Its tasks are done again by the next one."""
    trainer.offer(program_of(Deadly(str(tmp_path / "killed")), row_changing=True))
    trainer.do(tasks := streams(12, 2))
    assert [element for task in tasks for element in trainer.made[task.id][1][0]] == [*range(12)]
    assert trainer.lost == ["exit code -9 (SIGKILL)"]


@pytest.mark.usefixtures("at_night")
def test_the_workers_of_a_keeper_end_with_it() -> None:
    """Killed, as by a scheduler that takes the node back."""
    with Trainer() as trainer:
        trainer.offer(program_of(range(4), row_changing=True))
        keeper = trainer.keeper()
        trainer.do(streams(4, 4))
        pidfds = [os.pidfd_open(pid) for pid in children_of(keeper.pid)]
        keeper.kill()
        ended = [bool(select.select([pidfd], [], [], 30.0)[0]) for pidfd in pidfds]
        for pidfd in pidfds:
            os.close(pidfd)
        assert ended == [True]


@pytest.mark.usefixtures("at_night")
def test_a_keeper_leaves_a_silent_trainer_and_ends_without_one() -> None:
    """Of a trainer's host that is gone nothing is heard; another trainer may come for some time."""
    with Trainer() as trainer:
        trainer.offer(program_of(range(3), row_changing=True), silence=0.3)
        keeper = trainer.keeper(1, "--patience", "2", stderr=-1)
        while not trainer.workers:
            trainer.round()
        trainer.door.offer(None)
        (worker,) = trainer.workers.values()
        while worker.open:  # and says nothing
            select.select([worker.connection], [], [], 60.0)
            worker.receive()
        assert keeper.wait(60) == LONELY
        assert b"no trainer answered" in keeper.stderr.read()


# --- the door ---------------------------------------------------------------------------------------------------


class Here:
    """Where a variable is set, as on another host, its file is missing, or the process ends.

    Args:
        dies: whether it ends.
    """

    def __init__(self, dies: bool) -> None:
        self.dies = dies

    def __len__(self) -> int:
        if self.dies and "ELSEWHERE" in os.environ:
            os._exit(7)
        return 3

    def __getitem__(self, key: int) -> int:
        if "ELSEWHERE" in os.environ:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), __file__)
        return key

    def fingerprint(self) -> dict[str, Any]:
        return {}


@pytest.mark.usefixtures("at_night")
@pytest.mark.parametrize("dies", [False, True])
def test_a_host_on_which_the_program_cannot_be_set_up_is_refused(
    monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """The text names host and path, or how the process ended, at the trainer and at the keeper, which ends."""
    with Trainer() as trainer:
        trainer.offer(program_of(Here(dies), row_changing=True))
        monkeypatch.setenv("ELSEWHERE", "1")
        keeper = trainer.keeper(stderr=-1)
        while not trainer.refused:
            trainer.round()
        why, host = trainer.refused[0]
        assert "shared storage" in why and host == socket.gethostname()
        assert keeper.wait(60) == REFUSED and why in keeper.stderr.read().decode()
        assert ("exit code 7" if dies else __file__) in why


def knocking(trainer: Trainer, machine: KeeperHandshake) -> socket.socket:
    """A connection of a keeper that isn't one, after what both sides say."""
    connection = socket.create_connection(trainer.door.address)
    connection.setblocking(False)
    while machine.stopped is None and (sent := machine.take()) is not None:
        connection.sendall(sent)
        trainer.door.serve(time.monotonic())
        try:
            received = connection.recv(1 << 16)
        except BlockingIOError:
            continue
        if not received:
            break
        machine.receive(received)
    return connection


class Large:
    """More than is sent to each host."""

    def __init__(self) -> None:
        self.buffer = SharedBuffer((256 << 20) + 1)

    def __len__(self) -> int:
        return 1


def test_a_source_that_is_too_large_to_be_sent_is_refused_at_once() -> None:
    """Before anything is copied; the error says what to do."""
    with pytest.raises(TransportError, match="on storage that all machines see"):
        pack_parcel(program_of(Large()), Packer())


def test_another_version_is_refused_at_the_door() -> None:
    """Both versions are named to both sides."""
    with Trainer() as trainer:
        trainer.offer(program_of(range(3)))
        versions = {**host_facts()["versions"], "loaderkit": "0.0.1"}
        machine = KeeperHandshake(
            SECRET, bytes(32), {**host_facts(), "versions": versions, "host": "far"}, ""
        )
        knocking(trainer, machine).close()
        (why, host), told = trainer.refused[0], machine.stopped
        assert host == "far" and "0.0.1" in why and host_facts()["versions"]["loaderkit"] in why
        assert told is not None and str(told) == why


def test_a_wrong_secret_is_closed_with_one_warning_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever tries, the log stays readable."""
    with Trainer() as trainer:
        trainer.offer(program_of(range(3)))
        for _ in range(3):
            machine = KeeperHandshake(b"t" * 32, bytes(32), host_facts(), "")
            knocking(trainer, machine).close()
            assert not machine.proven
        assert len(caplog.records) == 1 and "127.0.0.1" in caplog.text
        assert not trainer.refused and not trainer.workers


@pytest.mark.usefixtures("at_night")
def test_a_port_scanner_keeps_no_keeper_away() -> None:
    """Connections that say nothing are closed in time, more than may wait at once among them."""
    with Trainer() as trainer:
        trainer.offer(program_of(range(3)))
        silent = [socket.create_connection(trainer.door.address) for _ in range(70)]
        for connection in silent[:5]:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(5000))
        now = time.monotonic()
        for later in (0.0, 0.0, 11.0, 11.0, 22.0, 22.0, 33.0):
            for _ in range(80):
                trainer.door.serve(now + later)
        for connection in silent:
            connection.setblocking(True)
            connection.settimeout(30.0)
            with contextlib.suppress(ConnectionResetError):  # what it sent wasn't all read
                assert connection.recv(100) == b""
            connection.close()
        assert not trainer.door._guests
