"""A source's `name(record_key)`: shown beside the key wherever a record is named, and asked for nowhere else."""

import json
import logging
import os
import pickle
import threading
from pathlib import Path

import pytest
from internals import variant_of

import loaderkit as lk
from loaderkit._runtime.executors import worker_log as names
from loaderkit._runtime.executors.worker_log import RecordNames
from loaderkit._source.naming import namer_of
from loaderkit.testing.watched_source import WatchedSource

FEW = {"worker_count": 1, "task_rows": 1}


class Files:
    """Records 0 to n - 1, each from a file of its own."""

    def __init__(self, records=12, unreadable=()):
        self.records, self.unreadable, self.asked = records, unreadable, 0

    def __len__(self):
        return self.records

    def __getitem__(self, record_key):
        if record_key in self.unreadable:
            raise OSError("torn")
        return record_key

    def name(self, record_key):
        self.asked += 1
        return f"{record_key:03}.jpg"


def loader_of(source, *operations, task_rows=None, **how):
    loader = lk.DataLoader(
        data_source=source,
        sampler=lk.IndexSampler(len(source), num_epochs=1, seed=0),
        operations=operations,
        **how,
    )
    return loader if task_rows is None else variant_of(loader, task_rows=task_rows)


def bad_at(*keys):
    def decode(element):
        if element in keys:
            raise ValueError(f"{element} is bad")
        return element

    return decode


def notes_of(loader):
    """Of the error that ends it."""
    with loader, pytest.raises(Exception) as raised:
        list(loader)
    return raised.value, "\n".join(raised.value.__notes__)


class Theirs(list):
    """What other libraries' objects have under that name."""

    def __init__(self, name):
        super().__init__([1, 2])
        self.name = name


def raising(record_key):
    raise SystemExit("no names today")


@pytest.mark.parametrize(
    "name",
    [
        "a column",
        None,
        7,
        lambda: "of the whole",
        lambda first, second: "a pair",
        lambda *, record_key: "by keyword",
        lambda *keys: "of any number",
        int.from_bytes,
        {}.get,
        raising,
        lambda record_key: None,
        lambda record_key: {}[record_key],
    ],
)
def test_what_is_no_name_is_not_shown(name):
    """A text, a method for something else, one that fails in any way: the key alone, and the record's own error."""
    assert namer_of(Theirs(name))(1) is None
    error, notes = notes_of(loader_of(Theirs(name), bad_at(2)))
    assert isinstance(error, ValueError) and "(record_key 1) of Theirs" in notes


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("cat.jpg", "cat.jpg"),
        (b"cat\xff.jpg", r"cat\udcff.jpg"),
        (Path("a/b.png"), "a/b.png"),
        (12, "12"),
        ("two\nlines\x1b[31m\u202e", r"two\nlines\x1b[31m\u202e"),
        ("ab" * 10**7, "ab" * 50 + "…" + "ab" * 50),
        ("\x00" * 1000, r"\x00" * 25 + "…" + r"\x00" * 25),
    ],
)
def test_a_name_is_one_short_line(name, shown):
    """Of a long one both ends; what would move a cursor or colour a terminal is escaped."""
    assert namer_of(Theirs(lambda record_key, more=1: name))(0) == shown


def test_an_interrupt_is_no_wrong_name():
    """Ctrl-C ends the program."""

    def name(record_key):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        namer_of(Theirs(name))(0)


@pytest.mark.parametrize("how", [{}, pytest.param(FEW, marks=pytest.mark.slow)], ids=["trainer", "process"])
def test_an_error_of_the_users_names_the_record(how):
    """In its note, whichever process it was raised in."""
    error, notes = notes_of(loader_of(Files(), bad_at(3), **how))
    assert str(error) == "3 is bad"
    assert "for index 3 (record_key 3 '003.jpg') of Files, at step 3" in notes


@pytest.mark.slow
def test_a_record_that_ends_its_worker_is_named(caplog):
    """In the error's note and in what is logged of the worker."""
    error, notes = notes_of(
        loader_of(Files(), lambda x: x if x != 3 else os._exit(5), max_worker_restarts=0, **FEW)
    )
    assert isinstance(error, lk.WorkerError) and error.record_keys == (3,)
    assert "the data source Files calls record_key 3 '003.jpg'" in notes
    assert any("(record keys 3 '003.jpg')" in record.getMessage() for record in caplog.records)


def test_reads_that_were_tried_again_are_named():
    """In the note of all attempts, which the worker makes."""
    retry = lk.ReadOptions(retry=lk.Retry(attempts=2, wait=0.0))
    _, notes = notes_of(loader_of(Files(unreadable={4}), read_options=retry))
    assert "read of record_key 4 '004.jpg': attempt 1 ended" in notes


