"""Each figure of `it.stats()` with a scripted clock: time passes where the script says so, and nowhere else."""

import sys
import threading
import time
from itertools import pairwise

import pytest

import loaderkit as lk
from loaderkit._engine.dispatcher import Dispatcher
from loaderkit._engine.stats.counters import STARVING
from loaderkit._runtime.worker.meter import CELLS, Meter, counters
from loaderkit.transforms.level_runner import PiecePace

MS = 10**6
READ, FIRST, LAST, BATCH, OWN = 3 * MS, 2 * MS, 5 * MS, 4 * MS, 10 * MS
FIGURES = ("opening", "waiting", "handing", "placing", "paused")


class Clock:
    """A clock for each thread; `interrupt` is the number of the read that Ctrl-C falls into."""

    def __init__(self):
        self._of_thread = threading.local()
        self.reads, self.interrupt = 0, None

    def now(self):
        self._read()
        return getattr(self._of_thread, "now", 10**12)

    def processor(self):
        self._read()
        return getattr(self._of_thread, "processor", 0)

    def _read(self):
        self.reads += 1
        if self.reads == self.interrupt:
            raise KeyboardInterrupt

    def spin(self, nanoseconds):
        self._of_thread.processor = getattr(self._of_thread, "processor", 0) + nanoseconds
        self.sleep(nanoseconds)

    def sleep(self, nanoseconds):
        self._of_thread.now = getattr(self._of_thread, "now", 10**12) + nanoseconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(time, "perf_counter_ns", made.now)
    monkeypatch.setattr(time, "thread_time_ns", made.processor)
    return made


def scripted(clock, *, keep=lambda x: True, records=400, **options):
    """A loader whose reads and operations take what the script says: reads and the last one sleep, the others spin."""

    class Source:
        def __len__(self):
            return records

        def __getitem__(self, key):
            clock.sleep(READ)
            return key

    def first(x):
        clock.spin(FIRST)
        return x

    def last(x):
        clock.sleep(LAST)
        return x

    def batch(rows):
        clock.spin(BATCH)
        return list(rows)

    operations = [lk.Map(first), lk.Filter(keep), lk.Map(last), lk.Batch(8, batch_fn=batch)]
    if keep(1) and keep(2):
        del operations[1]
    sampler = lk.IndexSampler(records, num_epochs=1)
    return lk.DataLoader(data_source=Source(), sampler=sampler, operations=operations, **options)


def check_work(work, batches):
    """The parts of the workers' time are exact, and nothing is left for loaderkit's own code."""
    assert work.read == READ * work.records
    first, *_, last = work.operations
    assert first.nanoseconds == FIRST * first.elements_in == FIRST * work.records
    assert last.nanoseconds == LAST * last.elements_in
    assert work.batch == BATCH * batches
    parts = work.read + sum(each.nanoseconds for each in work.operations) + work.batch
    assert work.working - work.unfinished == parts
    assert work.cpu == first.nanoseconds + work.batch


def check_trainer(trainer):
    assert trainer.elapsed == trainer.own + trainer.opening_since_first + sum(
        getattr(trainer, name) for name in FIGURES[1:]
    )


@pytest.mark.parametrize("keep", [lambda x: True, lambda x: x % 2 == 0], ids=["rows", "stream"])
def test_without_workers_each_figure_is_exact(clock, monkeypatch, keep):
    began, handed = clock.now(), 0
    assign = Dispatcher.assign

    def assign_slowly(dispatcher):
        nonlocal handed
        handed += 1
        clock.spin(MS)
        return assign(dispatcher)

    monkeypatch.setattr(Dispatcher, "assign", assign_slowly)
    it = iter(scripted(clock, keep=keep))
    for step in range(20):
        next(it)
        if step == 0:
            first_came, first_worked, first_handed = clock.now(), it.stats().pool.all.working, handed
        clock.sleep(OWN)
    clock.sleep(3000 * MS)  # an evaluation
    next(it)
    stats = it.stats()
    trainer, work = stats.trainer, stats.pool.all
    check_work(work, 21)
    check_trainer(trainer)
    assert trainer.elements == stats.steps == 21
    assert trainer.elapsed == clock.now() - first_came
    assert trainer.opening == first_worked + first_handed * MS
    assert trainer.waiting == work.working - first_worked
    assert trainer.handing == (handed - first_handed) * MS
    assert trainer.paused == 3000 * MS
    assert trainer.own == 20 * OWN
    assert trainer.blocked_calls == 20
    assert (trainer.openings, stats.ready) == (1, 0.0)
    assert work.starving == clock.now() - began - work.working
    assert (work.telling, work.waiting, work.starting) == (0, 0, 0)
    assert stats.parts["engine"] == 0.0
    assert sum(stats.parts.values()) == pytest.approx(stats.seconds_per_record)


