"""TarDataSource: webdataset's records at any place, by an index; what an index that lies ends in."""

import io
import pickle
import random
import subprocess
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from internals import change_section

import loaderkit as lk
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit.errors import DataFormatError, FileChangedError
from loaderkit.formats._index.build import build_index
from loaderkit.formats._index.part_file import ScanOptions
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats.tar.scanner import TarFormat


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory, monkeypatch):
    """Indexes lie in a folder of the tests, where they don't lie beside the data."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def write_tar(path: Path, members, form=tarfile.PAX_FORMAT, mtime=0) -> str:
    """An archive of (name, value)."""
    with tarfile.open(path, "w", format=form, errors="surrogateescape") as archive:
        for name, value in members:
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(value), mtime
            archive.addfile(member, io.BytesIO(value))
    return str(path)


def shapes(seed: int) -> list[tuple[str, bytes]]:
    """Members of 30 records: with and without some fields, long names, several dots, large values."""
    draw = random.Random(seed)
    members = []
    for k in range(30):
        folder = draw.choice(["", "./", "a/", "a.b/", "é/", "x" * 120 + "/"])
        for field in draw.choice([["jpg", "cls"], ["JPG", "seg.png"], ["cls", "jpg", "json"], ["txt"]]):
            size = draw.choice([0, 1, 511, 512, 5000, 40_000])
            members.append((f"{folder}{seed}{k:03d}.{field}", draw.randbytes(size)))
        if draw.random() < 0.2:
            members.append((draw.choice(["README", "__meta__", "__meta__/a.json"]), b"skipped"))
    return members


def samples_of(*paths: str) -> list[dict]:
    from webdataset import tariterators  # not above: it imports torch, where tests are only collected, too

    opened = [{"url": "", "stream": io.BytesIO(Path(path).read_bytes())} for path in paths]
    samples = tariterators.group_by_keys(tariterators.tar_file_expander(opened))
    return [{name: sample[name] for name in sample if name != "__url__"} for sample in samples]


def build(path: str, options: ScanOptions) -> str:
    """An index with these options, beside the archive."""
    build_index(ShardSet([path]), TarFormat(), path + ".lkx", options=options)
    return path + ".lkx"


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("mtime", [0, 1.5])
def test_the_records_of_webdataset(tmp_path, form, mtime):
    """All of them, in any order, in calls of any length."""
    paths = [write_tar(tmp_path / f"train-{s}.tar", shapes(s), form, mtime) for s in range(2)]
    expected = samples_of(*paths)
    with lk.TarDataSource(f"{tmp_path}/train-{{0..1}}.tar") as source:
        assert len(source) == len(expected) == 60
        keys = np.random.default_rng(0).integers(-60, 60, 200)
        for some in [*np.split(keys, 8), keys[:0], range(60)]:
            assert source.__getitems__(some) == [expected[key] for key in some]
        assert source[-1] == expected[-1]
        with pytest.raises(IndexError):
            source[60]
        assert source.name(31).endswith("train-1.tar[1]")
        again = pickle.loads(pickle.dumps(source))
        assert again.__getitems__([3, 2]) == [expected[3], expected[2]]
        assert fingerprint_of(again) == fingerprint_of(source)
        again.close()


def test_an_index_of_spans_only(tmp_path):
    path = write_tar(tmp_path / "train.tar", shapes(3))
    build(path, ScanOptions(members=False))
    with lk.TarDataSource(path) as source:
        assert not source._index.has_members
        assert source.__getitems__(range(30)) == samples_of(path)
    with lk.TarDataSource(path, fields="jpg;txt;JPG;jpg.x") as source:
        assert [sorted(record) for record in source] == [
            ["__key__", "jpg" if "jpg" in sample else "txt"] for sample in samples_of(path)
        ]


def test_names_that_are_given_one_by_one(tmp_path):
    """By a generator."""
    for number in range(2):
        write_tar(tmp_path / f"{number}.tar", [(f"{number}.cls", b"3")])
    with lk.TarDataSource(tmp_path / f"{number}.tar" for number in range(2)) as source:
        assert [record["__key__"] for record in source] == ["0", "1"]


def test_fields(tmp_path):
    """Only those; the first of a choice; an error that names the record where it has none of them."""
    path = write_tar(tmp_path / "train.tar", shapes(5))
    samples = samples_of(path)
    with lk.TarDataSource(path, fields=["jpg;txt"]) as source:
        expected = [
            {
                "__key__": sample["__key__"],
                **{name: sample[name] for name in ("jpg", "txt") if name in sample},
            }
            for sample in samples
        ]
        assert source.__getitems__(range(30)) == expected
        assert source.fingerprint()["fields"] == ["jpg;txt"]
    with lk.TarDataSource(path, fields="jpg cls") as source:
        lacking = next(k for k, sample in enumerate(samples) if not {"jpg", "cls"} <= sample.keys())
        with pytest.raises(
            ValueError, match=r"record '.*' of .*train.tar\[\d+\]: expected the field '(jpg|cls)', got '"
        ):
            source[lacking]
    with pytest.raises(
        ValueError, match=r"fields: expected fields that the archives have \(.*\), got 'jpeg;png'"
    ):
        lk.TarDataSource(path, fields="jpg jpeg;png")


def test_only_the_fields_are_read(tmp_path, monkeypatch):
    """Of large members next to small ones, and the other way round."""
    path = write_tar(
        tmp_path / "train.tar",
        [(f"{k}.{f}", b"x" * n) for k in range(9) for f, n in [("jpg", 100_000), ("cls", 1)]],
    )
    for fields, most in [("cls", 1024), ("jpg", 101_000), (None, 102_000)]:
        with lk.TarDataSource(path, fields=fields) as source:
            read, asked = source._ranges.read, []

            def counted(shards, begins, ends, read=read, asked=asked):
                asked.append(int((ends - begins).sum()))
                return read(shards, begins, ends)

            monkeypatch.setattr(source._ranges, "read", counted)
            source.__getitems__([7, 0, 3])
            assert sum(asked) <= 3 * most


def test_find(tmp_path):
    path = write_tar(tmp_path / "train.tar", [(f"a/{k:03d}.txt", str(k).encode()) for k in range(20)])
    with lk.TarDataSource(path) as source, pytest.raises(ValueError, match=r"loaderkit index --keys"):
        source.find("a/003")
    build(path, ScanOptions(keys=True))
    with lk.TarDataSource(path) as source:
        assert source.find("a/003") == 3
        assert source[source.find("a/019")] == {"__key__": "a/019", "txt": b"19"}
        with pytest.raises(KeyError, match="b/003"):
            source.find("b/003")
    with lk.TarDataSource([f"{path}[15:20]", f"{path}[2:5]"]) as source:
        assert source[source.find("a/003")]["__key__"] == "a/003"
        assert source.find("a/003") == 6
        with pytest.raises(KeyError):
            source.find("a/009")


@pytest.mark.parametrize("members", [True, False])
@pytest.mark.parametrize("large", [True, False])
def test_a_shard_overwritten_under_the_source(tmp_path, members, large):
    """Other sizes, other fields, no headers: an error with the shard and the place, never another record."""
    size = 50_000 if large else 600
    path = write_tar(
        tmp_path / "train.tar", [(f"{k}.{f}", b"x" * size) for k in range(5) for f in ("a", "b")]
    )
    build(path, ScanOptions(members=members))
    original = Path(path).read_bytes()
    block = original.index(b"2.b\0")
    other = tarfile.TarInfo("2.b")
    other.size = size - 1
    changes = [other.tobuf(tarfile.PAX_FORMAT), b"\0" * 512, b"\xff" * 512]
    other.name, other.size = "2.c", size
    changes += [other.tobuf(tarfile.PAX_FORMAT)]
    other.name = "3.b"
    changes += [other.tobuf(tarfile.PAX_FORMAT)]
    with lk.TarDataSource(path) as source:
        expected = source.__getitems__(range(5))
        for change in changes:
            with open(path, "r+b") as file:
                file.seek(block)
                file.write(change)
            assert source.__getitems__([0, 1, 3, 4]) == [expected[k] for k in (0, 1, 3, 4)]
            if members or change in changes[1:3] or b"3.b" in change:
                with pytest.raises(FileChangedError, match=r"train.tar: at byte \d+: .*make the index again"):
                    source.__getitems__([1, 2])
            with open(path, "r+b") as file:
                file.write(original)


def test_an_index_that_lies(tmp_path):
    """Whatever number in it is wrong, a record is right or an error."""
    path = write_tar(tmp_path / "train.tar", shapes(7))
    expected = samples_of(path)
    draw, outcomes = random.Random(0), Counter()
    for name in ["member_block", "member_size", "member_field", "member_first", "starts"] * 12:
        with lk.TarDataSource(path) as source:
            wrong = change_section(source, name)
            place = draw.randrange(len(wrong))
            wrong[place] = draw.choice(
                [0, int(wrong[place]) + 1, max(0, int(wrong[place]) - 1), len(expected)]
            )
            for key in range(30):
                try:
                    assert source.__getitems__([key]) == [expected[key]]
                except OSError:  # most are FileChangedError
                    outcomes[name] += 1
    assert len(outcomes) >= 4


@pytest.mark.parametrize("form", ["ustar", "pax", "gnu", "v7"])
def test_archives_of_gnu_tar(tmp_path, form):
    """Folders, links and long names are what webdataset makes of them."""
    folder = tmp_path / "data"
    for k in range(6):
        deep = folder / ("d" * 50) / str(k % 2) if form != "v7" else folder / str(k % 2)
        deep.mkdir(parents=True, exist_ok=True)
        for field in ("jpg", "seg.png", "txt"):
            name = "n" * (110 if form in ("pax", "gnu") and k < 3 else 9) + f"{k}.{field}"
            (deep / name).write_bytes(b"%d" % k * (k * 300))
    (folder / "0.link").symlink_to("x.txt")
    (folder / "1.copy").hardlink_to(next(folder.rglob("*.txt")))
    path = str(tmp_path / "train.tar")
    subprocess.run(["tar", "-C", folder, f"--format={form}", "--sort=name", "-cf", path, "."], check=True)
    with lk.TarDataSource(path) as source:
        assert source.__getitems__(range(len(source))) == samples_of(path)
        assert len(source) >= 6


def test_a_sparse_member(tmp_path):
    file = tmp_path / "0.bin"
    with open(file, "wb") as hole:
        hole.seek(1 << 20)
        hole.write(b"end")
    for form in ("gnu", "pax"):
        path = str(tmp_path / f"{form}.tar")
        subprocess.run(["tar", "-C", tmp_path, f"--format={form}", "-Scf", path, "0.bin"], check=True)
        with pytest.raises(DataFormatError, match=r"tar: at byte \d+: .*sparse one; .*without --sparse"):
            lk.TarDataSource(path)


def test_a_loader_over_it(tmp_path):
    """The same stream without workers and with two."""
    paths = [
        write_tar(tmp_path / f"train-{s}.tar", [(f"{s}{k}.x", bytes([k])) for k in range(50)])
        for s in range(2)
    ]
    streams = []
    for workers in (0, 2):
        with lk.TarDataSource(paths) as source:
            sampler = lk.IndexSampler(len(source), shuffle=True, seed=0, num_epochs=1)
            with lk.DataLoader(
                data_source=source,
                sampler=sampler,
                operations=[lk.AsTuple("__key__ x"), lk.Batch(10)],
                worker_count=workers,
            ) as loader:
                streams.append([[column.tolist() for column in batch] for batch in loader])
    assert streams[0] == streams[1]
    assert sorted(key for batch in streams[0] for key in batch[0]) == sorted(
        f"{s}{k}" for s in range(2) for k in range(50)
    )
