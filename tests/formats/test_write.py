"""lk.write: what goes in comes out, whole or not at all, the same bytes for any workers."""

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from round_trip import MIXED, RECORDS, same

import loaderkit as lk
from loaderkit._base.system.made_folder import MADE
from loaderkit.formats._writing.byte_file import ByteFile

SOURCES = {
    "array_record": lk.ArrayRecordDataSource,
    "tfrecord": lk.TFRecordDataSource,
    "jsonl": lk.JsonLinesDataSource,
}
BYTES = [b"one", b"", b"\n\r__loaderkit__", b"\xc1lk1", b"two" * 1000]


def digests(files):
    return [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files]


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("records", [RECORDS, MIXED, BYTES], ids=["leaves", "mixed", "bytes"])
def test_records_come_back(tmp_path, name, records):
    files = lk.write(records, tmp_path / "set", format=name, shards=2)
    assert sorted(os.listdir(tmp_path)) == ["set"]
    assert files == [str(tmp_path / "set" / f"0000{i}-of-00002.{name}") for i in range(2)]
    with SOURCES[name](files) as source:
        assert same([source[key] for key in range(len(source))], records)
        assert same(source.__getitems__([1, 0]), [records[1], records[0]])
        assert source.fingerprint()
    one = lk.write(iter(records), tmp_path / f"one.{name}")
    with SOURCES[name](one) as source:
        assert same(source[len(records) - 1], records[-1])


def test_one_record_is_made_before_the_workers_start(tmp_path):
    """It tells how records are encoded; what a function makes of many together may take as long as a shard."""
    made = []

    def value(record):
        made.append(record)
        return {"x": int(record)}

    source = lk.MapDataSource(lk.RangeDataSource(100), value)
    lk.write(source, tmp_path / "set", format="jsonl", shards=2, worker_count=0)
    assert [int(record) for record in made] == [0, *range(100)]


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_bytes_for_any_workers(tmp_path, name):
    ways = [
        (RECORDS, 0, "process"),
        (RECORDS, 2, "process"),
        (RECORDS, 2, "thread"),
        (lambda: iter(RECORDS), 0, "process"),
    ]
    for sizes in ({"shards": 3}, {"shard_bytes": 1500}):
        found = set()
        used = ways if name == "tfrecord" else ways[::3]  # processes take long to start
        for number, (records, count, kind) in enumerate(used):
            path = tmp_path / f"{number}-{next(iter(sizes))}"
            files = lk.write(records, path, format=name, worker_count=count, worker_kind=kind, **sizes)
            found.add(tuple(digests(files)))
        assert len(found) == 1 and len(found.pop()) > 1


def test_a_target_that_exists_stays(tmp_path):
    for path, name in ((tmp_path / "a.jsonl", None), (tmp_path / "a", "jsonl")):
        files = lk.write(RECORDS[:2], path, format=name)
        before = digests(files)
        with pytest.raises(FileExistsError, match="overwrite=True"):
            lk.write(RECORDS, path, format=name)
        assert digests(files) == before
        lk.write(RECORDS, path, format=name, overwrite=True)
        assert len(lk.JsonLinesDataSource(files)) == 7
    (tmp_path / "a" / "notes").write_text("mine")
    with pytest.raises(FileExistsError, match="'notes'"):
        lk.write(RECORDS, tmp_path / "a", format="jsonl", overwrite=True)


def failing():
    yield from RECORDS
    raise RuntimeError("no more")


@pytest.mark.parametrize("sizes", [{}, {"shards": 2}])
def test_a_generator_that_raises_leaves_nothing(tmp_path, sizes):
    with pytest.raises(RuntimeError, match="no more"):
        lk.write(failing, tmp_path / "set", format="tfrecord", **sizes)
    assert not (tmp_path / "set").exists()
    lk.write(RECORDS, tmp_path / "set", format="tfrecord", shards=2)
    assert os.listdir(tmp_path) == ["set"]


def dropped(path):
    head, *entries = map(json.loads, Path(f"{path}.dropped.jsonl").read_text().splitlines())
    assert head == {"kind": "loaderkit dropped records", "records": len(entries)}
    return entries


