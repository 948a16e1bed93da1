"""CachedDataSource: records that are read once."""

import os
import pickle
import resource
import signal
import threading

import numpy as np
import pytest

import loaderkit as lk

pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX may be loaded by another test

RECORDS = [
    b"bytes",
    {"x": np.arange(6, dtype=np.int16).reshape(2, 3), "t": "a", "n": [1, (2, None)]},
    "text",
    7,
    None,
]
RECORDS += [np.float32(2.5), (np.arange(2), [b""]), {"b": {"a": b"p"}, "a": True}, b"", {}]


class Counted:
    """Tells how often it was read."""

    def __init__(self, records):
        self.records, self.reads = records, []

    def __len__(self):
        return len(self.records)

    def __getitem__(self, key):
        self.reads.append(key)
        return self.records[key]

    def fingerprint(self):
        return {"type": "Counted", "records": len(self), "first": repr(self.records[0])[:20]}

    def __getstate__(self):
        return self.records

    def __setstate__(self, records):
        self.__init__(records)


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.tolist() == b.tolist()
    if isinstance(a, dict):
        return [*a] == [*b] and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("in_folder", [False, True])
def test_records_are_read_once(tmp_path, in_folder):
    """And come back with all types; a folder serves other objects, later ones and workers."""
    source = Counted(RECORDS)
    with lk.CachedDataSource(source, tmp_path / "a" if in_folder else None) as cached:
        for _ in range(2):
            assert all(map(same, RECORDS, map(cached.__getitem__, range(len(RECORDS)))))
        assert source.reads == [*range(len(RECORDS))]
        assert all(map(same, [RECORDS[7], RECORDS[1], RECORDS[7]], cached.__getitems__([7, 1, 7])))
        assert cached.fingerprint() == {"kind": "declared", **source.fingerprint()}
        copy = pickle.loads(pickle.dumps(cached))
        assert same(copy[1], RECORDS[1]) and copy._source.reads == [] * in_folder + [1] * (not in_folder)
    source.reads.clear()
    assert same(cached[1], RECORDS[1]) and source.reads == [1] * (not in_folder)  # after close


