"""MDS: samples of MosaicML Streaming's files are what its own library gives."""

import importlib.util
import pickle
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest
from formats import mds_fixtures as made

import loaderkit as lk
from loaderkit.errors import DataFormatError


def same(found, wanted):
    """Whether two samples have the same values, dtypes and shapes."""
    assert {*found} == {*wanted}
    for name, value in wanted.items():
        assert type(found[name]) is type(value), name
        if isinstance(value, np.ndarray):
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
            assert (found[name] == value).all(), name
        else:
            assert found[name] == value, name


@pytest.fixture
def folders(tmp_path):
    """Copies of what the library wrote, by how the shards are compressed."""
    return {name: shutil.copytree(made.FOLDER / name, tmp_path / name) for name in made.PACKED}


@pytest.mark.parametrize("name", made.PACKED)
def test_samples_are_those_that_were_written(folders, name):
    """All encodings but pictures, of a folder and of named shards, one by one and together, also in another process."""
    shards = sorted(folders[name].glob("shard.*"))
    assert len(shards) > 2
    for source in (
        lk.open(folders[name]),
        lk.formats.MdsDataSource(shards),
        lk.open(f"{folders[name]}/*{shards[0].name[11:]}"),
    ):
        assert len(source) == 20 and source.name(0).endswith(f"{shards[0].name}[0]")
        for key, record in enumerate(source.__getitems__(np.arange(20))):
            same(record, made.sample(key))
        same(pickle.loads(pickle.dumps(source))[-1], made.sample(19))


@pytest.mark.parametrize("name", made.PACKED)
@pytest.mark.parametrize("cached", [False, True])
def test_a_folder_of_a_server(folders, range_server, tmp_path, monkeypatch, name, cached):
    """Its index is made at first use; of plain shards the heads alone are read for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    server = range_server(folders[name])
    cache = {"cache": lk.Cache(tmp_path / "cache", "1MB")} if cached else {}
    for _ in range(2):
        with lk.open(server.url("").rstrip("/"), format="mds", **cache) as source:
            same(source[7], made.sample(7))


def test_pictures_stay_bytes_and_raw_ones_become_arrays():
    """Lists of them, too."""
    from loaderkit.formats.mds import _decoder

    raw = struct.pack("<3I", 3, 2, 3) + b"RGB" + bytes(range(18))
    pixels = _decoder("x", "pil")(memoryview(raw))
    assert pixels.shape == (2, 3, 3) and pixels.ravel().tolist() == [*range(18)]
    assert _decoder("x", "jpeg")(memoryview(b"\xff\xd8")) == b"\xff\xd8"
    two = struct.pack("<3I", 2, 1, 2) + b"abb"
    assert _decoder("x", "jpeg_array")(memoryview(two)) == [b"a", b"bb"]
    assert _decoder("x", "list[png]")(memoryview(bytes(4) + two)) == [b"a", b"bb"]


def test_what_isnt_read_is_refused_by_name(folders):
    """Columns of pickles, shards compressed by other programs, shards of other formats, other files."""
    shard = folders["plain"] / "shard.00000.mds"
    shard.write_bytes(shard.read_bytes().replace(b'"json"', b'"pkl" '))
    with pytest.raises(DataFormatError, match=r"shard\.00000\.mds: .*'pkl' of the column 'told'.*any code"):
        lk.open(folders["plain"])[0]
    index = folders["zstd"] / "index.json"
    told = index.read_text()
    for was, now, problem in (
        ('"zstd:7"', '"br:11"', "compressed by br"),
        ('"mds"', '"xsv"', "the format 'xsv'"),
        ("{", "[", "expected the index"),
    ):
        index.write_text(told.replace(was, now))
        with pytest.raises(DataFormatError, match=rf"index\.json: .*{problem}"):
            lk.formats.MdsDataSource(folders["zstd"])


@pytest.mark.parametrize("name", ["plain", "zstd"])
def test_a_shard_that_was_cut_or_goes_on_is_refused(folders, name):
    """The error names the shard and the byte."""
    shard = min(folders[name].glob("shard.*"))
    data = shard.read_bytes()
    for wrong in (data[:-1], data + b"x", data[:6], b"\xff\xff\xff\xff" + data[4:]):
        shard.write_bytes(wrong)
        with pytest.raises(DataFormatError, match=rf"{shard.name}: at byte \d+"):
            lk.open(folders[name])
    shard.write_bytes(b"")
    with pytest.raises(DataFormatError, match=shard.name):
        lk.open(folders[name])
    shutil.copy2(max(folders[name].glob("shard.*")), shard)  # a whole shard, of other samples
    with pytest.raises(
        DataFormatError, match=rf"{shard.name}: expected \d+ samples in .* as index.json says"
    ):
        lk.open(folders[name])


THEIRS = """
import sys, streaming
from pathlib import Path
from formats import mds_fixtures as made
from formats.test_mds import same
import loaderkit as lk

for name, how in made.PACKED.items():
    folder = Path(sys.argv[1]) / name
    made.write(folder, how, count=50, size_limit=5_000)
    source = lk.open(folder)
    theirs = streaming.StreamingDataset(local=str(folder), shuffle=False, batch_size=1)
    for key in range(50):
        same(source[key], {**theirs[key]})
    print(name)
"""


def test_the_library_reads_and_writes_the_same(tmp_path):
    """Its StreamingDataset gives what we give, of shards that it wrote just now."""
    if importlib.util.find_spec("streaming") is None:
        pytest.skip("MosaicML Streaming isn't installed")
    # In a process of its own: it leaves files and shared memory open.
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", THEIRS, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=made.FOLDER.parents[1],
        check=False,
    )
    assert ran.returncode == 0 and ran.stdout.split()[-3:] == [*made.PACKED], ran.stderr[-2000:]
