"""What lk.write made has checksums: its fingerprint is exact, and bytes that differ are noticed where they are read."""

import errno
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from loaderkit import cli

FORMATS = ["array_record", "tar", "tfrecord", "parquet", "arrow", "jsonl", "tokens"]
RECORDS, OTHERS = 300, (101, 151, 203, 260)
LIBRARIES = {"parquet": ["pyarrow"], "arrow": ["pyarrow"]}


@pytest.fixture(autouse=True)
def libraries(request):
    pytest.importorskip("google_crc32c")
    for library in LIBRARIES.get(
        request.getfixturevalue("name") if "name" in request.fixturenames else "", ()
    ):
        pytest.importorskip(library)


def records(name, changed=None):
    """Of 1 KB each, which no codec makes smaller; the label of one may be another."""
    random = np.random.default_rng(3)
    for key in range(RECORDS):
        data = random.bytes(1000)
        label = 100_000_000 + 7 * key + (changed == key)
        if name == "tokens":
            tokens = np.frombuffer(data, np.uint16).copy()
            tokens[7] = label % 1000
            yield {"tokens": tokens}
        else:
            first, second = (part.hex() if name == "jsonl" else part for part in (data[:500], data[500:]))
            yield {"first": first, "label": label, "second": second}


def written(folder, name, changed=None):
    lk.write(records(name, changed), folder, format=name, shards=1)
    return folder


def loader_of(folder):
    return lk.load(lk.open(folder), batch_size=10, num_epochs=1, shuffle=True, seed=1)


def exact_and_sampled(folder):
    told = lk.open(folder).fingerprint()
    return told.pop("checksums", None), told


@pytest.mark.parametrize("name", FORMATS)
def test_a_state_is_of_the_set_and_its_copies_and_of_no_corrected_one(tmp_path, name):
    """One label of 300 differs, at the same sizes and beside all samples."""
    folder = written(tmp_path / "set", name)
    exact, sampled = exact_and_sampled(folder)
    it = iter(loader_of(folder))
    next(it)
    state = it.get_state()
    expected = next(it)
    for how, copy in (("with its times", shutil.copy2), ("with others", shutil.copyfile)):
        copied = tmp_path / how / "set"
        shutil.copytree(folder, copied, copy_function=copy)
        assert exact_and_sampled(copied) == (exact, sampled), how
        again = iter(loader_of(copied))
        again.set_state(state)
        assert all(np.array_equal(value, expected[field]) for field, value in next(again).items()), how
    beside_all_samples = 0
    for changed in OTHERS:
        corrected = written(tmp_path / f"corrected {changed}", name, changed)
        other, same = exact_and_sampled(corrected)
        assert other != exact
        if same == sampled:
            beside_all_samples += 1
            with pytest.raises(lk.CheckpointMismatchError, match="checksums` are those of all") as error:
                iter(loader_of(corrected)).set_state(state)
            assert "source.checksums: saved" in str(error.value)
    assert beside_all_samples


@pytest.mark.parametrize("name", ["tar", "jsonl", "arrow"])
@pytest.mark.parametrize("keys", [range(RECORDS), [7, 150, 20]], ids=["in order", "a few"])
def test_a_flipped_bit_is_noticed_when_its_record_is_read(tmp_path, name, keys):
    """By default; the error names the file and the bytes, and other records are given."""
    (path,) = map(Path, lk.write(records(name), tmp_path / "set", format=name, shards=1))
    before = lk.open(path)[0]
    data, status = bytearray(path.read_bytes()), path.stat()
    value = [*records(name)][150]["first"]
    place = data.index(value if isinstance(value, bytes) else value.encode()) + 250
    data[place] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with lk.open(path) as source:
        if name != "arrow":  # of which a record batch is compared as a whole
            assert source[0] == before
        with pytest.raises(lk.errors.ChecksumError, match=rf"{path.name}: bytes .* don't have") as error:
            source.__getitems__([*keys])
    begin, end = (int(text.replace(",", "")) for text in str(error.value).split()[2:5:2])
    assert begin <= place < end
    os.utime(path, ns=(0, 0))
    with pytest.raises((lk.errors.ChecksumError, lk.errors.FileChangedError), match=path.name):
        lk.open(path).__getitems__([*keys])


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_and_its_overwriting_have_checksums(tmp_path, name):
    """Those of the new records; patterns don't take the index for data."""
    path = tmp_path / f"one.{name}"
    lk.write(records(name), path)
    first = exact_and_sampled(path)[0]
    lk.write(records(name, 150), path, overwrite=True)
    second = exact_and_sampled(path)[0]
    assert first != second and None not in (first, second)
    assert len(lk.open(tmp_path / "o*") if name != "tokens" else lk.open(path)) == RECORDS
    assert not [each for each in os.listdir(tmp_path) if ".part" in each]


def test_converted_files_have_checksums(tmp_path, capsys):
    (path,) = lk.write(records("jsonl"), tmp_path / "set", format="jsonl", shards=1)
    for target in ("one.tar", "several"):
        assert cli.main(["convert", path, str(tmp_path / target), "--to", "tar"]) == 0
        assert exact_and_sampled(tmp_path / target)[0] is not None, target


