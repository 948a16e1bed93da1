"""Documents of tokens on a server: the same records as from local files, read by ranges."""

import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_token_source import DOCUMENTS, write_megatron

import loaderkit as lk
from loaderkit._base.block_checksums import BLOCK_BYTES
from loaderkit.formats.tokens.file import widest_gap, with_whole_blocks
from loaderkit.testing import check_source

RNG = np.random.default_rng(0)
LENGTHS = np.maximum(1, RNG.lognormal(np.log(300), 1, 400).astype(np.int64))
TOKENS = RNG.integers(0, 50_000, LENGTHS.sum(), dtype=np.uint16)
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
KEYS = [399, 0, 7, 8, 9, 200, 7]


@pytest.fixture
def folder(tmp_path):
    served = tmp_path / "served"
    served.mkdir()
    np.save(served / "tokens.npy", TOKENS)
    np.save(served / "offsets.npy", OFFSETS)
    TOKENS.tofile(served / "tokens.bin")
    OFFSETS.tofile(served / "offsets.bin")
    return served


@pytest.fixture
def server(range_server, folder):
    return range_server(folder)


def local(folder):
    return lk.TokenDataSource(folder / "tokens.npy", folder / "offsets.npy")


def remote(server, ending="npy", **how):
    return lk.TokenDataSource(server.url(f"tokens.{ending}"), server.url(f"offsets.{ending}"), **how)


def values(records):
    return [record["tokens"].tolist() for record in records]


def asked_bytes(server):
    """Of the tokens; a request without a range is for all of them."""
    return sum((one.end or TOKENS.nbytes + 128) - (one.begin or 0) for one in server.requests)


@pytest.mark.parametrize("how", ["npy", "bare", "cache", "signed", "local offsets"])
def test_the_documents_of_a_server(folder, server, tmp_path, how):
    expected = local(folder)
    if how == "bare":
        source = remote(server, "bin", dtype=np.uint16)
    elif how == "cache":
        source = remote(server, cache=lk.Cache(tmp_path / "cache", limit="1GB"))
    elif how == "signed":
        server.token = "secret"
        source = lk.TokenDataSource(
            *(server.url(f"{name}.npy?token=secret") for name in ("tokens", "offsets"))
        )
    elif how == "local offsets":
        source = lk.TokenDataSource(server.url("tokens.npy"), folder / "offsets.npy")
    else:
        source = remote(server)
    assert values(source.__getitems__(KEYS)) == values(expected.__getitems__(KEYS))
    assert values([source[5]]) == values([expected[5]])
    assert source.read_range(3, 10, 20)["tokens"].tolist() == expected[3]["tokens"][10:20].tolist()
    assert source.lengths.tolist() == LENGTHS.tolist()
    assert source.fingerprint() == expected.fingerprint()
    assert (source.read_ahead, expected.read_ahead) == (4, 0)
    assert source.chunk_records == expected.chunk_records == (1 << 20) * 400 // TOKENS.nbytes
    assert "secret" not in repr(source) + str(source.fingerprint())
    assert not source[0]["tokens"].flags.writeable


def test_files_of_bare_numbers_beside_the_program(folder):
    source = lk.TokenDataSource(folder / "tokens.bin", f"file://{folder}/offsets.bin", dtype="uint16")
    assert values(source.__getitems__(KEYS)) == values(local(folder).__getitems__(KEYS))
    os.truncate(folder / "tokens.bin", 7)
    with pytest.raises(
        lk.errors.DataFormatError, match=r"tokens\.bin: expected a multiple of 2 bytes, as dtype uint16"
    ):
        lk.TokenDataSource(folder / "tokens.bin", [0, 1], dtype="uint16")


def test_objects_of_fsspec(folder):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name in ("tokens", "offsets"):
        memory.pipe_file(f"/box/{name}.npy", (folder / f"{name}.npy").read_bytes())
    source = lk.TokenDataSource("memory://box/tokens.npy", "memory://box/offsets.npy")
    assert values(source.__getitems__(KEYS)) == values(local(folder).__getitems__(KEYS))


