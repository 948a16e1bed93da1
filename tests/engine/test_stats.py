"""`it.stats()`: figures of pipelines whose every part is known, through kills, moves, threads and several iterators."""

import os
import signal
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from internals import executor_of, worker_pids

import loaderkit as lk
from loaderkit._engine.stats.counters import WorkerCounters
from loaderkit._engine.stats.stats import Stats

KINDS = [("process", 0), ("process", 2), ("thread", 2)]


def sleep_2ms(x):
    time.sleep(0.002)
    return x


def sleep_1ms(x):
    time.sleep(0.001)
    return x


class SlowSource:
    """A read takes half a millisecond."""

    def __len__(self):
        return 10_000

    def __getitem__(self, key):
        time.sleep(0.0005)
        return np.int64(key)


def loader_of(workers, kind="process", **changes):
    arguments = {
        "data_source": SlowSource(),
        "sampler": lk.IndexSampler(10_000, num_epochs=1),
        "operations": [lk.Map(sleep_2ms), lk.Filter(lambda x: x % 2 == 0), lk.Map(sleep_1ms), lk.Batch(8)],
        "worker_count": workers,
        "worker_kind": kind,
    }
    return lk.DataLoader(**{**arguments, **changes})


@pytest.mark.usefixtures("real_clocks")
@pytest.mark.parametrize(("kind", "workers"), KINDS)
def test_each_part_of_a_record_is_counted_where_it_belongs(kind, workers):
    """Sleeps are never shorter than they say, and on a busy machine they are longer."""
    with loader_of(workers, kind) as loader, iter(loader) as it:
        for _ in range(12):
            next(it)
        stats = it.stats()
    parts, work = stats.parts, stats.pool.all
    assert list(parts) == [
        "read",
        "operations[0] Map(sleep_2ms)",
        "operations[1] Filter(<lambda>)",
        "operations[2] Map(sleep_1ms)",
        "batch",
        "engine",
    ]
    read, first, _, last, *_ = parts.values()
    assert read >= 0.0005
    assert first >= 0.002
    assert 0.7 * first > last >= 0.0005 * 0.9  # of every second record
    first, keep, last = work.operations
    assert first.elements_in == first.elements_out == keep.elements_in == work.records
    assert keep.elements_out == last.elements_in == last.elements_out == work.rows
    assert abs(2 * work.rows - work.records) <= work.tasks  # tasks of odd numbers of records
    assert sum(parts.values()) == pytest.approx(stats.seconds_per_record, rel=0.01)
    assert parts["engine"] < 0.5 * sum(parts.values())


@pytest.mark.usefixtures("real_clocks")
@pytest.mark.parametrize(("kind", "workers"), KINDS)
def test_the_phases_of_a_worker_are_its_whole_time(kind, workers):
    with loader_of(workers, kind) as loader, iter(loader) as it:
        next(it)
        before_all = time.perf_counter_ns()
        earlier = it.stats()
        began = time.perf_counter_ns()
        for _ in range(6):
            next(it)
        ended = time.perf_counter_ns()
        later = it.stats()
        after_all = time.perf_counter_ns()
    for before, after in zip(earlier.pool.workers, later.pool.workers, strict=True):
        assert after.number == before.number
        assert ended - began - 5e6 <= (after.wall - before.wall) / 0.95
        assert (after.wall - before.wall) / 1.05 <= after_all - before_all + 5e6


@pytest.mark.usefixtures("real_clocks")
@pytest.mark.parametrize(("kind", "workers"), KINDS)
def test_the_trainers_parts_are_its_whole_time(kind, workers):
    with loader_of(workers, kind) as loader, iter(loader) as it:
        for _ in range(10):
            next(it)
            time.sleep(0.01)
        stats = it.stats()
    trainer = stats.trainer
    assert trainer.own >= 0.1e9
    parts = stats.own + stats.waiting + stats.handing + stats.placing
    assert parts == pytest.approx(1.0, abs=0.01)
    assert stats.steps == 10
    assert stats.steps_per_second == pytest.approx(9 / (trainer.elapsed / 1e9), rel=0.05)
    assert stats.records_per_second == pytest.approx(16 * stats.steps_per_second, rel=0.2)  # half are dropped


