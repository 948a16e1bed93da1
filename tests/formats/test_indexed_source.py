"""A source over an index: keys, parts of files, names, fingerprint, copies in workers."""

import io
import itertools
import pickle
import tarfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from formats.records import tfrecord
from hypothesis import given
from hypothesis import strategies as st
from index_data import BlocksDataSource, blocks

import loaderkit as lk
from loaderkit._plan.state.data_fingerprint import said_by_some
from loaderkit._runtime.cluster.agreement import differences
from loaderkit.formats._index.build import build_index
from loaderkit.formats._index.part_file import ScanOptions
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats.tar.scanner import TarFormat
from loaderkit.formats.text.line_scanner import LinesFormat
from loaderkit.formats.tfrecord.scanner import TFRecordFormat

SHARDS = [["a", "b b=1", "c"], [], ["d"], ["e", "f f=1 a-long-record-of=two-blocks"]]
RECORDS = [record for shard in SHARDS for record in shard]


@pytest.fixture
def folder(tmp_path):
    for number, records in enumerate(SHARDS):
        (tmp_path / f"train-{number}.blocks").write_bytes(blocks(records))
    return tmp_path


def test_records_are_those_of_the_files(folder):
    """In the order of the files, in bulk and one by one; a pattern doesn't take the index for data."""
    for _ in range(2):
        with BlocksDataSource(folder / "train-*") as source:
            assert len(source) == len(RECORDS)
            assert source.__getitems__(range(len(RECORDS))) == RECORDS
            assert [source[key] for key in range(len(RECORDS))] == RECORDS
            assert source.__getitems__([]) == []
            assert source.read_ahead == 0 and source.chunk_records >= 1
    assert sorted(path.name for path in folder.glob("*.lkx*")) == ["train-4-597fa53c.lkx"]


@given(keys=st.lists(st.integers(-8, 8), max_size=5), dtype=st.sampled_from([None, np.int64, np.int8]))
def test_keys_mean_what_they_mean_to_a_list(tmp_path_factory, keys, dtype):
    """Negative ones count from the end; the first one out of range is an IndexError that names it."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "a.blocks").write_bytes(blocks(RECORDS))
    source = BlocksDataSource(folder / "a.blocks")
    given_keys = keys if dtype is None else np.array(keys, dtype)
    try:
        expected = [RECORDS[key] for key in keys]
    except IndexError:
        first = next(key for key in keys if not -len(RECORDS) <= key < len(RECORDS))
        with pytest.raises(IndexError, match=f"got {first};"):
            source.__getitems__([first])
        with pytest.raises(IndexError, match="record_key: expected an int from"):
            source.__getitems__(given_keys)
    else:
        assert source.__getitems__(given_keys) == expected
        assert [source[key] for key in keys] == expected


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("0", "source[n] is a record, and a tar source with an index"),
        ((1, 2), "for several records write source[[3, 1]]"),
    ],
)
def test_a_key_of_another_library_gets_advice(folder, key, advice):
    with BlocksDataSource(folder / "train-0.blocks") as source, pytest.raises(TypeError) as error:
        source[key]
    assert "record_key: expected an int, got" in str(error.value) and advice in str(error.value)


def test_a_method_of_another_library_gets_advice(folder):
    """And any other name doesn't."""
    with BlocksDataSource(folder / "train-0.blocks") as source:
        with pytest.raises(AttributeError, match=r"'shuffle'; use instead: lk.Dataset\("):
            source.shuffle(1000)
        with pytest.raises(AttributeError, match=r"no attribute 'take_all'$"):
            _ = source.take_all
        assert not hasattr(source, "take")


def test_a_cache_that_is_no_cache(folder):
    with pytest.raises(TypeError, match=r"cache: expected lk.Cache, got str; write cache=lk.Cache"):
        BlocksDataSource(folder / "train-0.blocks", cache="folder")


def test_local_and_remote_files_together(folder):
    """Before an index is looked for."""
    with pytest.raises(ValueError, match="got 1 of the former and 1 of the latter; make a source of each"):
        BlocksDataSource([folder / "train-0.blocks", "https://host/train-1.blocks"])


