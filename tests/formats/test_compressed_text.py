"""Text compressed by zstd or gzip gives the records of the plain file, however it is cut, and wherever it lies."""

import gzip
import itertools
import json
import pickle
import shutil
import struct
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._codecs.scan import Malformed
from loaderkit.errors import ChecksumError, DataFormatError, FileChangedError
from loaderkit.formats._index import gzip_points, text_ranges, unpacked_text
from loaderkit.formats._index.unpacked_text import UnpackedText, unpacked_block, zstd_library

zstd = zstd_library()
SKIPPED = struct.pack("<II", 0x184D2A53, 5) + b"other"


def unsized(text):
    """A frame that doesn't say its size, as a stream has it."""
    compressor = zstd.ZstdCompressor()
    return compressor.compress(text) + compressor.flush()


PACK = {
    "frames": zstd.compress,
    "frames without sizes": unsized,
    "frames with others that are skipped": lambda text: SKIPPED + zstd.compress(text) + SKIPPED,
    "members": gzip.compress,
    "members with zeros behind": lambda text: gzip.compress(text) + bytes(9),
}
TEXT = b"".join(b'{"n": %d, "text": "%d"}\n' % (k, k * 7919 % 10007 * 9973) for k in range(1200))
RECORDS = [json.loads(line) for line in TEXT.splitlines()]


def cut(text, places):
    """The parts of a text between these places."""
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[begin:end] for begin, end in itertools.pairwise(edges)]


