"""Where the index of a set is looked for, when it is used and when it is made again."""

import contextlib
import hashlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from index_data import BlocksDataSource, LocalRanges, blocks, make_index

from loaderkit._storage.addresses import redacted
from loaderkit._storage.open_ranges import open_ranges
from loaderkit._storage.range_reader import ObjectVersion
from loaderkit.errors import DataFormatError, FileChangedError, StorageError
from loaderkit.formats._index import shard_set
from loaderkit.formats._index.check import has_sample, sample_ranges
from loaderkit.formats._index.find import cached_path, locked_folder, path_beside
from loaderkit.formats._index.record_index import RecordIndex
from loaderkit.formats._index.shard_set import ShardSet

RECORDS = ["a", "b b=1", "c"]


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "data" / "x.blocks"
    path.parent.mkdir()
    path.write_bytes(blocks(RECORDS))
    return path


@pytest.fixture
def scans(monkeypatch):
    """Counts the scans of shards."""
    from index_data import Blocks

    done = []
    real = Blocks.scan

    def scan(*arguments, **named):
        done.append(1)
        return real(*arguments, **named)

    monkeypatch.setattr(Blocks, "scan", scan)
    return done


def test_it_lies_beside_the_data(shard, scans, caplog):
    """It is made once, with a line in the log, and found afterwards; a moved folder takes it along."""
    caplog.set_level("INFO", "loaderkit")
    assert len(BlocksDataSource(shard)) == 3
    assert sorted(os.listdir(shard.parent)) == ["x.blocks", "x.blocks.lkx"]
    assert caplog.text.count("made the index") == 1
    assert len(BlocksDataSource(shard)) == 3
    moved = shard.parent.rename(shard.parent.parent / "moved") / shard.name
    assert BlocksDataSource(moved)[0] == "a"
    assert len(scans) == 1


def test_a_read_only_file_system(shard, scans, cache_home, monkeypatch):
    """The index is in the user's cache folder then."""
    real = os.makedirs

    def makedirs(name, *arguments, **named):
        if str(name).startswith(str(shard.parent)):
            raise OSError(30, "Read-only file system")
        real(name, *arguments, **named)

    monkeypatch.setattr(os, "makedirs", makedirs)
    for _ in range(2):
        assert BlocksDataSource(shard)[2] == "c"
    assert os.listdir(shard.parent) == ["x.blocks"] and len(scans) == 1
    assert len(list(cache_home.rglob("x.blocks-*.lkx"))) == 1


def test_no_locks(shard, scans, monkeypatch):
    """A file system without flock: the rename decides."""
    import fcntl

    def flock(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    assert BlocksDataSource(shard)[2] == "c"
    assert sorted(os.listdir(shard.parent)) == ["x.blocks", "x.blocks.lkx"]


def test_a_shard_that_changed_before_the_source_was_made(shard, scans):
    """Longer, or of the same size with other bytes: the index is made again. Touched only: it isn't."""
    BlocksDataSource(shard)
    os.utime(shard, ns=(5, 5))
    assert BlocksDataSource(shard)[0] == "a" and len(scans) == 1
    shard.write_bytes(blocks([*RECORDS, "d"]))
    assert BlocksDataSource(shard)[3] == "d" and len(scans) == 2
    shard.write_bytes(blocks(["two-blocks a-long-key=x", *RECORDS[:2]]))
    assert len(BlocksDataSource(shard)) == 3 and len(scans) == 3


def test_an_index_that_was_named(shard, scans, tmp_path):
    """It is used where it fits; one of other data is refused with the command, and left alone."""
    BlocksDataSource(shard)
    named = tmp_path / "mine.lkx"
    (shard.parent / "x.blocks.lkx").rename(named)
    assert BlocksDataSource(shard, index=named)[1] == "b b=1"
    assert len(scans) == 1 and os.listdir(shard.parent) == ["x.blocks"]
    other = shard.parent / "y.blocks"
    other.write_bytes(shard.read_bytes())
    with pytest.raises(
        ValueError, match=r"index: .* its file 0 is x\.blocks, not y\.blocks; .*`loaderkit index"
    ):
        BlocksDataSource(other, index=named)
    with pytest.raises(ValueError, match="it is of 1 files, not 2"):
        BlocksDataSource([shard, other], index=named)
    shard.write_bytes(blocks(["a"]))
    with pytest.raises(FileChangedError, match=r"x\.blocks: it had 48 bytes, and has 16 now"):
        BlocksDataSource(shard, index=named)
    with pytest.raises(FileNotFoundError):
        BlocksDataSource(shard, index=tmp_path / "none.lkx")


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes() + blocks(["d"])), "48 bytes .*and has 64 now"),
        (lambda path: path.write_bytes(path.read_bytes()[:-16]), "48 bytes .*and has 32 now"),
        (lambda path: path.write_bytes(blocks(["x", "y y=1", "z"])), "its bytes aren't|it was written to"),
    ],
    ids=["appended", "truncated", "rewritten"],
)
def test_a_shard_that_changes_under_a_source(shard, change, message, opened):
    """FileChangedError with the shard and what to do, never another record."""
    source = BlocksDataSource(shard)
    if opened:
        assert source[0] == "a"
    change(shard)
    os.utime(shard, ns=(7, 7))
    source.close()
    with pytest.raises(FileChangedError, match=rf"x\.blocks: .*({message}).* put the old file back"):
        source[1]


