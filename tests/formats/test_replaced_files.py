"""A file of a source that is replaced, cut or written to while a run reads it is an error, never other data."""

import linecache
import os
import pickle
import shutil
import signal

import numpy as np
import pytest
from internals import variant_of

import loaderkit as lk
from loaderkit._base.system import shared_memory as _memory
from loaderkit._base.system.file_identity import FileIdentity, _may_renumber
from loaderkit._runtime.transport.pickling import Packer
from loaderkit.formats.array_record import reader as array_record_reader
from loaderkit.interop.grain import sources as grain_sources
from loaderkit.sources.foreign_files import foreign_files

COUNT = 60
OLD, NEW = [b"old %03d" % i for i in range(COUNT)], [b"new %03d" % i for i in range(COUNT)]


def replace(path, other, *, like=None):
    """Puts another file in a file's place; with the time of `like`, nothing but its inode tells it apart."""
    if like is not None:
        os.utime(other, ns=(like.st_atime_ns, like.st_mtime_ns))
    os.replace(other, path)


@pytest.fixture
def files(tmp_path, write_records):
    """The path of a file, and of another of the same size with other records."""
    path, other = write_records(tmp_path / "data.ar", OLD), write_records(tmp_path / "other.ar", NEW)
    assert os.path.getsize(path) == os.path.getsize(other)
    return path, other


def here(element):
    return os.getpid(), element


def until_the_end(loader, change):
    """The elements of a loader that hands out (pid, element); the worker dies after `change`, once some have come."""
    with loader:
        it = iter(loader)
        pid, element = next(it)
        given = [element]
        change()
        os.kill(pid, signal.SIGKILL)
        try:
            given += [element for _, element in it]
        except lk.errors.FileChangedError as error:
            return given, error
        return given, None


def loader_over(source, **options):
    loader = lk.load(source, num_epochs=1, operations=[here], worker_count=1, **options)
    return variant_of(loader, task_rows=1)


# --- in a run ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_workers_successor_does_not_open_another_file(files):
    """Even with the same size and time it is a FileChangedError from next(), under any policy, and no wrong record."""
    path, other = files
    loader = loader_over(lk.ArrayRecordDataSource(path), on_record_error="replace")
    given, error = until_the_end(loader, lambda: replace(path, other, like=os.stat(path)))
    assert given == OLD[: len(given)] and len(given) < COUNT
    assert str(error).startswith(f"{path}: the file was replaced or written to")


class LinesOfAFile:
    """Opens its file by name where it is unpickled, as Hugging Face's data sets do."""

    def __init__(self, path):
        self.cache_files = [{"filename": str(path)}]

    def __len__(self):
        return COUNT

    def __getitem__(self, key):
        return linecache.getlines(self.cache_files[0]["filename"])[key]

    def __reduce__(self):
        return linecache.getlines, (self.cache_files[0]["filename"],)


LinesOfAFile.__module__, LinesOfAFile.__qualname__ = "datasets.arrow_dataset", "Dataset"


@pytest.mark.slow
def test_a_workers_successor_gets_no_other_file_from_another_library(tmp_path):
    """Files that a known library opens by name are looked at once a worker has the data set."""
    path, other = tmp_path / "data", tmp_path / "other"
    path.write_text("old\n" * COUNT)
    other.write_text("new\n" * COUNT)
    loader = loader_over(LinesOfAFile(path))
    given, error = until_the_end(loader, lambda: replace(path, other, like=os.stat(path)))
    assert set(given) == {"old\n"} and len(given) < COUNT
    assert str(error).startswith(f"{path}: the file was replaced or written to")


def test_a_workers_successor_maps_no_other_arrow_file(tmp_path, nightly):
    """The same for Hugging Face's own data sets, which import for seconds in each worker."""
    if not nightly:
        pytest.skip("nightly")
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    paths = []
    for name in ("old", "new"):
        datasets.Dataset.from_dict({"x": [name] * COUNT}).save_to_disk(tmp_path / name)
        source = datasets.load_from_disk(tmp_path / name)
        paths += foreign_files(source)
    loader = loader_over(datasets.load_from_disk(tmp_path / "old"))
    given, error = until_the_end(loader, lambda: replace(*paths, like=os.stat(paths[0])))
    assert all(row == {"x": "old"} for row in given) and len(given) < COUNT
    assert str(error).startswith(f"{paths[0]}: the file was replaced or written to")


