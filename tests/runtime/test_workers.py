"""Workers that are killed, that exit, that can't start: the stream is the same, or the error says who and what."""

import logging
import os
import re
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from internals import executor_of, worker_pids
from runtime_loaders import Trap, all_same, numbers, row, write_to

import loaderkit as lk

WORKERS: dict[str, Any] = {"worker_count": 2, "worker_kind": "process"}
ONE: dict[str, Any] = {"worker_count": 1, "worker_kind": "process"}  # where starting them is most of the time


@pytest.fixture(scope="module")
def undisturbed() -> list[Any]:
    """The stream that all the killing must not change."""
    return list(numbers(120, row, lk.Batch(8)))


# --- killed -----------------------------------------------------------------------------------------------------


def test_a_worker_killed_while_it_works_changes_nothing_and_is_logged(tmp_path, undisturbed, caplog):
    """Its tasks are done again; the log has the exit code and the records it had."""
    trap = Trap(tmp_path, at=37)
    with numbers(120, trap, lk.Batch(8), task_rows=4, **WORKERS) as loader:
        it = iter(loader)
        it.start_prefetch()
        os.kill(trap.caught(), signal.SIGKILL)
        with caplog.at_level(logging.WARNING, "loaderkit"):
            assert all_same(list(it), undisturbed)
    assert len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert "exit code -9 (SIGKILL)" in message
    first, last = map(int, re.search(r"indices (\d+) to (\d+)", message).groups())
    assert first <= 36 and last >= 39  # the task that it was in, and perhaps others that it had


@pytest.mark.slow
def test_workers_killed_while_they_idle_are_replaced(undisturbed):
    """Between two epochs no worker has a task; the next epoch is the same."""
    with numbers(120, row, lk.Batch(8), **WORKERS) as loader:
        assert all_same(list(loader), undisturbed)
        before = worker_pids(loader)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert all_same(list(loader), undisturbed)
        assert not set(before) & set(worker_pids(loader))


@pytest.mark.slow
@pytest.mark.parametrize("victims", [1, 2])
def test_workers_killed_again_and_again_change_nothing(undisturbed, victims, nightly):
    """One of them or all at once, after every third batch."""
    if victims == 2 and not nightly:
        pytest.skip("nightly; test_worker_losses.py kills all after every batch")
    with numbers(120, row, lk.Batch(8), task_rows=2, prefetch_batches=1, **WORKERS) as loader:
        batches = []
        for batch in loader:
            batches.append(batch)
            if len(batches) % 3 == 0:
                for pid in worker_pids(loader)[:victims]:
                    os.kill(pid, signal.SIGKILL)
        assert all_same(batches, undisturbed)


def test_a_worker_killed_in_a_pipeline_that_changes_rows_changes_nothing(tmp_path):
    """Filter and FlatMap: runs of elements are made again in their place."""
    operations = (lk.Filter(lambda x: x["key"] % 3), lk.FlatMap(lambda x: [x] * (x["key"] % 4)), lk.Batch(5))
    expected = list(numbers(120, row, *operations))
    trap = Trap(tmp_path, at=50)
    with numbers(120, trap, *operations, task_rows=7, **WORKERS) as loader:
        it = iter(loader)
        it.start_prefetch()
        os.kill(trap.caught(), signal.SIGKILL)
        assert all_same(list(it), expected)


def test_a_dead_worker_whose_own_child_holds_its_channel_is_noticed(tmp_path, undisturbed):
    """A process that the user's code forked in the worker keeps every descriptor open: nothing may wait for it."""
    os.mkfifo(tmp_path / "end")

    def forking(x: int) -> dict[str, Any]:
        if x == 0 and not (tmp_path / "forked").exists():
            (tmp_path / "forked").touch()
            if os.fork() == 0:
                (tmp_path / "end").read_text()
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return row(x)

    with numbers(120, forking, lk.Batch(8), **WORKERS) as loader:
        assert all_same(list(loader), undisturbed)
    write_to(tmp_path / "end")


# --- exits ------------------------------------------------------------------------------------------------------


def leave_with(how: str) -> None:
    """Ends the process as a transform or a library might."""
    if how == "os._exit(0)":
        os._exit(0)
    if how == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    sys.exit(how)