def test_swapped_shards_are_noticed(tmp_path):
    """Two shards of equal size change places under a source."""
    one, two = tmp_path / "1.blocks", tmp_path / "2.blocks"
    one.write_bytes(blocks(["a", "b"]))
    two.write_bytes(blocks(["c", "d"]))
    os.utime(one, ns=(1, 1))
    os.utime(two, ns=(2, 2))
    source = BlocksDataSource([one, two])
    one.rename(tmp_path / "3")
    two.rename(one)
    (tmp_path / "3").rename(two)
    with pytest.raises(FileChangedError):
        source[0]
    assert BlocksDataSource([one, two]).__getitems__([0, 1, 2, 3]) == ["c", "d", "a", "b"]


def test_a_malformed_shard(tmp_path):
    """The error has the shard's name, the offset and the remedy; the good parts are kept for the next attempt."""
    good, bad = tmp_path / "1.blocks", tmp_path / "2.blocks"
    good.write_bytes(blocks(["a"]))
    bad.write_bytes(blocks(["a"]) + b"x" * 16)
    with pytest.raises(
        DataFormatError, match=r"2\.blocks: at byte 16: expected a digit.*; write the file again"
    ):
        BlocksDataSource([good, bad])
    assert not list(tmp_path.glob("*.lkx"))
    bad.write_bytes(blocks(["b"]))
    assert BlocksDataSource([good, bad]).__getitems__([0, 1]) == ["a", "b"]
    assert len(os.listdir(tmp_path)) == 3


