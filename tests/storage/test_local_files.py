"""Ranges of local files, and files that change while they are read."""

import gc
import os
import pickle
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._base.system.shared_memory import sending
from loaderkit._storage import local_files
from loaderkit._storage.open_ranges import open_ranges
from loaderkit._storage.range_reader import ObjectVersion
from loaderkit.errors import FileChangedError

SIZES = [100_000, 1, 0, 40_000]
DATA = [os.urandom(size) for size in SIZES]


@pytest.fixture
def paths(tmp_path):
    """Four files, one of them empty."""
    for name, data in zip("abcd", DATA, strict=True):
        (tmp_path / name).write_bytes(data)
    return [str(tmp_path / name) for name in "abcd"]


@pytest.fixture
def ranges(paths, monkeypatch):
    """A reader of the four, which compares open files at its first read only."""
    monkeypatch.setattr(local_files, "CHECK_S", 1000.0)
    reader = open_ranges(paths)
    yield reader
    reader.close()


def read(ranges, *places):
    """The bytes of (shard, begin, end)."""
    return [bytes(each) for each in ranges.read(*np.array(places, np.int64).reshape(-1, 3).T)]


PLACES = st.integers(0, 3).flatmap(
    lambda shard: st.tuples(st.just(shard), st.integers(0, SIZES[shard]), st.integers(0, SIZES[shard]))
)


@given(st.lists(PLACES, max_size=20))
def test_ranges_are_slices_of_the_files(tmp_path_factory, given):
    """In any order, near and far, empty and overlapping."""
    folder = tmp_path_factory.mktemp("files")
    for name, data in zip("abcd", DATA, strict=True):
        (folder / name).write_bytes(data)
    places = [(shard, min(ends), max(ends)) for shard, *ends in given]
    ranges = open_ranges([str(folder / name) for name in "abcd"])
    expected = [DATA[shard][begin:end] for shard, begin, end in places]
    assert read(ranges, *places) == expected
    assert [*map(bytes, ranges.read_each(*np.array(places, np.int64).reshape(-1, 3).T))] == expected
    ranges.close()


@pytest.mark.parametrize("step", [1000, 20_000])
def test_a_file_that_changes_under_single_reads_is_an_error(paths, monkeypatch, step):
    """Whether ranges follow each other and are read together, or are read singly: cut short, and written to."""
    monkeypatch.setattr(local_files, "CHECK_S", 0.0)
    begins = np.arange(0, 5 * step, step)
    places = np.zeros(5, np.int64), begins, begins + 1000
    ranges = open_ranges(paths)
    assert b"".join(ranges.read_each(*places)) == b"".join(DATA[0][at : at + 1000] for at in begins)
    with open(paths[0], "r+b") as file:
        file.write(b"other")
    with pytest.raises(FileChangedError, match="written to"):
        list(ranges.read_each(*places))
    os.truncate(paths[0], 4 * step + 10)
    with pytest.raises(FileChangedError):
        list(ranges.read_each(*places))
    ranges.close()


def test_what_it_says_of_the_files(ranges, paths):
    """Names, versions, and no wait for a server."""
    assert ranges.names == paths
    assert ranges.version(0) == ObjectVersion(100_000, f"mtime_ns:{os.stat(paths[0]).st_mtime_ns}")
    assert not ranges.waits
    assert repr(ranges) == "LocalFiles(4 files)"
    os.unlink(paths[1])
    with pytest.raises(FileNotFoundError):
        ranges.version(1)
    with pytest.raises(FileNotFoundError, match="/b"):
        read(ranges, (1, 0, 1))


def test_a_file_that_was_replaced_is_noticed(ranges, paths):
    """When it is opened again, here and in a worker; an open one stays readable."""
    read(ranges, (0, 0, 5))
    with sending():
        to_worker = pickle.dumps(ranges)
    stored = pickle.dumps(ranges)
    os.unlink(paths[0])
    with open(paths[0], "wb") as file:
        file.write(DATA[0][::-1])
    assert read(ranges, (0, 0, 5)) == [DATA[0][:5]]
    ranges.close()
    for reader in (ranges, pickle.loads(to_worker)):
        with pytest.raises(FileChangedError, match="/a: the file was replaced or written to"):
            read(reader, (0, 0, 5))
    later = pickle.loads(stored)
    assert read(later, (0, 0, 5)) == [DATA[0][:-6:-1]]
    later.close()


def test_a_file_that_is_written_to_is_noticed(ranges, paths, monkeypatch):
    """Also while it is open; its size may be the same."""
    monkeypatch.setattr(local_files, "CHECK_S", 0.0)
    assert read(ranges, (0, 0, 5), (1, 0, 1)) == [DATA[0][:5], DATA[1]]
    with open(paths[0], "r+b") as file:
        file.write(b"other")
    os.utime(paths[0], ns=(0, 1))
    assert read(ranges, (1, 0, 1)) == [DATA[1]]
    with pytest.raises(FileChangedError, match=r"/a: .*it was written to at"):
        read(ranges, (1, 0, 1), (0, 0, 5))


def test_a_file_that_was_truncated_is_noticed(ranges, paths):
    """While it is open: a range beyond its end is an error with the place."""
    read(ranges, (0, 0, 5))
    os.truncate(paths[0], 1000)
    assert read(ranges, (0, 0, 5)) == [DATA[0][:5]]
    with pytest.raises(
        FileChangedError, match=r"/a: .*it ends at byte 1,000, before byte 1,010, which was asked for"
    ):
        read(ranges, (0, 990, 1010))


