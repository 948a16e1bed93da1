"""Processes that share a cache: right records, no deadlock and a bounded disk, whichever are killed."""

import fcntl
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from cache_fakes import Ranges, in_processes, make_index, total_bytes

from loaderkit._storage.cache import chunk_file, chunk_folder, live_loader
from loaderkit._storage.cache.cached_spans import CachedSpans
from loaderkit._storage.cache.chunk_folder import boot_id
from loaderkit._storage.cache.chunk_numbers import ChunkNumbers
from loaderkit._storage.cache.settings import Cache

# JAX may be loaded by another test of the same process; the forked ones don't use it.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")

INDEX = make_index(records=600, shards=5, chunk=6, size=200)
EXPECTED = Ranges(INDEX).spans(range(600))


def read_all(folder, seed, limit=1 << 30, calls=30, **settings):
    """Reads an epoch, or the first calls of it, in an order of its own; whether every record was right."""
    spans = CachedSpans(INDEX, Ranges(INDEX, **settings), Cache(folder, limit))
    for keys in np.split(np.random.default_rng(seed).permutation(600), 30)[:calls]:
        if [bytes(span) for span in spans.read(keys)] != [EXPECTED[key] for key in keys]:
            return False
    return True


def used(folder):
    return sum(path.stat().st_size - chunk_file.FOOTER_BYTES for path in Path(folder).rglob("*.chunk"))


def test_eight_processes_on_a_cache_of_two_windows(tmp_path):
    """Streaming's issue 417: a small limit let its processes wait for each other's shards."""
    limit = total_bytes(INDEX) // 8
    codes = in_processes(lambda seed: read_all(tmp_path, seed, limit, calls=5), range(8))
    assert codes == [0] * 8
    assert used(tmp_path) <= limit + 8 * 6 * 401  # a chunk that each of them stored at the same moment


