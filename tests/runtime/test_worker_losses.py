"""Workers that are lost at the worst moments, or stand still: the stream is the same, or an error says who and what."""

import contextlib
import ctypes
import fcntl
import gc
import mmap
import os
import re
import selectors
import signal
import stat
import struct
import termios
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from internals import executor_of, worker_pids
from runtime_loaders import Trap, all_same, numbers, row, same, until, write_to

import loaderkit as lk
import loaderkit._engine.supervisor as supervisor
from loaderkit._engine.dispatcher import Dispatcher
from loaderkit._engine.stall_watch import Stall
from loaderkit._runtime.executors.process_worker import ProcessWorker
from loaderkit._runtime.executors.pump import Pump
from loaderkit._runtime.executors.worker_pool import WorkerPool

ONE: dict[str, Any] = {"worker_count": 1}
PAGE = mmap.PAGESIZE


def first_time(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


# --- killed at the worst moment ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_that_dies_in_the_middle_of_writing_a_row_changes_nothing(tmp_path, caplog):
    """Half of the row is in the batch's memory: its second page can't be read, the first time."""

    def two_pages(x: int) -> Any:
        path = tmp_path / f"{x}"
        path.write_bytes(bytes([x]) * 2 * PAGE)
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 2 * PAGE, prot=mmap.PROT_READ)
        if x == 13 and first_time(tmp_path / "torn"):
            os.truncate(path, PAGE)
        return np.frombuffer(mapped, np.uint8)

    with numbers(24, two_pages, lk.Batch(4), task_rows=2, **ONE) as loader:
        batches = [batch.copy() for batch in loader]
    assert (np.concatenate(batches) == np.arange(24)[:, None]).all()
    assert "exit code -7 (SIGBUS)" in caplog.text and "it was at one of the indices 12..13" in caplog.text


class LongWordedError(Exception):
    """Takes long to send."""


@pytest.mark.slow
def test_a_worker_killed_with_a_message_half_sent_changes_nothing(tmp_path):
    """What arrived of it is thrown away; the same error comes once, from its next attempt."""

    gate = tmp_path / "gate"

    def wordy(x: int) -> Any:
        if x == 5:
            until(gate.exists, "the word to go on")
            raise LongWordedError("w" * (8 << 20))
        return row(x)

    # A batch a task: were it two, the only worker would have to finish the first batch while it waits here.
    with numbers(24, wordy, lk.Batch(4), task_rows=4, **ONE) as loader:
        it = iter(loader)
        first = next(it)
        pool: Any = executor_of(loader)
        with pool.lock:  # the pump can't read
            gate.touch()
            (worker,) = pool._supervisor.workers.values()
            until(lambda: unread(worker.connection) > 1 << 16, "half of a message")
            os.kill(worker.process.pid, signal.SIGKILL)
        with pytest.raises(LongWordedError) as error:
            next(it)
        assert same(first, next(iter(numbers(24, row, lk.Batch(4)))))
        assert len(str(error.value)) == 8 << 20


def unread(connection: Any) -> int:
    return int(struct.unpack("i", fcntl.ioctl(connection, termios.FIONREAD, b"\0" * 4))[0])


@pytest.mark.slow
@pytest.mark.parametrize("operations", [(lk.Batch(8),), (lk.Filter(lambda x: x["key"] % 3), lk.Batch(8))])
def test_all_workers_killed_after_every_batch_change_nothing(operations, nightly):
    """They lose what they had begun again and again, and no task is suspected for it."""
    count = 400 if nightly else 24
    expected = list(numbers(count, row, *operations))
    with numbers(count, row, *operations, task_rows=3, prefetch_batches=1, worker_count=2) as loader:
        batches = []
        for batch in loader:
            batches.append(batch)
            for pid in worker_pids(loader):
                os.kill(pid, signal.SIGKILL)
        assert all_same(batches, expected)