def test_bad_records_are_named_or_dropped(tmp_path):
    """A list beside the files says which, and why; by one process and by workers."""
    records = [*RECORDS[:2], b"bytes", RECORDS[3]]
    text = "expected dict as the first record is, got bytes"
    for sizes in ({"shards": 2}, {"shard_bytes": 10**6}, {"shards": 2, "worker_count": 1}):
        for given in (records, lambda: iter(records)):
            with pytest.raises(ValueError, match="record 2: expected dict as the first record is, got bytes"):
                lk.write(given, tmp_path / "set", format="tfrecord", **sizes)
            files = lk.write(given, tmp_path / "set", format="tfrecord", on_record_error="drop", **sizes)
            assert len(lk.TFRecordDataSource(files)) == 3
            (entry,) = dropped(tmp_path / "set")
            assert entry["record_key"] == 2 and text in entry["error"]
            shutil.rmtree(tmp_path / "set")


@pytest.mark.parametrize(
    "given", [lambda it: it, iter, lambda it: lambda: it], ids=["loader", "iterator", "function"]
)
def test_a_loader_without_end_is_refused(given, tmp_path):
    """It would be written until the disk is full."""
    with pytest.raises(
        ValueError, match="expected a stream that ends, got an endless one; write num_epochs=1"
    ):
        lk.write(given(lk.load(RECORDS)), tmp_path / "set", format="tfrecord")
    assert not os.listdir(tmp_path)
    assert lk.write(given(lk.load(RECORDS, num_epochs=1)), tmp_path / "set", format="tfrecord")


def test_the_list_of_dropped_records_replaces_no_file_of_the_users(tmp_path):
    """A list of an earlier run is replaced, also by one of no record."""
    for records in ([*RECORDS[:2], b"bytes"], RECORDS[:2]):
        lk.write(records, tmp_path / "a.tfrecord", on_record_error="drop", overwrite=True)
        assert len(dropped(tmp_path / "a.tfrecord")) == len(records) - 2
    (tmp_path / "b.tfrecord.dropped.jsonl").write_text("mine")
    with pytest.raises(FileExistsError, match=r"b\.tfrecord\.dropped\.jsonl: expected the list"):
        lk.write(RECORDS, tmp_path / "b.tfrecord", on_record_error="drop")
    assert (tmp_path / "b.tfrecord.dropped.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"records": []}, ValueError, "expected one record or more"),
        ({"records": iter([])}, ValueError, "expected one or more"),
        ({"records": 3}, TypeError, "records: expected a data source"),
        (
            {"format": None},
            ValueError,
            r"format: expected one for the folder .*ends in \.array_record, \.tar",
        ),
        (
            {"format": None, "path": "x.csv"},
            ValueError,
            r"for 'x\.csv', as csv is only read, got None; give .*\.jsonl",
        ),
        ({"format": "csv"}, ValueError, "format: expected one of array_record"),
        ({"shards": 2, "shard_bytes": 5}, ValueError, "give one of them"),
        ({"shards": 9}, ValueError, "at most the 7 records"),
        ({"on_record_error": "skip"}, ValueError, "'raise' or 'drop'"),
    ],
)
def test_bad_arguments(tmp_path, arguments, error, text):
    given = {"records": RECORDS, "path": tmp_path / "set", "format": "jsonl"} | arguments
    with pytest.raises(error, match=text):
        lk.write(**given)
    assert not (tmp_path / "set").exists()


KILLED = """
import os, signal, sys, loaderkit as lk
class Source:
    def __len__(self): return 40
    def __getitem__(self, key):
        if key == int(sys.argv[2]): os.kill(os.getpid(), signal.SIGKILL)
        return b"%d" % key
    def fingerprint(self): return {"n": 40}
lk.write(Source(), sys.argv[1], format="tfrecord", shards=4)
"""


def test_a_killed_run_goes_on(tmp_path):
    path = tmp_path / "set"
    done = subprocess.run([sys.executable, "-c", KILLED, path, "25"], check=False)
    assert done.returncode == -signal.SIGKILL and not path.exists()
    first = path.with_name("set.partial") / "00000-of-00004.tfrecord"
    inode = first.stat().st_ino
    subprocess.run([sys.executable, "-c", KILLED, path, "-1"], check=True)
    assert os.listdir(tmp_path) == ["set"] and len(os.listdir(path)) == 4 + len([MADE, "the index"])
    assert (path / first.name).stat().st_ino == inode
    assert [*lk.TFRecordDataSource(path / "*.tfrecord")] == [b"%d" % key for key in range(40)]