def test_a_file_that_is_no_index_stays(tmp_path):
    """Where the index would have its name."""
    (tmp_path / "a.jsonl.lkx").write_text("mine")
    lk.write(records("jsonl"), tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl.lkx").read_text() == "mine"


@pytest.mark.parametrize("name", ["jsonl", "tar", "tfrecord", "parquet", "arrow", "array_record"])
def test_a_run_reads_the_set_that_it_opened_or_says_so(tmp_path, name):
    """A set that is replaced before its workers start, by one of the same sizes and samples, is an error."""
    folder = written(tmp_path / "set", name)
    with lk.load(lk.open(folder), batch_size=10, num_epochs=1, worker_count=1) as loader:
        lk.write(records(name, OTHERS[0]), folder, format=name, shards=1, overwrite=True)
        with pytest.raises(
            (lk.errors.FileChangedError, lk.errors.TransportError), match=r"run began|chang|was"
        ):
            list(loader)


@pytest.mark.parametrize("name", ["jsonl", "parquet"])
@pytest.mark.parametrize("way", ["write", "convert"])
def test_a_file_never_lies_beside_the_index_of_other_bytes(tmp_path, monkeypatch, name, way):
    """Whatever stops its overwriting: before the file has its name the old index goes, the new one comes after."""
    path, new = tmp_path / f"a.{name}", tmp_path / f"new.{name}"
    lk.write(records(name), path)
    lk.write(records(name, OTHERS[0]), new)
    real, seen = os.replace, []

    def watched(source, target):
        if os.fspath(target) == str(path):
            seen.append([each for each in os.listdir(tmp_path) if each.endswith(f"a.{name}.lkx")])
        real(source, target)

    monkeypatch.setattr(os, "replace", watched)
    if way == "write":
        lk.write(records(name, OTHERS[0]), path, overwrite=True)
    else:
        assert cli.main(["convert", str(new), str(path), "--overwrite"]) == 0
    assert seen == [[]]
    assert lk.open(path)[OTHERS[0]]["label"] == lk.open(new)[OTHERS[0]]["label"] == 100_000_708


def test_without_what_computes_checksums_no_old_index_stays(tmp_path, monkeypatch):
    """It would refuse the new records."""
    path = tmp_path / "a.jsonl"
    lk.write(records("jsonl"), path)
    with monkeypatch.context() as patch:
        patch.setattr("loaderkit.formats._writing.written_index.has_fast_crc32c", lambda: False)
        lk.write(records("jsonl", OTHERS[0]), path, overwrite=True)
    assert lk.open(path)[OTHERS[0]]["label"] == 100_000_708


def test_a_folder_of_parquet_files_is_still_one_for_other_libraries(tmp_path):
    """The index of a single file has a hidden name."""
    pq = pytest.importorskip("pyarrow.parquet")
    for place in range(2):
        lk.write([{"x": place}], tmp_path / f"{place}.parquet")
    assert pq.read_table(tmp_path)["x"].to_pylist() == [0, 1]
    assert "checksums" in lk.open(tmp_path / "1.parquet").fingerprint()


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_tables_are_read_without_the_index_that_they_were_opened_with(tmp_path, name):
    """It serves comparison alone; a folder of its name is no index either."""
    path = tmp_path / f"a.{name}"
    lk.write(records(name), path)
    source = lk.open(path)
    (index,) = tmp_path.glob(".*.lkx")
    index.unlink()
    index.mkdir()
    assert pickle.loads(pickle.dumps(source))[7]["label"] == lk.open(path)[7]["label"] == 100_000_049


def test_a_full_disk_costs_the_index_and_no_record(tmp_path, monkeypatch, caplog):
    """The files are whole: a warning says what they lack."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("loaderkit.formats._writing.written_index.build_index", full)
    lk.write(records("jsonl"), tmp_path / "a.jsonl")
    assert "no index with checksums" in caplog.text and not [*tmp_path.glob("*.lkx")]
    assert len(lk.open(tmp_path / "a.jsonl")) == RECORDS


def test_the_worker_that_writes_a_file_makes_its_part_of_the_index(tmp_path):
    """A run that ends early leaves the parts of its files, and the next one only joins them."""
    rows = [{"n": row} for row in range(9)]
    with pytest.raises(TypeError, match="got object"):
        lk.write([*rows[:8], {"n": object()}], tmp_path / "set", format="jsonl", shards=3)
    assert len([*tmp_path.glob("set.partial/*.lkx.parts/*.part")]) == 2
    lk.write(rows, tmp_path / "set", format="jsonl", shards=3, overwrite=True)
    lk.write(iter(rows), tmp_path / "again", format="jsonl", shards=3)
    assert exact_and_sampled(tmp_path / "set") == exact_and_sampled(tmp_path / "again")
    assert not [*tmp_path.glob("set/*.parts")]


def test_an_index_of_other_files_keeps_its_name(tmp_path):
    """One that a user made there with another set's name."""
    lk.write(records("tar"), tmp_path / "other.tar")
    index = tmp_path / "a.tar.lkx"
    assert cli.main(["index", str(tmp_path / "other.tar"), "-o", str(index), "--keys"]) == 0
    before = index.read_bytes()
    lk.write(records("tar"), tmp_path / "a.tar")
    assert index.read_bytes() == before