# --- how often --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [0, 1])
def test_as_many_restarts_as_were_allowed(restarts, caplog):
    """None: the error knows the task; one: the second worker that is lost names the record."""

    def segfault(x: int) -> Any:
        if x == 9:
            os.kill(os.getpid(), signal.SIGSEGV)
        return x

    with numbers(30, segfault, task_rows=6, max_worker_restarts=restarts, **ONE) as loader:
        it = iter(loader)
        given = [next(it) for _ in range(6 if restarts == 0 else 9)]
        with pytest.raises(lk.WorkerError, match="SIGSEGV") as error:
            next(it)
        assert given == [*range(len(given))]
        assert error.value.indices == ((6, 7, 8, 9, 10, 11) if restarts == 0 else (9,))
        assert str(error.value).startswith(
            f"{restarts + 1} workers were lost" if restarts else "a worker was lost"
        )
        assert len(caplog.records) == restarts + 1


class DiesIdle(lk.Map):
    """Its worker ends a moment after it got ready, whatever it does."""

    def __setstate__(self, state: Any) -> None:
        threading.Timer(0.1, os._exit, (5,)).start()

    def __getstate__(self) -> Any:
        return {"nothing": 0}

    def map(self, element: Any) -> Any:
        threading.Event().wait()


@pytest.mark.slow
def test_workers_that_die_again_and_again_while_they_have_nothing_to_do_are_given_up(monkeypatch, tmp_path):
    """No task can be suspected, and it wouldn't end."""
    monkeypatch.setattr(supervisor, "_FRUITLESS_LOSSES", 1)
    with numbers(8, DiesIdle(), worker_count=1, max_worker_restarts=0) as loader:
        it, pool = iter(loader), executor_of(loader)
        monkeypatch.setattr(pool._dispatcher, "assign", lambda: None)  # nothing is ever to do
        with pytest.raises(
            lk.WorkerError, match=r"2 workers in a row died and nothing was done .* exit code 5"
        ):
            next(it)


def test_a_closed_iterator_keeps_nothing_of_the_frames_that_its_error_came_through():
    """What these hold may be large: the loader is still there, and forgets the error with its traceback."""

    class Large:
        pass

    def train() -> Any:
        held = Large()
        with pytest.raises(lk.WorkerError, match="no worker can be started"):
            next(it)
        return weakref.ref(held)

    with numbers(8, row, lk.Batch(4), worker_kind="thread", **ONE) as loader:
        it = iter(loader)
        it.start_prefetch()
        with pool_of(loader).lock:
            pool_of(loader).state.give_up(lk.WorkerError("no worker can be started"))
        seen = train()
        it.close()
        # A worker's thread may be about to let go of what it worked on.
        until(
            lambda: gc.collect() >= 0 and seen() is None, "the end of the frames that the error came through"
        )


@pytest.mark.slow
def test_after_such_an_error_the_iterator_goes_on_with_new_workers(tmp_path, monkeypatch):
    """By set_state, or by a next iterator; the loader isn't closed."""
    monkeypatch.setattr(supervisor, "_FAILED_STARTS", 0)
    dead = tmp_path / "dead"
    with numbers(8, Unpickled(dead), worker_count=1) as loader:
        dead.touch()
        it = iter(loader)
        with pytest.raises(lk.WorkerError, match="died before they were ready"):
            next(it)
        with pytest.raises(lk.WorkerError, match="died before they were ready"):
            next(it)
        dead.unlink()
        it.set_state(it.get_state())
        assert [*it] == [*range(8)] == [*loader]


class Unpickled(lk.Map):
    """Ends the process in which it is unpickled while a file is there."""

    def __init__(self, dead: Path) -> None:
        self.dead = dead

    def __setstate__(self, state: Any) -> None:
        self.__dict__ = state
        if self.dead.exists():
            os._exit(3)

    def map(self, element: Any) -> Any:
        return element


def test_a_handler_that_waits_for_any_child_doesnt_keep_a_death_from_being_heard(tmp_path, caplog):
    """The exit code is gone with it; all else goes on."""
    taken = []

    def take_all(*_: Any) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            taken.append(pid)

    before = signal.signal(signal.SIGCHLD, take_all)
    try:
        trap = Trap(tmp_path, at=9)
        with numbers(24, trap, lk.Batch(4), task_rows=2, **ONE) as loader:
            it = iter(loader)
            it.start_prefetch()
            victim = trap.caught()
            with executor_of(loader).lock:  # the handler comes first
                os.kill(victim, signal.SIGKILL)
                until(lambda: victim in taken, "the handler")
            assert all_same([*it], list(numbers(24, row, lk.Batch(4))))
        assert "an exit code that other code took" in caplog.text
    finally:
        signal.signal(signal.SIGCHLD, before)