def test_bad_records_are_named(tmp_path, caplog):
    """In the quarantine file, in the log, to the user's function, and where they are too many; others say no name."""
    path = tmp_path / "bad"
    caplog.set_level(logging.WARNING, "loaderkit")
    for source in (Files(), lk.RangeDataSource(0, 12, 1)):
        list(loader_of(source, bad_at(2, 7), lk.Batch(4), on_record_error="skip", quarantine=path))
    first, second, *others = map(json.loads, path.read_text().splitlines())
    assert [(first["record_key"], first["name"]), second["name"]] == [(2, "002.jpg"), "007.jpg"]
    assert len(others) == 2 and all("name" not in line for line in others)
    assert "record_key 2 '002.jpg' of Files (index 2) is bad" in caplog.text

    def instead(error, metadata):
        return metadata.name

    assert list(loader_of(Files(3), bad_at(1), on_record_error=instead)) == [0, "001.jpg", 2]
    for policy in ("replace", "skip"):
        many = loader_of(Files(), bad_at(5), on_record_error=policy, max_bad_records=0)
        with pytest.raises(lk.errors.BadRecordsError, match=r"\(record_key 5 '005.jpg'\)"):
            list(many)
    hopeless = loader_of(Files(3), bad_at(0, 1, 2), on_record_error="skip")
    with pytest.raises(lk.errors.BadRecordsError, match=r"\(record_key \d '00\d.jpg'\)"):
        list(hopeless)


def test_planned_records_have_names():
    """Of the loader and of an iterator; they are equal, and travel, as without one."""
    loader = loader_of(Files(), lk.Batch(4))
    planned = loader.records(1)
    assert [record.name for record in planned] == ["004.jpg", "005.jpg", "006.jpg", "007.jpg"]
    assert repr(planned[0]).endswith("rng=Generator(Philox), name='004.jpg')")
    with iter(loader) as it:
        assert [record.name for record in it.records(1)] == [record.name for record in planned]
    plain = loader_of(range(12), lk.Batch(4)).records(1)
    assert planned == plain and "name" not in repr(plain)
    assert pickle.loads(pickle.dumps(planned))[0].name == "004.jpg"
    assert planned[0].remove_record_key().name is None


def test_names_are_asked_for_only_where_they_are_shown():
    """An epoch without an error asks for none."""
    source = Files(100)
    assert len(list(loader_of(source, lk.Batch(4)))) == 25
    assert source.asked == 0


def test_composed_sources_pass_names_on():
    """Of the part that has the record, by its key there; a part without names has none."""
    both = lk.ConcatDataSource([Files(3), range(5), Files(4)])
    assert [both.name(key) for key in (0, 2, 3, 7, 8, 11)] == [
        "000.jpg", "002.jpg", None, None, "000.jpg", "003.jpg"
    ]  # fmt: skip
    some = lk.SubsetDataSource(both, [9, 4, 1])
    # There is no record 3.
    assert [namer_of(some)(key) for key in range(4)] == ["001.jpg", None, "001.jpg", None]
    assert WatchedSource(both).name(8) == "000.jpg"


def test_array_records_are_named_by_file_and_position(tmp_path):
    """The position is that in the file, also in a part of it."""
    module = pytest.importorskip("array_record.python.array_record_module", exc_type=ImportError)
    for name in ("a", "b"):
        writer = module.ArrayRecordWriter(str(tmp_path / name), "group_size:1")
        for record in range(4):
            writer.write(b"%d" % record)
        writer.close()
    with lk.ArrayRecordDataSource([f"{tmp_path}/a[1:3]", f"{tmp_path}/b"]) as source:
        assert [source.name(key) for key in (0, 1, 2, 5)] == [
            f"{tmp_path}/a[1]", f"{tmp_path}/a[2]", f"{tmp_path}/b[0]", f"{tmp_path}/b[3]"
        ]  # fmt: skip
        assert source[1] == b"2"


def test_what_is_logged_does_not_wait_for_a_name(monkeypatch):
    """The pump tells of workers that are stuck in a source; one that hangs when it is asked is asked once."""
    monkeypatch.setattr(names, "_ANSWER_SECONDS", 0.05)
    answer, asked = threading.Event(), []

    def name(record_key):
        asked.append(record_key)
        answer.wait()
        return "late"

    logged = RecordNames(name)
    assert logged.keyed([3, 4]) == logged.keyed([3, 4]) == ["3", "4"]
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "loaderkit-names")
    answer.set()
    thread.join()
    assert asked == [3, 4]
    assert RecordNames({3: "a"}.get).keyed([3, 4]) == ["3 'a'", "4"]
    assert RecordNames(None).keyed([3]) == ["3"]
