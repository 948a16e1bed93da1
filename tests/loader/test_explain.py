"""`explain`: pipelines of known limit are told apart, by counters and by experiments."""

import sys
import time
from dataclasses import replace

import pytest
from internals import plan_of, settings_of

import loaderkit as lk
from loaderkit._engine.stats.counters import (
    Exposed,
    OperationCounters,
    PoolCounters,
    TrainerCounters,
    WorkerCounters,
)
from loaderkit._engine.stats.stats import Stats
from loaderkit._loader.executor_factory import program_of
from loaderkit._loader.inspect.analysis import Limit, advice_of, is_bottleneck, limit_of, rate_at
from loaderkit._loader.inspect.conclusion import (
    Experiments,
    Measured,
    advice_from,
    changes_of,
    limit_from,
    limit_of_alone,
)
from loaderkit._loader.inspect.experiments import records_of_element
from loaderkit._loader.inspect.explain import explain_run
from loaderkit._loader.inspect.tokenising import tokenising_notes
from loaderkit.transforms.base import operation_name

S = 10**9


def sleep_4ms(x):
    time.sleep(0.004)
    return x


class SlowReads:
    def __len__(self):
        return 10_000

    def __getitem__(self, key):
        time.sleep(0.004)
        return key


def stats_of(
    *, waiting=0.6, busy=1.0, cpu=1.0, read=0.1, op=0.8, workers=2, blocked=None, exposed=None, elements=100
):
    """A run of ten seconds and 1,000 records."""
    working = int(10 * S * busy)
    each = tuple(
        WorkerCounters(
            number,
            "process" if workers else "inline",
            working=working,
            starving=10 * S - working,
            cpu=int(working * cpu),
            records=500,
            read=int(working * read),
            operations=(OperationCounters("operations[0] Decode", int(working * op), 500, 500),),
        )
        for number in range(max(workers, 1))
    )
    trainer = TrainerCounters(
        elapsed=10 * S,
        waiting=int(waiting * 10 * S),
        elements=elements,
        blocked_calls=60 if blocked is None else blocked,
    )
    return Stats(trainer, PoolCounters(each), exposed=exposed)


@pytest.mark.parametrize(
    ("stats", "kind", "named"),
    [
        (stats_of(), "processors", "Decode on CPU"),
        (stats_of(cpu=0.1), "workers", "Decode waiting"),
        (stats_of(cpu=0.1, read=0.8, op=0.1), "reads", "read waiting"),
        (stats_of(waiting=0.01), "trainer", "the trainer"),
        (stats_of(workers=0), "calling thread", "Decode on CPU"),
        (stats_of(busy=0.4, blocked=20), "bursts", "in bursts"),
    ],
)
def test_the_limit_follows_from_the_counters(stats, kind, named):
    limit = limit_of(stats, processors=2, threads=0)
    assert limit.kind == kind
    assert named in limit.what


@pytest.mark.parametrize(
    ("kind", "how", "processors", "advice"),
    [
        ("workers", "on CPU", 8, "worker_count=4"),
        ("workers", "on CPU", 3, "worker_count=3"),
        ("workers", "on CPU", 2, "a cheaper Decode, or more processors"),
        ("workers", "waiting", 2, "worker_count=4"),
        ("calling thread", "on CPU", 3, "worker_count=3"),
        ("calling thread", "waiting", 2, "worker_count=2"),
        ("trainer", "", 2, ""),
    ],
)
def test_no_more_workers_are_advised_than_can_compute_at_once(kind, how, processors, advice):
    limit = Limit(kind, f"Decode {how} (80% of a record's 1 ms)", "Decode")
    assert advice_of(limit, workers=2, processors=processors, threads=0) == advice


@pytest.mark.parametrize("kind", ["reads", "calling thread"])
def test_reads_that_wait_are_advised_threads_with_workers_and_without(kind):
    """Up to as many as are advised at all; then, and where reads compute, more workers."""

    def advice(how, threads):
        limit = Limit(kind, f"read {how} (99% of a record's 20 ms)", "read")
        return advice_of(limit, workers=0, processors=2, threads=threads)

    assert advice("waiting", 0) == "read_options=lk.ReadOptions(num_threads=8)"
    assert advice("waiting", 8) == "read_options=lk.ReadOptions(num_threads=16)"
    assert advice("waiting", 64) == advice("on CPU", 0) == "worker_count=2"


def test_few_elements_are_too_few_for_advice():
    """However many more the next experiment made."""
    few = Measured(1.0, stats_of(workers=0, elements=1))
    made = Experiments(0, 2, 0, {0: few, 1: Measured(4.0, stats_of(workers=1))}, few)
    limit = limit_from(made)
    assert limit.what == "1 element handed out, too few to tell"
    assert advice_from(made, limit, changes_of(made)) == "a larger seconds"