# --- standing still ---------------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch):
    """A warning comes after a moment instead of a minute."""
    monkeypatch.setattr(supervisor, "STALL_SECONDS", 0.4)


def stalls(caplog: Any) -> list[str]:
    """What was said of workers that don't get on; not of those that are starting."""
    said = [record.getMessage() for record in caplog.records]
    return [message for message in said if "made no progress" in message and "ready yet" not in message]


@pytest.mark.slow
def test_a_stopped_worker_is_named_with_its_records_and_the_kernels_word(tmp_path, soon, caplog):
    """It can't answer. Woken, it goes on, and the stream is the same."""
    trap = Trap(tmp_path, at=9)
    with numbers(24, trap, lk.Batch(4), task_rows=2, **ONE) as loader:
        it = iter(loader)
        it.start_prefetch()
        victim = trap.caught()
        os.kill(victim, signal.SIGSTOP)
        until(lambda: stalls(caplog), "the warning")
        os.kill(victim, signal.SIGCONT)
        trap.let_go()
        assert all_same([*it], list(numbers(24, row, lk.Batch(4))))
    (message,) = stalls(caplog)
    for words in (f"worker process {victim}", "record keys 8, 9", "T (stopped)", "doesn't answer"):
        assert words in message
    assert re.search(r"made no progress for 0\.\d+ s", message)


@pytest.mark.slow
def test_a_worker_that_the_kernel_lets_nobody_interrupt_is_named_with_its_word(tmp_path, soon, caplog):
    """As one whose read from a disk never ends: D. Here it has started a program, and the kernel holds it until that
    has begun, which waits for a pipe to be opened. Another thread of it answers for its Python stack.
    """
    os.mkfifo(tmp_path / "go")

    def starts_a_program(x: int) -> Any:
        if x == 9 and first_time(tmp_path / "started"):
            opened = (os.POSIX_SPAWN_OPEN, 0, tmp_path / "go", os.O_RDONLY, 0)
            child = os.posix_spawn("/bin/true", ["true"], {}, file_actions=[opened])
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return row(x)

    with numbers(24, starts_a_program, lk.Batch(4), task_rows=2, **ONE) as loader:
        it = iter(loader)
        it.start_prefetch()
        until(lambda: stalls(caplog), "the warning")
        write_to(tmp_path / "go")
        assert all_same([*it], list(numbers(24, row, lk.Batch(4))))
    (message,) = stalls(caplog)
    for words in ("record keys 8, 9", "the kernel says D (disk sleep)", "in starts_a_program"):
        assert words in message


@pytest.mark.slow
def test_a_worker_stuck_in_a_c_call_is_named_with_its_python_stack(tmp_path, soon, caplog):
    """Also where the call holds the interpreter's lock; the question doesn't interrupt it, and is asked once."""

    os.mkfifo(tmp_path / "go")

    def reads_in_c(x: int) -> Any:
        if x == 9 and first_time(tmp_path / "read"):
            fd = os.open(tmp_path / "go", os.O_RDWR)
            assert ctypes.PyDLL(None).read(fd, ctypes.create_string_buffer(1), 1) == 1, "interrupted"
            os.close(fd)
        return row(x)

    with numbers(24, reads_in_c, lk.Batch(4), task_rows=2, **ONE) as loader:
        it = iter(loader)
        it.start_prefetch()
        until(lambda: stalls(caplog), "the warning")
        write_to(tmp_path / "go", "!")
        assert all_same([*it], list(numbers(24, row, lk.Batch(4))))
    (message,) = stalls(caplog)
    assert "its Python stack" in message and "in reads_in_c" in message and "record keys 8, 9" in message


