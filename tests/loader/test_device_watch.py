"""`it.watch(loss)`: whether a device is idle while next() is blocked, with devices of known speed."""

import threading
import time

import pytest

import loaderkit as lk
from loaderkit._engine.stats.text import percent
from loaderkit._loader.iterator import device_watch


class Loss:
    """A loss that is there at a time, or where it is let go."""

    def __init__(self, seconds):
        self.at = time.perf_counter() + seconds
        self.let_go = threading.Event()

    def block_until_ready(self):
        self.let_go.wait(max(0.0, self.at - time.perf_counter()))
        return self


@pytest.fixture(autouse=True)
def every_step(monkeypatch):
    monkeypatch.setattr(device_watch, "_EVERY_NS", 0)


def slow(x):
    time.sleep(0.02)
    return x


def test_an_idle_device_is_seen():
    with iter(lk.load(range(100), operations=[slow], batch_size=2)) as it:
        for _ in range(6):
            next(it)
            it.watch(Loss(0.005))
        stats = it.stats()
    assert stats.exposed.calls >= 3
    assert 0.3 < stats.exposed.share < 1.0  # 5 of 40 ms or more are the device's
    assert stats.exposed_waiting == pytest.approx(stats.waiting * stats.exposed.share)
    assert f"  device idle meanwhile {percent(stats.exposed_waiting)}" in str(stats)


def test_a_device_that_is_at_work_is_not_idle():
    losses = [Loss(60) for _ in range(6)]
    with iter(lk.load(range(100), operations=[slow], batch_size=2)) as it:
        for loss in losses:
            next(it)
            it.watch(loss)
        stats = it.stats()
        for loss in losses:
            loss.let_go.set()
    assert stats.waiting > 0.5
    assert stats.exposed.share == 0.0


def test_only_the_last_step_before_a_blocked_call_tells_of_it():
    """A device that has done an early step may still be at work on those after it."""
    with iter(lk.load(range(100), operations=[slow], batch_size=2)) as it:
        next(it)
        it.watch(Loss(0))
        it.watch(last := Loss(60))  # the next step, dispatched behind it
        next(it)
        next(it)  # after a step whose loss wasn't given
        stats = it.stats()
        last.let_go.set()
    assert (stats.exposed.calls, stats.exposed.exposed) == (1, 0)


def test_watching_waits_for_no_other_thread():
    """next() in a thread of the user's holds the lock of the iterator while it is blocked."""
    taken, release = threading.Event(), threading.Event()

    def wait(x):
        taken.set()
        return release.wait(20) and x

    with iter(lk.load(range(8), operations=[wait])) as it:
        taking = threading.Thread(target=next, args=(it,))
        taking.start()
        assert taken.wait(20)
        it.watch(Loss(0))
        assert taking.is_alive()
        release.set()
        taking.join()


def test_what_cannot_be_watched_is_refused():
    jax = pytest.importorskip("jax")
    with iter(lk.load([1, 2])) as it:
        with pytest.raises(TypeError, match=r"loss: expected a jax.Array that the step returns, got float"):
            it.watch(0.5)
        donated = jax.numpy.ones(3)
        donated.delete()
        with pytest.raises(ValueError, match="donated"):
            it.watch(donated)
        assert it.stats().exposed_waiting is None
        it.watch(jax.numpy.ones(3))
    with pytest.raises(lk.errors.IteratorClosedError):
        it.watch(jax.numpy.ones(3))


def test_the_thread_ends_with_the_iterator_that_is_dropped():
    it = iter(lk.load([1, 2]))
    it.watch(Loss(0))
    assert "loaderkit-watch" in [thread.name for thread in threading.enumerate()]
    del it
    deadline = time.monotonic() + 5
    while "loaderkit-watch" in [thread.name for thread in threading.enumerate()]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_step_that_fails_is_not_judged():
    class Failed:
        def block_until_ready(self):
            raise RuntimeError("a donated buffer")

    with iter(lk.load(range(10), operations=[slow])) as it:
        next(it)
        it.watch(Failed())
        time.sleep(0.05)
        next(it)
        assert it.stats().exposed.calls == 0