def test_nothing_is_claimed_of_a_device_without_watch():
    assert is_bottleneck(stats_of(), synchronous=False) is None
    assert is_bottleneck(stats_of(), synchronous=True) is True
    assert is_bottleneck(stats_of(waiting=0.01), synchronous=False) is False
    busy, idle = Exposed(0, S, 5), Exposed(S // 2, S, 5)
    assert is_bottleneck(stats_of(exposed=busy), synchronous=False) is False
    assert is_bottleneck(stats_of(exposed=idle), synchronous=False) is True


def test_nothing_is_said_of_the_first_steps():
    """The first element comes with the start of the workers, which says nothing of the steps to come."""
    with iter(lk.load(range(100), operations=[sleep_4ms], batch_size=4)) as it:
        assert "take some steps first" in it.explain().first_line
        next(it)
        said = it.explain()
        assert (said.bottleneck, said.limit.kind, said.advice) == (None, "unknown", "")
        for _ in range(3):
            next(it)
        assert it.explain().limit.kind == "calling thread"


def test_rates_beyond_what_was_measured_are_at_most():
    assert rate_at(3, {1: 100.0, 2: 180.0, 4: 300.0}) == (240.0, "interpolated")
    assert rate_at(2, {2: 180.0}) == (180.0, "measured")
    assert rate_at(4, {2: 180.0}) == (360.0, "at most")


def test_a_run_is_explained_from_what_it_counted():
    loader = lk.load(range(10_000), operations=[sleep_4ms], batch_size=4, worker_count=1)
    with loader, iter(loader) as it:
        for _ in range(8):
            next(it)
        said = it.explain()
    assert said.limit.part == "operations[0] Map(sleep_4ms)"
    assert said.advice == "worker_count=2"
    assert "Limit: operations[0] Map(sleep_4ms) waiting" in said.first_line
    assert said.to_json()["limit"]["kind"] == "workers"
    assert said._repr_html_().startswith("<p>")
    for explained in (
        it.explain(),
        loader.close() or it.explain(),
    ):  # of a closed iterator, of a closed loader
        assert (explained.limit.kind, explained.advice) == ("workers", "worker_count=2")


def test_a_device_that_is_busy_makes_the_trainer_the_limit(monkeypatch):
    program = program_of(settings_of(lk.load([1])), files={})
    said = explain_run(stats_of(exposed=Exposed(0, S, 5)), program)
    assert said.first_line == "The loader is not the bottleneck. Limit: the trainer."
    monkeypatch.setitem(sys.modules, "jax", None)
    assert (
        "it.watch(loss) has seen no blocked next() yet"
        in explain_run(stats_of(exposed=Exposed()), program).first_line
    )


def test_a_tokenizer_that_limits_is_advised_to_work_ahead():
    """As an operation, in a function of the user's, in a source; not where other work limits."""
    words = pytest.importorskip("tokenizers").Tokenizer(
        pytest.importorskip("tokenizers").models.WordLevel({"a": 0, "?": 1}, "?")
    )
    encode = lk.interop.tokenizers.Encode(words, None)
    texts = ["a"] * 8

    def of(limit, source, *operations):
        return tokenising_notes(limit, source, operations, stats_of(read=0.6, op=0.4))

    first, reads = (Limit("workers", "", part) for part in ("operations[0] {}", "read"))
    for operation in (encode, lk.Map(lambda text: words.encode(text).ids), lk.Map(encode.map)):
        part = operation_name(0, operation)
        assert "--tokenizer FILE" in of(Limit("workers", "", part), texts, operation)[0]
        assert not of(Limit("trainer", "", part), texts, operation) and not of(reads, texts, operation)
        function = operation if operation is encode else operation._function
        source = lk.SubsetDataSource(lk.MapDataSource(texts, function), range(4))
        assert "at most 2.5 times as fast" in of(reads, source)[0] and not of(first, source)
    assert not of(Limit("workers", "", operation_name(0, lk.Map(len))), texts, lk.Map(len))


class OfServer(list):
    """Records for which a read asks a server."""

    read_ahead = 4


@pytest.mark.parametrize(("source", "said"), [(OfServer(range(8)), True), (range(8), False)])
def test_reads_from_a_server_are_told_in_round_trips(source, said):
    """Two workers with four reads in flight, 20 ms each: twice as many threads may do twice as many."""
    stats = stats_of(cpu=0.1, read=0.8, op=0.1)
    workers = tuple(replace(one, threads_read=40 * S, threads_read_calls=2_000) for one in stats.pool.workers)
    stats = replace(stats, pool=PoolCounters(workers))
    program = program_of(settings_of(lk.load(source, read_options=lk.ReadOptions(num_threads=4))), files={})
    notes = " ".join(explain_run(stats, program).notes)
    assert (
        "in each worker 4.0 are in flight, 20 ms each, which makes 400 round trips a second" in notes
    ) == said
    assert ("num_threads=8 allows at most 2 times as many" in notes) == said


@pytest.mark.usefixtures("real_clocks")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "operations", "part", "workers"),
    [(range(10_000), [sleep_4ms], "operations[0] Map(sleep_4ms)", 1), (SlowReads(), [], "read", 0)],
)
def test_experiments_find_what_waits_and_measure_the_gain(source, operations, part, workers):
    """Work that sleeps gains by workers on any machine, however busy."""
    with lk.load(source, operations=operations, batch_size=4, worker_count=workers) as loader:
        said = loader.explain(lambda batch: None, seconds=5)
        assert loader.stats().pool.all.records == 0  # its own workers did nothing
    assert said.bottleneck is True
    assert said.limit.part == part
    measured = next(change for change in said.changes if change.what == "worker_count=2")
    assert measured.known == "measured"
    assert measured.gain > 1.2
    tried = "read_options=lk.ReadOptions(num_threads=8)" if part == "read" else "worker_count=2"
    assert said.first_line.endswith(f"Try {tried}.")