def version_of(content):
    return ObjectVersion(len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def objects(monkeypatch):
    """A server's objects: {address without secrets: bytes}; None is one that it refuses to talk of."""
    held = {}

    class Objects:
        waits = True

        def __init__(self, paths, **_):
            self.names = [redacted(path) for path in paths]

        def version(self, shard):
            content = held[self.names[shard]] if self.names[shard] in held else missing(self.names[shard])
            if content is None:
                refused = StorageError(f"{self.names[shard]}: expected its size, got 403")
                refused.refused = True
                raise refused
            return version_of(content)

        def read(self, shards, begins, ends):
            places = zip(shards.tolist(), begins.tolist(), ends.tolist(), strict=True)
            return [held[self.names[shard]][begin:end] for shard, begin, end in places]

        def close(self):
            pass

    def missing(name):
        raise FileNotFoundError(2, "no such object", name)

    monkeypatch.setattr(shard_set, "open_ranges", Objects)
    return held


@pytest.mark.parametrize("index", ["absent", "refused"])
def test_remote_data_without_an_index_is_refused(objects, index):
    """With the command that makes one, and without the secrets of the address."""
    objects["https://host/x.blocks"] = blocks(RECORDS)
    if index == "refused":
        objects["https://host/x.blocks.lkx"] = None
    with pytest.raises(FileNotFoundError, match=r"`loaderkit index https://host/x\.blocks`") as caught:
        BlocksDataSource("https://user:word@host/x.blocks?signature=word")
    assert "word" not in str(caught.value)


def test_an_object_that_is_not_there(objects):
    """A wrong name is told as one: an index can't be made of it."""
    with pytest.raises(FileNotFoundError, match=r"no such object.*x\.blocks") as caught:
        BlocksDataSource("https://host/x.blocks")
    assert "loaderkit index" not in str(caught.value)


def test_a_server_that_answers_nothing(objects):
    """Its own error comes, not one about an index."""
    objects["https://host/x.blocks"] = objects["https://host/x.blocks.lkx"] = None
    with pytest.raises(StorageError, match=r"x\.blocks: "):
        BlocksDataSource("https://host/x.blocks")


@pytest.mark.parametrize("act", ["500", "short", "close"])
def test_an_index_on_a_server_that_fails(range_server, tmp_path, cache_home, act, monkeypatch):
    """It may be there: the error names it, and doesn't advise to make it again."""
    monkeypatch.setattr("loaderkit._storage.fetching.PAUSE_S", 0.001)
    served = tmp_path / "served"
    served.mkdir()
    (served / "a.blocks").write_bytes(blocks(["a", "b"]))
    BlocksDataSource(served / "a.blocks").close()
    server = range_server(served)
    server.always(act, name="a.blocks.lkx")
    with pytest.raises(StorageError, match=r"a\.blocks\.lkx: expected") as raised:
        BlocksDataSource(server.url("a.blocks"))
    assert "loaderkit index" not in str(raised.value)
    server.always("403", name="a.blocks.lkx")
    with pytest.raises(FileNotFoundError, match="loaderkit index"):
        BlocksDataSource(server.url("a.blocks"))


def test_an_index_on_a_server_is_fetched_once(objects, shard, cache_home, tmp_path):
    """Found beside the data, or named; a damaged one is an error with the remedy."""
    lkx = Path(make_index(tmp_path / "made", [shard]).path).read_bytes()
    objects["https://host/x.blocks"] = shard.read_bytes()
    objects["https://host/x.blocks.lkx"] = lkx
    for _ in range(2):
        source = BlocksDataSource("https://host/x.blocks?signature=word")
        assert source.__getitems__([2, 0]) == ["c", "a"] and source.read_ahead > 0
    assert [path.read_bytes() for path in cache_home.rglob("*.lkx")] == [lkx]
    objects["s3://bucket/mine.lkx"] = lkx
    assert BlocksDataSource("https://host/x.blocks", index="s3://bucket/mine.lkx")[1] == "b b=1"
    objects["s3://bucket/torn.lkx"] = lkx[:-64]
    with pytest.raises(DataFormatError, match=r"s3://bucket/torn\.lkx: .*make the index again"):
        BlocksDataSource("https://host/x.blocks", index="s3://bucket/torn.lkx")
    assert not list(cache_home.rglob("torn-*"))


def test_an_index_that_was_replaced_on_its_server_is_fetched_again(objects, shard, tmp_path):
    """Its version says so, where its address and its size are those of the old one."""
    sizes = set()
    for records in (["a" * 20, "b"], ["c", "d" * 20]):
        shard.write_bytes(blocks(records))
        lkx = Path(make_index(tmp_path / records[0][0], [shard]).path).read_bytes()
        objects.update({"https://host/x.blocks": shard.read_bytes(), "https://host/x.blocks.lkx": lkx})
        assert BlocksDataSource("https://host/x.blocks").__getitems__([0, 1]) == records
        sizes.add(len(lkx))
    assert len(sizes) == 1


@pytest.mark.parametrize("changed", [0, 1])
def test_an_old_index_in_the_cache_folder_gives_way(
    objects, shard, tmp_path, cache_home, monkeypatch, changed
):
    """To one beside the data, where the first or last file isn't what it indexed; else it is used."""
    contents = lambda ranges, shard: version_of(Path(ranges.names[shard]).read_bytes())  # noqa: E731
    monkeypatch.setattr(LocalRanges, "version", contents)
    local = [shard, shard.with_name("y.blocks")]
    local[1].write_bytes(blocks(RECORDS))
    addresses = [f"https://host/{path.name}" for path in local]
    cached = Path(cached_path(ShardSet(addresses), "blocks"))
    cached.parent.mkdir(parents=True)
    cached.write_bytes(Path(make_index(tmp_path / "old", local).path).read_bytes())
    local[changed].write_bytes(blocks([*RECORDS, "d"]))
    objects.update({address: path.read_bytes() for address, path in zip(addresses, local)})
    assert len(BlocksDataSource(addresses)) == 6
    beside = Path(make_index(tmp_path / "new", local).path).read_bytes()
    objects[path_beside(ShardSet(addresses))] = beside
    assert len(BlocksDataSource(addresses)) == 7


CHILD = """
    import os, sys, time
    from index_data import Blocks, BlocksDataSource
    real = Blocks.scan
    def scan(*arguments, **named):
        os.write(1, b"scan\\n")
        time.sleep(0.2)
        return real(*arguments, **named)
    Blocks.scan = scan
    source = BlocksDataSource(sys.argv[1])
    assert source.__getitems__([0, 1, 2]) == ["a", "b b=1", "c"]
"""


@pytest.mark.slow
def test_eight_processes_at_once(shard, cache_home):
    """One of them scans, all read."""
    environment = os.environ | {"PYTHONPATH": f"{Path(__file__).parent}:{Path(__file__).parents[2]}"}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CHILD), str(shard)],
            stdout=subprocess.PIPE,
            env=environment,
        )
        for _ in range(8)
    ]
    outputs = [child.communicate()[0] for child in children]
    assert [child.returncode for child in children] == [0] * 8
    assert b"".join(outputs).count(b"scan") == 1
    assert sorted(os.listdir(shard.parent)) == ["x.blocks", "x.blocks.lkx"]


