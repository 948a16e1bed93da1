"""A damaged index is an error that names it, or is made again; it never gives another record."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from index_data import BlocksDataSource, LocalRanges, blocks, make_index

from loaderkit.errors import ChecksumError, DataFormatError, FileChangedError
from loaderkit.formats._index.layout import SectionFile, SectionShape, SectionWriter
from loaderkit.formats._index.part_file import PartIdentity, ScanOptions, open_part, write_part
from loaderkit.formats._index.record_index import RecordIndex

SHARDS = [["a", "b b=1", "c"], [], ["d x=1"], ["e", "f f=1"]]
RECORDS = [record for shard in SHARDS for record in shard]


@pytest.fixture
def paths(tmp_path):
    made = [tmp_path / f"s{number}.blocks" for number in range(len(SHARDS))]
    for path, records in zip(made, SHARDS, strict=True):
        path.write_bytes(blocks(records))
    return made


def test_an_index_that_was_cut_off_is_refused(tmp_path, paths):
    """At every 64 bytes, and where it is empty or longer."""
    whole = make_index(tmp_path / "out", paths, options=ScanOptions(keys=True, checksums=True)).path
    content = Path(whole).read_bytes()
    torn = tmp_path / "torn.lkx"
    for length in [*range(0, len(content), 64), len(content) - 1]:
        torn.write_bytes(content[:length])
        with pytest.raises(DataFormatError, match=r"torn.lkx: expected a whole index .* `loaderkit index`"):
            RecordIndex(str(torn))
    torn.write_bytes(content + bytes(64))
    with pytest.raises(DataFormatError, match=f"should have {len(content)} bytes"):
        RecordIndex(str(torn))


def test_an_index_with_a_flipped_byte_is_refused(tmp_path, paths):
    """In the prefix, the header and the sections; only the zeros between sections say nothing."""
    whole = make_index(tmp_path / "out", paths, options=ScanOptions(keys=True, checksums=True)).path
    content = Path(whole).read_bytes()
    file = SectionFile(whole)
    used = np.zeros(len(content), bool)
    used[: 16 + int.from_bytes(content[8:16], "little")] = True
    for shape, offset, _ in file._sections:
        used[offset : offset + shape.nbytes] = True
    del file
    torn = tmp_path / "torn.lkx"
    places = np.flatnonzero(used)
    for at in [*range(16), *places[16::13].tolist()]:
        torn.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 7]) + content[at + 1 :])
        with pytest.raises(DataFormatError, match=r"torn\.lkx"):
            RecordIndex(str(torn))


def test_a_large_section_is_compared_block_by_block(tmp_path, monkeypatch):
    """Opening doesn't read it; where it was cut off under the reader, that is an error, not SIGBUS."""
    monkeypatch.setattr("loaderkit._base.system.file_identity.CHECK_S", 0.0)
    path = str(tmp_path / "large.lkx")
    with SectionWriter(path, {}, [SectionShape("x", "<u8", (1 << 18,))]) as writer:
        writer.append("x", np.arange(1 << 18))
    with open(path, "r+b") as file:
        file.seek(1 << 20)
        file.write(b"other")
    opened = SectionFile(path)
    opened.check_range("x", 0, 1 << 16)
    opened.check_items("x", np.array([5, (1 << 18) - 1]))
    for check in (
        lambda: opened.check_range("x", (1 << 17) - 99, (1 << 17) - 98),
        lambda: opened.check_items("x", np.array([5, (1 << 17) - 99])),
    ):
        with pytest.raises(ChecksumError, match=r"large\.lkx: bytes [\d,]+ to .* make the index again"):
            check()
    with pytest.raises(DataFormatError, match="section x"):
        opened.check()
    os.truncate(path, 5000)
    with pytest.raises(FileChangedError, match=r"large\.lkx"):
        opened.check_range("x", 0, 1)


