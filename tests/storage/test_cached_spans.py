"""Records read through a cache are those of the shards: whatever lies in its folder, whatever the limit."""

import contextlib
import os
import pickle
import re
import shutil
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cache_fakes import Index, Ranges, in_threads, make_index, total_bytes
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loaderkit._base.system.shared_memory import sending
from loaderkit._storage.cache import cached_spans, chunk_file, open_chunks
from loaderkit._storage.cache.cached_spans import CachedSpans
from loaderkit._storage.cache.chunk_folder import ChunkFolder, lock_without_waiting
from loaderkit._storage.cache.chunk_numbers import ChunkNumbers
from loaderkit._storage.cache.settings import Cache


def chunk_files(folder):
    return sorted(Path(folder).rglob("*.chunk"))


def used(folder):
    return sum(path.stat().st_size for path in chunk_files(folder))


def replace(path, content):
    path.unlink()  # a chunk that is open isn't written to
    path.write_bytes(content)


def reader(folder, index, limit=1 << 30, **settings):
    ranges = Ranges(index, **settings)
    return CachedSpans(index, ranges, Cache(folder, limit)), ranges


def read(spans, keys):
    return [bytes(span) for span in spans.read(np.asarray(keys, np.int64))]


def test_an_epoch_reads_each_byte_once_and_the_next_one_none(tmp_path):
    index = make_index()
    spans, ranges = reader(tmp_path, index)
    order = np.random.default_rng(0).permutation(100)
    for keys in np.split(order, 10):
        assert read(spans, keys) == ranges.spans(keys)
    assert ranges.nbytes == total_bytes(index)
    again, counted = reader(tmp_path, index)
    assert read(again, order[::-1]) == ranges.spans(order[::-1])
    assert counted.calls == 0


