"""Ranges of what fsspec knows, by its file system in memory, and by one that fails."""

import os
import threading

import fsspec
import numpy as np
import pytest

from loaderkit._storage import fetching, remote_objects
from loaderkit._storage.open_ranges import open_ranges
from loaderkit._storage.patterns import file_parts
from loaderkit.errors import FileChangedError, StorageError

DATA = os.urandom(2000)


@pytest.fixture
def memory():
    """fsspec's memory with three files."""
    system = fsspec.filesystem("memory")
    for name in ("/box/train-1.tar", "/box/train-0.tar", "/box/more/train-2.tar"):
        system.pipe_file(name, DATA)
    yield system
    system.rm("/box", recursive=True)


def read(ranges, *places):
    """The bytes of (shard, begin, end)."""
    return [bytes(each) for each in ranges.read(*np.array(places, np.int64).T)]


def test_ranges_of_any_scheme(memory):
    """They are read as those of object stores are; a missing object is named."""
    ranges = open_ranges(["memory://box/train-0.tar", "memory://box/train-9.tar"])
    assert read(ranges, (0, 5, 10), (0, 1990, 2000)) == [DATA[5:10], DATA[1990:]]
    with pytest.raises(FileNotFoundError, match=r"no such object: 'memory://box/train-9.tar'"):
        read(ranges, (1, 0, 1))
    with pytest.raises(FileChangedError, match="it ends at byte 2,000, before byte 2,001"):
        read(ranges, (0, 1990, 2001))
    memory.pipe_file("/box/train-0.tar", DATA[:100])
    ranges.close()
    with pytest.raises(FileChangedError, match="it had 2,000 bytes and has 100 now"):
        read(ranges, (0, 5, 10))
    ranges.close()


def test_patterns_are_listed(memory):
    """With sizes; sorted by name, and within a folder unless two stars say otherwise."""
    parts = file_parts("memory://box/train-*.tar")
    assert [part.path for part in parts] == ["memory:///box/train-0.tar", "memory:///box/train-1.tar"]
    assert {part.version.size for part in parts} == {2000}
    assert len(file_parts("memory://box/**/*.tar[0:]".removesuffix("[0:]"))) == 3
    with pytest.raises(FileNotFoundError, match=r"no file matches the pattern: 'memory://box/none-\*'"):
        file_parts("memory://box/none-*")


def test_a_failing_file_system(memory, monkeypatch):
    """Its errors are tried again where they may pass, and shown without addresses' secrets."""
    monkeypatch.setattr(fetching, "PAUSE_S", 0.001)
    fails = iter(
        [OSError("GET ftp://me:secret@host/a?sig=secret"), None, *[ValueError("key is topsecret")] * 9]
    )

    def cat_file(self, path, start=None, end=None):
        if (error := next(fails)) is not None:
            raise error
        return DATA[start:end]

    monkeypatch.setattr(type(memory), "cat_file", cat_file)
    ranges = open_ranges(["memory://box/train-0.tar"], storage_options={"token": "topsecret"})
    try:
        assert read(ranges, (0, 5, 10)) == [DATA[5:10]]
        with pytest.raises(
            StorageError, match="expected bytes 5 to 10, got ValueError: key is \\.\\.\\."
        ) as caught:
            read(ranges, (0, 5, 10))
        assert "secret" not in str(caught.value)
    finally:
        ranges.close()


def test_a_file_system_that_never_answers(memory, monkeypatch):
    """It is given up, and its threads end when it answers at last."""
    answers = threading.Event()
    monkeypatch.setattr(remote_objects, "MOST_PATIENCE_S", 0.05)
    monkeypatch.setattr(type(memory), "cat_file", lambda *_, **__: answers.wait() and DATA[5:10])
    ranges = open_ranges(["memory://box/train-0.tar"])
    with pytest.raises(StorageError, match=r"got none for 0\.05 s from the library that fsspec calls"):
        read(ranges, (0, 5, 10))
    answers.set()
    ranges.close()


def test_a_scheme_that_nothing_knows():
    """fsspec names it; an address that can't be parsed isn't shown."""
    ranges = open_ranges(["nothing://me:secret@box/a.tar"])
    with pytest.raises(
        StorageError, match=r"nothing://box/a.tar: expected bytes 0 to 1, got ValueError: Protocol not known"
    ):
        read(ranges, (0, 0, 1))
    ranges.close()