def test_elements_that_were_made_together_are_ready(clock):
    it = iter(lk.load(range(10_000), operations=[lambda x: clock.spin(3000) or x], batch_size=2))
    for _ in range(400):
        next(it)
        clock.sleep(OWN)
    stats = it.stats()
    assert stats.trainer.own == 400 * OWN
    assert stats.trainer.handing == 0
    assert stats.trainer.waiting + stats.trainer.opening == stats.pool.all.working
    assert 0.9 < stats.ready < 1.0


def test_workers_in_threads_count_the_same(clock):
    with scripted(clock, worker_count=2, worker_kind="thread") as loader, iter(loader) as it:
        for _ in it:
            clock.sleep(OWN)
        stats = it.stats()
    work = stats.pool.all
    check_work(work, 50)
    check_trainer(stats.trainer)
    assert stats.trainer.own == 50 * OWN
    assert (work.records, work.rows) == (400, 400)
    assert sum(place.records for place in stats.pool.places) == 400


def test_steps_of_seconds_are_steps_and_no_pauses(clock):
    """But for the first, in which most often the step is compiled; a far longer one later is a pause all the same."""
    it = iter(scripted(clock))
    for step in range(12):
        next(it)
        clock.sleep(2000 * MS if step != 9 else 60_000 * MS)
    stats = it.stats()
    assert stats.trainer.paused == 2000 * MS + 58_000 * MS
    assert stats.trainer.own == 11 * 2000 * MS
    check_trainer(stats.trainer)
    assert stats.waiting < 0.1


def test_a_pause_that_was_told_is_not_taken_back_for_another_thread(clock):
    it = iter(scripted(clock))
    for _ in range(5):
        next(it)
        clock.sleep(OWN)
    clock.sleep(5000 * MS)
    told, seen = it.stats().trainer.paused, []
    other = threading.Thread(target=lambda: seen.append(it.stats().trainer.paused))
    other.start()
    other.join()
    assert seen == [told] == [5000 * MS]


def test_a_call_that_is_blocked_is_seen_by_other_threads_before_it_ends(clock):
    seen, asleep = [], {}

    def last(x):
        if x == 63:
            clock.sleep(5000 * MS)
            asleep["until"] = clock.now()
            other = threading.Thread(target=look)
            other.start()
            other.join()
        return x

    def look():
        clock.sleep(asleep["until"] - clock.now())
        seen.append(it.stats())

    it = iter(lk.load(range(56, 64), operations=[last], num_epochs=1).debug())
    taken = 0
    for _ in it:
        taken += 1
        clock.sleep(OWN)
    stats = it.stats()
    assert taken == 8
    assert seen[0].trainer.waiting == stats.trainer.waiting == 5000 * MS
    assert stats.trainer.own == 8 * OWN
    check_trainer(stats.trainer)


def test_a_seek_is_an_opening_and_not_a_wait(clock):
    it = iter(scripted(clock))
    for _ in range(5):
        next(it)
    before = it.stats()
    it.seek(30)
    next(it)
    after = it.stats() - before
    assert after.trainer.waiting == 0
    assert after.trainer.opening == after.trainer.opening_since_first == after.pool.all.working
    assert after.steps == 1
    check_trainer(it.stats().trainer)


def test_sending_to_devices_is_a_figure(clock, monkeypatch):
    jax = pytest.importorskip("jax")
    from loaderkit.interop.jax import device

    place, placed = device.place, 0

    def place_slowly(*arguments):
        nonlocal placed
        placed += 1
        clock.spin(2 * MS)
        return place(*arguments)

    monkeypatch.setattr(device, "place", place_slowly)
    loader = lk.load(range(64), num_epochs=1, batch_size=8)
    with lk.device_iterator(iter(loader), jax.sharding.SingleDeviceSharding(jax.devices()[0])) as batches:
        for step in range(1, 5):
            next(batches)
            clock.sleep(OWN)
            assert batches.stats().steps == step
        stats = batches.stats()
        assert "Sending batches to devices takes" in str(batches.explain())
    assert stats.trainer.placing == placed * 2 * MS
    assert stats.trainer.own == 4 * OWN


