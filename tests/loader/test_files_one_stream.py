"""One stream over real files: for any workers and hosts, after a restart, from a server, through a cache or not."""

import hashlib
import io
import json
import pickle
import struct
import tarfile
from itertools import pairwise
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

import loaderkit as lk

RECORDS, BATCH, EPOCHS = 70, 12, 2
STEPS = -(-RECORDS * EPOCHS // BATCH)
SHARDS = (
    0,
    9,
    30,
    31,
    RECORDS,
)  # the records at which each shard begins and ends: uneven, one of a single record


def payload(number: int) -> bytes:
    """Of the record's number, of 1 to 700 bytes."""
    return np.random.default_rng(number).bytes(1 + number * 10)


def write_tar(path: Path, numbers: range) -> None:
    with tarfile.open(path, "w") as file:
        for number in numbers:
            for field, data in (("bin", payload(number)), ("cls", b"%d" % number)):
                info = tarfile.TarInfo(f"{number:04}.{field}")
                info.size = len(data)
                file.addfile(info, io.BytesIO(data))


def write_tfrecord(path: Path, numbers: range) -> None:
    def masked(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    with path.open("wb") as file:
        for number in numbers:
            data = struct.pack("<I", number) + payload(number)
            length = struct.pack("<Q", len(data))
            file.write(length + masked(length) + data + masked(data))


def write_json_lines(path: Path, numbers: range) -> None:
    with path.open("w") as file:
        for number in numbers:
            file.write(json.dumps({"number": number, "payload": payload(number).hex()}) + "\n")


def from_tar(record: dict) -> tuple[int, bytes]:
    return int(record["cls"]), record["bin"]


def from_tfrecord(record: bytes) -> tuple[int, bytes]:
    return int.from_bytes(record[:4], "little"), bytes(record[4:])


def from_json_lines(record: dict) -> tuple[int, bytes]:
    return record["number"], bytes.fromhex(record["payload"])


KINDS = {
    "tar": (lk.TarDataSource, write_tar, from_tar),
    "tfrecord": (lk.TFRecordDataSource, write_tfrecord, from_tfrecord),
    "jsonl": (lk.JsonLinesDataSource, write_json_lines, from_json_lines),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The shards of each kind, with their indexes, which the local sources make."""
    path = tmp_path_factory.mktemp("files")
    for kind, (source, write, _) in KINDS.items():
        for shard, (first, last) in enumerate(pairwise(SHARDS)):
            write(path / f"train-{shard}.{kind}", range(first, last))
        with source(str(path / f"train-*.{kind}")) as opened:
            assert len(opened) == RECORDS
    return path


def names(folder: Path | str, kind: str) -> list[str]:
    return [f"{folder}/train-{shard}.{kind}" for shard in range(len(SHARDS) - 1)]


def row(kind: str):
    """What an operation makes of a record: fixed shapes, all of its bytes in a number, and noise of its generator."""
    parse = KINDS[kind][2]

    def rows(record, rng):
        number, data = parse(record)
        assert data == payload(number)
        return {
            "number": number,
            "data": int.from_bytes(hashlib.sha256(data).digest()[:7]),
            "noise": rng.random(),
        }

    return lk.RandomMap(rows)


def loader_of(source, kind: str, *, chunks: bool = False, shard_options=None, **workers) -> "lk.DataLoader":
    sampler = (
        lk.ChunkSampler(RECORDS, chunk=4, window=3, lanes=12, batch=BATCH, seed=5, num_epochs=EPOCHS)
        if chunks
        else lk.IndexSampler(RECORDS, shuffle=True, seed=5, num_epochs=EPOCHS)
    )
    return lk.DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[row(kind), lk.Batch(global_batch_size=BATCH)],
        shard_options=shard_options or lk.NoSharding(),
        **workers,
    )


def batches(loader: "lk.DataLoader", state: bytes | None = None) -> list[dict[str, np.ndarray]]:
    with loader, iter(loader) as it:
        if state is not None:
            it.set_state(state)
        return [{name: leaf.copy() for name, leaf in batch.items()} for batch in it]


def sha(found: list[dict[str, np.ndarray]]) -> str:
    """Of all batches: names, shapes, types and bytes."""
    told = hashlib.sha256()
    for batch in found:
        for name, leaf in sorted(batch.items()):
            told.update(f"{name} {leaf.shape} {leaf.dtype};".encode() + leaf.tobytes())
    return told.hexdigest()


def opened(folder: Path | str, kind: str, **how):
    return KINDS[kind][0](names(folder, kind), **how)


@pytest.fixture(scope="module")
def plain(folder):
    """The sha of each kind and order, in this process."""
    return {
        (kind, chunks): sha(batches(loader_of(opened(folder, kind), kind, chunks=chunks)))
        for kind in KINDS
        for chunks in (False, True)
    }


def test_the_formats_agree(plain):
    """The same records in three formats are one stream, for each order."""
    assert len({plain[kind, False] for kind in KINDS}) == 1
    assert len({plain[kind, True] for kind in KINDS}) == 1
    assert plain["tar", False] != plain["tar", True]


@pytest.mark.parametrize("kind", KINDS)
def test_workers_change_nothing(folder, plain, kind):
    """Two processes, which open the files and the index themselves; for the other kinds a copy by pickle and threads,
    because processes take a second to start."""
    source = opened(folder, kind)
    how = {} if kind == "tar" else {"worker_kind": "thread"}
    if kind != "tar":
        source = pickle.loads(pickle.dumps(source))
    found = batches(loader_of(source, kind, worker_count=2, **how))
    assert sha(found) == plain[kind, False] and len(found) == STEPS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunks", [False, True], ids=["full shuffle", "chunks"])
@pytest.mark.parametrize("hosts", [1, 2, 3, 4])
def test_hosts_put_together_are_one(folder, plain, kind, chunks, hosts):
    """Each reads its rows of the global batches."""
    parts = [
        batches(
            loader_of(opened(folder, kind), kind, chunks=chunks, shard_options=lk.ShardOptions(host, hosts))
        )
        for host in range(hosts)
    ]
    together = [
        {name: np.concatenate([part[name] for part in step]) for name in step[0]} for step in zip(*parts)
    ]
    assert sha(together) == plain[kind, chunks]


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_in_the_middle_of_an_epoch(folder, plain, kind):
    """Other objects, other workers, the same batches from there on; the set was copied in between."""
    with loader_of(opened(folder, kind), kind) as loader, iter(loader) as it:
        before = [{name: leaf.copy() for name, leaf in next(it).items()} for _ in range(4)]
        state = it.get_state()
    after = batches(loader_of(opened(folder, kind), kind, worker_count=2, worker_kind="thread"), state)
    assert sha(before + after) == plain[kind, False]


@pytest.fixture
def server(folder, range_server):
    return range_server(folder)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worker_count", [0, 2])
def test_files_on_a_server(plain, server, kind, worker_count):
    """The index is fetched from there, too."""
    how = {"worker_count": worker_count, "worker_kind": "thread"} if worker_count else {}
    source = opened(server.url("").rstrip("/"), kind)
    assert sha(batches(loader_of(source, kind, **how))) == plain[kind, False]
    source.close()


@pytest.mark.parametrize("chunks", [False, True], ids=["full shuffle", "chunks"])
@pytest.mark.parametrize("worker_count", [0, 2])
def test_a_cache_changes_nothing(plain, server, tmp_path, chunks, worker_count):
    """Empty at first, filled in the middle of the stream, and full for the next loader, which asks for no record."""
    how = {"worker_count": worker_count, "worker_kind": "thread"} if worker_count else {}
    for _ in range(2):
        asked = len(server.requests)
        source = opened(server.url("").rstrip("/"), "tar", cache=lk.Cache(tmp_path, limit="50MB"))
        assert sha(batches(loader_of(source, "tar", chunks=chunks, **how))) == plain["tar", chunks]
        source.close()
    assert not [
        request for request in server.requests[asked:] if request.name.endswith(".tar") and request.end
    ]


def test_a_restart_with_a_cold_cache(plain, server, tmp_path):
    """The state says nothing of the cache: a host with an empty one continues the stream."""
    url = server.url("").rstrip("/")
    first = opened(url, "tar", cache=lk.Cache(tmp_path / "one", limit="50MB"))
    with loader_of(first, "tar", chunks=True) as loader, iter(loader) as it:
        before = [{name: leaf.copy() for name, leaf in next(it).items()} for _ in range(4)]
        state = it.get_state()
    second = opened(url, "tar", cache=lk.Cache(tmp_path / "two", limit="50MB"))
    assert sha(before + batches(loader_of(second, "tar", chunks=True), state)) == plain["tar", True]
    first.close()
    second.close()