def test_a_worker_of_another_machine_reads_records_and_keeps_none(tmp_path):
    """A chunk has records of which most are read by workers of other hosts."""
    spans, ranges = reader(tmp_path / "cache", make_index())
    with sending(elsewhere=True):
        packed = pickle.dumps(spans)
    elsewhere = pickle.loads(packed)
    keys = [7, 3, 90]
    assert read(elsewhere, keys) == ranges.spans(keys) and not (tmp_path / "cache").exists()
    assert elsewhere._ranges.nbytes == sum(map(len, ranges.spans(keys)))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_keys_any_shards_any_limit_any_damage(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("cache")
    index = make_index(
        records=data.draw(st.integers(1, 60)),
        shards=data.draw(st.integers(1, 6)),
        chunk=data.draw(st.integers(1, 70)),
        seed=data.draw(st.integers(0, 99)),
    )
    least = max(1, total_bytes(index))
    limit = data.draw(st.integers(1, 4 * least))
    try:
        spans, ranges = reader(folder, index, limit)
    except ValueError:
        assume(False)
    for _ in range(data.draw(st.integers(1, 8))):
        keys = np.array(data.draw(st.lists(st.integers(0, len(index) - 1), max_size=20)), np.int64)
        assert read(spans, keys) == ranges.spans(keys)
        shards, begins, ends = index.locate(keys)
        cut = np.array(
            data.draw(st.lists(st.integers(0, 50), min_size=len(keys), max_size=len(keys))), np.int64
        )
        lows = np.minimum(begins + cut, ends)
        twice = (np.concatenate((each, each)) for each in (keys, shards))
        parts = spans.read_parts(*twice, np.concatenate((begins, lows)), np.concatenate((lows, ends)))
        assert [bytes(a) + bytes(b) for a, b in zip(parts[: len(keys)], parts[len(keys) :])] == ranges.spans(
            keys
        )
        for path in chunk_files(folder):
            match data.draw(st.sampled_from(["", "", "cut", "noise", "gone", "foreign", "grown"])):
                case "cut":
                    os.truncate(path, data.draw(st.integers(0, path.stat().st_size)))
                case "noise":
                    replace(path, np.random.default_rng(1).bytes(path.stat().st_size))
                case "gone":
                    path.unlink()
                case "foreign":
                    replace(path, data.draw(st.sampled_from(chunk_files(folder))).read_bytes())
                case "grown":
                    replace(path, path.read_bytes() + b"x")
        if data.draw(st.booleans()):
            spans, ranges = reader(folder, index, limit)


@pytest.mark.parametrize("place", [0, 70_000, -1, "checksums"])
def test_a_flipped_bit_of_a_chunk(tmp_path, place, caplog):
    """Of a torn file or a bad disk: each process finds it before the first record, and fetches the chunk again."""
    index = make_index(chunk=50, size=4000, shards=1)
    spans, ranges = reader(tmp_path, index)
    expected = ranges.spans(range(100))
    assert read(spans, range(100)) == expected
    damaged, *_ = chunk_files(tmp_path)
    content = bytearray(damaged.read_bytes())
    payload = index.locate(np.arange(100))[2][49] - 5
    content[payload if place == "checksums" else payload - 1 if place == -1 else place] ^= 1
    replace(damaged, content)
    again, counted = reader(tmp_path, index)
    for order in (range(99, -1, -1), range(100)):
        assert [read(again, [key])[0] for key in order] == [expected[key] for key in order]
    assert len(counted.read_spans) == 1
    assert len([told for told in caplog.messages if "is damaged" in told]) == (place != "checksums")
    third, counted = reader(tmp_path, index)
    assert read(third, range(100)) == expected
    assert counted.calls == 0


def test_a_block_is_compared_once(tmp_path, monkeypatch):
    """Also where the chunk's file was closed meanwhile, and only where a record of it is read."""
    index = make_index(chunk=50, size=4000, shards=1)
    spans, ranges = reader(tmp_path, index)
    read(spans, range(100))
    monkeypatch.setattr(open_chunks, "_MOST_OPEN", 1)
    monkeypatch.setattr(open_chunks, "_LEAST_OPEN", 1)
    again, _ = reader(tmp_path, index)
    compared = []
    checksum = chunk_file.zlib.crc32
    counting = SimpleNamespace(
        crc32=lambda data, *more: (compared.append(len(data) // 4 * 4), checksum(data, *more))[1]
    )
    monkeypatch.setattr(chunk_file, "zlib", counting)
    blocks = [size for key in (0, 99, 0, 99) if read(again, [key]) for size in compared if size > 4096]
    assert blocks.count(1 << 16) <= 4 and blocks
    compared.clear()
    assert read(again, range(100)) == ranges.spans(range(100)) == read(again, range(100))
    payload = index.nbytes
    assert sum(size for size in compared if size > 4096) <= payload


def test_parts_of_records_count_as_the_records_that_are_read_for_them(tmp_path):
    """Else a feeder's start, which may read some bytes beside the cache, would read most of the data without it."""
    index = make_index(records=64, chunk=4, size=4000, shards=1)
    spans, ranges = reader(tmp_path, index)
    spans.allow_direct_reads(total_bytes(index) // 8)
    for keys in np.arange(64)[:, None]:
        shards, begins, _ = index.locate(keys)
        spans.read_parts(keys, shards, begins, begins + 1)
    assert ranges.nbytes < 1.5 * total_bytes(index)
    assert len(chunk_files(tmp_path)) >= 12


def test_a_file_that_came_in_the_place_of_a_compared_one_is_compared(tmp_path, monkeypatch):
    """It has the same table of checksums, as another process fetched the chunk again, and a bit of it was flipped."""
    monkeypatch.setattr(open_chunks, "_MOST_OPEN", 1)
    monkeypatch.setattr(open_chunks, "_LEAST_OPEN", 1)
    spans, ranges = reader(tmp_path, make_index(chunk=50, size=4000, shards=1))
    expected = ranges.spans(range(100))
    assert read(spans, range(100)) == expected
    for damaged in chunk_files(tmp_path):
        content = bytearray(damaged.read_bytes())
        content[0] ^= 1
        os.rename(
            damaged, tmp_path / f"{damaged.name}.aside"
        )  # it stays, so that no other file has its number
        damaged.write_bytes(content)
    assert read(spans, range(100)) == expected


def test_chunks_of_another_version_of_a_shard_are_not_taken(tmp_path):
    """The index may be the same: its samples don't see a corrected label."""
    index = make_index()
    first, _ = reader(tmp_path, index)
    read(first, range(100))
    second, counted = reader(tmp_path, index, tag="two")
    assert read(second, range(100)) == counted.spans(range(100))
    assert counted.nbytes == total_bytes(index)
    again, counted = reader(tmp_path, index, tag="two")
    read(again, range(100))
    assert counted.calls == 0


def test_chunks_of_another_index_are_not_taken(tmp_path):
    first, _ = reader(tmp_path, make_index(seed=1))
    read(first, range(100))
    second, ranges = reader(tmp_path, make_index(seed=1, digest="b"))
    assert read(second, range(100)) == ranges.spans(range(100))
    assert ranges.nbytes == total_bytes(make_index(seed=1))


def test_an_evicted_chunk_stays_readable(tmp_path):
    """Streaming's issue 475: a reader found half a shard after an eviction."""
    index = make_index()
    spans, ranges = reader(tmp_path, index)
    expected = read(spans, range(100))
    for path in chunk_files(tmp_path):
        path.unlink()
    calls = ranges.calls
    assert read(spans, range(100)) == expected
    assert ranges.calls == calls


def test_few_descriptors_are_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(open_chunks, "_MOST_OPEN", 3)
    index = make_index(chunk=1)
    spans, ranges = reader(tmp_path, index)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        assert read(spans, range(100)) == ranges.spans(range(100))
    assert len(os.listdir("/proc/self/fd")) <= before + 5
    assert ranges.nbytes == total_bytes(index)


def test_a_call_over_many_chunks_has_few_of_them_open(tmp_path, monkeypatch):
    """Else a batch takes the descriptors that the reader of the shards needs, and those of the user."""
    monkeypatch.setattr(open_chunks, "_MOST_OPEN", 8)
    most = []

    class Counting(Ranges):
        def read(self, shards, begins, ends):
            most.append(len(os.listdir("/proc/self/fd")))
            return super().read(shards, begins, ends)

    ranges = Counting(make_index(chunk=1))
    spans = CachedSpans(ranges.index, ranges, Cache(tmp_path, 1 << 20))
    before = len(os.listdir("/proc/self/fd"))
    assert [bytes(span) for span in spans.read(np.arange(100))] == ranges.spans(range(100))
    assert max(most) <= before + 2 + 8 + 8  # the loader's file, open chunks, locks and chunks of the call


def test_a_fetch_of_chunks_that_another_process_has_just_stored_holds_few_locks(tmp_path, monkeypatch):
    """Each is a descriptor, as an open chunk is."""
    monkeypatch.setattr(open_chunks, "_MOST_OPEN", 8)
    held, most = [], []

    @contextlib.contextmanager
    def counted(path):
        with lock_without_waiting(path) as free:
            held.append(path)
            most.append(len(held))
            yield free
        held.remove(path)

    monkeypatch.setattr(cached_spans, "lock_without_waiting", counted)
    index = make_index(chunk=1)
    spans, ranges = reader(tmp_path, index)
    other, _ = reader(tmp_path, index)
    fetch_some = spans._fetch_some
    spans._fetch_some = lambda *chunks, **how: (
        other.read(np.arange(100)),
        most.clear(),
        fetch_some(*chunks, **how),
    )[2]
    spans.fetch(np.arange(100))
    assert max(most) == spans._open.together == 4
    assert ranges.calls == 0


def test_threads_read_the_same_records(tmp_path):
    index = make_index()
    spans, ranges = reader(tmp_path, index, limit=2 * total_bytes(index))
    orders = [np.random.default_rng(seed).permutation(100) for seed in range(8)]
    found = in_threads(lambda order: read(spans, order), orders)
    assert found == [ranges.spans(order) for order in orders]
    assert ranges.nbytes == total_bytes(index)


@pytest.mark.parametrize("share", [0, 2, 1])
def test_threads_take_turns_at_what_is_in_memory_and_none_at_what_is_on_the_disk(
    tmp_path, monkeypatch, share
):
    """A turn would keep reads of the disk from being in flight together: of none, of half and of all parts."""
    index = make_index()
    spans, ranges = reader(tmp_path, index)
    keys = np.arange(len(index))
    read(spans, keys)
    pread, inside, most = os.pread, {True: 0, False: 0}, {True: [0], False: [0]}

    def on_disk(place):
        return share > 0 and place % share == 0

    def slow(descriptor, nbytes, place):
        of = on_disk(place)
        inside[of] += 1
        most[of].append(inside[of])
        time.sleep(0.001)
        inside[of] -= 1
        return pread(descriptor, nbytes, place)

    def probed(_descriptor, _buffers, place, _flags):
        if on_disk(place):
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "pread", slow)
    monkeypatch.setattr(os, "preadv", probed)
    monkeypatch.setattr(cached_spans, "_NOT_FROM_DISK", 8)
    monkeypatch.setattr(cached_spans, "_LARGE_PART", 1)
    read(spans, keys[:20])
    assert in_threads(lambda keys: read(spans, keys), [keys] * 3) == [ranges.spans(keys)] * 3
    assert max(most[False]) == (share != 1) and (max(most[True]) > 1) == (share > 0)


def test_a_copy_opens_its_own_files_and_a_worker_is_of_its_loader(tmp_path, monkeypatch):
    spans, ranges = reader(tmp_path, make_index())
    read(spans, range(100))
    sent = pickle.dumps(spans)
    assert read(pickle.loads(sent), range(100)) == ranges.spans(range(100))
    assert pickle.loads(sent)._name != spans._name
    monkeypatch.setenv("LOADERKIT_WORKER", "1")
    assert pickle.loads(sent)._name == spans._name
    spans.close()
    assert read(spans, range(100)) == ranges.spans(range(100))


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"")
    spans, ranges = reader(tmp_path / "file" / "cache", make_index())
    found = [read(spans, range(100)) for _ in range(3)]
    assert found == 3 * [ranges.spans(range(100))]
    (told,) = caplog.messages
    assert "can't be written" in told


def test_a_full_disk_is_told_once_and_records_are_read_without_the_cache(tmp_path, monkeypatch, caplog):
    index = make_index()
    spans, ranges = reader(tmp_path, index)
    read(spans, [0])

    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(chunk_file, "_write_all", full)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is told is no error of a record, then either
        found = [read(spans, range(100)) for _ in range(3)]
    assert found == 3 * [ranges.spans(range(100))]
    (told,) = caplog.messages
    assert "No space left" in told
    assert not list(Path(tmp_path).rglob("*.tmp"))
    monkeypatch.undo()
    spans._not_before = 0.0
    assert read(spans, range(100)) == ranges.spans(range(100))
    assert len(chunk_files(tmp_path)) > 10


def test_the_limit_is_kept_and_only_chunks_are_deleted(tmp_path):
    """Streaming's issue 988: an eviction deleted the original shards."""
    index = make_index(records=400, chunk=4)
    limit = total_bytes(index) // 4
    own = tmp_path / "shard.tar"
    spans, ranges = reader(tmp_path, index, limit)
    read(spans, [0])
    copy = chunk_files(tmp_path)[0].read_bytes()
    own.write_bytes(copy)  # what a link leads to is none of the cache's, even where it looks like a chunk
    folder = chunk_files(tmp_path)[0].parent
    (folder / "ff.chunk").write_bytes(b"not a chunk")
    (folder / "fe.chunk").symlink_to(own)
    for name in ("notes.tmp", "a.chunk.1.2.tmp"):
        (folder / name).write_bytes(b"the user's")
    for seed in range(3):
        for keys in np.split(np.random.default_rng(seed).permutation(400), 20):
            assert read(spans, keys) == ranges.spans(keys)
            payload = sum(
                path.stat().st_size - chunk_file.FOOTER_BYTES
                for path in chunk_files(tmp_path)
                if len(path.stem) > 0 and path.stem not in ("ff", "fe")
            )
            assert payload <= limit
    assert own.read_bytes() == copy
    assert (folder / "notes.tmp").exists() and (folder / "a.chunk.1.2.tmp").exists()
    assert (folder / "ff.chunk").exists() and (folder / "fe.chunk").is_symlink()


def test_the_least_recently_used_goes_first(tmp_path):
    index = make_index(records=64, chunk=4, shards=1, seed=3)
    spans, _ = reader(tmp_path, index)
    read(spans, range(32))
    of_chunk = {int(path.stem, 16): path for path in chunk_files(tmp_path)}
    for age, number in enumerate([5, 2, 0, 1, 3, 4, 6, 7]):
        os.utime(of_chunk[number], ns=(10**9 * age, 10**9 * age))
    spans.close()
    small, _ = reader(tmp_path, index, used(tmp_path))
    read(small, range(32, 36))
    left = {int(path.stem, 16) for path in chunk_files(tmp_path)}
    assert 5 not in left and {6, 7, 8} <= left


def test_chunks_of_other_data_go_before_those_that_may_be_read_again(tmp_path):
    index = make_index(records=64, chunk=4, shards=1, seed=3)
    for each in (index, make_index(records=64, chunk=4, shards=1, seed=3, digest="b")):
        mine = chunk_files(tmp_path)  # of the first, at the end
        spans, _ = reader(tmp_path, each)
        read(spans, range(32))
        spans.close()
    for path in mine:
        os.utime(path, ns=(0, 0))  # used before the others
    small, _ = reader(tmp_path, index, used(tmp_path))
    read(small, range(32, 36))
    assert {*mine} < {*chunk_files(tmp_path)} and len(chunk_files(tmp_path)) <= 2 * len(mine)


def test_next_use_decides_what_is_kept(tmp_path):
    index = make_index(records=400, chunk=4, shards=1)
    limit = total_bytes(index) // 2
    spans, _ = reader(tmp_path, index, limit)
    spans.next_use = lambda numbers: np.where(numbers < 30, 0, numbers)
    for _ in range(2):
        for first in range(0, 400, 20):
            read(spans, range(first, first + 20))
    left = {int(path.stem, 16) for path in chunk_files(tmp_path)}
    assert {*range(30)} <= left


def test_a_limit_without_room_for_two_chunks_is_an_error(tmp_path):
    index = make_index(size=500)
    with pytest.raises(
        ValueError, match=r"limit: expected .* bytes or more, the size of two chunks"
    ) as caught:
        reader(tmp_path, index, 1000)
    assert not list(tmp_path.iterdir())
    least = int(re.search(r"expected (\d+) bytes", str(caught.value))[1])
    reader(tmp_path, index, least)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (5, 5),
        ("200GB", 200 * 10**9),
        ("50GiB", 50 * 2**30),
        ("1.5 tb", 15 * 10**11),
        (np.int64(7), 7),
        ("12", 12),
        ("3KiB", 3072),
    ],
)
def test_limits(limit, expected):
    assert Cache("/x", limit=limit).limit == expected


