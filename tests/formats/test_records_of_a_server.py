"""TFRecord, lines, JSON Lines and CSV on a server: the same records as from local files, with a cache and without."""

import os
import shutil
from dataclasses import replace

import pytest
from formats.records import tfrecord

import loaderkit as lk
from loaderkit._storage import remote_objects
from loaderkit._storage.cache.chunk_file import footer_of
from loaderkit.formats._index.build import build_counts, build_index
from loaderkit.formats._index.part_file import ScanOptions
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats.indexed import _Refresh
from loaderkit.formats.text.line_scanner import LinesFormat
from loaderkit.formats.tfrecord.scanner import TFRecordFormat

LINES = [f'{{"n": {k}}}' for k in range(200)]
DATA = {
    lk.TFRecordDataSource: tfrecord(line.encode() * 300 for line in LINES),
    lk.formats.LinesDataSource: "\n".join(LINES).encode(),
    lk.JsonLinesDataSource: "\n\n".join(LINES).encode(),
    lk.formats.CsvDataSource: "\n".join(["a", *(f'"{k},\n"' for k in range(200))]).encode(),
}


@pytest.mark.parametrize("kind", DATA)
def test_records_of_a_server(range_server, tmp_path, kind, monkeypatch):
    """Refused without an index; with one beside the data the records are those of the local files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    served = tmp_path / "served"
    served.mkdir()
    for shard in range(2):
        (served / f"{shard}.data").write_bytes(DATA[kind])
    server = range_server(served)
    names = server.url("{0..1}.data") + "?signature=secret"
    with pytest.raises(FileNotFoundError, match="loaderkit index") as raised:
        kind(names)
    assert "secret" not in str(raised.value)
    with kind(served / "*.data") as local:
        expected = local.__getitems__(range(400))
        fingerprint = local.fingerprint()
    keys = [399, 0, 7, -1, 200, 8]
    cache = lk.Cache(tmp_path / "cache", limit="1GB")
    for how in ({}, {"cache": cache}, {"cache": cache}):
        with kind(names, **how) as source:
            assert source.__getitems__(keys) == [expected[key] for key in keys]
            assert source[3] == expected[3] and source.fingerprint() == fingerprint
            assert "secret" not in repr(source) + source.name(3)


def test_other_bytes_on_a_server(range_server, tmp_path, monkeypatch):
    """Refused at each read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    served = tmp_path / "served"
    served.mkdir()
    (served / "a.txt").write_bytes(b"one\ntwo\n")
    len(lk.formats.LinesDataSource(served / "a.txt"))
    server = range_server(served)
    with lk.formats.LinesDataSource(server.url("a.txt")) as source:
        assert source[1] == "two"
    (served / "a.txt").write_bytes(b"six\nten\n")
    with lk.formats.LinesDataSource(server.url("a.txt")) as source:
        for _ in range(2):
            with pytest.raises(lk.errors.FileChangedError, match=r"a\.txt: at byte 0: .* its bytes aren't"):
                source[1]


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("kind", ["jsonl", "tar"])
def test_shards_with_other_tags_get_a_look_together(range_server, tmp_path, monkeypatch, kind, cached):
    """Of files that were indexed before they were uploaded; one after the other, ten took 22 round trips."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    served, reads = tmp_path / "served", []
    records = [{"x": line} for line in LINES[:80]]
    source_of = lk.TarDataSource if kind == "tar" else lk.JsonLinesDataSource
    names = [os.path.basename(path) for path in lk.write(records, served, format=kind, shards=8)]
    with source_of([str(served / name) for name in names]) as local:
        expected = local.__getitems__(range(80))
    server = range_server(served)
    plan_reads = remote_objects.plan_reads

    def noted(shards, *ranges, **how):
        reads.append(len({*shards.tolist()}))
        return plan_reads(shards, *ranges, **how)

    monkeypatch.setattr(remote_objects, "plan_reads", noted)
    cache = lk.Cache(tmp_path / "cache", limit="1GB") if cached else None
    with source_of([server.url(name) for name in names], cache=cache) as source:
        reads.clear()  # those of the index
        keys = list(range(0, 80, 10))
        assert source.__getitems__(keys) == [expected[key] for key in keys]
        # The records, the samples, what tar shards say of their fields, and whole records, now that they are compared.
        assert reads == [8] * (2 + (kind == "tar") + (not cached))
        reads.clear()
        assert source.__getitems__([key + 1 for key in keys]) == [expected[key + 1] for key in keys]
        assert reads == [8] * (not cached)


@pytest.mark.parametrize("how", ["index of each", "one index", "counts"])
def test_a_cache_of_two_versions(range_server, tmp_path, monkeypatch, how):
    """Of one set, in which a label was corrected beside the samples: each gives its own records."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    cache = lk.Cache(tmp_path / "cache", limit="1GB")
    data = b"".join(b"%09d\n" % number for number in range(20_000))
    texts = {"one": data, "two": data.replace(b"000008500", b"corrected")}
    for name, text in texts.items():
        served = tmp_path / name
        served.mkdir()
        (served / "a.txt").write_bytes(text)
        shards = ShardSet([str(served / "a.txt")])
        if how == "counts":
            (served / "counts.json").write_text('{"shard_counts": {"a.txt": 20000}}')
            build_counts(shards, LinesFormat(), f"{served}/a.txt.lkx", source=f"{served}/counts.json")
        elif how == "one index" and name == "two":
            shutil.copy(tmp_path / "one" / "a.txt.lkx", served)
        else:
            build_index(shards, LinesFormat(), f"{served}/a.txt.lkx")
    servers = {name: range_server(tmp_path / name) for name in texts}
    for _ in range(2):
        for name, text in texts.items():
            with lk.formats.LinesDataSource(servers[name].url("a.txt"), cache=cache) as source:
                assert source.__getitems__(range(8490, 8510)) == text.decode().splitlines()[8490:8510]
    asked = len(servers["two"].requests)
    with lk.formats.LinesDataSource(servers["two"].url("a.txt"), cache=cache) as source:
        assert source[8500] == "corrected"
    methods = [each.method for each in servers["two"].requests[asked:]]
    assert methods == ["HEAD"] * (
        3 if how == "counts" else 2
    )  # index and shard, which a count's scan asks for, too


