"""`tqdm.progress` and `prometheus.PrometheusCollector` of `lk.interop`: what they show is what the iterator counted."""

import gc
import io
import os
import signal
import time

import pytest
from internals import worker_pids

import loaderkit as lk

prometheus_client = pytest.importorskip("prometheus_client")


def loader(**options):
    return lk.load(range(64), num_epochs=1, batch_size=8, **options)


def test_a_bar_is_right_after_a_resume():
    before = iter(loader())
    for _ in range(3):
        next(before)
    it = iter(loader())
    it.set_state(before.get_state())
    out = io.StringIO()
    bar = lk.interop.tqdm.progress(it, file=out, mininterval=0, desc="train")
    assert (bar.n, bar.total) == (3, 8)
    assert len(list(bar)) == 5
    last = out.getvalue().replace("\r", "\n").strip().splitlines()[-1]
    assert last.startswith("train: 100%") and " 8/8 " in last


def test_the_share_of_blocked_time_stands_behind_your_own_postfix():
    it = iter(loader(operations=[lambda x: time.sleep(0.001) or x]))
    out = io.StringIO()
    bar = lk.interop.tqdm.progress(it, file=out, mininterval=0)
    for _ in bar:
        bar.set_postfix(loss=1.5)
    shown = out.getvalue()
    assert "loss=1.5, blocked " in shown
    assert float(shown.rpartition("blocked ")[2].partition("%")[0]) > 50  # its own thread does the work


def test_a_bar_of_an_endless_stream_and_over_devices():
    jax = pytest.importorskip("jax")
    endless = lk.interop.tqdm.progress(iter(lk.load(range(8))), file=io.StringIO())
    assert endless.total is None
    endless.close()
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    with lk.device_iterator(iter(loader()), place) as batches:
        next(batches)
        bar = lk.interop.tqdm.progress(batches, file=io.StringIO())
        assert (bar.n, bar.total, len(list(bar))) == (1, 8, 7)


def test_what_has_no_position_has_no_bar():
    with pytest.raises(
        TypeError, match=r"it: expected an iterator .*, got DataLoader; write lk.interop.tqdm.progress\(iter"
    ):
        lk.interop.tqdm.progress(loader())


def scraped(registry):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


@pytest.mark.parametrize("options", [{}, {"worker_count": 2, "worker_kind": "thread"}])
def test_a_scrape_gives_the_counters(options):
    registry = prometheus_client.CollectorRegistry()
    with iter(loader(operations=[lambda x: x], **options)) as it:
        registry.register(lk.interop.prometheus.PrometheusCollector(train=it))
        early = scraped(registry)
        assert len(list(it)) == 8
        late, stats = scraped(registry), it.stats()
    of = ("loader", "train")
    assert late["loaderkit_steps_total", of] == late["loaderkit_step", of] == 8
    assert late["loaderkit_wait_seconds_total", of] == pytest.approx(stats.trainer.waiting / 1e9)
    operations = {dict(key[1:])["operation"] for key in late if key[0] == "loaderkit_operation_seconds_total"}
    assert operations == {"read", "batch", *(each.name for each in stats.pool.all.operations)}
    records = {key: value for key, value in late.items() if key[0] == "loaderkit_worker_records_total"}
    assert sum(records.values()) == 64
    assert all(
        late[key] >= value for key, value in early.items() if key[0].endswith("_total") and key in late
    )
    assert {dict(key[1:])["worker"] for key in records} == {str(place) for place in range(len(records))}
    assert len(records) == options.get("worker_count", 1)


def test_a_worker_that_replaces_another_goes_on_in_its_series():
    registry = prometheus_client.CollectorRegistry()
    made = lk.load(range(10_000), batch_size=8, worker_count=2)
    with made, iter(made) as it:
        registry.register(lk.interop.prometheus.PrometheusCollector(train=it))
        for _ in range(20):
            next(it)
        early = scraped(registry)
        os.kill(worker_pids(made)[0], signal.SIGKILL)
        deadline = time.monotonic() + 30
        while not (it.stats().pool.lost and len(it.stats().pool.workers) == 2):
            assert time.monotonic() < deadline
            next(it)
        late = scraped(registry)
    assert {dict(key[1:]).get("worker") for key in late} == {None, "0", "1"}
    assert late["loaderkit_workers_lost_total", ("loader", "train")] == 1
    assert all(late[key] >= value for key, value in early.items() if key[0].endswith("_total"))
    work = it.stats().pool
    assert sum(place.records for place in work.places) == work.all.records


def test_two_loaders_are_told_apart_and_one_that_is_gone_is_not_held():
    registry = prometheus_client.CollectorRegistry()
    train, test = iter(loader()), iter(loader())
    registry.register(lk.interop.prometheus.PrometheusCollector(train=train, test=test))
    next(train)
    found = scraped(registry)
    assert found["loaderkit_steps_total", ("loader", "train")] == 1
    assert found["loaderkit_steps_total", ("loader", "test")] == 0
    del test
    gc.collect()
    assert {dict(key[1:])["loader"] for key in scraped(registry)} == {"train"}
    with pytest.raises(ValueError, match="Duplicated timeseries"):  # describe() tells the names
        registry.register(lk.interop.prometheus.PrometheusCollector(other=train))


def test_a_loader_has_its_workers_and_nothing_else_is_taken():
    registry = prometheus_client.CollectorRegistry()
    made = loader()
    registry.register(lk.interop.prometheus.PrometheusCollector(train=made))
    assert "loaderkit_steps_total" not in {key[0] for key in scraped(registry)}
    with pytest.raises(TypeError, match="train: expected an iterator of a loader or a loader, got list"):
        lk.interop.prometheus.PrometheusCollector(train=[1])
    with pytest.raises(
        TypeError, match=r"got none; write lk.interop.prometheus.PrometheusCollector\(train=it\)"
    ):
        lk.interop.prometheus.PrometheusCollector()
    with pytest.raises(
        TypeError,
        match=r"got one without a name; write lk.interop.prometheus.PrometheusCollector\(train=it\)",
    ):
        lk.interop.prometheus.PrometheusCollector(made)