KILLED_OVER_A_SET = """
import os, signal, sys, loaderkit as lk
from loaderkit._base.system import made_folder
from loaderkit.formats._writing import target

def write(writer, path, records, **options):
    if writer == "write":
        lk.write(records, path, format="jsonl", shards=2, **options)
    else:
        lk.offline.map_shards(dict, records, path, format="jsonl", shards=2, version=1, **options)

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

old, new = ([{"x": x}, {"x": x}] for x in (1, 2))
for writer in ("write", "map"):
    for step in ("exchanged", "renamed"):
        path = f"{sys.argv[1]}/{writer}-{step}"
        write(writer, path, old)
        if os.fork():
            assert os.wait()[1] == signal.SIGKILL
            continue
        if step == "exchanged":
            target.delete_rest = kill
        else:
            made_folder._exchanged = lambda *_: False
            rename = os.rename
            os.rename = lambda one, other: kill() if other == path else rename(one, other)
        write(writer, path, new, overwrite=True)
"""


def test_a_run_killed_while_it_replaces_a_set_leaves_a_whole_one(tmp_path):
    """Where the system exchanges two names, it has the set's; elsewhere the next run gives it the name back."""
    subprocess.run([sys.executable, "-c", KILLED_OVER_A_SET, tmp_path], check=True)
    for writer in ("write", "map"):
        exchanged, renamed = (tmp_path / f"{writer}-{step}" for step in ("exchanged", "renamed"))
        assert [*lk.JsonLinesDataSource(exchanged / "*.jsonl")] == [{"x": 2}, {"x": 2}]
        assert not renamed.exists()
        for path in (exchanged, renamed):
            for options, error in (({}, FileExistsError), ({"overwrite": True}, None)):
                records = [{"x": 3}, {"x": 4}]
                with pytest.raises(error) if error else contextlib.nullcontext():
                    if writer == "write":
                        lk.write(records, path, format="jsonl", shards=2, **options)
                    else:
                        lk.offline.map_shards(
                            dict, records, path, format="jsonl", shards=2, version=2, **options
                        )
                expected = [{"x": 1}, {"x": 1}] if error and path == renamed else [{"x": 2}, {"x": 2}]
                assert [*lk.JsonLinesDataSource(path / "*.jsonl")] == (expected if error else records)
    assert len(os.listdir(tmp_path)) == 4


def test_a_file_of_other_records_is_not_taken_for_one_of_these(tmp_path, monkeypatch):
    """Two runs of files of equal size were killed: at the end, and between a file and its .done."""
    first, second = [{"x": 1}, {"x": 2}], [{"x": 3}, {"x": 4}]

    def killed(*_):
        raise KeyboardInterrupt

    for name, records in (("target.WriteTarget.finish", first), ("shard_result.whole_file", second)):
        with monkeypatch.context() as patch:
            patch.setattr(f"loaderkit.formats._writing.{name}", killed)
            with pytest.raises(KeyboardInterrupt):
                lk.write(records, tmp_path / "set", format="jsonl", shards=2, overwrite=True)
    files = lk.write(first, tmp_path / "set", format="jsonl", shards=2, overwrite=True)
    assert [*lk.JsonLinesDataSource(files)] == first


def test_a_file_of_a_generator_is_not_taken_for_one_of_a_source(tmp_path, monkeypatch):
    """A run of a source was killed at its end, then one of a generator with files of equal size and names."""
    first, second = [{"x": 1}, {"x": 2}], [{"x": 3}, {"x": 4}]

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("loaderkit.formats._writing.target.WriteTarget.finish", killed)
        for records in (first, iter(second)):
            with pytest.raises(KeyboardInterrupt):
                lk.write(records, tmp_path / "set", format="jsonl", shards=2)
    files = lk.write(first, tmp_path / "set", format="jsonl", shards=2)
    assert [*lk.JsonLinesDataSource(files)] == first