def test_a_stuck_thread_is_named_with_its_python_stack(tmp_path, soon, caplog):
    trap = Trap(tmp_path, at=9)
    with numbers(24, trap, lk.Batch(4), task_rows=2, worker_kind="thread", **ONE) as loader:
        it = iter(loader)
        it.start_prefetch()
        trap.caught()
        until(lambda: stalls(caplog), "the warning")
        trap.let_go()
        assert all_same([*it], list(numbers(24, row, lk.Batch(4))))
    (message,) = stalls(caplog)
    assert "worker thread 0" in message and "in __call__" in message and "record keys 8, 9" in message


def test_a_worker_that_gets_on_while_it_is_asked_what_it_does_is_left_in_peace(tmp_path, caplog):
    """Its Python stack takes a moment to come, without the lock: what was true before may be no more."""
    trap = Trap(tmp_path, at=9)
    options = {"worker_kind": "thread", "worker_timeout": 1000.0, "on_worker_timeout": "restart", **ONE}
    with numbers(24, trap, lk.Batch(4), task_rows=2, **options) as loader:
        it = iter(loader)
        it.start_prefetch()
        trap.caught()
        pool = pool_of(loader)
        ((number, worker),) = pool._supervisor.workers.items()
        now = worker.progress()
        before = replace(now, beats=now.beats - 1)
        with selectors.DefaultSelector() as selector:
            Pump(pool, selector)._handle_stalls(
                [(Stall(number, 2000.0, True, before), worker, "it runs", "")]
            )
        assert [*pool._supervisor.workers] == [number] and not caplog.records
        trap.let_go()
        assert all_same([*it], list(numbers(24, row, lk.Batch(4))))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_after_worker_timeout_it_raises_in_its_place(tmp_path, kind, caplog):
    """What came before is delivered; the error names the records, and close() isn't kept waiting."""
    trap = Trap(tmp_path, at=9)
    options = {"worker_kind": kind, "worker_timeout": 0.5, **ONE}
    with numbers(24, trap, lk.Batch(4), task_rows=2, **options) as loader:
        it = iter(loader)
        it.start_prefetch()
        trap.caught()
        given = [next(it), next(it)]
        with pytest.raises(lk.errors.WorkerTimeoutError, match="no sign of life for 0") as error:
            next(it)
        assert all_same(given, list(numbers(8, row, lk.Batch(4))))
        assert set(error.value.record_keys) == {8, 9} and isinstance(error.value, TimeoutError)
        if kind == "thread":
            trap.let_go()
        it.seek(3)
        assert all_same([*it], list(numbers(24, row, lk.Batch(4)))[3:])


@pytest.mark.slow
def test_or_by_choice_another_worker_does_it_again(tmp_path, caplog):
    """The one that stood still is killed, stopped as it is."""
    trap = Trap(tmp_path, at=9)
    options = {"worker_timeout": 0.5, "on_worker_timeout": "restart", **ONE}
    with numbers(24, trap, lk.Batch(4), task_rows=2, **options) as loader:
        it = iter(loader)
        it.start_prefetch()
        victim = trap.caught()
        os.kill(victim, signal.SIGSTOP)
        assert all_same([*it], list(numbers(24, row, lk.Batch(4))))
        assert victim not in worker_pids(loader)
    assert "no sign of life" in caplog.text and "T (stopped)" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_record_that_never_ends_is_named(tmp_path, kind):
    """Tried again alone, each record told before its read: the error names exactly that one."""
    os.mkfifo(tmp_path / "never")

    def stuck(x: int) -> Any:
        if x == 9:
            (tmp_path / "never").read_text()
        return x

    options = {"worker_kind": kind, "worker_timeout": 0.4, "on_worker_timeout": "restart", **ONE}
    with numbers(24, stuck, task_rows=6, max_worker_restarts=1, **options) as loader:
        it = iter(loader)
        given = [next(it) for _ in range(9)]
        with pytest.raises(lk.errors.WorkerTimeoutError, match="2 workers were lost") as error:
            next(it)
        assert given == [*range(9)] and error.value.indices == (9,)
        if kind == "thread":
            pool: Any = executor_of(loader)
            assert len(pool._supervisor.fenced) == 2
            release(tmp_path / "never", lambda: not pool._supervisor.fenced)


def release(fifo: Path, done: Any) -> None:
    """Lets all go on who read from it, and who will."""
    fd = os.open(fifo, os.O_RDWR)
    try:
        writer = os.open(fifo, os.O_WRONLY)
        os.close(writer)
    finally:
        os.close(fd)
    until(done, "the end of those who waited")


