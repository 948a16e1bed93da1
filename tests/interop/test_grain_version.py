"""grain_version: which records the shards read, in states, among hosts, and beside a newer installed Grain."""

import importlib.metadata
import json
import warnings
from types import SimpleNamespace

import pytest
from memory_store import MemoryStore

import loaderkit.interop.grain as grain
from loaderkit.errors import CheckpointMismatchError
from loaderkit.interop.grain import _version


def loader_of(shard: int, shards: int, version: str | None, *, records: int = 7, drop: bool = False, **how):
    options = grain.ShardOptions(shard, shards, drop)
    how = {"sampler": grain.SequentialSampler(records), **how}
    return grain.DataLoader(data_source=range(records), shard_options=options, grain_version=version, **how)


@pytest.mark.parametrize("layout", [0, 2])
@pytest.mark.parametrize(("records", "shards"), [(7, 3), (8, 3), (9, 3), (2, 3), (7, 1)])
def test_the_newer_rule_reads_every_record(records, shards, layout):
    """Index i belongs to shard i % shards; the older one leaves out what doesn't fill all shards."""
    for version, last in (
        (None, records // shards * shards),
        ("0.2.18", records // shards * shards),
        ("0.2.19", records),
    ):
        read = [
            sorted(loader_of(shard, shards, version, records=records, worker_layout=layout))
            for shard in range(shards)
        ]
        assert read == [[*range(shard, last, shards)] for shard in range(shards)]


def test_shards_that_drop_read_alike_by_both_rules():
    """And so do those of an IndexSampler that says so."""
    for version in (None, "0.2.19"):
        assert [[*loader_of(shard, 3, version, drop=True)] for shard in range(3)] == [[0, 3], [1, 4], [2, 5]]
    sampler = grain.IndexSampler(7, grain.ShardOptions(0, 3, drop_remainder=True), num_epochs=1)
    assert [*loader_of(0, 3, "0.2.19", sampler=sampler)] == [0, 1]


class Twice(grain.experimental.FlatMapTransform):
    """Each record two times."""

    max_fan_out = 2

    def flat_map(self, element):
        return [element, element]


@pytest.mark.parametrize("operations", [[], [Twice()]], ids=["plain", "flat_map"])
def test_a_state_says_the_newer_version(operations):
    """One of 0.2.18 is Grain's document as it was; one of another version is refused, and names both."""
    older, newer = (iter(loader_of(0, 3, version, operations=operations)) for version in (None, "0.2.19"))
    next(older), next(newer)
    state = json.loads(newer.get_state())
    assert state.pop("grain_version") == "0.2.19"
    assert state == json.loads(older.get_state())
    with pytest.raises(CheckpointMismatchError, match=r"expected '0.2.19' as the state has it, got '0.2.18'"):
        older.set_state(newer.get_state())
    again = iter(loader_of(0, 3, "0.2.19", operations=operations))
    again.set_state(newer.get_state())
    assert [*again] == [*newer]
    again.set_state(older.get_state())  # as the newer Grain writes it, without a version
    assert next(again) == next(older)


def test_another_version_is_refused():
    """There are two rules."""
    with pytest.raises(ValueError, match=r"grain_version: expected '0.2.18' or '0.2.19', got '0.3'"):
        loader_of(0, 1, "0.3")


def test_processes_with_other_versions_are_told(monkeypatch):
    """The last one that makes the loader raises, without a wait, also where it gave none."""
    store_module = pytest.importorskip("loaderkit.interop.jax.store", reason="needs the jax package")
    stores = MemoryStore.of(3, timeout=1)
    monkeypatch.setattr(
        _version.sys.modules["jax._src.distributed"], "global_state", SimpleNamespace(num_processes=3)
    )
    monkeypatch.setattr(store_module, "store_of", lambda members, member, timeout: stores[member])
    for version in ("0.2.19", "0.2.18"):
        for shard in range(3):
            loader_of(shard, 3, version)
    loader_of(1, 3, "0.2.19")
    loader_of(0, 2, "0.2.18")  # its shards aren't the run's processes
    with pytest.raises(ValueError, match=r"got 0.2.18 here and \{'1': '0.2.19'\} by process"):
        loader_of(0, 3, None)


def test_a_newer_installed_grain_gives_one_warning(monkeypatch):
    """Only where its batches are others, and none was chosen."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.2.20")
    _version._warn_of_newer.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader_of(0, 3, None, records=6)
        loader_of(0, 3, None, drop=True)
        loader_of(0, 3, "0.2.18")
    with pytest.warns(UserWarning, match=r"grain 0.2.20 is installed, .* grain_version='0.2.19'") as warned:
        [loader_of(shard, 3, None) for shard in (0, 1)]
    assert len(warned) == 1 and warned[0].filename == __file__
    _version._warn_of_newer.cache_clear()