def test_it_is_a_source_as_others(server):
    check_source(remote(server), skip=["another process"])


def test_a_call_reads_its_ranges_at_once(server):
    source = remote(server)
    server.requests.clear()
    source.__getitems__([7, 8, 9, 300])
    used = 2 * int(LENGTHS[[7, 8, 9, 300]].sum())
    assert used <= asked_bytes(server) <= 1.1 * used
    assert len(server.requests) == 2  # three that follow each other are one range
    server.requests.clear()
    source.read_range(7, 2, 4)
    assert [(one.end - one.begin) for one in server.requests] == [4]


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 500)), min_size=1))
@settings(max_examples=60)
def test_little_is_read_that_is_not_used(runs):
    begins, lengths = np.array(runs).T
    ends = begins + lengths
    gap = widest_gap(begins, ends)
    read, reach = 0, None
    for begin, end in sorted(zip(begins.tolist(), ends.tolist())):
        if reach is not None and begin - reach <= gap:
            read += max(0, begin - reach)
        reach = max(end, reach or 0)
    assert read <= int(lengths.sum()) / 16


@given(st.lists(st.tuples(st.integers(0, 400_000), st.integers(0, 400_000)), min_size=1))
def test_an_end_is_moved_for_a_whole_block_alone(places):
    """For a 64th of the read; each end is where it was, or at a block's that the read then has whole."""
    begins, ends = np.sort(np.array(places), axis=1).T
    lows, highs = with_whole_blocks(begins, ends, 400_000)
    for begin, end, low, high in zip(begins.tolist(), ends.tolist(), lows.tolist(), highs.tolist()):
        assert low == begin or (low % BLOCK_BYTES == 0 and high - low >= BLOCK_BYTES)
        assert high == end or high == 400_000 or (high % BLOCK_BYTES == 0 and high - low >= BLOCK_BYTES)
        assert 0 <= max(begin - low, high - end) <= (end - begin) / 64


def test_blocks_that_a_read_has_whole_are_compared(folder, server):
    """The values are those of the local file, for at most a tenth more bytes; a flipped bit is an error naming them."""
    lengths = RNG.integers(1, 60_000, 60)
    lk.write(
        [{"tokens": RNG.integers(0, 50_000, each).astype(np.uint16)} for each in lengths],
        folder / "blocks.tokens",
    )
    expected = values(lk.TokenDataSource(folder / "blocks.tokens"))
    source = lk.TokenDataSource(server.url("blocks.tokens"))
    for _ in range(20):
        keys = RNG.permutation(60)[: RNG.integers(1, 30)]
        server.requests.clear()
        assert values(source.__getitems__(keys)) == [expected[key] for key in keys]
        read = sum(one.end - one.begin for one in server.requests)
        assert read <= 1.1 * 2 * lengths[keys].sum() and len(server.requests) <= len(keys)
    whole = bytearray((folder / "blocks.tokens").read_bytes())
    whole[128 + 3 * BLOCK_BYTES + 9] ^= 1
    (folder / "flipped.tokens").write_bytes(whole)
    source = lk.TokenDataSource(server.url("flipped.tokens"))
    place = r"flipped\.tokens: bytes 196,736 to 262,272 don't have their checksum: .*; write it again"
    for _ in range(2):
        with pytest.raises(lk.errors.ChecksumError, match=place):
            source.__getitems__(range(60))
    begin = 3 * BLOCK_BYTES // 2
    source.slices(np.array([begin]), np.array([begin + 100]))  # no whole block