class Changed:
    """Its file was replaced behind record 2."""

    def __len__(self):
        return 4

    def __getitem__(self, key):
        if key > 1:
            raise lk.errors.FileChangedError("a.tar: changed")
        return {"x": key}


@pytest.mark.parametrize("shards", [None, 1, 2])
def test_a_changed_file_is_no_bad_record(tmp_path, shards):
    """Its records would all be left out."""
    with pytest.raises(lk.errors.FileChangedError):
        lk.write(Changed(), tmp_path / "set", format="jsonl", shards=shards, on_record_error="drop")
    assert not (tmp_path / "set").exists()


class Corrected:
    """The class of a source, before and after a correction; it declares no fingerprint."""

    def __init__(self, offset, kill):
        self.offset, self.kill = offset, kill

    def __len__(self):
        return 40

    def __getitem__(self, key):
        if self.kill and key == 30:
            raise KeyboardInterrupt
        return {"x": key + self.offset}


def test_a_corrected_source_is_written_again(tmp_path):
    """Not behind the files that the killed run had finished: it is said, and overwrite=True begins again."""
    write = functools.partial(lk.write, path=tmp_path / "set", format="jsonl", shards=2)
    with pytest.raises(KeyboardInterrupt):
        write(Corrected(0, True))
    with pytest.raises(
        lk.errors.ResumeMismatchError, match=r"set\.partial: .*source: content: .* there and .* here"
    ):
        write(Corrected(5, False))
    files = write(Corrected(5, False), overwrite=True)
    assert [record["x"] for record in lk.JsonLinesDataSource(files)] == [*range(5, 45)]


def plus_one(record):
    return {"x": record + 1}


def plus_two(record):
    return {"x": record + 2}


plus_two.__qualname__ = "plus_one"  # as after an edit

WAYS = {
    "write": lambda function, source, path, **how: lk.write(
        lk.MapDataSource(source, function), path, format="jsonl", shards=4, **how
    ),
    "map_shards": lambda function, source, path, **how: lk.offline.map_shards(
        function, source, path, format="jsonl", shards=4, **how
    ),
}


class Killed:
    """Numbers; the file `flag` ends a run at the last quarter."""

    def __init__(self, flag):
        self.flag = flag

    def __len__(self):
        return 40

    def __getitem__(self, key):
        if key == 30 and self.flag.exists():
            raise KeyboardInterrupt
        return key

    def fingerprint(self):
        return {"n": 40}


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_changed_since_a_kill(tmp_path, way):
    """Its records aren't mixed with those of the function before, unless the user says that both give the same."""
    path, flag = tmp_path / "set", tmp_path / "flag"
    write = functools.partial(WAYS[way], source=Killed(flag), path=path)

    def killed(**how):
        flag.touch()
        with pytest.raises(KeyboardInterrupt):
            write(plus_one, **how)
        flag.unlink()

    mixed, anew = [*range(1, 31), *range(32, 42)], [*range(2, 42)]
    for before, how, expected in (
        (
            {},
            {},
            r"set\.partial: .*code: .*plus_one\(.*' there and .*plus_two\(.*' here\..*overwrite=True.*, or allow=",
        ),
        ({}, {"overwrite": True}, anew),
        ({}, {"allow": {"function"}}, mixed),
        ({"version": "a"}, {"version": "a"}, mixed),
        ({"version": "a"}, {"version": "b"}, anew),
        ({"version": "a"}, {}, r"function: code: 'nothing' there and .* here\. "),
    ):
        killed(**before)
        if isinstance(expected, str):
            with pytest.raises(lk.errors.ResumeMismatchError, match=expected):
                write(plus_two, **how)
        else:
            files = write(plus_two, **how)
            assert [record["x"] for record in lk.JsonLinesDataSource(files)] == expected
            shutil.rmtree(path)
        shutil.rmtree(tmp_path / "set.partial", ignore_errors=True)


def test_the_first_record_is_dropped_as_others_are(tmp_path):
    """It decides the fields only where it can be written."""
    records = [None, {"x": 1}, {"x": 2}]
    for given in (records, lambda: iter(records)):
        for sizes in ({}, {"shards": 2}):
            path = tmp_path / "set"
            files = lk.write(given, path, format="parquet", on_record_error="drop", overwrite=True, **sizes)
            assert [record["x"] for record in lk.ParquetDataSource(files) if record] == [1, 2]
    with pytest.raises(ValueError, match="expected one or more that can be written, got none"):
        lk.write([None], tmp_path / "none", format="parquet", on_record_error="drop")


