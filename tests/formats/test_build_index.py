"""How an index is made: in parallel, again after a kill, with little memory; always the same bytes."""

import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index_data import Blocks, BlocksDataSource, blocks

from loaderkit._codecs.scan import Members, ShardScan
from loaderkit._storage.range_reader import ObjectVersion
from loaderkit.errors import DataFormatError, FileChangedError
from loaderkit.formats._index import key_order
from loaderkit.formats._index.build import build_index
from loaderkit.formats._index.check import sample_ranges
from loaderkit.formats._index.key_order import KeyOrder
from loaderkit.formats._index.merge import merge_parts
from loaderkit.formats._index.part_file import PartIdentity, ScanOptions, write_part
from loaderkit.formats._index.record_index import RecordIndex
from loaderkit.formats._index.shard_set import ShardSet

EVERYTHING = ScanOptions(keys=True, checksums=True)


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for shard in range(12):
        records = [f"k{shard}-{i} f{(shard + i) % 5}={'x' * (i % 9)} z=1" for i in range(shard * 3 % 7)]
        (folder / f"{shard:02d}.blocks").write_bytes(blocks(records))
    return ShardSet(sorted(map(str, folder.iterdir())))


def test_any_number_of_workers_makes_the_same_bytes(tmp_path, shards):
    """And says how far it is, shard by shard."""
    heard = []
    for worker_count in (0, 2):
        build_index(
            shards,
            Blocks(),
            f"{tmp_path}/{worker_count}.lkx",
            options=EVERYTHING,
            worker_count=worker_count,
            on_progress=lambda *said: heard.append(said),
        )
    assert (tmp_path / "0.lkx").read_bytes() == (tmp_path / "2.lkx").read_bytes()
    assert not list(tmp_path.glob("*.parts"))
    assert [done for done, _ in heard] == [*range(1, 13)] * 2
    assert heard[11] == heard[23] == (12, sum(os.path.getsize(path) for path in shards.paths))


@pytest.mark.parametrize("worker_count", [0, 2])
def test_a_malformed_shard_ends_it(tmp_path, shards, worker_count):
    """With its name, also out of a worker."""
    Path(shards.paths[7]).write_bytes(b"oh")
    with pytest.raises(DataFormatError, match=r"07\.blocks: at byte 0: expected a digit"):
        build_index(shards, Blocks(), f"{tmp_path}/x.lkx", worker_count=worker_count)
    assert not (tmp_path / "x.lkx").exists()


def test_a_shard_that_is_written_to_while_it_is_scanned(tmp_path, shards, monkeypatch):
    """What was found is of two files."""
    real, scans = Blocks.scan, itertools.count()

    def scan(self, read, size, **options):
        found = real(self, read, size, **options)
        os.utime(shards.paths[3], ns=(0, next(scans)))
        return found

    monkeypatch.setattr(Blocks, "scan", scan)
    with pytest.raises(FileChangedError, match=r"03\.blocks"):
        build_index(shards, Blocks(), f"{tmp_path}/out.lkx", worker_count=0)


@given(st.integers(0, 1 << 40))
def test_samples_have_both_ends_of_a_shard(size):
    """And at most 64 KiB."""
    pieces = sample_ranges(size)
    assert pieces == sorted(pieces) and sum(end - begin for begin, end in pieces) == min(size, 65536)
    assert not size or (pieces[0][0], pieces[-1][1]) == (0, size)


def test_finished_parts_are_taken(tmp_path, shards, monkeypatch):
    """Where they are whole, for the same options, and the shard has kept its size and time."""
    scanned = []
    real = Blocks.scan

    def scan(self, read, size, **options):
        scanned.append(size)
        return real(self, read, size, **options)

    monkeypatch.setattr(Blocks, "scan", scan)

    def stop_at(count):
        def on_progress(done, _):
            if done == count:
                raise KeyboardInterrupt

        return on_progress

    destination = f"{tmp_path}/x.lkx"
    with pytest.raises(KeyboardInterrupt):
        build_index(shards, Blocks(), destination, on_progress=stop_at(8))
    parts = sorted(Path(f"{destination}.parts").iterdir())
    assert (len(scanned), len(parts)) == (8, 8)
    parts[0].write_bytes(parts[0].read_bytes()[:-64])
    os.utime(shards.paths[0], ns=(9, 9))
    build_index(shards, Blocks(), destination)
    assert len(scanned) in (8 + 4 + 1, 8 + 4 + 2)  # the torn part may be that of shard 0
    with pytest.raises(KeyboardInterrupt):
        build_index(shards, Blocks(), destination, on_progress=stop_at(12))
    scanned.clear()
    build_index(shards, Blocks(), destination, options=EVERYTHING)
    assert len(scanned) == 12


def test_fields_are_numbered_over_all_shards(tmp_path, shards):
    """By their first appearance; each record's members have their own fields."""
    index = build_index(shards, Blocks(), f"{tmp_path}/x.lkx")
    with BlocksDataSource(shards.paths, index=index.path) as source:
        records = source.__getitems__(range(len(source)))
    members = index.members_of(np.arange(len(index)))
    names = [index.fields[field] for field in members.field]
    assert names == [part.partition("=")[0] for record in records for part in record.split()[1:]]
    assert sorted(index.fields) == ["f0", "f1", "f2", "f3", "f4", "z"]


