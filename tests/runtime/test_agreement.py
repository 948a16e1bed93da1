"""Processes that ask whether all say the same hear one answer, and none takes an answer to an earlier question."""

import threading

import pytest
from memory_store import MemoryStore

from loaderkit._runtime.cluster.agreement import agree


class Told(MemoryStore):
    """Says when its process waits for the others, and is interrupted there when told to."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.waits = threading.Event()
        self.waited = 0.0  # seconds, at most
        self.interrupt = False

    def wait(self, prefix, seconds):
        self.waits.set()
        self.waited += seconds
        if self.interrupt:
            self.interrupt = False
            raise KeyboardInterrupt
        super().wait(prefix, seconds)


def asked(store, value):
    """What the process hears: a line of text."""
    try:
        agree(store, "place", {"step": value}, advice="Move.")
    except (ValueError, TimeoutError, KeyboardInterrupt) as error:
        return f"{type(error).__name__}: {error}"
    return "agreed"


def all_asked(stores, values, order):
    """What each hears; the first of `order` waits already when the others begin."""
    heard = {}

    def ask(process):
        heard[process] = asked(stores[process], values[process])

    threads = [threading.Thread(target=ask, args=(process,)) for process in order]
    stores[order[0]].waits.clear()
    threads[0].start()
    assert stores[order[0]].waits.wait(60)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join()
    return [heard[process] for process in range(len(stores))]


ORDERS = [(0, 1, 2), (2, 1, 0), (1, 0, 2)]


@pytest.mark.parametrize("order", ORDERS)
def test_all_hear_the_same(order):
    """Again and again, who differs and in what is told to everyone."""
    stores = Told.of(3, timeout=60)
    for _ in range(20):
        assert all_asked(stores, "555", order) == ["agreed"] * 3
        for told in all_asked(stores, "575", order):
            assert told.startswith("ValueError: the processes differ")
            assert "  step: 5 on process 0, 2; 7 on process 1\nMove." in told


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("alone", [0, 1, 2])
def test_who_asked_alone_meets_the_others_later(alone, order):
    """What it said then is no answer to what the others ask later, and their answer is its own. It waits once."""
    stores = Told.of(3, timeout=60)
    for _ in range(2):
        stores[alone].timeout, stores[alone].waited = 0.01, 0.0
        told = asked(stores[alone], "5")
        assert stores[alone].waited < 0.02
        silent = "0" if alone else "1, 2"
        assert told.startswith(f"TimeoutError: process {silent} didn't answer within 0.01 s")
        stores[alone].timeout = 60
        values = ["5"] * 3
        values[alone] = "7"
        for told in all_asked(stores, values, order):
            assert told.startswith("ValueError") and f"7 on process {alone}" in told
        assert all_asked(stores, "555", order) == ["agreed"] * 3


@pytest.mark.parametrize("process", [0, 1])
def test_who_is_interrupted_while_it_waits_asks_again(process):
    """The others wait on, for what it says then."""
    stores = Told.of(2, timeout=60)
    stores[process].interrupt = True
    assert asked(stores[process], "5").startswith("KeyboardInterrupt")
    for told in all_asked(stores, "57" if process else "75", (1 - process, process)):
        assert told.startswith("ValueError") and "5 on process" in told and "7 on process" in told
    assert all_asked(stores, "55", (process, 1 - process)) == ["agreed"] * 2


@pytest.mark.parametrize("order", ORDERS)
def test_notes_that_differ_are_told_to_all_processes(order):
    """They come back to each of them, and are no error."""
    stores = Told.of(3, timeout=60)
    told = {}

    def ask(process):
        notes = {"path": f"/{process // 2}", "python": "3.11"}
        told[process] = agree(stores[process], "place", {"step": "5"}, advice="", notes=notes)

    threads = [threading.Thread(target=ask, args=(process,)) for process in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == dict.fromkeys(range(3), "  path: /0 on process 0, 1; /1 on process 2")
    assert all_asked(stores, "555", order) == ["agreed"] * 3


def test_who_does_not_come_is_named():
    """By process 0, also to those who would have waited longer."""
    stores = Told.of(4, timeout=60)
    heard = []
    early = threading.Thread(target=lambda: heard.append(asked(stores[1], "5")))
    early.start()
    assert stores[1].waits.wait(60)
    stores[0].timeout = 0.01
    heard.append(asked(stores[0], "5"))
    early.join()
    assert [told.partition(" within")[0] for told in heard] == [
        "TimeoutError: process 2, 3 didn't answer"
    ] * 2
