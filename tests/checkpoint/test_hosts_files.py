"""The files of several processes: which of them a process reads, and which directories are refused by name."""

import json

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._loader import state_files as _checkpoint_files
from loaderkit._loader.state_files import document_name, read_state, restore_from
from loaderkit.errors import StateError


class Shelf:
    """A directory in memory that notes which files are read."""

    def __init__(self, files, name="shelf", read=None):
        self.files, self.name = files, name
        self.read = [] if read is None else read

    def __str__(self):
        return self.name

    def __truediv__(self, name):
        return Shelf(self.files, name, self.read)

    def iterdir(self):
        return [self / name for name in self.files]

    def read_bytes(self):
        self.read.append(self.name)
        return self.files[self.name]


def loaders(hosts, *operations, streams=1):
    return [
        lk.DataLoader(
            data_source=range(100),
            sampler=lk.IndexSampler(100, shuffle=True, seed=1),
            operations=[*operations, lk.Batch(global_batch_size=24)],
            shard_options=lk.ShardOptions(host, hosts),
            logical_streams=streams,
        )
        for host in range(hosts)
    ]


def saved(hosts, steps, *operations, streams=1):
    """The files that so many processes write after so many steps."""
    files = {}
    for host, loader in enumerate(loaders(hosts, *operations, streams=streams)):
        with iter(loader) as it:
            for _ in range(steps):
                next(it)
            files[document_name(host, hosts)] = it.get_state()
    return files


def test_where_rows_keep_their_number_a_process_reads_one_document():
    """The one of its own number, and of the next one no more than the step."""
    files = saved(8, 3)
    assert len(set(files.values())) == 1
    for loader in loaders(2):
        shelf = Shelf(files)
        with iter(loader) as it:
            restore_from(it, shelf, ())
            assert it.step == 3
        assert shelf.read == ["process_0-of-8.json", "process_1-of-8.json"]


@pytest.mark.parametrize(
    ("process", "read"), [(0, [0, 1]), (1, [1, 2]), (2, [2, 0]), (3, [0, 1]), (5, [2, 0])]
)
def test_process_i_of_any_number_reads_document_i_mod_n_and_the_one_behind_it(monkeypatch, process, read):
    """So all documents are compared in a ring, and not every process reads the same one."""
    monkeypatch.setattr(_checkpoint_files, "this_process", lambda: (process, 6))
    shelf = Shelf(saved(3, 1))
    read_state(shelf)
    assert shelf.read == [document_name(other, 3) for other in read]


FILTER = lk.Filter(lambda key: key % 3)


@pytest.mark.parametrize("hosts", [1, 2, 3, 6, 12])
def test_with_streams_a_process_reads_the_documents_of_its_own(hosts):
    """Of 6 processes' documents exactly those whose streams it has now, beside the first: never all in every process.
    Together they go on with the same batches.
    """
    files = saved(6, 4, FILTER, streams=12)
    (whole,) = loaders(1, FILTER, streams=12)
    with iter(whole) as it:
        expected = [next(it) for _ in range(6)][4:]
    parts = []
    for host, loader in enumerate(loaders(hosts, FILTER, streams=12)):
        shelf = Shelf(files)
        with iter(loader) as it:
            restore_from(it, shelf, ())
            parts.append([next(it) for _ in range(2)])
        writers = {stream // 2 for stream in range(12) if stream * hosts // 12 == host}
        assert set(shelf.read) == {document_name(writer, 6) for writer in {0, 1} | writers}
        assert len(shelf.read) == len(set(shelf.read))
    for step, batch in enumerate(expected):
        assert np.concatenate([part[step] for part in parts]).tolist() == batch.tolist()


@pytest.mark.parametrize("operations", [(), (FILTER,)], ids=["plain", "row-changing"])
def test_of_eight_documents_seven_arrived(operations):
    """The missing one is named, also by processes that wouldn't have read it."""
    files = saved(8, 2, *operations, streams=8)
    del files["process_5-of-8.json"]
    for loader in loaders(2, *operations, streams=8):
        with iter(loader) as it:
            with pytest.raises(StateError, match=r"expected process_5-of-8\.json.*got process_0-of-8\.json"):
                restore_from(it, Shelf(files), ())
            assert it.step == 0


@pytest.mark.parametrize("operations", [(), (FILTER,)], ids=["plain", "row-changing"])
def test_documents_of_two_steps_are_refused(operations):
    """The error names both files and both steps, and the position stays."""
    files = saved(2, 2, *operations, streams=2)
    files["process_1-of-2.json"] = saved(2, 3, *operations, streams=2)["process_1-of-2.json"]
    for loader in loaders(2, *operations, streams=2):
        with iter(loader) as it:
            with pytest.raises(StateError) as caught:
                restore_from(it, Shelf(files), ())
            told = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
            for word in ("step", "process_0-of-2.json", "process_1-of-2.json", " 2 ", " 3"):
                assert word in told
            assert it.step == 0


def test_on_storage_of_its_own_a_processs_document_is_enough():
    """If it is the only file, no other is needed, unless it lacks logical streams of this process."""
    files = saved(4, 2)
    own = {"process_0-of-4.json": files["process_0-of-4.json"]}
    with iter(loaders(4)[0]) as it:
        restore_from(it, Shelf(own), ())
        assert it.step == 2
    streams = saved(4, 2, FILTER, streams=4)
    own = {"process_0-of-4.json": streams["process_0-of-4.json"]}
    same, *_ = loaders(4, FILTER, streams=4)
    with iter(same) as it:
        restore_from(it, Shelf(own), ())
        assert it.step == 2
    fewer, *_ = loaders(2, FILTER, streams=4)
    with iter(fewer) as it, pytest.raises(StateError, match=r"expected process_1-of-4\.json"):
        restore_from(it, Shelf(own), ())


def test_a_document_that_is_left_of_several_is_not_enough():
    """On shared storage a single file looks like a host's own storage; the file `shared_storage` tells them apart."""
    files = {"process_0-of-2.json": saved(2, 2)["process_0-of-2.json"], "shared_storage": b""}
    for loader in loaders(2):
        with iter(loader) as it:
            with pytest.raises(StateError, match=r"expected process_1-of-2\.json"):
                restore_from(it, Shelf(files), ())
            assert it.step == 0


def test_anothers_document_alone_is_not_enough():
    """It isn't the file of this process: the error names the missing files."""
    files = {"process_3-of-4.json": saved(4, 2)["process_3-of-4.json"]}
    with pytest.raises(StateError, match=r"expected process_0-of-4\.json, process_1-of-4\.json, process_2"):
        read_state(Shelf(files))


def test_a_state_of_another_data_set_names_its_file():
    """The field that differs, both values, and where the state came from."""
    files = saved(2, 1)
    for name, state in files.items():
        document = json.loads(state) | {"source": {"kind": "other"}}
        del document["digest"]
        files[name] = json.dumps(document).encode()
    with iter(loaders(2)[0]) as it, pytest.raises(lk.CheckpointMismatchError, match="source") as caught:
        restore_from(it, Shelf(files), ())
    assert any("process_0-of-2.json" in note for note in caught.value.__notes__)
