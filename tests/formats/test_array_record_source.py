"""ArrayRecordDataSource on real files."""

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

import loaderkit as lk
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit.formats.array_record.source import LISTED_RECORDS, ArrayRecordDataSource


def records_of(name, count):
    return [f"{name}:{i}".encode() * (i % 7) + os.urandom(i % 50) for i in range(count)]


@pytest.fixture
def shards(tmp_path, write_records):
    """Three files of 100, 0 and 150 records, and their records in order."""
    contents = [records_of("a", 100), [], records_of("c", 150)]
    for i, content in enumerate(contents):
        write_records(tmp_path / f"data-{i:05d}-of-00003", content)
    return str(tmp_path / "data@3"), [*contents[0], *contents[2]]


def test_records_in_the_order_of_the_files(shards):
    """Key k is the k-th record over all files; empty records and empty files are no obstacle."""
    path, records = shards
    source = ArrayRecordDataSource(path)
    assert len(source) == 250
    assert [source[key] for key in range(250)] == records
    assert list(source) == records


@pytest.mark.filterwarnings("ignore:.*written with group_size")
@pytest.mark.parametrize("options", ["group_size:1", "group_size:10"])
def test_batched_reads_equal_single_reads(tmp_path, write_records, options):
    """__getitems__ gives what as many single reads give: any order, repeats, few of a file or many."""
    records = records_of("x", 300)
    for i in range(3):
        write_records(tmp_path / f"{i}.ar", records[i * 100 : (i + 1) * 100], options)
    source = ArrayRecordDataSource(str(tmp_path / "*.ar"))

    @given(st.lists(st.integers(0, 299), max_size=200))
    def property_holds(keys):
        assert source.__getitems__(keys) == [records[key] for key in keys]

    property_holds()


def test_so_many_of_a_file_that_they_are_read_as_a_list(tmp_path, write_records):
    """The list equals single reads, in any order, with repeats, beside a file with few wanted records."""
    records = records_of("x", LISTED_RECORDS + 300)
    write_records(tmp_path / "0.ar", records[:-100])
    write_records(tmp_path / "1.ar", records[-100:])
    source = ArrayRecordDataSource(str(tmp_path / "*.ar"))
    keys = np.random.default_rng(0).integers(0, len(records), 2 * len(records)).tolist()
    assert source.__getitems__(keys) == [records[key] for key in keys]


def test_a_part_of_a_file(shards):
    """path[start:end] holds the records from start to before end."""
    path, records = shards
    first = path.replace("@3", "-00000-of-00003")
    last = path.replace("@3", "-00002-of-00003")
    source = ArrayRecordDataSource([f"{last}[140:150]", f"{first}[3:5]", f"{first}[98:]"])
    assert list(source) == [*records[240:250], *records[3:5], *records[98:100]]
    assert source.__getitems__([11, 0]) == [records[4], records[240]]


@pytest.mark.parametrize("part", ["[90:101]", "[100:]", "[200:300]"])
def test_a_part_that_the_file_does_not_have(shards, part):
    """Asking for more than there is says how many records there are."""
    first = shards[0].replace("@3", "-00000-of-00003")
    with pytest.raises(ValueError, match=r"expected a part of the 100 records of .*data-00000-of-00003"):
        ArrayRecordDataSource(first + part)


@pytest.mark.parametrize("key", [-251, 250, 10**12, 2**70, -(2**70)])
def test_a_key_out_of_range(shards, key):
    """IndexError with the key, the length and the source, for one key and among many."""
    source = ArrayRecordDataSource(shards[0])
    says = f"record_key: expected an int from {{}} to 249, got {key}; ArrayRecordDataSource.*has 250 records"
    with pytest.raises(IndexError, match=says.format(-250)):
        source[key]
    with pytest.raises(IndexError, match=says.format(0)):
        source.__getitems__([3, key, 250])


@pytest.mark.parametrize("key", [1.0, "1", None, (0, 3)])
def test_a_key_that_is_no_integer(shards, key):
    """TypeError, as a list gives."""
    source = ArrayRecordDataSource(shards[0])
    with pytest.raises(TypeError):
        source[key]
    with pytest.raises(TypeError):
        source.__getitems__([key])


def test_a_missing_file_is_named_at_once(tmp_path):
    """The error comes at construction, not at the first read, which may be hours later in a worker."""
    with pytest.raises(FileNotFoundError, match=r"no such ArrayRecord file: '.*/gone\.array_record'"):
        ArrayRecordDataSource(tmp_path / "gone.array_record")