def test_an_error_leaves_no_unfinished_file(tmp_path):
    """Nothing of it could be used again, and a disk may be full of it."""
    for sizes in ({}, {"shards": 2}):
        with pytest.raises(RuntimeError, match="no more"):
            lk.write(failing, tmp_path / "set", format="jsonl", **sizes)
        with pytest.raises(RuntimeError, match="no more"):
            lk.write(failing, tmp_path / "a.jsonl")
        assert os.listdir(tmp_path) == []


def test_an_error_names_the_record_and_the_shard_of_the_user(tmp_path):
    """Not the steps of the loader that ran over the shards."""
    with pytest.raises(lk.errors.FileChangedError) as caught:
        lk.write(Changed(), tmp_path / "set", format="jsonl", shards=2)
    assert caught.value.__notes__ == ["record_key 2", "while shard 1 of 2 was made"]


def test_an_extension_says_the_format(tmp_path):
    """Also the ones that other programs write; a folder has none."""
    assert lk.write(RECORDS, tmp_path / "x.feather") == [str(tmp_path / "x.feather")]
    assert lk.write(RECORDS, tmp_path / "y.feather", format="arrow") == [str(tmp_path / "y.feather")]
    assert len(lk.formats.ArrowDataSource(tmp_path / "y.feather")) == len(RECORDS)
    with pytest.raises(
        ValueError, match=r"format: expected 'tar' for .*x.tar'.*got 'parquet'.*/x.parquet, or a"
    ):
        lk.write(RECORDS, tmp_path / "x.tar", format="parquet")


@pytest.mark.parametrize("name", SOURCES)
def test_a_full_disk_leaves_nothing_under_the_name(tmp_path, name):
    code = (
        "import os, resource, signal, sys, loaderkit as lk\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "try: lk.write([os.urandom(1000) for _ in range(1000)], sys.argv[1])\n"
        "except OSError as error: print('full', os.path.basename(sys.argv[1]) in str(error))"
    )
    path = tmp_path / f"a.{name}"
    done = subprocess.run([sys.executable, "-c", code, path], check=False, capture_output=True, text=True)
    assert done.stdout == "full True\n" and not path.exists()


def test_a_loader_names_lk_write_for_a_generator(tmp_path, monkeypatch):
    """What the error says to write gives the records of the generator."""

    def numbers():
        yield from RECORDS

    monkeypatch.chdir(tmp_path)
    for given in (numbers(), numbers, map(str, RECORDS)):
        for call in (lk.load, lambda source: lk.DataLoader(data_source=source, sampler=lk.IndexSampler(7))):
            with pytest.raises(TypeError, match=r"first, once, by lk\.write\(generator, ") as raised:
                call(given)
    code = re.findall(r"lk\.\w+\('?[^)]*\)", str(raised.value))
    eval(code[0], {"lk": lk, "generator": numbers()})
    with eval(code[1], {"lk": lk}) as source:
        assert same([*source], RECORDS)


class OnlyIterated:
    """As torch's IterableDataset: its __getitem__ is inherited, and raises."""

    def __iter__(self):
        yield from RECORDS

    def __getitem__(self, key):
        raise NotImplementedError