def test_a_folder_is_named(folder):
    with pytest.raises(IsADirectoryError, match=r"write folder/\* for the files in it") as error:
        BlocksDataSource(folder)
    assert error.value.filename == str(folder)


def test_an_index_that_is_data_is_not_to_be_removed(folder):
    with pytest.raises(
        lk.errors.DataFormatError, match=r"expected an index of loaderkit, .* got a file"
    ) as error:
        BlocksDataSource(folder / "train-0.blocks", index=folder / "train-2.blocks")
    assert "remove" not in str(error.value)


@pytest.mark.parametrize("key", ["0", 1.0, None])
def test_a_key_that_is_no_int_is_a_type_error(folder, key):
    """As for the other sources."""
    source = BlocksDataSource(folder / "train-0.blocks")
    with pytest.raises(TypeError, match="record_key"):
        source[key]
    with pytest.raises(TypeError, match="record_key"):
        source.__getitems__([key])


def test_parts_of_files(folder):
    """A file may be listed in pieces, twice, and out of order."""
    name = f"{folder}/train-0.blocks"
    source = BlocksDataSource([f"{name}[1:]", f"{folder}/train-3.blocks", f"{name}[:2]", name])
    assert source.__getitems__(range(len(source))) == ["b b=1", "c", *SHARDS[3], "a", "b b=1", *SHARDS[0]]
    assert source.name(2) == f"{folder}/train-3.blocks[0]" and source.name(-1) == f"{name}[2]"
    assert source[-1] == "c"
    whole = BlocksDataSource([name, f"{folder}/train-3.blocks"])
    assert "parts" in source.fingerprint() and "parts" not in whole.fingerprint()
    assert source.fingerprint()["data"] == whole.fingerprint()["data"]
    with pytest.raises(
        ValueError, match=r"expected a part of the 3 records of .*train-0.blocks, got \[2:5\]"
    ):
        BlocksDataSource(f"{name}[2:5]")


def test_a_copied_set_has_the_same_fingerprint(folder, tmp_path):
    """No folder and no time is part of it, and a state of the one goes on with the other."""
    copies = tmp_path / "copies"
    copies.mkdir()
    for path in folder.glob("*.blocks"):
        (copies / path.name).write_bytes(path.read_bytes())
    first, second = BlocksDataSource(folder / "train-?.blocks"), BlocksDataSource(copies / "train-?.blocks")
    assert first.fingerprint() == second.fingerprint()
    assert str(folder) not in str(first.fingerprint())
    (copies / "train-0.blocks").write_bytes(blocks(["a", "b b=2", "c"]))
    assert BlocksDataSource(copies / "train-?.blocks").fingerprint() != first.fingerprint()


def test_an_index_with_checksums_is_exact(tmp_path):
    """Data that differs beside the samples has another fingerprint; states and hosts compare what both indexes say."""
    told = {}
    data = b"".join(b"%09d\n" % number for number in range(20_000))
    for name, text in (("one", data), ("two", data.replace(b"000008500", b"corrected"))):
        path = tmp_path / name / "a.txt"
        path.parent.mkdir()
        path.write_bytes(text)
        for checksums in (False, True):
            build_index(
                ShardSet([str(path)]), LinesFormat(), f"{path}.lkx", options=ScanOptions(checksums=checksums)
            )
            told[name, checksums] = lk.formats.LinesDataSource(path)
    prints = {key: source.fingerprint() for key, source in told.items()}
    exact = prints["one", True].pop("checksums"), prints["two", True].pop("checksums")
    assert exact[0] != exact[1] and all(each == prints["one", False] for each in prints.values())
    plans = {key: lk.load(lk.ConcatDataSource([source]), num_epochs=1) for key, source in told.items()}
    states = {key: iter(loader).get_state() for key, loader in plans.items()}
    for one, other in itertools.product(told, told):
        differ = one[1] and other[1] and one != other
        with (
            pytest.raises(lk.CheckpointMismatchError, match="`checksums` are those of all records")
            if differ
            else nullcontext()
        ):
            iter(plans[one]).set_state(states[other])
        fields = {
            0: dict(said_by_some(told[one].fingerprint())),
            1: dict(said_by_some(told[other].fingerprint())),
        }
        assert bool(differences(fields)) == differ