@pytest.mark.parametrize("limit", ["", "GB", "-1GB", "5 iB", "1e9", 0, -1, "0"])
def test_wrong_limits(limit):
    with pytest.raises(ValueError, match=r"^limit: expected"):
        Cache("/x", limit=limit)


def test_wrong_types():
    with pytest.raises(TypeError, match=r"^limit: expected an int, got 1.5"):
        Cache("/x", limit=1.5)
    with pytest.raises(TypeError, match=r"^folder: expected a path, got 3"):
        Cache(3, limit=1)
    with pytest.raises(TypeError, match=r"^folder: expected a path, got b'x'"):
        Cache(b"x", limit=1)
    with pytest.raises(ValueError, match=r"^folder: expected a path, got ''"):
        Cache("", limit=1)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_cache_that_is_deleted_or_replaced_is_made_again(tmp_path, replaced):
    ranges = Ranges(make_index())
    spans = CachedSpans(ranges.index, ranges, Cache(tmp_path / "cache", 1 << 20))
    spans.read(np.arange(50))
    if replaced:
        (tmp_path / "cache").rename(tmp_path / "old")
    else:
        shutil.rmtree(tmp_path / "cache")
    assert spans.share() > 0
    assert [bytes(span) for span in spans.read(np.arange(100))] == ranges.spans(range(100))
    assert list((tmp_path / "cache").rglob("*.chunk"))
    assert len(list((tmp_path / "cache").rglob("loaders/*"))) == 1  # by which others see that it lives