@pytest.mark.parametrize("how", ["strong", "weak", "any", "checksums"])
def test_a_shard_that_is_replaced_during_a_run(range_server, tmp_path, monkeypatch, how, caplog):
    """By one of the same size that differs beside the samples: only checksums can say that it is the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    served = tmp_path / "served"
    served.mkdir()
    data = b"".join(b"%09d\n" % number for number in range(20_000))
    (served / "a.txt").write_bytes(data)
    pytest.importorskip("google_crc32c")
    index = ShardSet([str(served / "a.txt")])
    build_index(
        index, LinesFormat(), f"{served}/a.txt.lkx", options=ScanOptions(checksums=how == "checksums")
    )
    server = range_server(served)
    tags = {name: f'{"W/" * (how == "weak")}"{name}"' for name in ("one", "two", "three")}
    server.etags["a.txt"] = tags["one"]
    options = {"etags": "any"} if how == "any" else None
    source = lk.formats.LinesDataSource(server.url("a.txt"), storage_options=options)
    assert source[8500] == "000008500"
    (served / "a.txt").write_bytes(data)
    server.etags["a.txt"] = tags["two"]
    if how == "strong":
        with pytest.raises(lk.errors.FileChangedError, match=r"a\.txt: .*it was replaced during the run"):
            source[8500]
        return
    assert source[8501] == "000008501"
    assert sum("weak ETag" in told for told in caplog.messages) == (how == "weak")
    (served / "a.txt").write_bytes(data.replace(b"000008500", b"corrected"))
    server.etags["a.txt"] = tags["three"]
    if how == "checksums":
        with pytest.raises(lk.errors.FileChangedError, match="record 8500 doesn't have its checksum"):
            source[8500]
        assert source[8501] == "000008501"
    else:
        assert source[8500] == "corrected"
    source.close()
    with pytest.raises(
        ValueError, match="storage_options: expected etags='any' or no etags, got etags='all'"
    ):
        lk.formats.LinesDataSource(server.url("a.txt"), storage_options={"etags": "all"})


def test_a_cache_and_an_index_with_checksums(range_server, tmp_path, monkeypatch):
    """An empty cache asks no server for versions. Chunks of another version and of the older form are taken over where
    each record has its checksum; then shards aren't asked, and a chunk with other records is fetched and refused.
    """
    pytest.importorskip("google_crc32c")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    cache = lk.Cache(tmp_path / "cache", limit="1GB")
    served = tmp_path / "served"
    served.mkdir()
    records = [b"%09d" % number * 20 for number in range(30_000)]
    for shard in range(2):
        (served / f"{shard}.tfrecord").write_bytes(tfrecord(records[15_000 * shard :][:15_000]))
    shards = ShardSet([str(served / f"{shard}.tfrecord") for shard in range(2)])
    index = build_index(shards, TFRecordFormat(), str(tmp_path / "a.lkx"))
    server = range_server(served)
    names, keys = server.url("{0..1}.tfrecord"), range(0, 30_000, 100)

    def read():
        before = len(server.requests)
        with lk.TFRecordDataSource(names, index=index.path, cache=cache) as source:
            assert source.__getitems__(keys) == [records[key] for key in keys]
        return [each.method for each in server.requests[before:]]

    assert "HEAD" not in read() and read() == ["HEAD"] * 2
    build_index(shards, TFRecordFormat(), index.path, options=ScanOptions(checksums=True))
    for shard in range(2):
        server.etags[f"{shard}.tfrecord"] = '"other"'
    assert read() == read() == []
    for path in (tmp_path / "cache").rglob("*.chunk"):  # as version 0.1 wrote them: a key without the version
        with path.open("rb") as file:
            was = footer_of(file.fileno())
            payload = os.pread(file.fileno(), was.length, 0)
        fields = replace(was, key=bytes.fromhex(path.parts[-3]), kind=1)
        path.unlink()
        path.write_bytes(payload + fields.packed())
    assert read() == read() == []
    damaged = min((tmp_path / "cache").rglob("*.chunk"))
    content = bytearray(damaged.read_bytes())
    content[30] ^= 1
    damaged.unlink()
    damaged.write_bytes(content)
    assert read() == ["GET"] * 2 and read() == []  # the chunk, and samples, as the ETag is another one
    damaged.unlink()
    data = (served / "0.tfrecord").read_bytes()
    (served / "0.tfrecord").write_bytes(data.replace(records[100], records[101]))
    with pytest.raises(
        lk.errors.FileChangedError, match=r"0\.tfrecord: at byte .* record 100 doesn't have its checksum"
    ):
        read()


def test_arguments_of_a_server(range_server, tmp_path, monkeypatch):
    """Options that are no dict are refused; no repr shows any."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    with pytest.raises(TypeError, match="storage_options: expected a dict of option -> value, got a str"):
        lk.formats.LinesDataSource("s3://box/a.txt", storage_options="secret")  # type: ignore[arg-type]
    assert "secret" not in repr(_Refresh(list, {"token": "secret"}))