class Sleepy(Trap):
    """Stops once, then writes rows of another world: what wakes up late must not be seen."""

    def __call__(self, x: int) -> Any:
        if x == self.at and self._is_first():
            self._stay()
            return {"key": -1, "x": np.full(16, -1, np.float32)}
        return row(x)


def pool_of(loader: "lk.DataLoader") -> Any:
    return executor_of(loader)


def takes_too_long(pool: Any) -> None:
    """What the pump does with the only worker of a pool if that made no progress for too long."""
    ((number, worker),) = pool._supervisor.workers.items()
    with selectors.DefaultSelector() as selector:
        stall = Stall(number, 500.0, True, worker.progress())
        Pump(pool, selector)._handle_stalls([(stall, worker, "it runs", "")])


def watch_late_writes(it: Any, pool: Any, wake: Any, expected: list[Any]) -> None:
    """Takes the stream while a worker is fenced, wakes that, and holds every batch against what it was."""
    held = []
    while not pool._supervisor.fenced:
        held.append(next(it))
    held += [next(it) for _ in range(len(expected) - 1 - len(held))]
    slots = pool._slots
    assert len(pool._supervisor.fenced) == 1 and slots._holds
    addresses = [batch["x"].__array_interface__["data"][0] for batch in held]
    wake()
    until(lambda: not (pool._supervisor.fenced or slots._holds), "its end, and the end of its holds")
    assert all_same(held, expected[:-1]) and len(set(addresses)) == len(held)
    assert not slots._holds and not slots._freed
    assert same(next(it), expected[-1])


def test_a_thread_that_wakes_up_late_and_writes_harms_nothing(tmp_path):
    """Its batch was done by another, and copied out of the memory that it writes to."""
    trap = Sleepy(tmp_path, at=301)
    expected = list(numbers(400, row, lk.Batch(4)))
    options = {"worker_kind": "thread", "worker_timeout": 0.4, "on_worker_timeout": "restart", **ONE}
    with numbers(400, trap, lk.Batch(4), task_rows=2, **options) as loader:
        met = threading.Thread(target=trap.caught)
        met.start()
        watch_late_writes(iter(loader), pool_of(loader), trap.let_go, expected)
        met.join()


@pytest.mark.slow
def test_a_process_that_cant_be_killed_and_wakes_up_late_harms_nothing(tmp_path, monkeypatch):
    """As one that is inside the kernel: here SIGKILL isn't sent to it at first."""
    monkeypatch.setattr(supervisor, "FENCE_AFTER_SECONDS", 0.0)
    trap = Sleepy(tmp_path, at=301)
    expected = list(numbers(400, row, lk.Batch(4)))
    options = {"worker_timeout": 0.4, "on_worker_timeout": "restart", **ONE}
    kill = ProcessWorker.kill
    with numbers(400, trap, lk.Batch(4), task_rows=2, **options) as loader:
        with ThreadPoolExecutor(1) as executor:
            victim = executor.submit(trap.caught)
            monkeypatch.setattr(
                ProcessWorker,
                "kill",
                lambda worker: None if worker.process.pid == victim.result() else kill(worker),
            )
            watch_late_writes(iter(loader), pool_of(loader), trap.let_go, expected)
        monkeypatch.setattr(ProcessWorker, "kill", kill)


@pytest.mark.slow
def test_close_ends_a_process_that_was_fenced(tmp_path, monkeypatch, caplog):
    """It couldn't be ended then; nothing of it is left when the loader is closed.

    The test says that it takes too long, at once and for this worker only: a time limit that is short enough for a
    test would end others on a busy machine.
    """
    monkeypatch.setattr(supervisor, "FENCE_AFTER_SECONDS", -1.0)
    trap = Trap(tmp_path, at=9)
    options = {"worker_timeout": 1000.0, "on_worker_timeout": "restart", **ONE}
    with numbers(24, trap, lk.Batch(4), task_rows=2, **options) as loader:
        it = iter(loader)
        it.start_prefetch()
        victim = trap.caught()
        kills = []

        def in_vain(worker: ProcessWorker) -> None:
            kills.append(worker)

        with monkeypatch.context() as kernel:
            kernel.setattr(ProcessWorker, "kill", in_vain)
            takes_too_long(pool_of(loader))
            assert len(pool_of(loader)._supervisor.fenced) == 1
            # Once for its time, and by the pump for its channel, which was closed then.
            until(lambda: len(kills) == 2, "that it is killed in vain")
        assert all_same([*it], list(numbers(24, row, lk.Batch(4))))
        assert len(pool_of(loader)._supervisor.fenced) == 1
    assert not Path(f"/proc/{victim}").exists()
    assert "was fenced with no sign of life for 500 s" in caplog.text
    assert "may still write, so its memory is set apart" in caplog.text