@pytest.mark.parametrize("cached", [False, True])
def test_packed_rows_of_a_server(folder, server, tmp_path, cached):
    cache = lk.Cache(tmp_path / "cache", limit="1GB") if cached else None
    source = remote(server, cache=cache)
    plan = lk.plan_packing(source.lengths, 1024, block=64)
    rows = lk.PackedDataSource(source, plan)
    expected = lk.PackedDataSource(local(folder), plan).take(np.arange(len(plan)))
    server.requests.clear()
    order = np.random.default_rng(1).permutation(len(plan))
    for keys in np.array_split(order, 5):
        taken = rows.take(keys)
        assert all(np.array_equal(taken[name], expected[name][keys]) for name in expected)
    assert TOKENS.nbytes <= asked_bytes(server) <= 1.1 * TOKENS.nbytes
    assert rows.read_ahead == 4


def test_chunks_of_a_cache(folder, server, tmp_path, monkeypatch):
    """Each is fetched once; a run may lie in several, and the next source has them."""
    monkeypatch.setattr("loaderkit.formats.tokens.file._PAGES", 2)
    cache = lk.Cache(tmp_path / "cache", limit="1GB")
    source = remote(server, cache=cache)
    server.requests.clear()
    order = RNG.permutation(400)
    expected = values(local(folder).__getitems__(order))
    for keys in np.array_split(np.arange(400), 7):
        assert values(source.__getitems__(order[keys])) == [expected[key] for key in keys]
    begins = [one.begin for one in server.requests]
    assert len(begins) == len({*begins}) <= -(-TOKENS.nbytes // 8192) + 1
    again = pickle.loads(pickle.dumps(source))
    server.requests.clear()
    assert values(again.__getitems__(order)) == expected
    assert values([again[order[3]]]) == [expected[3]]
    assert again.slices(np.array([5, 5]), np.array([5, 7]))[0].tolist() == []
    assert [each.method for each in server.requests] == ["HEAD"]  # the version, once in each process


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_packed_rows(folder, server, workers):
    def batches(source):
        plan = lk.plan_packing(source.lengths, 1024)
        rows = lk.PackedDataSource(source, plan)
        with lk.load(rows, batch_size=16, shuffle=True, seed=3, num_epochs=1, worker_count=workers) as loader:
            return [batch["tokens"].copy() for batch in loader]

    found, expected = batches(remote(server)), batches(local(folder))
    assert len(found) == len(expected)
    assert all(map(np.array_equal, found, expected))


def test_chunks_of_packed_rows(server):
    source = remote(server)
    rows = lk.PackedDataSource(source, lk.plan_packing(source.lengths, 1024, block=64))
    sampler = lk.ChunkSampler.over(rows, cache_bytes=4 * rows.chunk_bytes, seed=0)
    assert (sampler.chunk, sampler.window) == (rows.chunk_records, 2)
    assert rows.chunk_bytes == 2 * 1024 * rows.chunk_records
    others = [{"tokens": np.arange(3)}] * 3
    with pytest.raises(
        AttributeError, match="chunk_bytes: a PackedDataSource has it for a TokenDataSource only"
    ):
        _ = lk.PackedDataSource(others, lk.plan_packing([3, 3, 3], 8)).chunk_bytes


def test_a_link_that_is_signed_for_reading_alone(folder, server):
    server.script(403)
    source = lk.TokenDataSource(server.url("tokens.npy"), OFFSETS)
    assert [one.method for one in server.requests][:2] == ["HEAD", "GET"]
    assert values([source[3]]) == values([local(folder)[3]])


def test_a_server_that_fails_sometimes(folder, server):
    server.script("503", "short")
    source = remote(server)
    server.script("503", "short", "close", "less", 500)
    assert values(source.__getitems__(KEYS)) == values(local(folder).__getitems__(KEYS))


def test_a_replaced_object(folder, server, in_child):
    source = remote(server)
    content = pickle.dumps(source)
    np.save(folder / "tokens.npy", TOKENS + np.uint16(1))
    with pytest.raises(
        lk.errors.FileChangedError, match=r"tokens\.npy: the file isn't the one .* its version was"
    ):
        source[0]
    with pytest.raises(lk.errors.FileChangedError, match=r"tokens\.npy"):
        pickle.loads(content)[0]
    np.save(folder / "tokens.npy", TOKENS[:-5])
    with pytest.raises(lk.errors.FileChangedError, match=r"tokens\.npy: .* it had .* bytes and has"):
        source[0]


def test_a_truncated_object(folder, server):
    os.truncate(folder / "tokens.npy", 1001)
    with pytest.raises(
        lk.errors.DataFormatError, match=r"tokens\.npy: expected \d+ bytes, .* got 1001; .*truncated"
    ):
        remote(server)
    os.truncate(folder / "tokens.bin", 1001)
    with pytest.raises(lk.errors.DataFormatError, match=r"tokens\.bin: expected a multiple of 2 bytes"):
        remote(server, "bin", dtype=np.uint16)
    os.truncate(folder / "offsets.bin", 80)
    os.truncate(folder / "tokens.bin", 10)
    with pytest.raises(
        ValueError, match="offsets: expected numbers from 0 to 5, the number of tokens, got 0 to"
    ):
        remote(server, "bin", dtype=np.uint16)


def test_an_absent_object(server):
    with pytest.raises(FileNotFoundError, match=r"no such object: 'http://.*/none\.npy'") as raised:
        lk.TokenDataSource(server.url("none.npy?token=secret"), [0, 1])
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "how", "error", "text"),
    [
        ("tokens.bin", {}, ValueError, "tokens: expected the name of a .npy file, got 'http.*give dtype="),
        (
            "bad.npy",
            {},
            lk.errors.DataFormatError,
            r"bad.npy: at byte 0: expected a .npy file, got one that begins with b'none",
        ),
        (
            "empty.npy",
            {},
            lk.errors.DataFormatError,
            r"empty.npy: at byte 0: expected a .npy file, got .* begins with b''",
        ),
        ("floats.npy", {}, TypeError, "tokens: expected integers in one dimension, got float64"),
        ("table.npy", {}, TypeError, r"tokens: expected integers .* shape \(2, 3\); give the documents one"),
        (
            "tokens.bin",
            {"dtype": float},
            TypeError,
            "tokens: expected integers in one dimension, got float64",
        ),
        ("tokens.npy[0:9]", {}, ValueError, r"tokens: expected names of whole files, got .*, a part of one"),
        (
            "{tokens,tokens}.npy",
            {},
            ValueError,
            "offsets: expected those of 2 files of tokens, got 1; name as",
        ),
        ("tokens.npy", {"cache": "here"}, TypeError, "cache: expected lk.Cache, got str"),
        ("tokens.npy", {"storage_options": "x"}, TypeError, "storage_options: expected a dict .*got a str"),
    ],
)
def test_wrong_files(folder, server, name, how, error, text):
    (folder / "bad.npy").write_bytes(b"none of it")
    (folder / "empty.npy").write_bytes(b"")
    np.save(folder / "floats.npy", np.zeros(3))
    np.save(folder / "table.npy", np.zeros((2, 3), int))
    with pytest.raises(error, match=text):
        lk.TokenDataSource(server.url(name), [0, 1], **how)


@pytest.mark.parametrize("ending", ["", ".bin", ".idx?a=b"])
def test_megatrons_files_of_a_server(folder, server, ending):
    write_megatron(folder / "set", DOCUMENTS)
    source = lk.TokenDataSource.from_megatron(server.url("set") + ending)
    expected = lk.TokenDataSource.from_megatron(folder / "set")
    assert values(source.__getitems__(range(5))) == values(expected.__getitems__(range(5)))
    assert source.fingerprint() == expected.fingerprint()


def test_megatrons_truncated_tokens(folder, server):
    write_megatron(folder / "set", DOCUMENTS)
    os.truncate(folder / "set.bin", 14)
    with pytest.raises(
        lk.errors.DataFormatError, match=r"set.bin: expected 16 bytes, as http.*set.idx says, got 14"
    ):
        lk.TokenDataSource.from_megatron(server.url("set"))