def test_what_has_no_length_is_iterated(tmp_path):
    lk.write(OnlyIterated(), tmp_path / "a.jsonl")
    assert same([*lk.JsonLinesDataSource(tmp_path / "a.jsonl")], RECORDS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # webdataset leaves files open
@pytest.mark.torch
@pytest.mark.parametrize("length", [False, True])
def test_a_web_dataset_is_iterated(tmp_path, length):
    """With its with_length too, which only tells a number."""
    pytest.importorskip("torch")
    web = pytest.importorskip("webdataset")
    lk.write([{"cls": b"0"}, {"cls": b"1"}], tmp_path / "a.tar")
    dataset = web.WebDataset(str(tmp_path / "a.tar"), shardshuffle=False).to_tuple("cls")
    if length:
        dataset = dataset.with_length(2, silent=True)
    lk.write(dataset, tmp_path / "a.jsonl")
    assert [*lk.JsonLinesDataSource(tmp_path / "a.jsonl")] == [(b"0",), (b"1",)]


def test_an_iterator_that_begins_again_is_written_once(tmp_path):
    """LitData's data set is its own iterator, and goes to its start wherever iter() is called on it."""

    class Restarting:
        def __iter__(self):
            self.left = iter(RECORDS)
            return self

        def __next__(self):
            return next(self.left)

    (file,) = lk.write(Restarting(), tmp_path / "x.tfrecord")
    with lk.TFRecordDataSource(file) as source:
        assert len(source) == len(RECORDS) and all(map(same, source, RECORDS))


def test_read_options_are_refused_where_they_would_mean_nothing(tmp_path):
    options = lk.ReadOptions(num_threads=2)
    with pytest.raises(
        ValueError, match=r"read_options: expected None for a source with shards=2, .*; give shard_bytes="
    ):
        lk.write(RECORDS, tmp_path / "set", format="tfrecord", shards=2, read_options=options)
    lk.write(RECORDS, tmp_path / "a.tfrecord", read_options=options, worker_count=1)
    assert same([*lk.TFRecordDataSource(tmp_path / "a.tfrecord")], RECORDS)


def test_only_what_a_manifest_lists_is_replaced(tmp_path):
    """A user's file beside the files of a set, in place of one, or in the folder of unfinished work, stays."""
    path = tmp_path / "set"
    files = lk.write(RECORDS, path, format="jsonl", shards=2)
    assert len(lk.JsonLinesDataSource(f"{path}/*")) == len(RECORDS)  # and an index beside them
    again = functools.partial(lk.write, RECORDS, path, format="jsonl", shards=2, overwrite=True)
    again()
    for name, content in (
        ("00007.tar", b"mine"),
        ("x.lkx", b"LKINDEX of other data"),
        ("data-2-01234567.lkx", b"mine"),
        (os.path.basename(files[1]), b"longer" * 99),
    ):
        kept = (path / name).read_bytes() if (path / name).exists() else None
        (path / name).write_bytes(content)
        with pytest.raises(FileExistsError, match=re.escape(repr(name))):
            again()
        assert (path / name).read_bytes() == content
        (path / name).unlink() if kept is None else (path / name).write_bytes(kept)
    again()
    left = tmp_path / "set.partial"
    left.mkdir()
    (left / "00000-of-00002.jsonl").write_bytes(b"mine")
    for write in (
        again,
        lambda: lk.offline.map_shards(dict, RECORDS, path, version=1, format="jsonl", overwrite=True),
    ):
        with pytest.raises(FileExistsError, match=r"'00000-of-00002\.jsonl'"):
            write()
    assert os.listdir(left) == ["00000-of-00002.jsonl"]


def test_a_set_of_version_0_1_is_recognised(tmp_path):
    """It has no manifest: all files of one count and format, and nothing else."""
    path = tmp_path / "set"
    again = functools.partial(lk.write, RECORDS, path, format="jsonl", shards=2, overwrite=True)
    files = again()
    (path / MADE).unlink()
    assert again() == files
    (path / MADE).write_text("{}")
    with pytest.raises(lk.errors.DataFormatError, match=r"made\.json: expected what loaderkit"):
        again()
    (path / MADE).unlink()
    (path / "notes").write_text("mine")
    with pytest.raises(FileExistsError, match="got 'notes'"):
        again()
    (path / "notes").unlink()
    os.unlink(files[0])
    with pytest.raises(FileExistsError, match="got '00001-of-00002"):
        again()
    assert [each for each in os.listdir(path) if ".lkx" not in each] == ["00001-of-00002.jsonl"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is always full")
def test_a_file_that_is_given_up_says_nothing_of_a_full_disk():
    """What made the writer give it up is the error."""
    for end, error in (("abandon", None), ("close", "No space left on device: '/dev/full'")):
        file = ByteFile("/dev/full")
        file.add(b"what is only in memory yet")
        with contextlib.nullcontext() if error is None else pytest.raises(OSError, match=error):
            getattr(file, end)()
        file._file.raw.close()