@pytest.mark.parametrize("place", ["missing/deep/x.blocks", "dangling/x.blocks", "/proc/missing/x.blocks"])
def test_a_file_in_no_folder(tmp_path, cache_home, place):
    """It is missing; no folder is made for its index, and none is waited for."""
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"x\.blocks"):
        BlocksDataSource(tmp_path / place)
    assert os.listdir(tmp_path) == ["dangling"] and not os.listdir(cache_home)


def test_a_folder_for_parts_that_cannot_be_made(tmp_path):
    """An error, where the parent is no folder or isn't there."""
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"")
    for place in ("dangling/x.parts", "file/x.parts", "file"):
        with pytest.raises(OSError, match=place.partition("/")[0]), locked_folder(str(tmp_path / place)):
            pass


def test_what_is_no_regular_file(tmp_path):
    """A pipe without a writer isn't waited for."""
    os.mkfifo(tmp_path / "x.blocks")
    with pytest.raises(OSError, match=r"a pipe or a device.*x\.blocks"):
        BlocksDataSource(tmp_path / "x.blocks")
    with pytest.raises(IsADirectoryError, match=r"write folder/\*"):
        BlocksDataSource(tmp_path)


@pytest.mark.parametrize("name", ["a" * 255, "日" * 85, "b" * 181, "b\udce9" * 120])
def test_long_names(tmp_path, scans, name):
    """The index's name is a shorter one."""
    paths = [tmp_path / name, tmp_path / (name[:-1] + "c")]
    for path in paths:
        path.write_bytes(blocks(RECORDS))
    for _ in range(2):
        assert BlocksDataSource(paths[0])[2] == "c" and len(BlocksDataSource(paths)) == 6
    assert len(scans) == 3
    assert len(list(tmp_path.glob("*.lkx"))) == 2


def test_names_that_come_twice_in_another_order(tmp_path):
    """Files of one name, size and time in two folders: each order has an index of its own, also by name."""
    paths = []
    for folder, records in (("a", ["2aaaaaaaaaaaaaaaaaaaaa", "b"]), ("b", ["c", "2ddddddddddddddddddd"])):
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "0.blocks")
        paths[-1].write_bytes(blocks(records))
        os.utime(paths[-1], ns=(5, 5))
    there, back = BlocksDataSource(paths), BlocksDataSource(paths[::-1])
    assert there.__getitems__(range(4)) == back.__getitems__([2, 3, 0, 1])
    (index, _) = tmp_path.glob("*.lkx")
    with pytest.raises(ValueError, match=r"its file 0 is [ab]/0\.blocks, not [ab]/0\.blocks"):
        [BlocksDataSource(order, index=index) for order in (paths, paths[::-1])]


def test_two_formats_at_once(shard, monkeypatch, cache_home):
    """The index that another program makes of the same file meanwhile, of its own format, stays."""
    from index_data import Blocks

    from loaderkit.formats._index import find

    real = find.locked_folder

    @contextlib.contextmanager
    def locked(folder):
        with real(folder):
            if folder.startswith(str(shard.parent)):
                make_index(shard.parent / "made", [shard])
                other = RecordIndex(str(shard.parent / "made" / "set.lkx"))
                assert other.kind == "blocks"
                os.replace(other.path, f"{shard}.lkx")
            yield

    monkeypatch.setattr(find, "locked_folder", locked)
    found = find.find_index(ShardSet([str(shard)]), Blocks(kind="others"))
    assert found.kind == "others" and found.path.startswith(str(cache_home))
    assert RecordIndex(f"{shard}.lkx").kind == "blocks"


@pytest.mark.parametrize("piece", [0, 7, 15])
def test_other_bytes_at_any_sampled_place(tmp_path, piece):
    """A large shard of the same size: its first, last and middle pieces are compared."""
    path = tmp_path / "x.blocks"
    path.write_bytes(blocks(["k" * 140] * 900))
    size = path.stat().st_size
    index = make_index(tmp_path / "made", [path])
    with open(path, "r+b") as file:
        file.seek(sample_ranges(size)[piece][1] - 1)
        file.write(b"x")
    with contextlib.closing(open_ranges([str(path)])) as ranges:
        assert not has_sample(index, 0, ranges)
