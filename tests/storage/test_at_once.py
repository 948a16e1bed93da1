"""Calls at once: their results in order, the first error, and an end where one fails."""

import threading

import pytest

from loaderkit._base.system.urgency import urgency
from loaderkit._storage.fetch_threads import at_once


def test_as_many_at_once_as_may_be():
    together = threading.Barrier(4, timeout=20)

    def work(item):
        together.wait()
        return -item

    assert at_once(work, range(8), most=4) == [0, -1, -2, -3, -4, -5, -6, -7]
    assert at_once(threading.get_ident.__call__, [], most=4) == []
    assert at_once(lambda item: threading.get_ident(), [1, 2], most=1) == [threading.get_ident()] * 2


def test_the_first_error_ends_it():
    """What fails for each of thousands isn't tried for all before it is told."""
    begun = []

    def work(item):
        begun.append(item)
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        at_once(work, range(1000), most=4)
    assert len(begun) <= 4


def test_results_before_an_error_are_made_by_calls_that_were_begun():
    """Of two errors that of the first item is raised, whichever came first."""
    second = threading.Event()

    def work(item):
        if item == 0:
            assert second.wait(20)
            raise ValueError("of the first")
        second.set()
        raise KeyError("of the second")

    with pytest.raises(ValueError, match="of the first"):
        at_once(work, [0, 1])


def test_an_interrupted_caller_leaves_no_work_behind(monkeypatch):
    """Threads end with the call that they are in."""
    release, begun = threading.Event(), []

    def work(item):
        begun.append(item)
        assert release.wait(20)

    joined = threading.Thread.join

    def interrupted(thread, timeout=None):
        if thread.name.startswith("loaderkit-at-once"):
            raise KeyboardInterrupt
        joined(thread, timeout)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            at_once(work, range(100), most=4)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("loaderkit-at-once")]
    release.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(begun) <= 4


def test_the_threads_are_as_urgent_as_their_caller():
    before, urgency.number = urgency.number, 7
    try:
        assert at_once(lambda item: urgency.number, [1, 2]) == [7, 7]
    finally:
        urgency.number = before