@pytest.mark.usefixtures("real_clocks")
def test_a_slow_step_makes_the_trainer_the_limit():
    loader = lk.load(range(10_000), batch_size=4)
    said = loader.explain(lambda batch: time.sleep(0.003), seconds=1)
    assert said.first_line == "The loader is not the bottleneck. Limit: the trainer's step."
    assert said.changes == ()


def test_records_of_an_element_are_those_that_were_read_for_it():
    """The step's demand and the loader's rates are in one unit, where a Filter drops records too."""
    loader = lk.load(range(1000), operations=[lk.Filter(lambda x: x % 4 == 0)], batch_size=4)
    with iter(loader) as it:
        for _ in range(10):
            next(it)
        assert records_of_element(plan_of(loader), it.stats()) == pytest.approx(16, rel=0.1)
    half = lk.load(range(1000), batch_size=4, shard_options=lk.ShardOptions(0, 2))
    with iter(half) as it:
        assert records_of_element(plan_of(half), it.stats()) == 4


def test_a_loader_of_few_steps_is_not_limited_by_a_trainer_that_there_is_not():
    alone = Measured(100.0, stats_of(waiting=0.0, workers=0))  # openings all
    assert limit_of_alone(Experiments(0, 2, 0, {0: alone}, alone)).kind == "calling thread"


def test_without_a_step_no_gain_is_told():
    said = lk.load(range(10_000), operations=[sleep_4ms], batch_size=4).explain(seconds=1)
    assert said.bottleneck is None
    assert "give step=" in said.first_line
    assert all(change.gain is None for change in said.changes)


def test_what_cannot_be_explained_is_refused():
    loader = lk.load(range(100), batch_size=4)
    with iter(loader) as it:
        next(it)
        with pytest.raises(RuntimeError, match="open iterator"):
            loader.explain(seconds=1)
    with pytest.raises(ValueError, match=r"seconds: expected 1 or more, got 0.5"):
        loader.explain(seconds=0.5)
    with pytest.raises(TypeError, match="step: expected a function of a batch"):
        loader.explain(step=3)


def test_experiments_write_no_quarantine_and_move_no_iterator(tmp_path):
    def fails_at_3(x):
        if x == 3:
            raise ValueError("bad")
        return x

    loader = lk.load(
        range(8),
        num_epochs=1,
        operations=[fails_at_3],
        batch_size=2,
        on_record_error="skip",
        quarantine=tmp_path / "bad.jsonl",
    )
    loader.explain(lambda batch: None, seconds=1)
    assert not (tmp_path / "bad.jsonl").exists()
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 4], [5, 6], [7]]


def test_time_after_the_last_step_is_a_pause():
    """it.explain() in a later cell of a notebook says of the loop what it said at its end."""
    loader = lk.load(range(10_000), operations=[sleep_4ms], batch_size=4)
    with iter(loader) as it:
        for _ in range(8):
            next(it)
        time.sleep(1.2)
        assert it.stats().trainer.paused > 1e9
        assert it.stats().waiting > 0.5 and it.stats().own < 0.5
        next(it)
        assert it.stats().trainer.paused > 1e9


def test_a_slow_step_is_called_a_few_times_only():
    calls = []
    loader = lk.load(range(10_000), batch_size=4)
    said = loader.explain(lambda batch: (calls.append(1), time.sleep(0.2)), seconds=1)
    assert said.bottleneck is False
    assert len(calls) < 64