def test_maps_that_travel_as_values_stay_what_they_were(tmp_path):
    """Memory-mapped arrays in a list are sent with the list: a successor gets what the first worker got."""
    np.save(tmp_path / "data.npy", np.arange(COUNT))
    rows = [*np.load(tmp_path / "data.npy", mmap_mode="r").reshape(-1, 1)]
    with _memory.sending():
        sent = Packer().dumps(rows)
    os.unlink(tmp_path / "data.npy")
    assert np.concatenate(pickle.loads(sent)).tolist() == list(range(COUNT))


# --- what counts as a change ----------------------------------------------------------------------------------------


def other_file(path, other):
    os.replace(other, path)


def other_file_of_the_same_time(path, other):
    replace(path, other, like=os.stat(path))


def cut_short(path, other):
    os.truncate(path, os.path.getsize(path) // 2)


def grown(path, other):
    with open(path, "ab") as file:
        file.write(b"more")


def rewritten_in_place(path, other):
    shutil.copyfile(other, path)
    os.utime(path, ns=(1, os.stat(path).st_mtime_ns + 1))  # the kernel's clock may not have moved on


CHANGES = {
    other_file: r"it was inode \d+ of device \d+ and is inode \d+ of device \d+ now",
    other_file_of_the_same_time: r"it was inode \d+ of device \d+ and is inode \d+ of device \d+ now\. A run",
    cut_short: r"it had \d+ bytes when it was opened and has \d+ now",
    grown: r"it had \d+ bytes when it was opened and has \d+ now",
    rewritten_in_place: r"written to while a source reads it: it was written to at 2.* UTC then and at 2.* UTC now",
}
KINDS = [lk.ArrayRecordDataSource, grain_sources.ArrayRecordDataSource]


@pytest.mark.parametrize("kind", KINDS, ids=["ours", "Grain's"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_file_that_is_opened_again_is_the_same_one(files, kind, change):
    """In the trainer and in a worker that already has the source; the error has old and new values of the file."""
    source = kind(files[0])
    with _memory.sending():
        sent = pickle.dumps(source)
    in_worker = pickle.loads(sent)
    source.close()
    change(*files)
    for opened in (source, in_worker, pickle.loads(sent)):
        for _ in range(2):
            with pytest.raises(lk.errors.FileChangedError, match=rf"^{files[0]}: .*{CHANGES[change]}"):
                opened[COUNT - 1]
            with pytest.raises(lk.errors.FileChangedError, match=CHANGES[change]):
                opened.__getitems__([1, 2])


def test_an_open_file_stays_readable_whatever_its_name_means(tmp_path, write_records):
    """A worker that has it open goes on to the end; empty records are no sign of a change."""
    path, other = (
        write_records(tmp_path / "data.ar", [b"", b"x"]),
        write_records(tmp_path / "other.ar", [b"new"]),
    )
    source = lk.ArrayRecordDataSource(path)
    assert source[1] == b"x"
    os.replace(other, path)
    assert source.__getitems__([0, 1]) == [b"", b"x"]
    os.unlink(path)
    assert [source[0], source[1]] == [b"", b"x"]


def test_several_files_are_told_apart(tmp_path, write_records):
    """The error names the one that was replaced; the others stay readable."""
    paths = [write_records(tmp_path / f"{i}.ar", OLD[i * 10 : i * 10 + 10]) for i in range(3)]
    source = lk.ArrayRecordDataSource(paths)
    os.replace(write_records(tmp_path / "new", NEW[:10]), paths[1])
    assert (source[5], source[25]) == (OLD[5], OLD[25])
    with pytest.raises(lk.errors.FileChangedError, match=r"^\S*/1\.ar: "):
        source[15]


def test_a_file_that_is_replaced_while_it_is_opened(files, monkeypatch):
    """The reader shows no descriptor, so the name is looked at before and behind its opening."""
    source = lk.ArrayRecordDataSource(files[0])
    open_reader, left = array_record_reader._reader_of, [files[1]]

    def replaced_first(path, options):
        if left:
            os.replace(left.pop(), path)
        return open_reader(path, options)

    monkeypatch.setattr(array_record_reader, "_reader_of", replaced_first)
    with pytest.raises(lk.errors.FileChangedError, match="is inode"):
        source[0]


@pytest.mark.parametrize("kind", KINDS, ids=["ours", "Grain's"])
def test_a_file_that_is_replaced_while_a_source_is_made(tmp_path, write_records, files, monkeypatch, kind):
    """No record was read yet, so the new file is taken; if it is replaced again, the file is still being made."""
    open_reader, left = array_record_reader._reader_of, [files[1]]

    def replaced_first(path, options):
        if left:
            os.replace(left.pop(), path)
        return open_reader(path, options)

    monkeypatch.setattr(array_record_reader, "_reader_of", replaced_first)
    assert kind(files[0])[0] == NEW[0]
    left += [write_records(tmp_path / f"{i}", OLD) for i in range(2)]
    with pytest.raises(lk.errors.FileChangedError, match="is inode"):
        kind(files[0])


@pytest.mark.parametrize("options", [{"on_record_error": "skip"}, {"on_record_error": "replace"}, {}])
def test_no_policy_and_no_retry_applies(files, options):
    """The replaced file isn't a record's fault, and waiting doesn't bring it back."""
    pytest.importorskip("tenacity")
    source = lk.ArrayRecordDataSource(files[0])
    retry = lk.ReadOptions(retry=lk.Retry(attempts=3, wait=1e-4, errors=(Exception,)))
    with lk.load(source, num_epochs=1, batch_size=4, read_options=retry, **options) as loader:
        it = iter(loader)
        os.replace(files[1], files[0])
        source.close()
        with pytest.raises(lk.errors.FileChangedError) as raised:
            next(it)
        assert not any("attempt" in note for note in raised.value.__notes__)
        assert it.bad_records == 0


# --- where the identity goes ------------------------------------------------------------------------------------------


def test_a_pickle_that_is_kept_and_a_state_know_no_inodes(files):
    """Both work with a copy of the file, as on another machine; within a run a copy is another file."""
    source = lk.ArrayRecordDataSource(files[0])
    kept, state = pickle.dumps(source), iter(lk.load(source)).get_state()
    shutil.copyfile(files[0], files[1])
    os.replace(files[1], files[0])
    again = pickle.loads(kept)
    assert again.__getitems__(range(COUNT)) == OLD
    iter(lk.load(lk.ArrayRecordDataSource(files[0]))).set_state(state)
    source.close()
    with pytest.raises(lk.errors.FileChangedError):
        source[0]


def test_a_kept_pickle_finds_another_size(files):
    """The pickle has the positions of records, which are wrong for a file of another length."""
    kept = pickle.dumps(lk.ArrayRecordDataSource(files[0]))
    grown(*files)
    with pytest.raises(lk.errors.FileChangedError, match="bytes when it was opened"):
        pickle.loads(kept)[0]


@pytest.mark.parametrize("opened_first", [True, False])
def test_a_source_from_a_kept_pickle_knows_its_files_once_it_is_used(files, opened_first):
    """It knows them from the first opening on, or when it is sent to workers, which open them at different times."""
    source = pickle.loads(pickle.dumps(lk.ArrayRecordDataSource(files[0])))
    if opened_first:
        assert source[0] == OLD[0]
    with _memory.sending():
        sent = pickle.dumps(source)
    os.replace(files[1], files[0])
    with pytest.raises(lk.errors.FileChangedError):
        pickle.loads(sent)[0]


def test_a_map_of_a_file_that_was_replaced_before_the_source_was_made(tmp_path):
    """Workers would map the new file while the script holds the old one."""
    path, other = tmp_path / "data.npy", tmp_path / "other.npy"
    np.save(path, np.arange(COUNT)), np.save(other, -np.arange(COUNT))
    array = np.load(path, mmap_mode="r")
    os.replace(other, path)
    with pytest.raises(
        lk.errors.FileChangedError, match="it has other values than the array that was mapped from it"
    ):
        lk.ArrayDataSource(array)


def sent_map(path, mode):
    """What a worker gets of an array in a file."""
    [mapped] = lk.ArrayDataSource(np.load(path, mmap_mode=mode))._columns._mapped
    with _memory.sending():
        return pickle.dumps(mapped)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_map_is_of_the_same_file(tmp_path, change):
    """Every worker checks it; the error has the old and the new values of the file."""
    paths = tmp_path / "data.npy", tmp_path / "other.npy"
    for path in paths:
        np.save(path, np.arange(COUNT))
    sent = sent_map(paths[0], "r")
    assert pickle.loads(sent).view()[7] == 7
    change(*paths)
    with pytest.raises(lk.errors.FileChangedError, match=rf"^{paths[0]}: .*{CHANGES[change]}"):
        pickle.loads(sent)


def test_a_map_that_the_script_writes_to(tmp_path):
    """The script's own writes, which every process sees at once, aren't a change of the file; another file is."""
    paths = tmp_path / "data.npy", tmp_path / "other.npy"
    for path in paths:
        np.save(path, np.arange(COUNT))
    sent = sent_map(paths[0], "r+")
    rewritten_in_place(*paths)
    assert pickle.loads(sent).view()[7] == 7
    other_file_of_the_same_time(*paths)
    with pytest.raises(lk.errors.FileChangedError, match="is inode"):
        pickle.loads(sent)


def test_a_kept_pickle_of_a_map_goes_on_with_a_copy(tmp_path):
    """The copy stands for the same file on another machine."""
    path = tmp_path / "data.npy"
    np.save(path, np.arange(COUNT))
    kept = pickle.dumps(lk.ArrayDataSource(np.load(path, mmap_mode="r")))
    shutil.copyfile(path, tmp_path / "copy.npy")
    os.replace(tmp_path / "copy.npy", path)
    assert pickle.loads(kept)[7] == 7


# --- file systems that number files anew ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "anew"),
    [
        ("ext4", False),
        ("nfs4", False),
        ("fuse.gcsfuse", True),
        ("fuse", True),
        ("cifs", True),
        ("exfat", True),
    ],
)
def test_a_file_system_that_numbers_files_anew(tmp_path, kind, anew):
    """The kernel's list of mounts says which that is: there, size and time alone tell files apart."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        f"36 21 0:57 / /data rw,nosuid shared:2 master:1 - {kind} bucket rw,user_id=0\n"
    )
    assert _may_renumber(os.makedev(0, 57), str(mounts)) is anew
    assert not _may_renumber(os.makedev(8, 1), str(mounts))
    assert not _may_renumber(os.makedev(8, 1), str(tmp_path / "none"))


def test_a_new_number_alone_is_no_change_there(monkeypatch):
    """Another size or time is."""
    monkeypatch.setattr("loaderkit._base.system.file_identity._may_renumber", lambda device: True)
    was = FileIdentity(5, 77, 1000, 10**18)
    was.check("/data/x", FileIdentity(6, 78, 1000, 10**18))
    for now in (FileIdentity(5, 78, 1001, 10**18), FileIdentity(5, 78, 1000, 10**18 + 1)):
        with pytest.raises(lk.errors.FileChangedError):
            was.check("/data/x", now)


@pytest.mark.parametrize("major", [0, 8])
def test_a_file_system_that_is_mounted_again_has_the_same_files(major):
    """An automounter's NFS has another device number then; a disk has its own. Another inode is another file."""
    was, again = os.makedev(major, 57), os.makedev(major, 61)
    before = FileIdentity(was, 77, 1000, 10**18)
    others = [FileIdentity(again, 78, 1000, 10**18), FileIdentity(again, 77, 1000, 10**18 + 1)]
    if major:
        others.append(FileIdentity(again, 77, 1000, 10**18))
    else:
        before.check("/data/x", FileIdentity(again, 77, 1000, 10**18))
    for now in others:
        with pytest.raises(lk.errors.FileChangedError):
            before.check("/data/x", now)


# --- other libraries' data sets ---------------------------------------------------------------------------------------


def test_the_files_that_are_known_of_other_libraries_data_sets(tmp_path):
    """They are found through combined sources, too, ours and torch's."""
    (tmp_path / "data").write_text("line")
    source = LinesOfAFile(tmp_path / "data")
    known = {str(tmp_path / "data"): FileIdentity.of(tmp_path / "data")}
    assert foreign_files(source) == known
    assert foreign_files(lk.ConcatDataSource([[1], lk.SubsetDataSource(source, [0])])) == known
    assert foreign_files([1]) == foreign_files(lk.RangeDataSource(3)) == {}
    os.unlink(tmp_path / "data")
    assert foreign_files(source) == {}
