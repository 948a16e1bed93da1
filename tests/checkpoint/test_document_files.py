"""The JSON documents on disk: the names that are read, and that half a document is never read."""

import asyncio
import contextlib
import errno
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from stand_in import Counter

from loaderkit._loader import state_files as _checkpoint_files
from loaderkit._loader.state_files import document_name, load_async, read_state, save_async, write_document
from loaderkit.errors import StateError


def test_a_written_document_is_read_back_byte_for_byte(tmp_path):
    """Nothing is reformatted on the way, and nothing but the document is left in the directory."""
    write_document(tmp_path, b'{\n    "step": 3\n}')
    assert [entry.name for entry in tmp_path.iterdir()] == ["process_0-of-1.json"]
    assert read_state(tmp_path) == b'{\n    "step": 3\n}'


@pytest.mark.parametrize(
    "name",
    [
        "commit_success.txt",
        "process_0-of-2.json.partial",
        "process_0-of-2.json~",
        "xprocess_0-of-2.json",
        "process_00-of-2.json",
        "process_0-of-02.json",
        "process_-1-of-2.json",
        "process_0-of-0.json",
        "process_0-of-2.JSON",
        "process_0-of-2.json\n",
        "process_0_of_2.json",
        "_METADATA",
    ],
)
def test_other_names_are_no_documents(tmp_path, name):
    """Files that Orbax, editors or a crash leave beside the document neither help nor hurt."""
    (tmp_path / name).write_bytes(b"not a state")
    with pytest.raises(StateError, match="expected data loader states named"):
        read_state(tmp_path)
    write_document(tmp_path, b"{}")
    assert read_state(tmp_path) == b"{}"


def test_a_lone_process_reads_the_first_of_many_documents(tmp_path):
    """Process i reads document i mod n, so one process can go on where several were."""
    for index in range(3):
        (tmp_path / document_name(index, 3)).write_bytes(b"%d" % index)
    assert read_state(tmp_path) == b"0"


def test_the_documents_of_the_named_writers_are_read_too(tmp_path):
    """Where each process saved its own logical streams, one that takes over several gets all their places."""
    documents = [json.dumps({"streams": {"writers": [0, 2, 0, 2]}, "of": i}).encode() for i in range(3)]
    for index, document in enumerate(documents):
        (tmp_path / document_name(index, 3)).write_bytes(document)
    assert read_state(tmp_path) == [documents[0], documents[2]]
    (tmp_path / document_name(2, 3)).unlink()
    with pytest.raises(StateError, match=r"expected process_2-of-3\.json"):
        read_state(tmp_path)


@pytest.mark.parametrize(
    "document", [b"", b"\xff", b"[]", b'{"streams": 1}', b'{"streams": {"writers": 1}}', b"[" * 100_000]
)
def test_a_document_that_makes_no_sense_is_left_to_the_iterator(tmp_path, document):
    """Only `set_state` checks a state."""
    write_document(tmp_path, document)
    assert read_state(tmp_path) == document


def test_documents_of_two_saves_are_refused(tmp_path):
    """The number of processes that is meant is ambiguous, so it is an error."""
    (tmp_path / document_name(0, 1)).write_bytes(b"{}")
    (tmp_path / document_name(0, 2)).write_bytes(b"{}")
    with pytest.raises(StateError, match=r"of 1 and of 2 processes.*process_0-of-1\.json"):
        read_state(tmp_path)


def test_a_missing_document_is_named(tmp_path):
    """The error says which file this process wanted and which are there."""
    (tmp_path / document_name(1, 2)).write_bytes(b"{}")
    with pytest.raises(StateError, match=r"expected process_0-of-2\.json.*got process_1-of-2\.json"):
        read_state(tmp_path)