def test_wide_numbers_only_where_they_are_needed(tmp_path):
    """Units beyond 2**32 and values of 4 GiB and more; records with different numbers of members."""
    starts = [np.array([0, 5, 9], np.uint64), np.array([7, (1 << 32) + 1, (1 << 33) + 5], np.uint64)]
    for number, chosen in enumerate((starts[:1], starts)):
        parts = []
        for shard, start in enumerate(chosen):
            members = Members(
                np.array([0, 1, 3]), start[[0, 1, 1]], start[[1, 2, 2]], np.array([0, 0, 1], np.uint16)
            )
            identity = PartIdentity("any", 1, f"s{shard}", ObjectVersion(1 << 40, ""), ScanOptions())
            parts.append(f"{tmp_path}/{shard}.part")
            write_part(parts[-1], identity, bytes(16), ShardScan(start, ("a", "b"), members))
        merge_parts(parts, f"{tmp_path}/{number}.lkx")
    narrow, wide = (RecordIndex(f"{tmp_path}/{number}.lkx") for number in range(2))
    assert narrow._starts.dtype == np.uint32 and wide._starts.dtype == np.uint64
    assert [each.tolist() for each in wide.locate(np.array([3, 0]))] == [
        [1, 0],
        [(1 << 32) + 1, 0],
        [(1 << 33) + 5, 5],
    ]
    found = wide.members_of(np.array([3, 0]))
    assert found.size.tolist() == [(1 << 33) + 5, (1 << 33) + 5, 5]
    assert found.begin.tolist() == [0, 0, 0] and found.field.tolist() == [0, 1, 0]


@given(
    st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=8), max_size=6),
    st.integers(1, 9),
)
def test_keys_are_sorted_in_buckets(tmp_path_factory, hashes, at_once):
    """As one sort of all pairs would."""
    flat = [each for some in hashes for each in some]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_order, "SORTED_AT_ONCE", at_once)
        with KeyOrder(str(tmp_path_factory.getbasetemp()), len(flat)) as order:
            first = 0
            for some in hashes:
                order.add(np.array(some, np.uint64), first_record=first)
                first += len(some)
            got = [pair for h, r in order.ascending() for pair in zip(h.tolist(), r.tolist(), strict=True)]
    assert got == sorted(zip(flat, range(len(flat)), strict=True))


def test_a_merge_holds_one_part(tmp_path):
    """Its memory doesn't grow with the number of shards: 64 shards of 512 KiB of starts take less than 4 MiB."""
    count = 1 << 16
    parts = []
    for shard in range(64):
        identity = PartIdentity("any", 1, f"s{shard}", ObjectVersion(1 << 30, ""), ScanOptions())
        parts.append(f"{tmp_path}/{shard}.part")
        if not shard:
            write_part(parts[-1], identity, bytes(16), ShardScan(np.arange(count + 1, dtype=np.uint64)))
        else:
            os.link(parts[0], parts[-1])
    tracemalloc.start()
    merge_parts(parts, f"{tmp_path}/all.lkx")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
    assert len(RecordIndex(f"{tmp_path}/all.lkx")) == 64 * count


CHILD = """
    import sys, time
    from index_data import Blocks
    from loaderkit.formats._index import layout
    from loaderkit.formats._index.build import build_index
    from loaderkit.formats._index.part_file import ScanOptions
    from loaderkit.formats._index.shard_set import ShardSet
    real, write = Blocks.scan, layout.SectionWriter.append
    def scan(*arguments, **named):
        time.sleep(0.02)
        return real(*arguments, **named)
    def append(*arguments):
        time.sleep(0.002)
        return write(*arguments)
    Blocks.scan, layout.SectionWriter.append = scan, append
    print("begun", flush=True)
    shards, options = ShardSet(sys.argv[3:]), ScanOptions(keys=True)
    build_index(shards, Blocks(), sys.argv[1], options=options, worker_count=int(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("worker_count", [0, 2])
def test_a_build_that_is_killed_goes_on(tmp_path, shards, worker_count):
    """At random times, any number of times; the index then has the same bytes as without a kill."""
    expected = Path(
        build_index(shards, Blocks(), f"{tmp_path}/whole.lkx", options=ScanOptions(keys=True)).path
    )
    destination = tmp_path / "killed.lkx"
    environment = os.environ | {"PYTHONPATH": f"{Path(__file__).parent}:{Path(__file__).parents[2]}"}
    for seed in range(6):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CHILD), destination, str(worker_count), *shards.paths],
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert child.stdout.readline() == b"begun\n"
        time.sleep(random.Random(seed).uniform(0, 0.8 if not worker_count else 2))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        if destination.exists():
            assert destination.read_bytes() == expected.read_bytes()
    again = build_index(shards, Blocks(), str(destination), options=ScanOptions(keys=True))
    assert Path(again.path).read_bytes() == expected.read_bytes()
    assert not list(tmp_path.glob("*.parts"))