@pytest.mark.usefixtures("real_clocks")
def test_where_the_loader_is_faster_nothing_is_blocked():
    with lk.load(range(1000), batch_size=2, worker_count=1) as loader, iter(loader) as it:
        for _ in range(30):
            next(it)
            time.sleep(0.003)
        stats = it.stats()
        later = it.stats() - stats
    assert stats.ready > 0.5
    assert stats.own > 0.5
    assert later.steps == 0
    assert later.ready is None


def test_counters_only_grow_through_kills_seeks_and_the_end():
    seen: list[Stats] = []
    with loader_of(2) as loader, iter(loader) as it:
        for step in range(12):
            next(it)
            seen.append(it.stats())
            if step == 4:
                os.kill(worker_pids(loader)[0], signal.SIGKILL)
        deadline = time.monotonic() + 30
        while it.stats().pool.lost == 0:
            assert time.monotonic() < deadline
            next(it)
            seen.append(it.stats())
        seen.append(it.stats())
        assert seen[-1].pool.lost == 1
    seen += [it.stats(), loader.stats()]
    for before, after in pairwise(seen):
        for name in ("working", "telling", "tasks", "records", "rows", "nbytes", "read", "batch"):
            assert getattr(after.pool.all, name) >= getattr(before.pool.all, name), name
        if after.of == before.of:
            assert (after - before).pool.all.records >= 0
    assert "1 worker lost" in str(seen[-1])


@pytest.mark.parametrize("workers", [0, 1])
def test_figures_are_those_of_the_end_where_the_iterator_is_closed(workers):
    made = lk.load(range(100), batch_size=2, worker_count=workers, worker_kind="thread")
    with made as loader:
        it = iter(loader)
        next(it), next(it)
        it.close()
        closed = it.stats()
        time.sleep(0.05)
        assert (it.stats().trainer, it.stats().pool) == (closed.trainer, closed.pool)
    assert it.stats().workers == workers
    assert loader.stats().workers == workers


def test_only_snapshots_of_one_iterator_are_subtracted():
    loader = lk.load(range(100), batch_size=10, num_epochs=1)
    one, other = iter(loader), iter(loader)
    earlier, of_loader = one.stats(), loader.stats()
    next(one)
    later = one.stats()
    assert (later - later).steps == 0
    for first, second, why in [
        (later, other.stats(), "one iterator or of one loader, got those of two"),
        (later, of_loader, "got those of two"),
        (of_loader, iter(lk.load([1])).stats(), "got those of two"),
        (earlier, later, "expected later - earlier, got earlier - later"),
        (later, later - earlier, "expected two snapshots, got an interval"),
    ]:
        with pytest.raises(ValueError, match=why):
            first - second


def test_rates_are_of_what_was_handed_out():
    """Not of records that workers have read ahead, nor of those of another iterator."""
    loader = lk.load(range(640), batch_size=8, worker_count=1, worker_kind="thread", num_epochs=2)
    with loader, iter(loader) as first:
        assert first.stats().steps_per_second is None
        next(first)
        assert first.stats().records_per_second is None  # one step has no duration
        list(first)
        assert first.stats().trainer.records == 1280
        with iter(loader) as second:
            for step in range(1, 6):
                next(second)
                assert second.stats().trainer.records == 8 * step
            second.seek(70)
            next(second)
            stats = second.stats()
        assert stats.trainer.records == 48
        assert 48 <= stats.pool.all.records <= loader.stats().pool.all.records - 1280
        assert stats.records_per_second == pytest.approx(8 * stats.steps_per_second)


@pytest.mark.parametrize("shards", [1, 2])
def test_records_of_a_stream_with_other_rows_are_those_that_were_passed(shards):
    loader = lk.load(
        range(3999),
        shuffle=True,
        seed=0,
        operations=[lk.Filter(lambda x: x % 3 == 0)],
        batch_size=8,
        shard_options=lk.ShardOptions(0, shards),
        logical_streams=4,
    )
    it = iter(loader)
    for _ in range(50):
        next(it)
    assert it.stats().trainer.records == pytest.approx(50 * 8 * 3, rel=0.15)


