"""The feeder: the stream is the same with and without it, it fetches in the order of need, and it leaves nothing."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from cache_fakes import Index, Ranges

import loaderkit as lk
from loaderkit._storage.cache.cached_spans import CachedSpans
from loaderkit._storage.cache.chunk_feed import ChunkFeed
from loaderkit._storage.cache.settings import Cache


class Records:
    """Record k is the bytes of the index's record k, read through a cache; a log counts the bytes of all processes."""

    def __init__(self, index, folder, limit, seconds=0.0):
        self.log = os.path.join(folder, "log")
        Path(self.log).touch()
        self.index = index
        self.ranges = Ranges(index, seconds=seconds, log=self.log)
        self.spans = CachedSpans(index, self.ranges, Cache(os.path.join(folder, "cache"), limit))

    def __len__(self):
        return len(self.index)

    def __getitem__(self, key):
        return self.__getitems__([key])[0]

    def __getitems__(self, keys):
        return [np.frombuffer(bytes(span), np.uint8)[:1].sum() for span in self.spans.read(np.asarray(keys))]

    @property
    def chunk_feed(self):
        return ChunkFeed(self.spans, None)

    def fingerprint(self):
        return {"index": self.index.digest}

    def nbytes_read(self):
        return os.path.getsize(self.log)


INDEX = Index((400, 100, 500), np.full(1000, 40), 10)


def sampler(epochs=2, **said):
    return lk.ChunkSampler(1000, **{"chunk": 10, "window": 5, "num_epochs": epochs, "seed": 1, **said})


def loader(source, order, workers=0, **said):
    return lk.DataLoader(
        data_source=source,
        sampler=order,
        operations=[lk.Batch(20)],
        worker_count=workers,
        **said,
    )


def expected(order):
    ranges = Ranges(INDEX)
    keys = order.record_keys(np.arange(len(order)))
    values = np.array([span[0] for span in ranges.spans(np.arange(1000))])
    return values[keys].reshape(-1, 20)


def feeder_pid(besides=None):
    """The pid of this process's feeder, once it runs."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for task in Path("/proc/self/task").iterdir():
            for pid in map(int, (task / "children").read_text().split()):
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"_runtime.feeder.main" in command and pid != besides:
                    return pid
        time.sleep(0.01)
    return None


def wait_for_chunks(folder, count):
    deadline = time.monotonic() + 20
    while len(list(folder.rglob("*.chunk"))) < count and time.monotonic() < deadline:
        time.sleep(0.01)


def gone(pid):
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.01)
    return not os.path.exists(f"/proc/{pid}")


def test_it_keeps_memory_for_the_next_chunks_unless_the_user_says_how_much(tmp_path, monkeypatch):
    """glibc's thresholds; the trainer's own environment comes first."""
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "4096")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    with loader(Records(INDEX, tmp_path, limit=1 << 20), sampler(), 0) as running:
        next(iter(running))
        told = Path(f"/proc/{feeder_pid()}/environ").read_bytes().split(b"\0")
    assert b"MALLOC_MMAP_THRESHOLD_=4096" in told
    assert b"MALLOC_TRIM_THRESHOLD_=268435456" in told
    assert "MALLOC_TRIM_THRESHOLD_" not in os.environ


@pytest.mark.parametrize("workers", [0, 2])
def test_the_stream_is_the_samplers_and_bytes_are_read_once(tmp_path, workers):
    source = Records(INDEX, tmp_path, limit=1 << 20, seconds=0.001)
    order = sampler()
    with loader(source, order, workers) as running:
        iterator = iter(running)
        found = np.stack(list(iterator))
        pid = feeder_pid()
    assert np.array_equal(found, expected(order))
    assert source.nbytes_read() <= 1.1 * 40_000
    assert gone(pid)


def test_it_fetches_ahead_of_the_reader_up_to_its_room(tmp_path):
    source = Records(INDEX, tmp_path, limit=12_000)  # 30 chunks, of windows of 5
    with loader(source, sampler()) as running:
        iterator = iter(running)
        first = next(iterator)
        wait_for_chunks(tmp_path, 15)
        chunks = len(list(tmp_path.rglob("*.chunk")))
        rest = list(iterator)
        left = len(list(tmp_path.rglob("*.chunk")))
    assert 15 <= chunks <= 31
    assert left <= 31
    assert np.array_equal(np.stack([first, *rest]), expected(sampler()))


@pytest.mark.parametrize(("workers", "chunks"), [(0, 0), (1, 9), (0, 35)])
def test_killed_at_any_moment_it_changes_nothing(tmp_path, workers, chunks):
    source = Records(INDEX, tmp_path, limit=1 << 20, seconds=0.01)
    with loader(source, sampler(), workers) as running:
        iterator = iter(running)
        found = [next(iterator) for _ in range(3)]
        pid = feeder_pid()
        wait_for_chunks(tmp_path, chunks)
        os.kill(pid, signal.SIGKILL)
        found += list(iterator)
        assert np.array_equal(np.stack(found), expected(sampler()))
        # The next stream has a feeder again.
        again = iter(running)
        next(again)
        assert feeder_pid(besides=pid) is not None
        assert gone(pid)


def test_a_seek_begins_anew(tmp_path):
    source = Records(INDEX, tmp_path, limit=1 << 20)
    with loader(source, sampler()) as running:
        iterator = iter(running)
        next(iterator)
        state = iterator.get_state()
        for _ in range(30):
            next(iterator)
        iterator.set_state(state)
        assert np.array_equal(np.stack(list(iterator)), expected(sampler())[1:])


def test_a_resume_in_mid_epoch_begins_with_a_cold_cache(tmp_path):
    """Litdata's issues 248 and 452: a resumed loader gave other records, or none."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with loader(Records(INDEX, tmp_path / "first", limit=1 << 20), sampler()) as running:
        iterator = iter(running)
        for _ in range(70):
            next(iterator)
        state = iterator.get_state()
    with loader(Records(INDEX, tmp_path / "second", limit=12_000), sampler(), workers=1) as running:
        iterator = iter(running)
        iterator.set_state(state)
        assert np.array_equal(np.stack(list(iterator)), expected(sampler())[70:])