def test_processes_fetch_a_chunk_once(tmp_path):
    log = tmp_path / "log"
    log.touch()
    codes = in_processes(lambda _: read_all(tmp_path / "cache", 0, log=str(log), seconds=0.002), range(4))
    assert codes == [0] * 4
    assert log.stat().st_size == total_bytes(INDEX)


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.3])
def test_what_killed_processes_leave_is_whole_or_nothing(tmp_path, seconds):
    """Streaming's issue 717: what a killed run had left kept the next one from starting."""
    in_processes(lambda seed: read_all(tmp_path, seed, seconds=0.001), range(3), kill_after=seconds)
    (codes,) = in_processes(lambda seed: read_all(tmp_path, seed), [9])
    assert codes == 0
    # An eviction deletes the temporary files of the dead, and the files of their loaders. There is one where a chunk is
    # fetched: all of them may be there already.
    next(tmp_path.rglob("*.chunk")).unlink()
    assert in_processes(lambda seed: read_all(tmp_path, seed, total_bytes(INDEX) // 2), [9]) == [0]
    assert not list(tmp_path.rglob("*.tmp"))
    assert len(list(tmp_path.rglob("loaders/*"))) <= 1


def test_the_file_of_a_loader_that_was_killed_as_it_began_is_deleted(tmp_path):
    """It is still empty; so is that of a loader that begins now, which holds it. Another's file is left alone."""
    folder = chunk_folder.ChunkFolder(str(tmp_path))
    loader = live_loader.LiveLoader(folder, "1a", b"k" * 32)
    killed, beginning, others = (Path(folder.loaders, name) for name in ("2b", "3c", "notes"))
    killed.touch()
    others.write_text("not a loader's")
    with beginning.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        assert not list(live_loader.other_loaders(folder, loader.name))
        assert {path.name for path in Path(folder.loaders).iterdir()} == {"1a", "3c", "notes"}


def test_a_killed_holder_of_a_lock_holds_nothing(tmp_path):
    def hold(_):
        folder = chunk_folder.ChunkFolder(str(tmp_path))
        descriptors = [os.open(f"{folder.root}/locks/{k:03x}", os.O_RDWR | os.O_CREAT) for k in range(512)]
        for descriptor in descriptors:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True

    assert in_processes(hold, [0]) == [0]
    assert read_all(tmp_path, 0)
    assert len(list(tmp_path.rglob("locks/*"))) >= 512  # never deleted


def test_a_stopped_holder_of_a_lock_is_not_waited_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr("loaderkit._storage.cache.cached_spans._WAIT_SECONDS", 0.01)
    monkeypatch.setattr("loaderkit._storage.cache.cached_spans._NEXT_WAIT_SECONDS", 0.01)
    folder = chunk_folder.ChunkFolder(str(tmp_path))
    held = [os.open(f"{folder.root}/locks/{k:03x}", os.O_RDWR | os.O_CREAT) for k in range(512)]
    for descriptor in held:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert read_all(tmp_path, 0)
    for descriptor in held:
        os.close(descriptor)


def test_a_stopped_holder_of_several_locks_is_waited_for_once(tmp_path, monkeypatch):
    """A feeder holds up to 32: with 30 s for each of their chunks a loader would stand still for minutes."""
    slept = []
    monkeypatch.setattr("loaderkit._storage.cache.cached_spans._NEXT_WAIT_SECONDS", 0.0)
    monkeypatch.setattr("loaderkit._storage.cache.cached_spans._WAIT_SECONDS", 0.05)
    monkeypatch.setattr("loaderkit._storage.cache.cached_spans.time.sleep", slept.append)
    folder = chunk_folder.ChunkFolder(str(tmp_path))
    held = [os.open(f"{folder.root}/locks/{k:03x}", os.O_RDWR | os.O_CREAT) for k in range(512)]
    for descriptor in held:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    spans = CachedSpans(INDEX, Ranges(INDEX), Cache(tmp_path, 1 << 30))
    spans.read(np.arange(6))
    assert slept
    slept.clear()
    spans.read(np.arange(60, 66))  # another chunk, of another lock
    assert len(slept) <= 1
    spans.read(np.arange(6 * 40, 6 * 41))
    assert len(slept) <= 2
    for descriptor in held:
        os.close(descriptor)


def test_without_flock_each_host_has_a_folder_of_its_own(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(38, "Function not implemented")

    for module in (chunk_folder, chunk_file, live_loader):
        monkeypatch.setattr(module.fcntl, "flock", refused)
    limit = total_bytes(INDEX) // 4
    assert in_processes(lambda seed: read_all(tmp_path, seed, limit, calls=6), range(4)) == [0] * 4
    assert [path.name for path in (tmp_path / "loaderkit-chunks").glob("host-*")] == [
        f"host-{boot_id().hex()}"
    ]
    assert used(tmp_path) <= 2 * limit


def test_network_file_systems_are_known_by_their_mounts(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 0:1 / / rw - ext4 /dev/x rw\n"
        "2 1 0:2 / /mnt/my\\040data rw shared:1 - nfs4 server:/ rw\n"
        "3 2 0:3 / /mnt/my\\040data/local rw - xfs /dev/y rw\n"
        "4 1 0:4 / /bucket rw - fuse.gcsfuse b rw\n"
        "5 1 0:5 / /usb rw - fuseblk /dev/z rw\n"
    )
    remote = {"/": False, "/mnt/my data/x": True, "/mnt/my data/local/x": False, "/mnt/my database": False}
    remote |= {"/bucket": True, "/usb/x": False}
    assert {path: chunk_folder.on_network(path, str(mounts)) for path in remote} == remote
    assert not chunk_folder.on_network("/", str(tmp_path / "none"))


def test_a_forked_reader_is_of_a_loader_of_its_own(tmp_path):
    """Also where it was forked while other threads held the reader's locks and fetched its chunks."""
    spans = CachedSpans(INDEX, Ranges(INDEX), Cache(tmp_path, 1 << 30))
    spans.read(np.arange(20))

    def read(first):
        signal.alarm(60)  # ends one that waits for a thread that it doesn't have
        right = [bytes(span) for span in spans.read(np.arange(600))] == EXPECTED
        return right and len(list(tmp_path.rglob("loaders/*"))) >= 2

    fetched = set(ChunkNumbers(INDEX).of(np.arange(600)).tolist())
    with spans._lock, spans._open._lock:
        spans._fetching |= fetched
        assert in_processes(read, range(2)) == [0, 0]
        spans._fetching -= fetched
    assert [bytes(span) for span in spans.read(np.arange(600))] == EXPECTED


def test_each_loader_keeps_to_its_share(tmp_path):
    """The chunks of a live loader outlast another loader's evictions, as long as they are within its share."""
    limit = total_bytes(INDEX)
    first = CachedSpans(INDEX, Ranges(INDEX), Cache(tmp_path, limit))
    first.read(np.arange(150))
    mine = {path.name for path in tmp_path.rglob("*.chunk")}
    other = make_index(records=600, shards=5, chunk=6, size=200, digest="b")
    second = CachedSpans(other, Ranges(other), Cache(tmp_path, limit))
    for _ in range(2):
        for first_key in range(0, 600, 30):
            second.read(np.arange(first_key, first_key + 30))
    key = first._key.hex()
    assert {path.name for path in tmp_path.rglob("*.chunk") if key in str(path)} == mine
    assert used(tmp_path) <= limit
