"""What happens where a byte or the length of a file is wrong: its own records, or an error of ours that names it.

One table of all kinds of files, in `damaged_kinds.py`. Formats without checksums may give other records; nothing else.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from tests.damaged_kinds import HEAD, KINDS, DamagedFile, written

# Of h5netcdf: it fails to close what it couldn't open.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function File.close:pytest.PytestUnraisableExceptionWarning"
)
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
SAMPLE = 3  # bytes of each file: the full count is in the nightly run


@pytest.fixture(scope="module", autouse=True)
def zarrs_thread():
    """It lives as long as the process: it starts here, and not within a test."""
    if not KINDS["zarr"].is_missing:
        import zarr

        zarr.open_group(zarr.storage.MemoryStore(), mode="w")


def damaged_file(name, folder):
    if KINDS[name].is_missing:
        pytest.skip(f"needs {KINDS[name].needs}")
    return DamagedFile(KINDS[name], folder / "files")


def check(name, found):
    """What the table says of a kind."""
    kind = KINDS[name]
    expected = {"same"} if kind.heals else {"same", "error"} if kind.sees else {"same", "error", "other"}
    assert {*found} <= expected


@pytest.mark.parametrize("name", KINDS)
def test_flipped_bits(tmp_path, name):
    """In its head and anywhere."""
    file = damaged_file(name, tmp_path)
    rng = np.random.default_rng(len(file.data))
    slow = KINDS[name].consumed or KINDS[name].needs in ("h5netcdf", "zarr")
    size = 1 if slow else SAMPLE
    places = [*rng.integers(min(HEAD, len(file.data)), size=size), *rng.integers(len(file.data), size=size)]
    check(name, [file.outcome(file.flipped(int(place))) for place in places])


@pytest.mark.parametrize("name", KINDS)
def test_a_file_that_is_cut_short(tmp_path, name):
    """An error, or what was cut off says nothing; lines may end anywhere."""
    file = damaged_file(name, tmp_path)
    size = len(file.data)
    for length in (1, 8, 100, size // 2, size - 4096, size - 1):
        if 0 <= length < size:
            found = file.outcome(file.data[:length])
            assert found != "other" or name in ("csv", "file", "jsonl", "text"), length
            assert found == "same" or not KINDS[name].heals


@pytest.mark.parametrize("name", KINDS)
def test_each_byte_of_the_head(nightly, name):
    """In a process of its own, which a library may end."""
    if not nightly or KINDS[name].is_missing:
        pytest.skip("in the nightly run, with its library")
    run = subprocess.run(
        [sys.executable, "-m", "tests.damaged_kinds", name], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    check(name, ast.literal_eval(run.stdout))


@pytest.mark.parametrize(
    ("kind", "mmap"),
    [
        (KINDS["npy"], False),
        (KINDS["npy"], True),
        (KINDS["tokens"], False),
        (KINDS["tokens"], True),
        (KINDS["arrow"], True),
        (KINDS["lmdb"], True),
    ],
)
def test_a_mapped_file_that_is_cut_short_under_the_reader(tmp_path, kind, mmap, monkeypatch):
    """It was SIGBUS: its size is compared before records are read."""
    monkeypatch.setattr("loaderkit._base.system.file_identity.CHECK_S", 0.0)
    if kind.is_missing:
        pytest.skip(f"needs {kind.needs}")
    path = kind.write(tmp_path, 0)
    if mmap:
        source = kind.read(path)
        if path.endswith("npy"):  # an array of the user's
            columns = lk.ArrayDataSource({"x": np.load(path, mmap_mode="r")})
    else:
        offsets = np.arange(0, 3001, 30) if path.endswith("npy") else None
        source = lk.TokenDataSource(path, offsets, mmap=False)
    before = source[len(source) - 1]
    assert repr(before)
    os.truncate(path, 140)
    with pytest.raises(lk.errors.FileChangedError, match="damaged"):
        source[len(source) - 1]
    if mmap and path.endswith("npy"):
        with pytest.raises(lk.errors.FileChangedError, match="damaged"):
            columns.take([2999])


@pytest.mark.parametrize("name", ["tokens", "plan"])
def test_places_of_documents_and_of_packed_rows_that_are_cut_off_under_the_reader(
    tmp_path, name, monkeypatch
):
    """It was SIGBUS: a file is looked at before the offsets of its documents or a plan's pieces are read, too."""
    monkeypatch.setattr("loaderkit._base.system.file_identity.CHECK_S", 0.0)
    path = str(tmp_path / f"long.{name}")
    if name == "tokens":
        lk.write([{"tokens": np.arange(k % 9, dtype=np.int32)} for k in range(30_000)], path)
        source = lk.TokenDataSource(path)
    else:
        documents = lk.MapDataSource(range(30_000), lambda k: {"tokens": np.full(7, k)})
        source = lk.PackedDataSource(documents, lk.plan_packing(np.full(30_000, 7), 16, path))
    assert source[len(source) - 1]["tokens"].size
    os.truncate(path, 5000)
    for read in (lambda: source[len(source) - 1], lambda: source.__getitems__([len(source) - 1])):
        with pytest.raises(lk.errors.FileChangedError, match=f"long.{name}"):
            read()