@pytest.mark.slow
def test_a_worker_that_loses_its_channel_is_ended_and_replaced(tmp_path, caplog):
    """As where code of the user's closes all descriptors: it lives, and nothing of it can be heard."""

    def closes(x: int) -> Any:
        if x == 9 and first_time(tmp_path / "closed"):
            for name in os.listdir("/proc/self/fd"):
                with contextlib.suppress(OSError):
                    if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                        os.close(int(name))
            threading.Event().wait()
        return row(x)

    with numbers(24, closes, lk.Batch(4), task_rows=2, **ONE) as loader:
        assert all_same([*loader], list(numbers(24, row, lk.Batch(4))))
    assert "died with exit code -9 (SIGKILL)" in caplog.text


def test_a_batch_fn_that_is_stuck_in_a_thread_raises(tmp_path):
    """It may write to its rows at any time, so the batch can't be made from them again."""
    os.mkfifo(tmp_path / "never")

    def waits(rows: list[Any]) -> Any:
        if rows[0]["key"] == 8:
            (tmp_path / "never").read_text()
        return rows[0]["key"]

    options = {"worker_kind": "thread", "worker_timeout": 0.4, "on_worker_timeout": "restart", **ONE}
    with numbers(24, row, lk.Batch(4, batch_fn=waits), task_rows=2, **options) as loader:
        it = iter(loader)
        assert [next(it), next(it)] == [0, 4]
        with pytest.raises(lk.errors.WorkerTimeoutError) as error:
            next(it)
        assert error.value.indices == (8, 9, 10, 11)
        pool: Any = executor_of(loader)
        release(tmp_path / "never", lambda: not pool._supervisor.fenced)


def bad_9(operation: Any) -> Any:
    def with_a_bad_record(x: int) -> Any:
        made = operation(x)
        if x == 9:
            raise ValueError("bad")
        return made

    return with_a_bad_record


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_record_that_is_read_instead_of_a_bad_one_and_kills_is_named(kind, caplog):
    """The row that lost its own record isn't to blame. `indices` has it all the same, because its row can't be made."""

    def deadly(x: int) -> Any:
        if x == 10:
            if kind == "process":
                os.kill(os.getpid(), signal.SIGSEGV)
            raise SystemExit(3)
        return x

    lossy = {"on_record_error": "replace", "max_worker_restarts": 1, "worker_kind": kind, **ONE}
    with numbers(24, bad_9(deadly), task_rows=10, **lossy) as loader:
        it = iter(loader)
        with pytest.raises(lk.WorkerError, match=r"index 10 \(record_key 10\), read instead of ") as error:
            list(it)
        if kind == "thread":
            return
        assert it.step == 9 and "read instead of index 9 (record_key 9), which is bad" in str(error.value)
        assert (error.value.indices, error.value.record_keys) == ((9,), (10,))
        assert "it was at index 10 (record_key 10), read instead of index 9" in caplog.text
        it.set_state(it.state_past_error())
        assert it.index == 10


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_worker_gets_on_when_the_trainer_says_what_to_read_instead(tmp_path, kind, monkeypatch):
    """So what it waits for that isn't held against it. Record 10 is read in the row of 9, and first there."""
    asking, pools = [], []
    replacement = Dispatcher.replacement

    def noting(dispatcher: Dispatcher, worker: int, *asked: int) -> Any:
        asking.append(pools[0]._supervisor.workers[worker].progress())
        return replacement(dispatcher, worker, *asked)

    monkeypatch.setattr(Dispatcher, "replacement", noting)
    trap = Trap(tmp_path, at=10)
    lossy = {"on_record_error": "replace", "worker_kind": kind, **ONE}
    with numbers(24, bad_9(trap), lk.Batch(4), task_rows=4, **lossy) as loader:
        it = iter(loader)
        pools.append(pool_of(loader))
        it.start_prefetch()
        trap.caught()
        (worker,) = pool_of(loader)._supervisor.workers.values()
        (before,), now = asking, worker.progress()
        assert now.task == before.task is not None and now.beats > before.beats
        trap.let_go()
        assert all_same([*it], list(numbers(24, bad_9(row), lk.Batch(4), on_record_error="replace")))