def test_any_sampler_is_followed_and_other_pipelines_too(tmp_path):
    source = Records(INDEX, tmp_path, limit=1 << 20)
    order = lk.IndexSampler(1000, shuffle=True, num_epochs=1, seed=3)
    with lk.DataLoader(
        data_source=source, sampler=order, operations=[lk.Filter(lambda value: value % 2 == 0)]
    ) as running:
        found = list(running)
    values = expected(sampler())
    assert len(found) > 300 and not any(value % 2 for value in found)
    assert values.size


def test_a_subset_has_the_chunks_of_its_source(tmp_path):
    records = Records(INDEX, tmp_path, limit=1 << 20)
    source = lk.SubsetDataSource(records, np.arange(1, 1000, 2))
    feed = source.chunk_feed
    assert np.array_equal(feed.numbers(np.arange(500)), records.chunk_feed.numbers(np.arange(1, 1000, 2)))
    order = lk.IndexSampler(500, shuffle=True, num_epochs=1, seed=3)
    with loader(source, order) as running:
        found = np.concatenate(list(running))
    odd = np.array([span[0] for span in Ranges(INDEX).spans(np.arange(1, 1000, 2))])
    assert np.array_equal(found, odd[order.record_keys(np.arange(500))])


def test_a_loader_that_is_dropped_leaves_no_process(tmp_path):
    source = Records(INDEX, tmp_path, limit=1 << 20)
    iterator = iter(loader(source, sampler()))
    next(iterator)
    pid = feeder_pid()
    del iterator
    assert gone(pid)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_a_trainer_that_is_killed_leaves_no_process(tmp_path):
    source = Records(INDEX, tmp_path, limit=1 << 20)
    reader, writer = os.pipe()
    trainer = os.fork()
    if not trainer:
        iterator = iter(loader(source, sampler()))
        next(iterator)
        os.write(writer, str(feeder_pid()).encode())
        signal.pause()
    os.close(writer)
    pid = int(os.read(reader, 100))
    os.close(reader)
    os.kill(trainer, signal.SIGKILL)
    os.waitpid(trainer, 0)
    assert gone(pid)


def test_a_cache_below_two_windows_is_an_error_at_the_start(tmp_path):
    source = Records(INDEX, tmp_path, limit=3_000)
    with pytest.raises(ValueError, match=r"^limit: expected 40\d\d bytes or more, two windows of 5 chunks"):
        iter(loader(source, sampler()))
    iter(loader(source, sampler(window=3))).close()
    own_lanes = sampler(lanes=4, batch=40, window=3)
    with pytest.raises(ValueError, match="for each of 2 lanes"):
        iter(loader(source, own_lanes, shard_options=lk.ShardOptions(0, 2)))
    own_lanes = sampler(lanes=4, batch=40, window=1)
    iter(loader(source, own_lanes, shard_options=lk.ShardOptions(0, 2))).close()


def test_a_full_shuffle_of_more_than_the_cache_fetches_no_chunk_for_each_record(tmp_path):
    source = Records(INDEX, tmp_path, limit=20_000)
    order = lk.IndexSampler(1000, shuffle=True, num_epochs=2, seed=3)
    with loader(source, order) as running:
        with pytest.warns(UserWarning, match=r"room for 20000 of 40\d\d\d bytes, and IndexSampler shuffles"):
            iterator = iter(running)
        found = np.concatenate(list(iterator))
    assert np.array_equal(found, expected(order).ravel())
    assert source.nbytes_read() <= 2 * 40_000


def test_a_server_that_fails_is_the_workers_error(tmp_path):
    class Failing(Ranges):
        def read(self, shards, begins, ends):
            raise OSError("no route to the server")

    source = Records(INDEX, tmp_path, limit=1 << 20)
    source.ranges = Failing(INDEX)
    source.spans = CachedSpans(INDEX, source.ranges, Cache(tmp_path / "cache", 1 << 20))
    with loader(source, sampler()) as running, pytest.raises(OSError, match="no route"):
        next(iter(running))


def test_next_uses_keep_what_the_next_epoch_begins_with(tmp_path):
    """Half of the data fits: with the order of the next epoch known, less than half is fetched again."""
    source = Records(INDEX, tmp_path, limit=24_000, seconds=0.001)
    order = sampler(epochs=4)
    with loader(source, order) as running:
        found = np.stack(list(running))
    assert np.array_equal(found, expected(order))
    assert source.nbytes_read() < 4 * 40_000