def test_a_chunk_is_written_while_others_are_in_flight(tmp_path):
    index, stored = make_index(), []

    class OneByOne(Ranges):
        def read_as_they_come(self, *arrays):
            for place in reversed(range(len(arrays[0]))):
                stored.append(len(list(tmp_path.rglob("*.chunk"))))
                yield place, self.read(*(array[place : place + 1] for array in arrays))[0]

    spans = CachedSpans(index, OneByOne(index), Cache(tmp_path, 1 << 20))
    assert [bytes(span) for span in spans.read(np.arange(100))] == Ranges(index).spans(np.arange(100))
    assert stored == list(range(len(stored))) and len(stored) > 10


def test_a_wait_for_others_ends_with_the_first_file_of_theirs(tmp_path, monkeypatch):
    """Where none comes it ends soon, and sooner where all have files, of another version."""
    spans, _ = reader(tmp_path, make_index())
    cached, slept = spans._opened(), []
    path = Path(cached.folder.path(spans._key, 2))
    monkeypatch.setattr(cached_spans.time, "sleep", lambda seconds: slept.append(round(seconds * 1e3)))
    spans._wait_for_files(cached, {1, 2})
    assert slept == [1, 2, 4, 8, 16]
    spans._wait_for_files(cached, set())
    assert slept[5:] == [4]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    spans._wait_for_files(cached, {1, 2})
    assert slept[6:] == [1]