EXITS = {
    "os._exit(0)": "exit code 0",
    "segfault": r"exit code -11 \(SIGSEGV\)",
    "sys.exit(text)": "exit code 1",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", EXITS)
def test_a_record_that_ends_its_worker_is_named(how, nightly):
    """However it ends, 0 included: tried again record by record, then a WorkerError that names exactly that one."""
    if how == "sys.exit(text)" and not nightly:
        pytest.skip("nightly; for each four workers start")

    def decode(x: int) -> dict[str, Any]:
        if x == 37:
            leave_with(how)
        return row(x)

    with numbers(120, decode, lk.Batch(8), task_rows=4, **ONE) as loader:
        it = iter(loader)
        assert all_same([next(it) for _ in range(4)], list(numbers(32, row, lk.Batch(8))))
        with pytest.raises(lk.WorkerError, match=EXITS[how] + r" at index 37 \(record_key 37\)") as first:
            next(it)
        with pytest.raises(lk.WorkerError) as again:
            next(it)
        assert again.value is first.value
        it.seek(5)
        assert next(it)["key"].tolist() == [*range(40, 48)]


class Exiting:
    """A source with one record whose read ends the process."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, key: int) -> int:
        if key == 41:
            os._exit(9)
        return key


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operations", "elements"),
    [
        ((), 41),
        ((lk.Filter(lambda x: x % 2), lk.Batch(4)), 5),
        ((lk.Batch(3), lk.Batch(2)), 6),
        ((lk.Batch(7),), 5),
    ],
)
def test_a_read_that_ends_its_worker_is_named_and_all_before_it_delivered(operations, elements, nightly):
    """In every shape of pipeline: all elements that are made of earlier records come first.

    By day in two, without operations and with a Filter: each starts three workers.
    """
    if not nightly and lk.Batch in {type(each) for each in operations[:1]}:
        pytest.skip("nightly")
    expected: list[Any] = list(numbers(60, *operations))
    with numbers(60, *operations, data_source=Exiting(), task_rows=14, **ONE) as loader:
        it = iter(loader)
        assert all_same([next(it) for _ in range(elements)], expected[:elements])
        with pytest.raises(lk.WorkerError, match=r"exit code 9 at index 41 \(record_key 41\)") as error:
            next(it)
        assert (error.value.indices, error.value.record_keys) == ((41,), (41,))


@pytest.mark.parametrize("task_rows", [1, 4, 24, None])
@pytest.mark.parametrize("batched", [True, False])
def test_sys_exit_in_a_thread_worker_is_an_error_that_names_the_record(task_rows, batched):
    """It would end the thread without a word. All before it is delivered, however large the task it was in."""

    def decode(x: int) -> int:
        if x == 37:
            sys.exit(3)
        return x

    size = 4 if batched else 1
    operations = [decode, lk.Batch(4)] if batched else [decode]
    with (
        numbers(60, *operations, worker_count=2, worker_kind="thread", task_rows=task_rows) as loader,
        iter(loader) as it,
    ):
        for _ in range(37 // size):
            next(it)
        with pytest.raises(lk.WorkerError, match=r"SystemExit\(3\)") as error:
            next(it)
        assert (error.value.indices, error.value.record_keys) == ((37,), (37,))
        assert "index 37 (record_key 37)" in error.value.__notes__[-1]
        it.set_state(it.state_past_error())
        assert np.ravel([*it]).tolist() == [*range(37 // size * size + size, 60)]


def test_a_batch_fn_that_would_end_its_thread_is_called_once():
    """It may have written to its rows: made a second time, the batch would be another one."""
    called = []

    def leave(rows: Any) -> Any:
        called.append(len(rows))
        sys.exit(3)

    with (
        numbers(4, lk.Batch(4, batch_fn=leave), worker_count=1, worker_kind="thread", task_rows=2) as loader,
        iter(loader) as it,
        pytest.raises(lk.WorkerError, match=r"SystemExit\(3\)"),
    ):
        next(it)
    assert called == [4]


def inherited(_: int) -> list[str]:
    """The descriptors that a program started here would get, beside the standard ones."""
    script = "import os; print(*(n for n in range(3, 256) if os.path.exists(f'/proc/self/fd/{n}')))"
    return subprocess.check_output([sys.executable, "-c", script], text=True, close_fds=False).split()


def test_programs_that_an_operation_starts_inherit_nothing_of_the_worker():
    """One that lives on would keep the channel open, and the trainer wouldn't see that its worker is dead."""
    with numbers(1, inherited, worker_count=1) as loader:
        assert next(iter(loader)) == []


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_what_ends_workers_is_found_where_the_stream_begins_again(kind):
    """The last batch is filled with the first rows: the indices of its task don't ascend."""

    def decode(x: int) -> int:
        if x == 9:
            sys.exit(3)
        return x

    options = {"worker_count": 1, "worker_kind": kind, "task_rows": 4, "max_worker_restarts": 1}
    with numbers(10, decode, lk.Batch(4, remainder="wrap"), **options) as loader, iter(loader) as it:
        assert [next(it).tolist() for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        with pytest.raises(lk.WorkerError) as error:
            next(it)
    assert (error.value.indices, error.value.record_keys) == ((9,), (9,))


# --- can't start, can't travel ----------------------------------------------------------------------------------


def _refuse() -> None:
    raise ValueError("the file is only on the other machine")


def _vanish() -> None:
    os._exit(3)


class Unpickled:
    """A source whose unpickling calls a function."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: int) -> int:
        return key

    def __reduce__(self) -> Any:
        return self.function, ()


def test_a_source_that_cannot_be_unpickled_in_the_worker_says_so():
    """The error keeps its type and has the worker's traceback; a next iterator tries again and says the same."""
    with numbers(3, data_source=Unpickled(_refuse), **ONE) as loader:
        for _ in range(2):
            with pytest.raises(ValueError, match="only on the other machine") as error:
                next(iter(loader))
            assert "Traceback of the worker" in error.value.__notes__[0]
            assert "_refuse" in error.value.__notes__[0]


@pytest.mark.slow
def test_workers_that_die_before_they_are_ready_are_given_up():
    """Not started again for ever."""
    with (
        numbers(3, data_source=Unpickled(_vanish), **ONE) as loader,
        pytest.raises(
            lk.WorkerError,
            match=r"died before they were ready, the last with exit code 3; .*: RLIMIT_NOFILE is ",
        ),
    ):
        next(iter(loader))


class Locked(lk.Map):
    """A transform with something that can't travel."""

    def __init__(self) -> None:
        self.guard = threading.Lock()

    def map(self, element: Any) -> Any:
        return element


class LockedSource(Exiting):
    """A source with something that can't travel."""

    def __init__(self) -> None:
        self.guard = threading.Lock()


def _closure() -> Any:
    guard = threading.Lock()
    return lambda x: (guard, x)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"operations": [abs, Locked()]}, r"operations\[1\] Locked can't be sent .* its attribute 'guard'"),
        (
            {"operations": [_closure()]},
            r"operations\[0\] Map\(.*lambda.*\) can't be sent .* its attribute 'guard'",
        ),
        ({"data_source": LockedSource()}, r"data_source can't be sent .* its attribute 'guard'"),
    ],
)
def test_what_cannot_be_sent_is_named_with_its_attribute(options, named):
    """Before a worker is started, and with a way out; nothing stays open."""
    options = {"data_source": lk.RangeDataSource(0, 60, 1), "sampler": lk.SequentialSampler(60), **options}
    loader = lk.DataLoader(**options, **WORKERS)
    with pytest.raises(lk.errors.TransportError, match=named) as error:
        iter(loader)
    assert "worker_kind='thread'" in str(error.value)