def test_another_version_than_the_indexed_one(paths):
    """Another size is refused; another time is, unless the caller finds the same bytes."""
    now = open_ranges(paths).version(0)
    asked = []

    def decide(reader, others):
        ((shard, seen, _),) = others
        asked.append((shard, seen, read(reader, (shard, 0, 3))))

    accepting = open_ranges(
        paths, expected=[ObjectVersion(now.size, "mtime_ns:1")] * 4, on_other_version=decide
    )
    assert read(accepting, (0, 0, 5)) == [DATA[0][:5]]
    accepting.close()
    read(accepting, (0, 0, 5))
    assert asked == [(0, now, [DATA[0][:3]])]
    with pytest.raises(FileChangedError, match=r"/d: .*it had 100,000 bytes and has 40,000 now"):
        read(accepting, (3, 0, 5))
    accepting.close()
    refusing = open_ranges(paths, expected=[ObjectVersion(now.size, "mtime_ns:1")] * 4)
    with pytest.raises(FileChangedError, match="its version was 'mtime_ns:1' and is 'mtime_ns:"):
        read(refusing, (0, 0, 5))

    def refuse(reader, others):
        decide(reader, others)
        raise FileChangedError("other bytes")

    refusing = open_ranges(
        paths, expected=[ObjectVersion(now.size, "mtime_ns:1")] * 4, on_other_version=refuse
    )
    for _ in range(2):  # a loader reads again what failed
        with pytest.raises(FileChangedError, match="other bytes"):
            read(refusing, (0, 0, 5))
    same = open_ranges(paths, expected=[now, None, None, None])
    assert read(same, (0, 0, 5), (1, 0, 1)) == [DATA[0][:5], DATA[1]]
    same.close()


def test_few_files_are_open_at_once(tmp_path, monkeypatch):
    """At most a bound, with many threads that read all of them."""
    monkeypatch.setattr(local_files, "most_open_files", lambda: 3)
    paths = [str(tmp_path / str(i)) for i in range(40)]
    for i, path in enumerate(paths):
        with open(path, "wb") as file:
            file.write(bytes([i]) * 10)
    ranges = open_ranges(paths)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    wrong = []

    def work(seed):
        for shards in np.random.default_rng(seed).integers(0, 40, (20, 8)):
            found = ranges.read(shards, np.zeros(8, np.int64), np.full(8, 10, np.int64))
            wrong.extend(bytes(each) != bytes([i]) * 10 for i, each in zip(shards, found, strict=True))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(wrong)
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) <= before + 3
    ranges.close()


def test_what_is_no_file(tmp_path):
    """A folder, and a set of local and remote names."""
    with pytest.raises(IsADirectoryError, match=r"write folder/\* for the files in it"):
        read(open_ranges([str(tmp_path)]), (0, 0, 5))
    with pytest.raises(ValueError, match=r"got 1 of the former and 1 of the latter; .*ConcatDataSource"):
        open_ranges([str(tmp_path), "s3://bucket/a.tar"])


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts descriptors in /proc")
def test_files_are_closed_with_the_reader(paths):
    """With its last reference, without the garbage collector."""
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    gc.disable()
    try:
        for _ in range(3):
            read(open_ranges(paths), (0, 0, 5), (3, 0, 5))
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


def test_a_pipe_in_the_place_of_a_file(ranges, paths):
    """It isn't waited for."""
    os.unlink(paths[1])
    os.mkfifo(paths[1])
    with pytest.raises(OSError, match=r"a pipe or a device.*/b"):
        read(ranges, (1, 0, 1))
    with pytest.raises(OSError, match=r"a pipe or a device.*/b"):
        ranges.version(1)


def test_each_file_is_compared_by_itself(paths, monkeypatch):
    """A comparison of one file doesn't put off that of another."""
    clock = [1000.0]
    monkeypatch.setattr(local_files.time, "monotonic", lambda: clock[0])
    ranges = open_ranges(paths)
    read(ranges, (0, 0, 5), (3, 0, 5))
    with open(paths[3], "r+b") as file:
        file.write(b"other")
    os.utime(paths[3], ns=(5, 5))
    clock[0] += 0.9 * local_files.CHECK_S
    read(ranges, (3, 0, 5))
    clock[0] += 0.2 * local_files.CHECK_S
    read(ranges, (0, 0, 5))
    with pytest.raises(FileChangedError, match=r"/d: .*it was written to at"):
        read(ranges, (3, 0, 5))
    ranges.close()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts descriptors in /proc")
def test_many_readers_within_the_limit(tmp_path):
    """Together they may have more files than can be open: then they close theirs."""
    paths = [str(tmp_path / str(i)) for i in range(10)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(path.encode())
    readers = [open_ranges(paths) for _ in range(4)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 15, hard))
    try:
        for _ in range(2):
            for ranges in readers:
                places = [(shard, 0, len(path)) for shard, path in enumerate(paths)]
                assert [each.decode() for each in read(ranges, *places)] == paths
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for ranges in readers:
        ranges.close()


def test_a_process_that_ends_with_open_files_says_nothing(paths):
    """Modules may go before the files: JAX keeps a program's globals until then."""
    program = (
        "from loaderkit._storage import local_files\n"
        f"file = local_files._OpenFile({paths[0]!r})\n"
        "local_files.os = None\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not ended.stderr
