"""Threads that agree over a store: they end equal, a time-out names who is silent, and closing wakes who waits."""

import threading

import pytest
from memory_store import MemoryStore

from loaderkit._order.store import Store
from loaderkit._runtime.cluster.end_of_stream import EndOfStreamAgreement
from loaderkit.errors import IteratorClosedError


def test_threads_end_equal():
    """Each process of its own number of steps hands out as many as the one that has most."""
    stores = MemoryStore.of(4, timeout=30)
    assert isinstance(stores[0], Store)
    handed = {}

    def run(process: int, total: int) -> None:
        companions = EndOfStreamAgreement(stores[process], "data")
        steps = 0
        while steps < total:
            companions.before(steps + 1, sure=min(steps + 3, total))
            steps += 1
        while companions.goes_past(steps + 1, total):
            steps += 1
        handed[process] = steps

    for _ in range(20):
        threads = [threading.Thread(target=run, args=place) for place in enumerate([3, 0, 11, 7])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert handed == dict.fromkeys(range(4), 11)
        handed.clear()


def test_a_time_out_names_the_silent():
    """Processes that never posted, and those that might have more, are named; those that are dry are not."""
    stores = MemoryStore.of(4, timeout=0.05)
    here, exhausted, going = (EndOfStreamAgreement(store, "data") for store in stores[:3])
    going.before(1, sure=2)
    with pytest.raises(TimeoutError):
        exhausted.goes_past(3, 1)
    assert here.goes_past(2, 0)
    with pytest.raises(TimeoutError, match=r"step 3: .* within 0\.05 s processes 2, 3 didn't announce"):
        here.goes_past(3, 0)


def test_who_stopped_is_named_at_once():
    """An early stop is an error for those that wait, long before the time-out."""
    here, other = (EndOfStreamAgreement(store, "data") for store in MemoryStore.of(2, timeout=600))
    other.before(1, sure=1)
    other.stop()
    assert here.goes_past(1, 0)
    with pytest.raises(RuntimeError, match=r"processes 1 stopped before the end"):
        here.goes_past(2, 0)


def test_closing_wakes_who_waits():
    """Another thread's close() ends the wait."""
    here = EndOfStreamAgreement(MemoryStore.of(2, timeout=600)[0], "data")
    timer = threading.Timer(0.05, setattr, (here, "closed", True))
    timer.start()
    with pytest.raises(IteratorClosedError, match="waited for other processes"):
        here.goes_past(1, 0)
    timer.join()


def test_passes_dont_mix():
    """The second pass of each process knows nothing of what was posted in the first."""
    stores = MemoryStore.of(2, timeout=0.01)
    first = [EndOfStreamAgreement(store, "data") for store in stores]
    first[1].before(1, sure=9)
    assert first[0].goes_past(5, 0)
    second = [EndOfStreamAgreement(store, "data") for store in stores]
    with pytest.raises(TimeoutError, match="processes 1 "):
        second[0].goes_past(5, 0)
