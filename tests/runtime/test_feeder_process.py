"""The feeder's process: what its threads do."""

import builtins
import importlib
import socket

import numpy as np
import pytest

from loaderkit._base.system.module_import import unpickling_program
from loaderkit._runtime.feeder import main
from loaderkit._runtime.feeder.coming_chunks import ComingChunks
from loaderkit._runtime.feeder.feeder import _Link


def test_it_goes_on_after_an_error_of_the_cache(monkeypatch):
    """Such as that of a disk that failed for a moment: each of its threads asks again."""
    monkeypatch.setattr(main, "_PAUSE_SECONDS", 0.0)
    fetched = []

    class Feed:
        chunk_bytes = 1
        asked = 0

        def rooms(self):
            self.asked += 1
            if self.asked == 1:
                raise OSError("it fails once")
            return [1]

        def fetch(self, keys):
            fetched.append(keys.tolist())
            raise SystemExit  # ends the loop

    class Coming:
        def due(self, count, rooms):
            return np.array([7])

    process = main.FeederProcess(None)
    process._feed, process._coming = Feed(), Coming()
    with pytest.raises(SystemExit):
        process.fetch()
    assert fetched == [[7]]


class Numbers:
    """Record keys in order, chunks of ten."""

    starts = (0,)

    def __init__(self, records):
        self.left = [np.arange(records)]

    def next(self, most):
        return (self.left[0], self.left.pop()) if self.left else None

    def numbers(self, keys):
        return keys // 10


def test_chunks_that_were_given_out_make_room_for_the_next():
    feed = Numbers(100)
    coming = ComingChunks([feed], feed, None, most_ahead=100)
    assert coming.due(8, rooms=[3]).tolist() == [0, 10, 20]
    assert coming.due(8, rooms=[3]).tolist() == []
    coming.give([20])  # the records of two chunks
    assert coming.due(8, rooms=[3]).tolist() == [30, 40]


def test_it_is_told_what_its_trainer_was_given():
    """Each time that changes, and of its own stream alone: then there is room for the next chunks."""
    feed = Numbers(100)
    link = _Link(feed)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = main.FeederProcess(theirs)
        process._number, process._coming = 0, ComingChunks([feed], feed, None, most_ahead=100)
        assert process._coming.due(8, rooms=[3]).tolist() == [0, 10, 20]
        link._begun, link._counts = 1, [10]
        sent = link._tell(ours, [])
        link._counts = [20]
        sent = link._tell(ours, sent)
        assert sent == link._tell(ours, sent) == [0, 20]
        link._begun, link._counts = 2, [90]  # of the next stream, which the process doesn't know yet
        link._tell(ours, sent)
        ours.close()
        process.listen()
        assert process._coming.due(8, rooms=[3]).tolist() == [30, 40]


def test_records_are_read_without_their_chunks_until_it_is_ahead():
    allowed = []

    class Feed(Numbers):
        chunk_bytes = 1

        def rooms(self):
            return [3]

        def fetch(self, keys):
            pass

        def allow_direct_reads(self, nbytes):
            allowed.append(nbytes)
            raise SystemExit  # ends the loop

    feed = Feed(100)
    process = main.FeederProcess(None)
    process._feed, process._coming = feed, ComingChunks([feed], feed, None, most_ahead=100)
    process._starting = True
    with pytest.raises(SystemExit):
        process.fetch()
    assert allowed == [0]


def test_a_module_that_a_process_of_a_loader_imports_gets_no_feeder(tmp_path, monkeypatch):
    """The feeder would import it too, and have a feeder as well, and so on without end; it reads without one."""
    (tmp_path / "with_feeder.py").write_text("link.begin([], None, 1, [])\n")
    monkeypatch.syspath_prepend(tmp_path)
    link = _Link(None)  # a feed that is asked for nothing
    monkeypatch.setattr(builtins, "link", link, raising=False)
    with unpickling_program():
        importlib.import_module("with_feeder")
    assert (link._begun, link._thread) == (0, None)