def test_token_files_without_checksums():
    """As the first versions wrote them: read for ever."""
    golden = Path(__file__).parent / "golden" / "files" / "without_checksums.tokens"
    old = lk.TokenDataSource(golden)
    assert [row["ids"].tolist() for row in old] == [[1, 2, 3], [], [4, 5]]
    assert old.dtype == np.uint16


@pytest.mark.parametrize("how", ["mapped", "read", "cached"])
def test_each_block_of_a_token_file_is_compared_once(tmp_path, range_server, how):
    """A flipped bit in one of many blocks is an error of the rows in it, and of no others; also in a worker."""
    rows = [{"tokens": np.full(10_000, k, np.uint16)} for k in range(40)]
    path = Path(written("tokens", lambda version: rows)(tmp_path, 0))
    data = bytearray(path.read_bytes())
    data[128 + 20_000 * 20] ^= 1
    path.write_bytes(data)
    if how == "cached":
        server = range_server(path.parent)
        source = lk.TokenDataSource(server.url(path.name), cache=lk.Cache(tmp_path / "cache", "1GB"))
    else:
        source = lk.TokenDataSource(path, mmap=how == "mapped")
    assert source[0]["tokens"][0] == 0 and source[39]["tokens"][0] == 39
    place = "damaged.tokens: bytes 393,344 to 458,880 don't have their checksum"
    with pytest.raises(lk.errors.ChecksumError, match=place):
        source[20]
    with pytest.raises(lk.errors.ChecksumError, match=place):
        source.__getitems__([1, 20])
    with (
        lk.load(source, worker_count=1, num_epochs=1) as loader,
        pytest.raises(lk.errors.ChecksumError, match=place),
    ):
        list(loader)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.later])
def test_a_file_of_a_later_version(tmp_path, name):
    """Refused, by its name, or made again."""
    file = damaged_file(name, tmp_path)
    present, later = KINDS[name].later
    assert present in file.data
    assert file.outcome(file.data.replace(present, later)) == ("same" if KINDS[name].heals else "error")


def ways_of_change(name):
    """Those that the table knows of a kind; by day one of them."""
    ways = [how for how in ("between", "replaced", "edited") if getattr(KINDS[name], how)]
    return ways if NIGHTLY else [ways[len(name) % len(ways)]]


@pytest.mark.parametrize(("name", "how"), [(name, how) for name in KINDS for how in ways_of_change(name)])
def test_another_version_of_a_file(tmp_path, name, how, monkeypatch):
    """Of the same size where the format allows it, between two runs and in one: what the table says."""
    for module in ("_base.system.file_identity", "_storage.local_files"):
        monkeypatch.setattr(f"loaderkit.{module}.CHECK_S", 0.0)
    assert damaged_file(name, tmp_path).outcome_of_version_1(how) == getattr(KINDS[name], how)


HOLDER = """
import fcntl, os, signal, sys
held = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]
for descriptor in held:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.lock])
def test_a_lock(tmp_path, name, monkeypatch):
    """Held by a stopped process, left over by one that was killed, and something else in its place."""
    monkeypatch.setattr("loaderkit._base.system.waited_lock.TOLD_AFTER", 0.0)
    monkeypatch.setattr("loaderkit._base.system.waited_lock.LIMIT", 0.02)
    monkeypatch.setattr("loaderkit._storage.cache.cached_spans._WAIT_SECONDS", 0.02)
    kind, file = KINDS[name], damaged_file(name, tmp_path)
    locks = file.locks()
    if name == "chunk":
        file.path.unlink()
    assert locks
    child = subprocess.Popen([sys.executable, "-S", "-c", HOLDER, *locks])
    os.waitpid(child.pid, os.WUNTRACED)
    assert file.read_again() == kind.held
    child.kill()
    child.wait()
    assert file.read_again() == "same"
    for lock in file.locks():
        lock.rename(tmp_path / "away")
        lock.write_text("another's") if (tmp_path / "away").is_dir() else lock.mkdir()
    if name == "chunk":
        file.path.unlink()
    assert file.read_again() == kind.unreadable