def test_a_flipped_byte_of_a_large_section_never_gives_another_record(tmp_path, paths, monkeypatch):
    """Whatever is asked of the index; sections without a table, as older files have them, are read."""
    monkeypatch.setattr("loaderkit.formats._index.layout.CHECKED_AT_OPENING", 0)
    whole = make_index(tmp_path / "out", paths, options=ScanOptions(keys=True, checksums=True)).path
    content = Path(whole).read_bytes()
    torn = tmp_path / "torn.lkx"
    torn.write_bytes(content)

    def all_of_it():
        index = RecordIndex(str(torn))
        keys = np.arange(len(index))
        members = index.members_of(keys)
        found = [index.key(key) for key in keys.tolist()]
        parts = [
            *index.locate(keys),
            members.first,
            members.begin,
            members.size,
            members.field,
            index.checksums,
        ]
        parts += [index.starts_of(shard) for shard in range(index.shards)]
        return [
            [part.tolist() for part in parts],
            found,
            [index.find(key) for key in found],
            [*index.shard_names],
        ]

    good = all_of_it()
    outcomes = set()
    for at in range(0, len(content), 7):
        torn.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 7]) + content[at + 1 :])
        try:
            outcomes.add(all_of_it() == good)
        except (DataFormatError, ChecksumError) as error:
            outcomes.add("torn.lkx" in str(error) and type(error))
    assert outcomes == {True, DataFormatError, ChecksumError}
    monkeypatch.setattr("loaderkit.formats._index.layout.CHECKED_AT_OPENING", 1 << 20)
    make_index(tmp_path / "out", paths, options=ScanOptions(keys=True, checksums=True))
    torn.write_bytes(Path(whole).read_bytes())
    monkeypatch.setattr("loaderkit.formats._index.layout.CHECKED_AT_OPENING", 0)
    assert all_of_it() == good


def test_a_damaged_index_of_local_data_is_made_again(tmp_path, paths, caplog):
    """With a line in the log."""
    caplog.set_level("INFO", "loaderkit")
    first = BlocksDataSource(paths)
    lkx = first._index.path
    content = Path(lkx).read_bytes()
    for damaged in (content[:100], b"", content[:-64], b"x" * 1000):
        Path(lkx).write_bytes(damaged)
        caplog.clear()
        assert BlocksDataSource(paths).__getitems__(range(len(RECORDS))) == RECORDS
        assert Path(lkx).read_bytes() == content
        assert "the index is made again" in caplog.text and f"made the index {lkx}" in caplog.text


def test_a_damaged_index_that_was_named_is_an_error(tmp_path, paths):
    """It isn't replaced: it may be another's."""
    named = tmp_path / "mine.lkx"
    named.write_bytes(b"LKINDEX1")
    with pytest.raises(DataFormatError, match=r"mine\.lkx"):
        BlocksDataSource(paths, index=named)
    assert named.read_bytes() == b"LKINDEX1"


def test_a_damaged_part_is_made_again(tmp_path, paths):
    """A part counts if it is whole, and of this version of the shard."""
    ranges = LocalRanges(paths)
    identity = PartIdentity("blocks", 16, str(paths[0]), ranges.version(0), ScanOptions())
    path = str(tmp_path / "a.part")
    assert open_part(path, identity) is None
    from index_data import Blocks

    size = paths[0].stat().st_size
    scan = Blocks().scan(lambda offset, length: paths[0].read_bytes()[offset : offset + length], size)
    write_part(path, identity, bytes(16), scan)
    assert open_part(path, identity) is not None
    os.utime(paths[0], ns=(1, 1))
    later = PartIdentity("blocks", 16, str(paths[0]), ranges.version(0), ScanOptions())
    assert open_part(path, later) is None
    content = Path(path).read_bytes()
    for length in range(0, len(content), 64):
        Path(path).write_bytes(content[:length])
        assert open_part(path, identity) is None


@pytest.mark.parametrize("fails_at", range(0, 40, 3))
def test_a_full_disk_leaves_no_torn_file(tmp_path, paths, monkeypatch, fails_at):
    """Whichever write fails: the error says so, what is there is whole, and the next attempt succeeds."""
    real, calls = os.pwrite, []

    def pwrite(*arguments):
        calls.append(arguments)
        if len(calls) > fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", pwrite)
        with pytest.raises(OSError, match=r"No space left on device: '.*\.(part|lkx)'"):
            BlocksDataSource(paths)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path not in paths]
    for path in files:
        SectionFile(str(path)).check()
    assert BlocksDataSource(paths).__getitems__(range(len(RECORDS))) == RECORDS


def test_on_a_full_disk_it_lies_in_the_cache_folder(tmp_path, paths, monkeypatch, caplog):
    """Where that has room; a line of the log says so."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    real = os.pwrite

    def pwrite(descriptor, *arguments):
        if "/home/" not in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, *arguments)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with BlocksDataSource(paths) as source:
        assert source.__getitems__(range(len(RECORDS))) == RECORDS
    del source
    (made,) = tmp_path.rglob("*.lkx")
    assert made.is_relative_to(tmp_path / "home")
    assert [told for told in caplog.messages if "instead" in told and "No space left" in told]