def test_a_folder_is_named_at_once(tmp_path):
    """The error shows what to write instead."""
    with pytest.raises(IsADirectoryError, match=r"write folder/\* for the files in it"):
        ArrayRecordDataSource(tmp_path)


@pytest.mark.parametrize("keep", [0, 10, 1 << 16, 100_000, -1])
def test_a_truncated_file_is_named_at_once(tmp_path, write_records, keep):
    """The error comes for every length of the cut file."""
    path = write_records(tmp_path / "cut.ar", [os.urandom(1000) for _ in range(300)])
    os.truncate(path, keep % os.path.getsize(path))
    with pytest.raises(OSError, match=r"cut\.ar: not a whole ArrayRecord file of \d+ bytes: .*truncated"):
        ArrayRecordDataSource(path)


def test_a_file_that_is_no_array_record(tmp_path):
    """The error names it, too."""
    (tmp_path / "text.ar").write_bytes(b"hello " * 50_000)
    with pytest.raises(OSError, match=r"text\.ar: not a whole ArrayRecord file"):
        ArrayRecordDataSource(tmp_path / "text.ar")


A_LIST = [*range(300)] * -(-LISTED_RECORDS // 300)


@pytest.mark.parametrize("wanted", [[299], [1, 299], A_LIST], ids=["one", "two", "a list"])
def test_a_file_that_is_cut_while_it_is_open(tmp_path, write_records, wanted):
    """The reader itself gives b"" for what is gone; the source says that the file has changed."""
    path = write_records(tmp_path / "cut.ar", [os.urandom(1000) for _ in range(300)])
    source = ArrayRecordDataSource(path)
    assert len(source[0]) == 1000
    os.truncate(path, 100_000)
    with pytest.raises(OSError, match=r"cut\.ar: .* bytes when it was opened and has 100000 now"):
        source.__getitems__(wanted) if wanted[1:] else source[299]


def test_a_damaged_record_is_named_and_the_others_stay_readable(tmp_path, write_records):
    """The error has the file and the position."""
    records = [os.urandom(1000) for _ in range(300)]
    path = write_records(tmp_path / "bad.ar", records)
    with open(path, "r+b") as file:
        file.seek(150_000)
        file.write(b"x" * 50)
    source = ArrayRecordDataSource(path)
    errors = {}
    for key in range(300):
        try:
            assert source[key] == records[key]
        except OSError as error:
            errors[key] = str(error)
    with pytest.raises(OSError, match=r"bad\.ar: not a whole ArrayRecord file"):
        source.__getitems__(A_LIST)
    assert source[0] == records[0]
    [(bad, says)] = errors.items()
    assert f"bad.ar: not a whole ArrayRecord file of {os.path.getsize(path)} bytes: position {bad}:" in says


def test_files_with_large_groups_are_pointed_out(tmp_path, write_records):
    """Reading them in random order unpacks many records for each one."""
    path = write_records(tmp_path / "grouped.ar", [b"x"] * 30, "group_size:10")
    with pytest.warns(UserWarning, match=r"grouped\.ar: written with group_size 10") as warned:
        ArrayRecordDataSource(path)
    assert warned[0].filename == __file__


def test_reader_options_reach_the_reader(shards):
    """Options change how a file is read, not its records; an unknown one is an error."""
    path, records = shards
    options = {"readahead_buffer_size": 0, "max_parallelism": "auto"}
    assert list(ArrayRecordDataSource(path, reader_options=options)) == records
    with pytest.raises(ValueError, match="reader_options: Unknown option colour"):
        ArrayRecordDataSource(path, reader_options={"colour": "red"})


def test_it_travels_by_name(shards, in_child):
    """In a worker it reads the same files; open readers aren't sent."""
    path, records = shards
    source = ArrayRecordDataSource(path)
    assert source[0] == records[0]
    assert in_child(source, list) == records
    again = pickle.loads(pickle.dumps(source))
    assert (len(again), again[249], repr(again)) == (250, records[249], repr(source))


def test_threads_share_one_source(shards):
    """Reads from several threads at once give each its own records."""
    path, records = shards
    source = ArrayRecordDataSource(path)
    wrong = []

    def read(start):
        for step in range(200):
            keys = [(start + step * 37 + i) % 250 for i in range(60)]
            if source.__getitems__(keys) != [records[key] for key in keys] or source[start] != records[start]:
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class WatchedLock:
    """A lock that says when another thread comes for it."""

    def __init__(self):
        self.lock, self.wanted = threading.Lock(), threading.Event()

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.wanted.set()
            self.lock.acquire()

    def __exit__(self, *exc):
        self.lock.release()


class YieldingReader:
    """A reader with one place; behind the first seek another thread reads, as far as it is let."""

    def __init__(self, lock, read_elsewhere):
        self.place, self.lock, self.first = None, lock, True
        self.other = threading.Thread(target=read_elsewhere)

    def seek(self, position):
        self.place = position
        if self.first:
            self.first = False
            self.other.start()
            self.lock.wanted.wait()  # it waits for the lock, or has sought, too
        else:
            self.lock.wanted.set()

    def read(self):
        return b"%d" % self.place


def test_no_thread_seeks_between_anothers_seek_and_read(shards):
    """A reader has one place: a read gives the record that was sought, whenever another thread comes."""
    source = ArrayRecordDataSource(shards[0])
    lock, seen = WatchedLock(), {}
    reader = YieldingReader(lock, lambda: seen.update({7: source[7]}))
    source._seek_lock, source._reader = lock, lambda path: reader
    seen[3] = source[3]
    reader.other.join()
    assert seen == {3: b"3", 7: b"7"}


def test_open_files_stay_below_the_limit(tmp_path, write_records):
    """More files than the process may have open are no obstacle."""
    for i in range(70):
        write_records(tmp_path / f"{i:03d}.ar", [b"%d" % i])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))
    try:
        source = ArrayRecordDataSource(str(tmp_path / "*.ar"))
        for _ in range(2):
            assert source.__getitems__(range(70)) == [b"%d" % i for i in range(70)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_closing_closes_the_files(shards):
    """After the with block no descriptor is left; a later read opens what it needs."""
    path, records = shards
    before = set(os.listdir("/proc/self/fd"))
    with ArrayRecordDataSource(path) as source:
        source.__getitems__(range(250))
        assert len(os.listdir("/proc/self/fd")) == len(before) + 2
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert source[3] == records[3]


def test_the_library_is_loaded_when_a_source_is_made():
    """Importing the sources doesn't load array_record: a user without such files doesn't wait for the import."""
    code = "import sys, loaderkit.sources; sys.exit('array_record' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_fingerprint_stays_when_the_files_move(tmp_path, write_records):
    """Names, sizes and content count; the folder and times don't."""
    records = records_of("f", 100)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write_records(tmp_path / folder / "data.ar", records)
    os.utime(tmp_path / "two" / "data.ar", (0, 0))
    one, two = (fingerprint_of(ArrayRecordDataSource(tmp_path / name / "data.ar")) for name in ("one", "two"))
    assert one == two
    assert one["kind"] == "declared"
    assert (one["records"], one["files"], one["first_file"]) == (100, 1, "data.ar")


def test_the_fingerprint_tells_other_data(tmp_path, write_records):
    """Another name, part, order, or content of the same size is other data."""
    records = [os.urandom(100) for _ in range(50)]
    path = write_records(tmp_path / "a.ar", records)
    other = write_records(tmp_path / "b.ar", records)
    (tmp_path / "new").mkdir()
    changed = write_records(tmp_path / "new" / "a.ar", [os.urandom(100), *records[1:]])
    named = [path, other, changed, f"{path}[0:49]", f"{path}[1:50]", [path, other], [other, path]]
    seen = [fingerprint_of(ArrayRecordDataSource(name)) for name in named]
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])


@pytest.mark.parametrize("scheme", ["http", "s3", "hf"])
def test_files_on_servers_are_fetched_first(range_server, write_records, tmp_path, scheme):
    """The library has Google Cloud Storage alone; the line of the error works."""
    write_records(tmp_path / "a.array_record", [b"zero", b"one"])
    server = range_server(tmp_path)
    name = server.url("a.array_record") if scheme == "http" else f"{scheme}://box/a.array_record"
    for opened in (ArrayRecordDataSource, lk.open, lambda name: ArrayRecordDataSource([name + "[0:1]"])):
        with pytest.raises(ValueError, match="paths: expected local files or gs://") as refused:
            opened(name)
        line = f"lk.formats.fetch({name!r}, 'kept')"
        assert line in str(refused.value)
    if scheme == "http":
        source = eval(line.replace("'kept'", repr(str(tmp_path / "kept"))))
        assert [*source] == [b"zero", b"one"]
    with pytest.raises(OSError, match="gs://"):
        ArrayRecordDataSource("gs://b/a.array_record")