def parts_of(data):
    """The text, and the blocks of it, each unpacked by itself."""
    text = UnpackedText(lambda at, length: data[at : at + length], len(data))
    found, at = [], 0
    while piece := text(at, 1000):
        found.append(piece)
        at += len(piece)
    blocks, single = text.blocks(), []
    for block, row in enumerate(blocks.window.tolist()):
        (begin, end), (low, high) = (
            blocks.bits[block : block + 2].tolist(),
            blocks.texts[block : block + 2].tolist(),
        )
        window = None if row < 0 else blocks.windows[row].tobytes()
        single.append(unpacked_block(data[begin // 8 : -(-end // 8)], high - low, begin % 8, window))
    return b"".join(found), single


@given(
    st.lists(st.integers(0, len(TEXT)), max_size=6),
    st.sampled_from([*PACK]),
    st.integers(1, 2000),
    st.integers(100, 5000),
    st.data(),
)
def test_any_cut_gives_the_text_and_its_blocks(places, how, piece, least, data):
    """Frames and members may be cut anywhere, within a line and within a letter, be empty, be read in any pieces."""
    packed = b"".join(PACK[how](part) for part in cut(TEXT, places)) + b"\0" * data.draw(st.integers(0, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacked_text, "_PIECE", piece)
        patch.setattr(unpacked_text, "_LEAST_BLOCK", least)
        text, blocks = parts_of(packed)
    assert text == TEXT and b"".join(blocks) == TEXT
    assert all(blocks) and all(len(a) + len(b) >= least for a, b in itertools.pairwise(blocks))


@pytest.mark.parametrize("members", [1, 3])
def test_large_members_of_gzip_have_blocks_within(members, monkeypatch):
    """Each is unpacked by itself from the window before it, though it begins within a byte."""
    pytest.importorskip("indexed_gzip")
    monkeypatch.setattr(unpacked_text, "_LARGE_MEMBER", 1 << 14)
    monkeypatch.setattr(gzip_points, "_SPACING", 40_000)
    texts = cut(8 * TEXT, [100, 3 * len(TEXT)] if members == 3 else [])
    text, blocks = parts_of(b"".join(map(gzip.compress, texts)))
    assert text == 8 * TEXT and b"".join(blocks) == 8 * TEXT and len(blocks) > members


@pytest.fixture
def files(tmp_path, monkeypatch):
    """By name, files with the records of TEXT: each in small blocks, of gzip within one member, and of one frame."""
    pytest.importorskip("indexed_gzip")
    monkeypatch.setattr(unpacked_text, "_LEAST_BLOCK", 3000)
    monkeypatch.setattr(unpacked_text, "_LARGE_MEMBER", 1 << 14)
    monkeypatch.setattr(gzip_points, "_SPACING", 40_000)
    made = {
        "a.jsonl": TEXT,
        "frames.jsonl.zst": b"".join(map(zstd.compress, cut(TEXT, range(0, len(TEXT), 3500)))),
        "frame.ndjson.zst": zstd.compress(TEXT),
        "member.jsonl.gz": gzip.compress(TEXT),
        "members.jsonl.gz": b"".join(map(gzip.compress, cut(TEXT, range(0, len(TEXT), 3500)))),
    }
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    return {name: str(tmp_path / name) for name in made}


def test_records_are_those_of_the_plain_file(files):
    """One by one, many in any order, as parts of files, and where plain and compressed files are one set."""
    order = np.random.default_rng(0).permutation(len(RECORDS))
    for path in files.values():
        with lk.open(path) as source:
            assert len(source) == len(RECORDS) and source[-1] == RECORDS[-1]
            assert source.__getitems__(order) == [RECORDS[key] for key in order]
            assert source.__getitems__(np.arange(200)) == RECORDS[:200]
            assert pickle.loads(pickle.dumps(source))[7] == RECORDS[7]
        with lk.JsonLinesDataSource(path + "[700:710]") as part:
            assert [*map(part.__getitem__, range(10))] == RECORDS[700:710]
    with lk.JsonLinesDataSource([*files.values()]) as joined:
        assert joined.__getitems__(np.arange(len(joined))) == RECORDS * len(files)
        assert joined.fingerprint()["bytes"] == len(TEXT) * len(files)


def test_each_format_of_text(tmp_path):
    r"""Lines with their \r\n and a byte order mark, and rows of CSV and TSV with lines in quotes."""
    for name, text in {
        "x.txt": "﻿one\r\n\ntwo",
        "x.csv": 'a,b\n1,"x\ny"\n2,z\n',
        "x.tsv": 'a\tb\n1\t"x\ny"\n',
    }.items():
        (tmp_path / name).write_text(text, newline="")
        (tmp_path / f"{name}.zst").write_bytes(zstd.compress(text.encode()))
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        plain = lk.open(tmp_path / name)
        for ending in ("zst", "gz"):
            source = lk.open(tmp_path / f"{name}.{ending}")
            assert [*map(source.__getitem__, range(len(source)))] == [plain[k] for k in range(len(plain))]


def test_a_call_unpacks_each_block_once_and_the_next_calls_none(files, monkeypatch):
    """Records in any order of blocks that a reader has room for; without room each call unpacks its own."""
    unpacked = []
    monkeypatch.setattr(
        text_ranges, "unpacked_block", lambda *given: unpacked.append(1) or unpacked_block(*given)
    )
    order = np.random.default_rng(0).permutation(len(RECORDS))
    source = lk.open(files["frames.jsonl.zst"])
    blocks = len(source._index.blocks_of(0).window)
    for _ in range(3):
        source.__getitems__(order)
    assert len(unpacked) == blocks > 10
    monkeypatch.setattr(text_ranges, "_KEPT_BYTES", 10_000)
    other = lk.open(files["frames.jsonl.zst"])
    for _ in range(3):
        other.__getitems__(order)
    assert len(unpacked) > 3 * blocks
    assert other._ranges._kept_bytes == sum(map(len, other._ranges._kept.values())) <= 10_000


@pytest.mark.parametrize("cached", [False, True])
def test_files_of_a_server(files, range_server, tmp_path, monkeypatch, cached):
    """With an index beside them their records are read by ranges, with a cache and without."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    served = tmp_path / "served"
    served.mkdir()
    for name in ("frames.jsonl.zst", "member.jsonl.gz"):
        lk.open(files[name]).close()
        for path in (files[name], files[name] + ".lkx"):
            shutil.copy2(path, served)
    server = range_server(served)
    cache = {"cache": lk.Cache(tmp_path / "cache", "1GB")} if cached else {}
    for name in ("frames.jsonl.zst", "member.jsonl.gz"):
        order = np.random.default_rng(0).permutation(len(RECORDS))[:500]
        with lk.open(server.url(name), **cache) as source:
            assert source.__getitems__(order) == [RECORDS[key] for key in order]


def test_two_workers_and_a_restored_run_give_the_stream_of_the_plain_file(files):
    """The same bytes for any number of workers, and from a saved position on."""

    def loader(path, workers):
        source = lk.open(path)
        sampler = lk.IndexSampler(len(source), shuffle=True, seed=3, num_epochs=1)
        return lk.DataLoader(
            data_source=source, sampler=sampler, operations=[lk.Batch(100)], worker_count=workers
        )

    def values(batches):
        return [(batch["n"].tolist(), batch["text"].tolist()) for batch in batches]

    with loader(files["a.jsonl"], 0) as plain:
        wanted = values(plain)
    with loader(files["frames.jsonl.zst"], 2) as two, iter(two) as it:
        assert values(next(it) for _ in range(9)) == wanted[:9]
        state = it.get_state()
    with loader(files["frames.jsonl.zst"], 0) as restored, iter(restored) as it:
        it.set_state(state)
        assert values(it) == wanted[9:]


# --- files that are written -----------------------------------------------------------------------------------------


def test_written_frames_are_whole_lines_with_checksums_and_a_table(tmp_path, monkeypatch):
    """Other programs read the file; a frame is about 256 KiB of whole lines; the table says all of their sizes."""
    records = [{"n": k, "text": "x" * k} for k in range(1000)]
    plain, packed = (lk.write(records, tmp_path / name)[0] for name in ("x.jsonl", "x.jsonl.zst"))
    with open(plain, "rb") as file:
        text = file.read()
    with open(packed, "rb") as file:
        data = file.read()
    assert zstd.decompress(data) == text
    count, flags, mark = struct.unpack("<IBI", data[-9:])
    table = np.frombuffer(data[-9 - 8 * count : -9], "<u4").reshape(-1, 2)
    assert (flags, mark) == (0, 0x8F92EAB1)
    assert struct.unpack("<II", data[-17 - 8 * count : -9 - 8 * count]) == (0x184D2A5E, 8 * count + 9)
    at = 0
    for size, nbytes in table.tolist():
        frame = data[at : at + size]
        assert zstd.get_frame_size(frame) == size and frame[4] & 4  # it has a checksum
        part = zstd.decompress(frame)
        assert len(part) == nbytes <= 256 << 10 and part.endswith(b"\n")
        at += size
    assert at == len(data) - 17 - 8 * count and count == 2
    with lk.open(packed) as source:
        assert source.fingerprint()["checksums"] == lk.open(plain).fingerprint()["checksums"]
        assert source[999] == records[999]


def test_other_libraries_read_what_was_written(tmp_path):
    """pyarrow and the program zstd."""
    pyarrow = pytest.importorskip("pyarrow")
    (path,) = lk.write(RECORDS, tmp_path / "x.jsonl.zst")
    with pyarrow.input_stream(path) as file:
        assert file.read() == TEXT
    if (program := shutil.which("zstdcat")) is not None:
        assert subprocess.run([program, path], capture_output=True, check=True).stdout == TEXT


def test_workers_and_shards_write_the_same_bytes(tmp_path):
    """A folder by two workers is that of none; a line that is longer than a frame may be is cut into several."""
    for workers in (0, 2):
        lk.write(RECORDS, tmp_path / f"{workers}", format="jsonl.zst", shards=3, worker_count=workers)
    for path in (tmp_path / "0").glob("*.zst"):
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes()
    with lk.open(tmp_path / "2") as source:
        assert source.__getitems__(np.arange(len(RECORDS))) == RECORDS
    lk.write(RECORDS[:9], tmp_path / "2", format="jsonl.zst", shards=2, overwrite=True)
    long = [{"x": "ab" * (10 << 20)}, {"x": "c"}]
    with lk.open(lk.write(long, tmp_path / "long.jsonl.zst")[0]) as source:
        assert len(source._index.blocks_of(0).window) == 3 and source.__getitems__([1, 0]) == long[::-1]


def test_a_name_of_files_that_are_only_read_isnt_written(tmp_path):
    """Plain text never gets the name of a compressed file."""
    with pytest.raises(ValueError, match=r"as jsonl.* is only read, got None"):
        lk.write(RECORDS, tmp_path / "x.jsonl.gz")
    with pytest.raises(ValueError, match=r"'jsonl\.zst' for"):
        lk.write(RECORDS, tmp_path / "x.jsonl.zst", format="jsonl")


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [zstd.compress, gzip.compress])
def test_a_file_that_was_cut_or_goes_on_is_refused(tmp_path, pack):
    """The error names the file and the byte; an empty file has no records."""
    whole = pack(TEXT)
    for data, at, problem in (
        (whole[:-1], len(whole) - 1, "the end of the file"),
        (whole[: len(whole) // 2], len(whole) // 2, "the end of the file"),
        (whole + whole[:9], len(whole) + 9, "the end of the file"),
        (whole + b"garbage", len(whole), "expected a frame .* got b'garb'"),
        (whole + b"\0\0garbage", len(whole) + 2, "expected a frame .* got b'garb'"),
    ):
        path = tmp_path / "x.jsonl.zst"
        path.write_bytes(data)
        with pytest.raises(DataFormatError, match=rf"x\.jsonl\.zst: at byte {at}: .*{problem}"):
            lk.open(path)
    path.write_bytes(b"")
    assert len(lk.open(path)) == 0


def test_damage_behind_the_index_is_an_error_of_the_file(files):
    """A block whose bytes aren't those that were indexed is no bad record that could be left out."""
    for name in ("frames.jsonl.zst", "members.jsonl.gz"):
        source = lk.open(files[name])
        with open(files[name], "r+b") as file:
            data = bytearray(file.read())
            data[len(data) // 2] ^= 16
            file.seek(0)
            file.write(data)
        source.close()
        source._ranges._ranges._identities.clear()
        with pytest.raises((ChecksumError, FileChangedError), match=name):
            source.__getitems__(np.arange(len(RECORDS)))


def test_a_frame_that_claims_4_gb_is_no_more_than_it_is(tmp_path):
    """Its size isn't believed: it is unpacked piece by piece."""
    frame = bytearray(zstd.compress(b'{"n": 1}\n' * 40_000))
    (said,) = struct.unpack("<I", frame[5:9])
    assert said == 360_000 and frame[4] >> 6 == 2
    frame[5:9] = struct.pack("<I", 0xFFFF_FFF0)
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(frame)
    with pytest.raises(DataFormatError, match=r"x\.jsonl\.zst: at byte \d+"):
        lk.open(path)


def test_a_large_frame_is_read_in_order_only(files, tmp_path, range_server, monkeypatch, caplog):
    """From any place on, without its text in memory; a record before is refused with what to do, and convert writes
    small frames."""
    for module in (unpacked_text, text_ranges):
        monkeypatch.setattr(module, "MOST_UNPACKED", 10_000)
    monkeypatch.setattr(unpacked_text, "_PIECE", 2_000)
    source = lk.open(files["frame.ndjson.zst"])
    assert "can only be read in order" in caplog.text
    for begin in range(0, len(RECORDS), 64):
        assert (
            source.__getitems__(np.arange(begin, min(begin + 64, len(RECORDS))))
            == RECORDS[begin : begin + 64]
        )
        (large,) = source._ranges._large.values()
        assert len(large._text._text) < 8_000
    assert source[0] == RECORDS[0]  # from the beginning again
    assert source[800] == RECORDS[800]  # as a run that goes on
    refused = pytest.raises(DataFormatError, match=r"\.zst: .* in their order .*--to jsonl\.zst")
    with refused:
        source[600]
    with lk.open(range_server(tmp_path).url("frame.ndjson.zst")) as far:
        assert far.read_ahead == 0  # reads in flight together have no order
    (tmp_path / "two.jsonl.zst").write_bytes(zstd.compress(TEXT) * 2)
    two = lk.open(tmp_path / "two.jsonl.zst")
    assert [two[800], two[2000]] == [RECORDS[800]] * 2
    with refused:  # the first frame would be unpacked again for each record
        two[900]
    small = lk.offline.map_shards(
        lambda record: record, source, tmp_path / "small", format="jsonl.zst", shards=3
    )
    monkeypatch.undo()
    assert lk.open(small)[800] == RECORDS[800]


def test_frames_of_other_settings_are_malformed(tmp_path):
    """A dictionary that isn't there is an error of the file, not a crash."""
    dictionary = zstd.train_dict([b'{"n": %d}' % k for k in range(1000)] * 3, 1000)
    (tmp_path / "x.jsonl.zst").write_bytes(zstd.compress(TEXT, zstd_dict=dictionary))
    with pytest.raises(DataFormatError, match=r"x\.jsonl\.zst: at byte"):
        lk.open(tmp_path / "x.jsonl.zst")
    with pytest.raises(Malformed, match="frame"):
        parts_of(b"(\xb5/\xfd")