def test_a_folder_serves_workers_and_forks(tmp_path):
    """Each opens it itself."""
    records = [{"x": np.full(100, key)} for key in range(200)]
    source = Counted(records)
    cached = lk.CachedDataSource(source, tmp_path / "a")
    loader = lk.load(cached, num_epochs=1, worker_count=1, batch_size=20)
    with loader:
        assert [batch["x"][:, 0].tolist() for batch in loader] == [
            [*range(k, k + 20)] for k in range(0, 200, 20)
        ]
    assert source.reads == [] and cached[150]["x"][0] == 150 and source.reads == []
    child = os.fork()
    if not child:
        try:
            os._exit(not all(same(records[key], cached[key]) for key in range(200)) or source.reads != [])
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_a_fork_while_threads_read(tmp_path):
    """A child's locks are its own: it reads what was kept and keeps more."""
    records = [bytes([key % 256]) * 50 for key in range(3000)]
    cached = lk.CachedDataSource(Counted(records), tmp_path / "a")
    threads = [threading.Thread(target=lambda: [cached[key] for key in range(1000)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    children = []
    for first in (1000, 1500, 2000, 2500):
        child = os.fork()
        if not child:
            try:
                signal.alarm(20)
                os._exit([cached[key] for key in range(first, first + 500)] != records[first : first + 500])
            finally:
                os._exit(2)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    for thread in threads:
        thread.join()
    later = Counted(records)
    assert [*lk.CachedDataSource(later, tmp_path / "a")] == records and later.reads == []


def test_a_killed_process_leaves_a_cache_that_goes_on(tmp_path):
    """At any point; what it kept is there."""
    records = [os.urandom(3000) for _ in range(400)]
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                cached = lk.CachedDataSource(Counted(records), tmp_path / "a")
                for key in range(400):
                    assert cached[key] == records[key]
                    os.write(writer, b"x")
            finally:
                os._exit(2)
        assert os.read(reader, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
    source = Counted(records)
    cached = lk.CachedDataSource(source, tmp_path / "a")
    assert [*cached] == records and len(source.reads) < 400


def test_damaged_files_are_read_again(tmp_path):
    """A torn entry, a torn record."""
    records = [bytes([key]) * 100 for key in range(20)]
    lk.CachedDataSource(Counted(records), tmp_path / "a").__getitems__([*range(20)])
    with open(tmp_path / "a" / "records", "r+b") as file:
        file.seek(150)
        file.write(b"damaged")
    with open(tmp_path / "a" / "index", "r+b") as file:
        file.seek(-24 * 3, os.SEEK_END)
        file.write(b"\xff" * 12)
    source = Counted(records)
    assert [*lk.CachedDataSource(source, tmp_path / "a")] == records and source.reads == [1, 17]


@pytest.mark.parametrize("in_folder", [False, True])
def test_a_limit(tmp_path, in_folder):
    """Records beyond it are read each time."""
    source = Counted([bytes(99)] * 10)
    cached = lk.CachedDataSource(source, tmp_path / "a" if in_folder else None, limit="0.5KB")
    assert [*cached] == [*cached] == source.records
    assert source.reads == [*range(10), *range(5, 10)]
    if in_folder:
        assert os.path.getsize(tmp_path / "a" / "records") == 500


def test_a_full_disk(tmp_path, caplog):
    """A warning, once, and the records come from the source."""
    source = Counted([os.urandom(5000) for _ in range(10)])
    cached = lk.CachedDataSource(source, tmp_path / "a")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, before[1]))
    try:
        assert [*cached] == source.records
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caplog.text.count("can't keep more records") == 1 and [*cached] == source.records
    assert source.reads == [*range(10), *range(2, 10)]


class Plain:
    """A class that says nothing of itself."""

    def __init__(self, records):
        self.records = records

    def __len__(self):
        return len(self.records)

    def __getitem__(self, key):
        return self.records[key]

    def __repr__(self):
        return "Plain()"


def lines(path, text):
    path.write_bytes(text)
    return lk.formats.LinesDataSource(str(path))


def files(path, text):
    path.write_bytes(text)
    return lk.formats.FilesDataSource([str(path)])


def tokens(path, text):
    np.save(path, np.frombuffer(text, np.uint8))
    return lk.TokenDataSource(np.load(path, mmap_mode="r"), [0, 3, len(text)])


def array_record(path, text):
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(path), "group_size:1,uncompressed")
    for line in text.split(b"\n"):
        writer.write(line)
    writer.close()
    return lk.ArrayRecordDataSource(str(path))


def table(path, text):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather

    feather.write_feather(pyarrow.table({"x": [*text]}), str(path), compression="uncompressed")
    return lk.formats.ArrowDataSource(str(path))


CORRECTED = {
    "a class": lambda path, text: Plain([text]),
    "a class within a source": lambda path, text: lk.MapDataSource(Plain([text, text]), bytes),
    "a list": lambda path, text: [text],
    "lines": lines,
    "parts of lines": lambda path, text: lk.ConcatDataSource(
        [lines(path, text), lk.SubsetDataSource([b""], [0])]
    ),
    "files": files,
    "tokens": tokens,
    "array_record": array_record,
    "arrow": table,
}


@pytest.mark.parametrize("kind", CORRECTED)
def test_a_source_that_was_corrected(tmp_path, kind):
    """With the same size, names and number of records, beside the pieces that a fingerprint reads, it is another."""
    whole = b"".join(b"%09d\n" % number for number in range(20_000))
    texts = (b"one", b"two") if kind[:2] == "a " else (whole, whole.replace(b"000008500", b"corrected"))
    path = tmp_path / ("data.npy" if kind == "tokens" else "data")
    make = CORRECTED[kind]
    before = make(path, texts[0])
    lk.CachedDataSource(before, tmp_path / "kept")
    lk.CachedDataSource(before, tmp_path / "kept")  # as in a later run
    if path.exists():
        path.unlink()
    corrected = make(path, texts[1])
    with pytest.raises(ValueError, match=r"got that of another: (version|content) is"):
        lk.CachedDataSource(corrected, tmp_path / "kept")


def test_folders_that_are_refused(tmp_path):
    """Another source's, other files, another file; values that can't be kept; a source that isn't one."""
    lk.CachedDataSource(Counted([b"a", b"b"]), tmp_path / "a")
    with pytest.raises(
        ValueError, match=r"got that of another: first is .*b'a'.* there and .*b'c'.*delete the folder"
    ):
        lk.CachedDataSource(Counted([b"c", b"b"]), tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").write_bytes(b"")
    with pytest.raises(FileExistsError, match="b with 'mine'"):
        lk.CachedDataSource([b"a"], tmp_path / "b")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "index").write_bytes(b"my own index of things that are here")
    with pytest.raises(lk.errors.DataFormatError, match="expected the index of a cache"):
        lk.CachedDataSource([b"a"], tmp_path / "c")
    header = (tmp_path / "a" / "index").read_bytes()
    for length in (2**62, 2**63 + 1):  # damaged: it was asked of the system
        (tmp_path / "a" / "index").write_bytes(header[:24] + length.to_bytes(8, "little") + header[32:])
        with pytest.raises(ValueError, match=r"got that of another: its head is damaged"):
            lk.CachedDataSource(Counted([b"a", b"b"]), tmp_path / "a")
    with pytest.raises(TypeError, match=r"record_key 1 can't be kept: .*object.*put the cache around"):
        lk.CachedDataSource([1, object()])[1]
    with pytest.raises(TypeError, match="source: expected"):
        lk.CachedDataSource(3)
    with pytest.raises(ValueError, match="limit: expected a size"):
        lk.CachedDataSource([1], limit="much")