def asked_together(ranges, shards):
    """Makes a reader's server answer for versions only once it was asked for so many at a time."""
    together = threading.Barrier(shards, timeout=20)

    def version_in_use(shard, seen=None):
        if seen is None:
            together.wait()
        return Ranges.version_in_use(ranges, shard, seen)

    ranges.version_in_use = version_in_use


def test_the_versions_of_what_another_process_has_just_stored_are_asked_for_at_once(tmp_path):
    """One after the other, the first batch of a second worker came ten round trips later, with ten shards."""
    index = Index((10,) * 8, np.full(80, 50), 5)
    (spans, ranges), (other, _) = (reader(tmp_path, index) for _ in range(2))
    asked_together(ranges, 8)
    fetch_some = spans._fetch_some
    spans._fetch_some = lambda *chunks, **how: (other.read(np.arange(80)), fetch_some(*chunks, **how))[1]
    assert read(spans, np.arange(80)) == ranges.spans(np.arange(80))
    assert ranges.calls == 0


def test_the_versions_of_what_others_fetch_are_asked_for_meanwhile(tmp_path, monkeypatch):
    index = Index((10,) * 8, np.full(80, 50), 5)
    (spans, ranges), (other, _) = (reader(tmp_path, index) for _ in range(2))
    asked_together(ranges, 8)
    folder, numbers = ChunkFolder(str(tmp_path)), ChunkNumbers(index)
    locks = {folder.lock_of(numbers.key, number) for number in numbers.of(np.arange(80)).tolist()}
    held, slept = contextlib.ExitStack(), []
    for lock in sorted(locks):
        held.enter_context(lock_without_waiting(lock))

    def store(cached, left):
        slept.append(len(spans._versions._asked))
        held.close()
        other.read(np.arange(80))

    monkeypatch.setattr(spans, "_wait_for_files", store)
    assert read(spans, np.arange(80)) == ranges.spans(np.arange(80))
    assert slept == [8] and ranges.calls == 0


def test_a_fetch_ahead_does_not_wait_for_what_others_fetch(tmp_path):
    index = make_index()
    spans, ranges = reader(tmp_path, index)
    keys = np.arange(100)
    numbers = ChunkNumbers(index)
    one = numbers.of(keys[50:51])
    with lock_without_waiting(ChunkFolder(str(tmp_path)).lock_of(numbers.key, int(one[0]))):
        left = spans.fetch(keys)
    assert numbers.of(left).tolist() == one.tolist()
    assert not spans.fetch(keys).size
    calls = ranges.calls
    spans.read(keys)
    assert ranges.calls == calls