@pytest.mark.parametrize(
    ("names", "told"), [([], "got nothing"), ([f"f{i}" for i in range(10)], "f7 and 2 more")]
)
def test_a_directory_without_documents_says_what_it_holds(tmp_path, names, told):
    """A wrong item name shows at once, in few words."""
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(StateError, match=told) as caught:
        read_state(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_failed_write_leaves_nothing(tmp_path):
    """An error while writing reaches the caller and leaves no file at all."""
    (tmp_path / "process_0-of-1.json").mkdir()
    with pytest.raises(IsADirectoryError):
        write_document(tmp_path, b"{}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["process_0-of-1.json"]


def test_a_document_is_on_the_disk_before_it_has_its_name_and_its_name_before_the_write_is_over(
    tmp_path, monkeypatch
):
    """After a loss of power there is the old document or the whole new one; the new one, once the save has returned."""
    done = []
    fsync, replace = os.fsync, os.replace

    def syncing(descriptor):
        done.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor).st_size))
        fsync(descriptor)

    def replacing(source, target):
        done.append(("rename", str(source), str(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "replace", replacing)
    write_document(tmp_path, b"x" * 100_000)
    partial, name = (str(tmp_path / f"process_0-of-1.json{end}") for end in (".partial", ""))
    assert done[0] == ("sync", partial, 100_000)
    assert done[1] == ("rename", partial, name)
    assert done[2][:2] == ("sync", str(tmp_path)) and len(done) == 3


@pytest.mark.parametrize(
    ("code", "passes"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)]
)
def test_a_file_system_that_cant_sync_a_directory_is_good_enough(tmp_path, monkeypatch, code, passes):
    """Some network file systems can't; an error of the disk is raised."""
    fsync = os.fsync

    def syncing(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", syncing)
    with contextlib.nullcontext() if passes else pytest.raises(OSError, match=os.strerror(code)):
        write_document(tmp_path, b"{}")
    assert read_state(tmp_path) == b"{}"


class Asked:
    """A shared directory in memory that notes whose documents are looked for."""

    def __init__(self, files, asked, name="gs://shared"):
        self.files, self.asked, self.name = files, asked, name

    def __str__(self):
        return self.name

    def __truediv__(self, name):
        return Asked(self.files, self.asked, name)

    def exists(self):
        self.asked.append(self.name)
        return self.name in self.files

    def write_bytes(self, data):
        self.files[self.name] = data


@pytest.mark.parametrize(
    ("index", "count", "neighbours"),
    [(0, 1, set()), (0, 2, {1}), (1, 2, {0}), (0, 5, {4, 1}), (2, 5, {1, 3}), (4, 5, {3, 0})],
)
def test_the_documents_of_both_neighbours_are_looked_for_and_no_others(monkeypatch, index, count, neighbours):
    """The later of two neighbours records that storage is shared, by two look-ups for any number of processes."""
    monkeypatch.setattr(_checkpoint_files, "this_process", lambda: (index, count))
    names = {other: document_name(other, count) for other in range(count)}
    for there in range(count):
        files, asked = {names[there]: b"{}"}, []
        write_document(Asked(files, asked), b"{}")
        assert ("shared_storage" in files) == (there in neighbours)
        assert set(asked) <= {names[other] for other in neighbours} and len(asked) <= 2


class Bucket:
    """A path in an object store: an object is written whole and can't be renamed."""

    def __init__(self, objects, name="gs://bucket"):
        self.objects, self.name = objects, name

    def __str__(self):
        return self.name

    def __truediv__(self, name):
        return Bucket(self.objects, name)

    def write_bytes(self, data):
        self.objects[self.name] = data

    def read_bytes(self):
        return self.objects[self.name]

    def iterdir(self):
        return [Bucket(self.objects, name) for name in self.objects]


def test_an_object_store_gets_one_whole_object():
    """No second name and no rename, which object stores don't have."""
    objects = {}
    write_document(Bucket(objects), b"{}")
    assert objects == {"process_0-of-1.json": b"{}"}
    assert read_state(Bucket(objects)) == b"{}"


WRITER = """
import os, signal, sys
from pathlib import Path
from loaderkit._loader.state_files import write_document

directory, moment = Path(sys.argv[1]), sys.argv[2]

def die_at(event, args):
    if event == moment and any(str(directory) in str(argument) for argument in args):
        os.kill(os.getpid(), signal.SIGKILL)

if moment.isdigit():  # die in the middle of the write: the system kills a process that exceeds this file size
    import resource
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(moment), int(moment)))
else:
    sys.addaudithook(die_at)
write_document(directory, b"new " * 50_000)
"""


@pytest.mark.parametrize("moment", ["open", "0", "1", "100000", "os.rename"])
@pytest.mark.parametrize("old", [None, b"old"])
def test_a_killed_writer_leaves_no_half_document(tmp_path, moment, old):
    """Killed before, while or after the bytes are written: the whole old document restores, or none."""
    if old is not None:
        write_document(tmp_path, old)
    writer = subprocess.run(
        [sys.executable, "-c", WRITER, str(tmp_path), moment], env=_environment(), check=False
    )
    assert writer.returncode in (-signal.SIGKILL, -signal.SIGXFSZ)
    if old is not None:
        assert read_state(tmp_path) == old
    else:
        with pytest.raises(StateError, match="expected data loader states named"):
            read_state(tmp_path)
    write_document(tmp_path, b"next")  # the killed writer's leftovers don't disturb it
    assert [entry.name for entry in tmp_path.iterdir()] == ["process_0-of-1.json"]
    assert read_state(tmp_path) == b"next"


class Later:
    """A directory that appears only when it is waited for."""

    def __init__(self, path):
        self.path = path

    async def await_creation(self):
        self.path.mkdir()
        return self.path


def test_the_newer_interface_takes_the_state_before_the_directory_exists(tmp_path):
    """What `save` returns writes the position at the call, however far the iterator went on meanwhile."""
    iterator = Counter(5)
    commit = asyncio.run(save_async(iterator, Later(tmp_path / "data")))
    next(iterator)
    assert list(tmp_path.iterdir()) == []
    asyncio.run(commit)
    assert json.loads(read_state(tmp_path / "data")) == {"position": 5}


def test_the_newer_interface_restores_with_what_the_iterator_allows(tmp_path):
    """It passes no arguments, so `iterator.allow` says what may differ; the prefetch starts."""
    write_document(tmp_path, Counter(7).get_state())
    iterator = Counter()
    iterator.allow = {"global_batch_size"}
    asyncio.run(asyncio.run(load_async(iterator, tmp_path)))
    assert (iterator.position, iterator.allowed, iterator.prefetching) == (7, {"global_batch_size"}, True)


def test_a_refused_state_names_its_directory(tmp_path):
    """The iterator's own error keeps its type and says where the state came from."""
    write_document(tmp_path, b"{}")
    iterator = Counter()
    with pytest.raises(KeyError) as caught:
        asyncio.run(load_async(iterator, tmp_path))
    assert any(str(tmp_path) in note for note in caught.value.__notes__)
    assert not iterator.prefetching


def test_the_files_need_no_optional_library():
    """The iterator imports this code, so it must not bring in Orbax or JAX."""
    code = "import sys, loaderkit._loader.state_files; print({'orbax', 'jax'} & set(sys.modules))"
    shown = subprocess.run(
        [sys.executable, "-c", code], env=_environment(), capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "set()"


def _environment():
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