def test_bad_records_are_those_that_this_iterator_met():
    def decode(x):
        if x % 10 == 3:
            raise ValueError("bad")
        return x

    loader = lk.load(range(100), num_epochs=1, operations=[decode], batch_size=10, on_record_error="skip")
    first = iter(loader)
    for _ in range(5):
        next(first)
    second = iter(loader)
    second.set_state(first.get_state())
    assert (second.bad_records, second.stats().bad_records) == (first.bad_records, 0)
    list(second)
    assert second.stats().bad_records == 10 - first.stats().bad_records


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # JAX warns in its own hook
def test_a_fork_of_the_process_knows_nothing_and_does_not_wait():
    with lk.load(range(1000), batch_size=2, worker_count=1, worker_kind="thread") as loader:
        it = iter(loader)
        next(it)
        held = executor_of(loader).lock
        ready, go = threading.Event(), threading.Event()

        def hold():
            with held:
                ready.set()
                go.wait(20)

        holder = threading.Thread(target=hold)
        holder.start()
        ready.wait()
        child = os.fork()
        if not child:
            os._exit(0 if it.stats().pool.all.records == 0 else 1)
        _, status = os.waitpid(child, 0)
        go.set()
        holder.join()
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_task_that_is_stuck_is_seen_while_it_runs():
    release = threading.Event()

    def wait(x):
        release.wait(20)
        return x

    with lk.load([1, 2], operations=[wait], worker_count=1, worker_kind="thread") as loader:
        it = iter(loader)
        it.start_prefetch()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            (worker,) = it.stats().pool.workers or (WorkerCounters(),)
            if worker.phase == "working" and worker.unfinished > 50e6:
                break
            time.sleep(0.01)
        assert worker.task is not None
        assert worker.records == 0
        release.set()
        assert next(it) == 1
        it.close()


def test_figures_that_are_not_known_are_unknown():
    it = iter(lk.load([1, 2]))
    stats = it.stats()
    assert stats.steps == 0
    assert stats.own is None
    assert stats.ready is None
    assert stats.parts == {}
    assert "unknown" in str(stats)
    assert stats.exposed_waiting is None
    it.close()
    assert it.stats().steps == 0
    assert lk.load([1, 2]).stats().steps is None
    with pytest.raises(TypeError):
        stats - 3
    assert "workers  none yet" in str(lk.load([1, 2], worker_count=1).stats())


def test_iterators_of_one_loader_share_the_workers_and_not_the_steps():
    loader = lk.load(range(100), batch_size=10, num_epochs=1)
    one, other = iter(loader), iter(loader)
    list(one)
    next(other)
    assert (one.stats().steps, other.stats().steps) == (10, 1)
    assert loader.stats().pool.all.records >= 110


def test_steps_of_bulk_deliveries_are_those_handed_out():
    it = iter(lk.load(range(10_000), batch_size=2))
    for step in range(1, 50):
        next(it)
        assert it.stats().steps == step
    it.seek(7)
    next(it)
    assert it.stats().steps == 50


def test_a_pause_is_a_figure_of_its_own():
    it = iter(lk.load(range(1000), batch_size=2, operations=[sleep_1ms]))
    for step in range(20):
        next(it)
        if step == 10:
            time.sleep(1.2)
    stats = it.stats()
    assert stats.trainer.paused > 1.1e9
    assert stats.running < stats.elapsed - 1.1
    assert stats.waiting > 0.3


def test_reads_ahead_have_a_latency_and_a_number_in_flight():
    options = lk.ReadOptions(num_threads=4)
    with loader_of(0, read_options=options, operations=[lk.Batch(8)]) as loader, iter(loader) as it:
        for _ in range(20):
            next(it)
        stats = it.stats()
    assert stats.read_latency >= 0.0005
    assert 0.0 < stats.reads_in_flight <= 4.0