def tar_of(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, value in members:
            member = tarfile.TarInfo(name)
            member.size = len(value)
            archive.addfile(member, io.BytesIO(value))
    return file.getvalue()


@pytest.mark.parametrize("size", [9, 90_000])
@pytest.mark.parametrize("name", ["a.txt", "a.tfrecord", "a.tar"])
def test_a_file_edited_beside_the_samples_and_an_index_with_checksums(tmp_path, name, size, monkeypatch):
    """Its records are compared as they are read: those that are as they were are given, an edited one is an error."""
    pytest.importorskip("google_crc32c")
    count = 20_000 if size == 9 else 60
    values = [b"%09d" % number * (size // 9) for number in range(count)]
    path = str(tmp_path / name)
    content, format_, make = {
        "a.txt": (b"".join(value + b"\n" for value in values), LinesFormat(), lk.formats.LinesDataSource),
        "a.tfrecord": (
            tfrecord(values),
            TFRecordFormat(),
            partial(lk.TFRecordDataSource, verify=False),
        ),
        "a.tar": (
            tar_of((f"{number}.{field}", value) for number, value in enumerate(values) for field in "xy"),
            TarFormat(),
            partial(lk.TarDataSource, fields=["y"]),
        ),
    }[name]
    Path(path).write_bytes(content)
    build_index(ShardSet([path]), format_, f"{path}.lkx", options=ScanOptions(checksums=True))
    source = make(path)
    expected, told = source.__getitems__(range(count)), source.fingerprint()
    edited = count // 2 + 3
    begin = content.rindex(values[edited])
    Path(path).write_bytes(content[:begin] + b"corrected" + content[begin + 9 :])
    copies = [make(path), pickle.loads(pickle.dumps(make(path)))]
    for keys in (range(edited), range(count - 1, edited, -1), [edited - 1]):
        for other in copies:
            assert other.__getitems__(keys) == [expected[key] for key in keys] and other.fingerprint() == told
    for other in [*copies, make(path)]:
        for keys in ([edited], [edited, 0], range(count)):
            with pytest.raises(
                lk.errors.FileChangedError, match=f"record {edited} doesn't have its checksum"
            ):
                other.__getitems__(keys)
    monkeypatch.setattr("loaderkit.formats._index.record_index.has_fast_crc32c", lambda: False)
    without = make(path)
    assert without[edited] != expected[edited]
    assert without.fingerprint() == {field: value for field, value in told.items() if field != "checksums"}


def test_a_short_repr(folder):
    """The first name, how many more, and the records."""
    assert repr(BlocksDataSource(folder / "train-?.blocks")) == (
        f"BlocksDataSource('{folder}/train-0.blocks' and 3 more, records=6)"
    )


@pytest.mark.parametrize("worker_count", [0, 2])
def test_one_stream_for_any_workers(folder, worker_count):
    """Workers map the same index by its path."""
    source = BlocksDataSource(folder / "train-?.blocks")
    loader = lk.load(source, shuffle=True, seed=1, num_epochs=2, worker_count=worker_count)
    with iter(loader) as it:
        got = list(it)
    with iter(lk.load(RECORDS, shuffle=True, seed=1, num_epochs=2)) as it:
        assert got == list(it)


def test_a_pickle_is_small(folder):
    """It holds names, not the index."""
    packed = pickle.dumps(BlocksDataSource(folder / "train-?.blocks"))
    assert len(packed) < 2000
    assert pickle.loads(packed).__getitems__([5, 0]) == [RECORDS[5], RECORDS[0]]


def test_names_may_come_from_a_function(folder):
    """As where links expire; it gives the same records as the names themselves."""
    source = BlocksDataSource(lambda: [f"{folder}/train-3.blocks", f"{folder}/train-0.blocks[1:]"])
    assert source.__getitems__(range(len(source))) == [*SHARDS[3], *SHARDS[0][1:]]


def test_an_index_alone_is_no_data(folder):
    """A pattern that matches nothing else is refused."""
    BlocksDataSource(folder / "train-0.blocks")
    with pytest.raises(FileNotFoundError, match="expected files of records, got an index"):
        BlocksDataSource(folder / "*.lkx")