def test_a_ctrl_c_inside_any_stamp_leaves_the_figures_right(clock):
    def run(interrupt):
        clock.reads, clock.interrupt = 0, None
        it = iter(scripted(clock, keep=lambda x: x % 2 == 0, records=64))
        clock.interrupt = clock.reads + interrupt
        got, seen, caught = [], [], 0
        while True:
            try:
                got.append(next(it))
            except KeyboardInterrupt:
                caught += 1
            except StopIteration:
                break
            clock.sleep(OWN)
            reads, clock.reads = clock.reads, -(10**9)  # none falls into stats() itself
            seen.append(it.stats())
            clock.reads = reads
        clock.interrupt = None
        stats = it.stats()
        assert stats.steps == len(got) == 4
        check_trainer(stats.trainer)
        for before, after in pairwise([*seen, stats]):
            assert after.pool.all.working >= before.pool.all.working
            assert after.pool.all.records >= before.pool.all.records
            for name in ("elapsed", *FIGURES, "elements", "blocked_calls"):
                assert getattr(after.trainer, name) >= getattr(before.trainer, name), name
        work = stats.pool.all
        assert work.working - work.unfinished >= work.read + work.batch
        assert work.operations[0].nanoseconds == FIRST * work.operations[0].elements_in
        return got, caught

    expected, _ = run(0)
    interrupt, caught = 0, 1
    while caught:
        interrupt += 1
        got, caught = run(interrupt)
        assert got == expected, interrupt
    assert interrupt > 20


def test_clocks_are_read_for_tasks_and_pieces_and_not_for_records_or_batches(clock, monkeypatch):
    """At most 20 reads a task and one a stage of a piece, for any number of records and batches."""
    pieces = 0
    took = PiecePace.took

    def counting(pace, seconds, *, elements):
        nonlocal pieces
        pieces += 1
        took(pace, seconds, elements=elements)

    monkeypatch.setattr(PiecePace, "took", counting)
    for rows, options in ((4, {}), (2560, {}), (4, {"worker_count": 1, "worker_kind": "thread"})):
        made = lk.load(
            range(1_000_000),
            operations=[lambda x: clock.spin(1000) or x] * 3,
            batch_size=rows,
            **options,
        )
        with made, iter(made) as it:
            for _ in range(3):
                next(it)
            reads, pieces, before, tasks = 0, 0, it.stats().pool.all, 0
            while tasks < 4:
                clock.reads = 0
                for _ in range(max(1, 100 // rows)):
                    next(it)
                reads += clock.reads
                tasks = it.stats().pool.all.tasks - before.tasks
            staged, work = 3 * pieces, it.stats().pool.all.plus(before, -1)
        assert reads <= 20 * (work.tasks + 1) + staged  # a task of a thread may be under way
        if not options:  # a thread that is seldom scheduled makes small pieces
            assert reads < work.records / 4


def test_a_ready_element_costs_no_clock_read_and_few_calls(clock):
    it = iter(lk.load(range(100_000), operations=[lambda x: clock.spin(3000) or x], batch_size=2))
    for _ in range(20):
        next(it)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    ready = []
    for _ in range(100):
        reads, calls = clock.reads, 0
        sys.setprofile(count)
        next(it)
        sys.setprofile(None)
        if clock.reads == reads:
            ready.append(calls)
    assert len(ready) > 80
    assert max(ready) <= 4


def test_a_phase_that_may_end_while_it_is_read_is_counted_until_then(clock):
    meter = Meter()
    meter.enter(STARVING)
    clock.sleep(5)
    cells = meter.cells
    clock.sleep(100)  # the worker goes on, and this thread doesn't
    assert counters(cells, 0, "thread", ()).starving == 5


def test_a_group_of_cells_is_read_whole_or_again():
    class Torn(list):
        """A writer comes between the reader's first look and its copy."""

        copies = 0

        def __getitem__(self, place):
            if isinstance(place, slice):
                Torn.copies += 1
                if Torn.copies == 1:
                    meter.enter(1)
                    meter.task_done(2, cpu=1, made=(5, 5, 5), read=(7, 1), batch=3)
            return memory[place]

    memory = memoryview(bytearray(8 * CELLS)).cast("q")
    meter = Meter(memory)
    meter.operations = [[4, 5, 5]]
    seen = counters(Torn(), 0, "process", ["op"])
    assert Torn.copies == 2
    assert (seen.records, seen.read, seen.batch, seen.operations[0].nanoseconds) == (5, 7, 3, 4)
    memory[0] += 1  # it was killed in the middle of a change
    assert counters(memory, 0, "process", ["op"]).records == 5


def test_a_resumed_iterator_counts_from_where_it_resumed(clock):
    before = iter(scripted(clock))
    for _ in range(7):
        next(before)
    it = iter(scripted(clock))
    it.set_state(before.get_state())
    next(it)
    stats = it.stats()
    assert (stats.step, stats.steps, stats.ready) == (8, 1, None)
    assert stats.trainer.waiting == 0
    check_work(stats.pool.all, 1)