def mapped(function: Any) -> Any:
    class Mapped(lk.interop.grain.MapTransform):
        def map(self, element: Any) -> Any:
            return function(element)

    return Mapped()


@pytest.mark.parametrize("names", ["lk", "grain"])
@pytest.mark.parametrize("base", [object, dict])
def test_a_class_of_the_script_that_jax_knows_as_a_pytree_is_refused(names, base):
    """A worker would get it without its registration, and what is a tree here would be a leaf there."""
    tree_util = pytest.importorskip("jax.tree_util", reason="needs the jax package")

    class Point(base):
        def __init__(self, x):
            self.x = x

    tree_util.register_pytree_node(Point, lambda point: ((point.x,), None), lambda _, parts: Point(*parts))
    if names == "lk":
        load, options = lk.load, {"num_epochs": 1, "operations": [lk.Map(Point)]}
    else:
        load, options = lk.interop.grain.load, {"num_epochs": 1, "transformations": [mapped(Point)]}
    with pytest.raises(
        lk.errors.TransportError, match=r"Point is registered .* Put it into a module, or work"
    ):
        iter(load([1, 2], worker_count=1, **options))
    assert [point.x for point in load([1, 2], **options)] == [1, 2]


@pytest.mark.parametrize("size", [None, 4])
def test_an_element_that_cannot_be_pickled_is_named_and_all_before_it_delivered(size):
    """Elements behind a Batch with a batch_fn travel too."""

    def locked(x: int) -> Any:
        return threading.Lock() if x == 23 else x

    batches = [] if size is None else [lk.Batch(size, batch_fn=tuple)]
    with numbers(60, locked, *batches, task_rows=10, **ONE) as loader:
        it = iter(loader)
        expected = list(numbers(60, *batches))[: 23 // (size or 1)]
        assert [next(it) for _ in expected] == expected
        with pytest.raises(lk.errors.TransportError, match="lock") as error:
            next(it)
        named = 23 if size is None else 20  # of a batch, its first
        assert f"the element for index {named} (record_key {named}) of Range" in error.value.__notes__[-1]
        assert isinstance(error.value.__cause__, TypeError)


class OnlyThere:
    """An element that can't be rebuilt in the trainer."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    def __reduce__(self) -> Any:
        return _only_in, (self.pid,)


def _only_in(pid: int) -> None:
    if os.getpid() != pid:
        raise RuntimeError("not here")


def test_an_element_that_cannot_be_unpickled_is_an_error_at_its_place():
    """What was delivered before stays as it is, and the loader can be used again."""
    with numbers(60, lambda x: OnlyThere() if x == 23 else x, task_rows=1, **ONE) as loader:
        it = iter(loader)
        assert [next(it) for _ in range(23)] == [*range(23)]
        for _ in range(2):
            with pytest.raises(RuntimeError, match="not here"):
                next(it)
        it.seek(24)
        assert [*it] == [*range(24, 60)]


# --- closed -----------------------------------------------------------------------------------------------------


class Journal(Trap):
    """A trap that writes down what comes by."""

    def __call__(self, x: int) -> dict[str, Any]:
        with (self.folder / "seen").open("a") as seen:
            seen.write(f"{x}\n")
        return super().__call__(x)


@pytest.mark.parametrize("reads", [lk.ReadOptions(), lk.ReadOptions(num_threads=2)])
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_what_a_closed_stream_left_waiting_at_a_worker_is_not_done_any_more(tmp_path, kind, reads):
    """The next iterator's first batch waits for the task that was begun, and for no other."""
    journal = Journal(tmp_path, at=0)
    options = {
        "worker_count": 1,
        "worker_kind": kind,
        "data_source": list(range(4000)),
        "read_options": reads,
    }
    with numbers(4000, journal, lk.Batch(8), task_rows=4, prefetch_batches=4, **options) as loader:
        first = iter(loader)
        first.start_prefetch()
        journal.caught()
        first.close()
        second = iter(loader)
        second.seek(400)
        second.start_prefetch()
        journal.let_go()
        assert next(second)["key"].tolist() == [*range(3200, 3208)]
    seen = {int(line) for line in (tmp_path / "seen").read_text().split()}
    assert {x for x in seen if x < 3200} == {0, 1, 2, 3}


def test_a_worker_lost_when_nobody_waits_any_more_is_no_error_of_close():
    """The loader has failed or was closed: the iterator's own close, later, is as quiet as ever."""
    with numbers(10**6, row, lk.Batch(8), **WORKERS) as loader:
        it = iter(loader)
        next(it)
        executor: Any = executor_of(loader)
        with executor.lock:
            executor.state.failed = True  # as when another worker can't run the operations
            os.kill(worker_pids(loader)[0], signal.SIGKILL)
        executor.state.ended.wait()
        it.close()
