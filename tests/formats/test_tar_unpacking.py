"""Archives compressed by gzip: refused with what to do, or unpacked once into a cache's folder."""

import gzip
import io
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import loaderkit as lk
from loaderkit.errors import DataFormatError
from loaderkit.formats.tar.unpacking import bytes_in


@pytest.fixture
def packed(tmp_path) -> Path:
    path = tmp_path / "data" / "train-0.tgz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as archive:
        for name in ["000.txt", "../001.txt", "/002.txt"]:
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
    return path


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_refused_without_a_cache(packed):
    with pytest.raises(DataFormatError, match=r"train-0.tgz: .*: `gunzip .*train-0.tgz`, or give cache="):
        lk.TarDataSource(packed)


def test_unpacked_once(packed, tmp_path):
    """By several at once, too; nothing of the archive's names is written, and nothing but the cache's folder."""
    cache = lk.Cache(tmp_path / "cache", limit="1MB")
    with ThreadPoolExecutor(4) as threads:
        sources = list(threads.map(lambda _: lk.TarDataSource(f"{packed}[1:]", cache=cache), range(4)))
    for source in sources:
        assert source.__getitems__([0, 1]) == [
            {"__key__": "../001", "txt": b"abc"},
            {"__key__": "/002", "txt": b"abc"},
        ]
        source.close()
    (made,) = [name for name in files_in(tmp_path / "cache") if name.endswith(".tar")]
    assert made.endswith("/train-0.tar")
    assert gzip.decompress(packed.read_bytes()) == (tmp_path / "cache" / made).read_bytes()
    inode = os.stat(tmp_path / "cache" / made).st_ino
    lk.TarDataSource(packed, cache=cache).close()
    assert os.stat(tmp_path / "cache" / made).st_ino == inode
    assert files_in(packed.parent) == ["train-0.tgz"]
    assert not [name for name in files_in(tmp_path) if "partial" in name or "001" in name]


@pytest.mark.parametrize("damage", ["cut", "edited", "flipped", "no checksum"])
def test_a_damaged_copy_is_unpacked_again(packed, tmp_path, damage, monkeypatch):
    """Where its size or time is another one at once; a flipped bit after the next boot. It needs room for one copy."""
    cache = lk.Cache(tmp_path / "cache", limit=15_000)
    lk.TarDataSource(packed, cache=cache).close()
    (made,) = (tmp_path / "cache").rglob("*.tar")
    content, status = bytearray(made.read_bytes()), made.stat()
    content[-5000 if damage == "cut" else 513] ^= 1
    made.write_bytes(content[: 2000 if damage == "cut" else None])
    if damage == "flipped":
        os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
        monkeypatch.setattr("loaderkit._storage.cache.chunk_folder.boot_id", lambda: b"the next boot..!")
    elif damage == "no checksum":
        made.with_name(f"{made.name}.checksum").unlink()
    (packed.parent / "train-0.tgz.lkx").unlink(missing_ok=True)
    with lk.TarDataSource(packed, cache=cache) as source:
        assert [record["txt"] for record in source.__getitems__([0, 1, 2])] == [b"abc"] * 3
    assert gzip.decompress(packed.read_bytes()) == made.read_bytes()


def test_the_limit(packed, tmp_path):
    with pytest.raises(
        ValueError, match=r"cache: expected a limit with room for .*tgz unpacked, got 5000 bytes"
    ):
        lk.TarDataSource(packed, cache=lk.Cache(tmp_path / "cache", limit=5000))
    assert not [name for name in files_in(tmp_path / "cache") if not name.endswith(".lock")]


@pytest.mark.parametrize("length", [0, 5, 60, -9])
def test_truncated_or_damaged(packed, tmp_path, length):
    data = packed.read_bytes()
    packed.write_bytes(data[:length])
    cache = lk.Cache(tmp_path / "cache", limit="1MB")
    with pytest.raises(DataFormatError, match=r"train-0.tgz: at byte \d+: .*end of the file; copy"):
        lk.TarDataSource(packed, cache=cache)
    packed.write_bytes(data[:40] + b"\xff" * 20 + data[60:])
    with pytest.raises(DataFormatError, match=r"train-0.tgz: at byte \d+: .*copy the file again"):
        lk.TarDataSource(packed, cache=cache)


def test_several_gzip_members(packed, tmp_path):
    """As pigz and cat make them, and with zeros behind them."""
    data = gzip.decompress(packed.read_bytes())
    packed.write_bytes(gzip.compress(data[:700]) + gzip.compress(data[700:]) + b"\0" * 9)
    with lk.TarDataSource(packed, cache=lk.Cache(tmp_path / "cache", limit="1MB")) as source:
        assert [record["__key__"] for record in source] == ["000", "../001", "/002"]


def test_a_file_that_vanishes_while_a_folder_is_measured_is_left_out(tmp_path):
    """Another process deletes it, as a link without its file shows."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.tar").write_bytes(b"1234")
    (tmp_path / "a" / "gone.tar").symlink_to(tmp_path / "nothing")
    (tmp_path / "two.tar").write_bytes(b"12")
    assert bytes_in(str(tmp_path)) == 6
