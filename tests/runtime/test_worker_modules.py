"""What a worker process imports of the package: what it runs, and nothing of the plan or of the trainer's side."""

import gc
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

import loaderkit as lk

# What plans, iterates and opens is the trainer's; what reads and writes files comes with the source that does.
NEVER = {
    "_codecs", "_loader", "_order.mixture", "_order.packing", "_plan", "_runtime.executors",
    "_storage", "cli", "formats", "interop", "offline",
    "samplers", "testing",
}  # fmt: skip
DEAR = {"numpy.random", "pathlib"}  # their imports take long, and only some operations need them
MOST = 84  # files of the package that every worker of every run imports: more has a reason


class Modules:
    """Record k is what the process that reads it has imported of loaderkit."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, record_key: int) -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] == "loaderkit" or name in DEAR]


def modules_of_a_worker(source: Any, *operations: Any) -> set[str]:
    sampler = lk.IndexSampler(len(source), shuffle=True, seed=0)
    with lk.DataLoader(data_source=source, sampler=sampler, operations=operations, worker_count=1) as loader:
        found = next(iter(loader))
    return set(found["modules"] if isinstance(found, Mapping) else found)


class Look(lk.RandomMap):
    """What the process that runs it has imported of loaderkit."""

    def random_map(self, element: Any, rng: "np.random.Generator") -> dict[str, Any]:
        """In place of the element."""
        return {"modules": Modules()[0]}


def test_a_worker_imports_what_it_runs():
    """No plan, sampler, iterator, loader or executor, no source but the user's own, and nothing dear."""
    found = modules_of_a_worker(Modules())
    assert not found & DEAR
    assert not [name for name in found for never in NEVER if f"{name}.".startswith(f"loaderkit.{never}.")]
    assert 50 < len(found) <= MOST


def test_a_source_and_an_operation_of_ours_bring_their_own_files():
    """A shared array in memory is one; the others stay away."""
    more = modules_of_a_worker(lk.ArrayDataSource({"x": np.arange(4)}), Look()) - modules_of_a_worker(
        Modules()
    )
    ours = {"_source.content", "_source.record_key"}
    ours |= {"sources", "sources.arrays", "sources.has_card", "sources.shared_arrays", "sources.sliced"}
    assert more == {*(f"loaderkit.{name}" for name in ours), "numpy.random"}  # which the operation draws from


class Collects(Modules):
    """Record k is whether the process that reads it collects garbage, and whether what it imported is left alone."""

    def __getitem__(self, record_key: int) -> list[str]:
        return [f"modules {gc.isenabled()} {gc.get_freeze_count() > 10_000}"]


def test_a_worker_looks_for_garbage_only_behind_its_imports():
    """Of thousands of objects that a start makes none is garbage; the user's code runs as in the trainer."""
    assert modules_of_a_worker(Collects()) == {"modules True True"}


def test_a_source_of_files_brings_what_reads_them(tmp_path: Any):
    """What finds files, scans them and makes an index is the process's that opens the source."""
    lk.write([b"a", b"b"], tmp_path / "a.tar", format="tar")
    lk.write([b"a", b"b"], tmp_path / "a.array_record", format="array_record")
    finding = {f"loaderkit.formats.{name}" for name in ("_index.find", "_index.build", "built_in")}
    of_array_record, of_tar = (
        modules_of_a_worker(lk.open(tmp_path / name), Look()) for name in ("a.array_record", "a.tar")
    )
    assert not (of_array_record | of_tar) & finding
    assert not {name for name in of_array_record if "_index" in name or name == "loaderkit._storage.patterns"}