def test_a_thread_stays_fenced_until_its_task_is_finished(tmp_path, monkeypatch):
    """Not only until it asks what to read instead of a bad record."""
    heard = []
    on_thread_event = WorkerPool.on_told

    def noting(pool: Any, worker: Any, event: Any) -> None:
        fenced = worker.number == 0 and 0 in pool._supervisor.fenced
        on_thread_event(pool, worker, event)
        if fenced:
            heard.append((type(event).__name__, 0 in pool._supervisor.fenced))

    monkeypatch.setattr(WorkerPool, "on_told", noting)
    trap = Trap(tmp_path, at=9)
    options = {"worker_kind": "thread", "worker_timeout": 0.4, "on_worker_timeout": "restart", **ONE}
    with numbers(24, bad_9(trap), lk.Batch(4), task_rows=2, on_record_error="replace", **options) as loader:
        it = iter(loader)
        it.start_prefetch()
        trap.caught()
        assert all_same([*it], list(numbers(24, bad_9(row), lk.Batch(4), on_record_error="replace")))
        it.close()
        assert pool_of(loader).state.in_use  # the pump waits for its end, with no stream open
        trap.let_go()
        until(lambda: not pool_of(loader)._supervisor.fenced, "its end")
        until(lambda: not pool_of(loader).state.in_use, "that nothing is done any more")
    assert heard == [("ReplacementRequested", True), ("TaskFinished", False)]


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"max_worker_restarts": -1}, ValueError, "max_worker_restarts: expected 0 or more"),
        ({"worker_timeout": 0}, ValueError, "worker_timeout: expected more than 0 seconds"),
        ({"worker_timeout": "1"}, TypeError, "worker_timeout: expected a number of seconds or None"),
        ({"on_worker_timeout": "kill"}, ValueError, "on_worker_timeout: expected 'raise' or 'restart'"),
    ],
)
def test_what_is_no_such_setting_is_refused(options, kind, words):
    with pytest.raises(kind, match=words):
        numbers(4, **options)


class Slow(lk.Map):
    """Takes as long to arrive in its worker as the test wants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        (self.folder / "go").read_text()

    def map(self, element: int) -> int:
        return element


@pytest.mark.slow
def test_a_worker_that_is_starting_has_a_minute_whatever_its_time_limit_and_is_named_once(tmp_path, caplog):
    """Of a slow start nothing is said before, and nothing comes of it."""
    os.mkfifo(tmp_path / "go")
    with numbers(8, Slow(tmp_path), lk.Batch(4), worker_timeout=0.3, **ONE) as loader:
        it = iter(loader)
        it.start_prefetch()
        watch = pool_of(loader)._supervisor._watch
        until(lambda: any(seen.seconds > 0.6 for seen in watch._seen.values()), "twice its limit")
        assert not caplog.records
        write_to(tmp_path / "go")
        assert len([*it]) == 2


@pytest.mark.slow
def test_a_worker_that_doesnt_get_ready_in_a_minute_is_an_error(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(supervisor, "STALL_SECONDS", 0.5)
    os.mkfifo(tmp_path / "go")
    with (
        numbers(8, Slow(tmp_path), lk.Batch(4), worker_timeout=0.2, **ONE) as loader,
        pytest.raises(lk.errors.WorkerTimeoutError, match="didn't get ready"),
    ):
        next(iter(loader))
    assert len([record for record in caplog.records if "ready yet" in record.getMessage()]) == 1