def test_retries_and_bad_records_are_faults():
    failing = {3: 2}

    class Source:
        def __len__(self):
            return 10

        def __getitem__(self, key):
            if failing.get(key, 0):
                failing[key] -= 1
                raise OSError("try again")
            return key

    def decode(x):
        if x == 5:
            raise ValueError("bad")
        return x

    loader = lk.load(
        Source(),
        num_epochs=1,
        operations=[decode],
        batch_size=2,
        read_options=lk.ReadOptions(retry=lk.Retry(wait=0.001)),
        on_record_error="skip",
    )
    with iter(loader) as it:
        list(it)
        text = str(it.stats())
    assert "2 reads tried again" in text
    assert "1 bad record" in text and "bad records" not in text
    assert "bad records unknown" in str(loader.stats())


def test_as_text_html_scalars_and_json():
    import json

    it = iter(lk.load(range(64), operations=[sleep_1ms], batch_size=8))
    next(it)
    next(it)
    stats = it.stats()
    assert "Map(sleep_1ms)" in str(stats)
    assert stats._repr_html_().startswith("<table>")
    assert "\n" not in stats.line()
    assert all(isinstance(value, float) for value in stats.scalars().values())
    assert json.loads(json.dumps(stats.to_json()))["trainer"]["elements"] == 2


def test_a_worker_killed_in_the_middle_of_a_task_leaves_whole_figures():
    with loader_of(1, sampler=lk.IndexSampler(64, num_epochs=1)) as loader, iter(loader) as it:
        next(it)
        os.kill(worker_pids(loader)[0], signal.SIGKILL)
        batches = 1 + len(list(it))
        stats = it.stats()
    work = stats.pool.all
    assert (stats.pool.lost, stats.steps) == (1, batches)
    first, keep, last = work.operations
    assert first.elements_in == keep.elements_in == work.records >= 64
    assert keep.elements_out == last.elements_in == work.rows >= 32
    assert sum(stats.parts.values()) == pytest.approx(stats.seconds_per_record, rel=0.01)
    assert work.wall >= work.working - work.unfinished > 0


def test_tasks_that_are_given_and_not_done_are_counted():
    """While the only worker is at the first record."""
    taken, release = threading.Event(), threading.Event()

    def wait(x):
        taken.set()
        return release.wait(20) and x

    with lk.load(range(8), num_epochs=1, operations=[wait], worker_count=1, worker_kind="thread") as loader:
        it = iter(loader)
        it.start_prefetch()
        assert taken.wait(20)
        waiting = it.stats().pool.tasks_waiting
        release.set()
        assert (waiting > 0, list(it)) == (True, list(range(8)))


@pytest.mark.parametrize(("kind", "workers"), KINDS)
def test_what_was_made_is_what_was_handed_out_at_rest(kind, workers):
    with lk.load(
        range(1000), num_epochs=1, batch_size=8, drop_remainder=False, worker_count=workers, worker_kind=kind
    ) as loader:
        it = iter(loader)
        rows = sum(len(batch) for batch in it)
        stats = it.stats()
    assert rows == 1000
    assert (stats.pool.all.records, stats.pool.all.rows) == (1000, 1000)
    assert (stats.pool.tasks_waiting, stats.pool.ready) == (0, 0)


def timed(x):
    began = time.perf_counter_ns()
    while time.perf_counter_ns() < began + 3_000_000:
        pass
    return {**x, "spin": time.perf_counter_ns() - began}


def timed_sleep(x):
    began = time.perf_counter_ns()
    time.sleep(0.004)
    return {**x, "sleep": time.perf_counter_ns() - began}


@pytest.mark.usefixtures("real_clocks")
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "workers"), KINDS)
def test_real_sleeps_and_spins_are_counted_within_three_percent(kind, workers):
    """Each operation measures itself, so that a busy machine changes both."""
    made = lk.load(
        [{"x": k} for k in range(400)],
        num_epochs=1,
        operations=[timed, timed_sleep],
        batch_size=8,
        worker_count=workers,
        worker_kind=kind,
    )
    with made, iter(made) as it:
        batches = list(it)
        work = it.stats().pool.all
    measured = [sum(int(b[name].sum()) for b in batches) for name in ("spin", "sleep")]
    assert [each.nanoseconds for each in work.operations] == pytest.approx(measured, rel=0.03)
