"""Processes that load together compare at the start what makes the stream, and tell what may make it differ."""

import json
import os
import platform
import re
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hosts import together
from internals import plan_of
from memory_store import MemoryStore

import loaderkit as lk
from loaderkit._base.system.numerics import numerics
from loaderkit._plan.state.identity import name_of


class Elsewhere(MemoryStore):
    """The store of a process with other versions: what it posts says so."""

    said: tuple[str, str] = ("", "")

    def post(self, key: str, value: str) -> None:
        super().post(key.replace(*self.said), value.replace(*self.said))


@dataclass(frozen=True)
class Crop(lk.RandomMap):
    size: int
    folder: str = field(default="", compare=False)
    path: str = "data"

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return element


def flip(element: Any, rng: np.random.Generator) -> Any:
    return element


def heard(operations: list[list[Any]], *said: tuple[str, str]) -> list[str]:
    """What each host hears when it starts to iterate; the second one says other things."""
    stores = Elsewhere.of(2, timeout=60)
    for one in said:
        stores[1].said = one

    def start(host: int) -> str:
        loader = lk.DataLoader(
            data_source=range(16),
            sampler=lk.IndexSampler(16, seed=0),
            operations=[*operations[host], lk.Batch(4)],
            shard_options=lk.ShardOptions(host, 2, store=stores[host]),
        )
        try:
            with iter(loader) as it:
                next(it)
        except (ValueError, UserWarning) as told:  # warnings are errors in the tests
            return f"{type(told).__name__}: {told}"
        return "nothing"

    return together(start, 2)


MINOR = ".".join(np.__version__.split(".")[:2])
NUMPY = (f'draws the random numbers": "{MINOR}"', 'draws the random numbers": "1.99"')
DRAWING = [lk.RandomMap(flip)]
SEEDED = [lk.transforms.Seeded(abs)]


def test_processes_with_another_algorithm_do_not_start():
    """Another `stream_version` is another shuffle: the error has both, and what to do."""
    for text in heard([[], []], ('"stream_version": "1"', '"stream_version": "2"')):
        assert text.startswith("ValueError: the processes differ, and would train on different data:")
        assert "\n  stream_version: 1 on process 0; 2 on process 1\n" in text
        assert "the same versions of loaderkit and numpy" in text


@pytest.mark.parametrize("operations", [DRAWING, SEEDED], ids=["RandomMap", "Seeded"])
def test_processes_whose_numpy_draws_otherwise_do_not_start(operations):
    """Another minor version may draw other numbers from the same words."""
    for text in heard([operations, operations], NUMPY):
        assert text.startswith("ValueError")
        assert f"  numpy, which draws the random numbers: {MINOR} on process 0; 1.99 on process 1\n" in text


def test_without_random_numbers_any_numpy_will_do():
    """The shuffle is loaderkit's own."""
    assert heard([[], []], (f'"{MINOR}', '"1.99')) == ["nothing"] * 2


def test_an_operation_with_other_parameters_is_told_to_all():
    """Both sides, by operation and parameter; it may be meant, so it is a warning, and a field can be left out."""
    crops = [[lk.Map(abs), Crop(64, folder="/a")], [lk.Map(abs), Crop(96, folder="/b")]]
    for text in heard(crops):
        assert text.startswith("UserWarning: the processes differ, and may train on different data:")
        assert "\n  operations[1] Crop.size: 64 on process 0; 96 on process 1\n" in text
        assert "folder" not in text.partition("Give")[0]
    assert heard([[Crop(64, folder="/a")], [Crop(64, folder="/b")]]) == ["nothing"] * 2


def test_a_parameter_that_one_process_does_not_have_is_told():
    """A class of another version, with a field fewer."""
    for text in heard([[Crop(64)], [Crop(64)]], ("operations[0] Crop.path", "operations[0] Crop.other")):
        assert 'operations[0] Crop.path: "data" on process 0; nothing on process 1' in text
        assert 'operations[0] Crop.other: nothing on process 0; "data" on process 1' in text


@pytest.mark.parametrize("name", ["loaderkit", "python"])
def test_other_versions_of_the_same_stream_are_told(name):
    """The stream is the same; what users' functions make of it may not be."""
    for text in heard([[], []], (f'"{name}": "', f'"{name}": "9')):
        assert text.startswith("UserWarning")
        assert f"\n  {name}: " in text and " on process 0; 9" in text


# What one process builds otherwise, and how the error says it.
UNLIKE: dict[str, tuple[dict[str, Any], str]] = {
    "num_steps": ({"num_steps": 3}, "num_steps: None on process 0; 3 on process 1"),
    "epoch": ({"epoch": 1}, "epoch: None on process 0; 1 on process 1"),
    "rows": ({"rows": 8}, "global batch size: 4 on process 0; 8 on process 1"),
    "policy": ({"on_record_error": "skip"}, "on_record_error: raise on process 0; skip on process 1"),
    "seed": ({"seed": 1}, "sampler.seed: 0 on process 0; 1 on process 1"),
    "length": ({"count": 24}, "sampler.num_records: 16 on process 0; 24 on process 1"),
    "streams": ({"logical_streams": 4}, "logical streams: 2 on process 0; 4 on process 1"),
}


def plan_with(shard: Any, changes: dict[str, Any]) -> "lk.DataLoader":
    options = {"count": 16, "seed": 0, "rows": 4, "epoch": None, "logical_streams": 2, **changes}
    count, epoch = options.pop("count"), options.pop("epoch")
    loader = lk.DataLoader(
        data_source=range(count),
        sampler=lk.IndexSampler(count, shuffle=True, seed=options.pop("seed")),
        operations=[lk.Filter(bool), lk.Batch(global_batch_size=options.pop("rows"), remainder="pad")],
        shard_options=shard,
        **options,
    )
    return loader if epoch is None else loader.epoch(epoch)


@pytest.mark.parametrize("name", UNLIKE)
def test_processes_that_build_different_loaders_do_not_start(name):
    """Whatever of the loader makes the stream, or its end: the error has it with both values."""
    changes, text = UNLIKE[name]
    stores = MemoryStore.of(2, timeout=10)

    def start(host: int) -> str:
        loader = plan_with(lk.ShardOptions(host, 2, store=stores[host]), changes if host else {})
        with pytest.raises(ValueError, match="the processes differ") as raised:
            iter(loader)
        return str(raised.value)

    for said in together(start, 2):
        assert f"\n  {text}\n" in said


def test_streams_that_differ_have_other_names():
    """Under its name the processes of a run agree on the last step: another stream's words mustn't be heard there."""
    one = lk.ShardOptions(0, 1)
    plans = [plan_of(plan_with(one, changes)) for changes, _ in UNLIKE.values()]
    plans.append(plan_of(plan_with(one, {})))
    names = [name_of(plan) for plan in plans]
    assert len({*names}) == len(names) - 1, "num_steps alone is no part of it"
    assert names[0] == names[-1] == name_of(plan_of(plan_with(lk.ShardOptions(1, 2), {})))


def test_a_loader_compares_once():
    """Its next iterators, and the loaders of its epochs, ask no other process."""
    stores = MemoryStore.of(2, timeout=10)
    loaders = [plan_with(lk.ShardOptions(host, 2, store=stores[host]), {}) for host in range(2)]
    together(lambda host: iter(loaders[host]).close(), 2)
    posts = len(stores[0].read(""))
    iter(loaders[0]).close()
    iter(loaders[0].epoch(1)).close()
    assert len(stores[0].read("")) == posts > 0


def test_what_must_not_differ_is_said_first():
    """An error, and not the warning that would come beside it."""
    for text in heard([[Crop(64)], [Crop(96)]], ('"stream_version": "1"', '"stream_version": "2"')):
        assert text.startswith("ValueError") and "Crop.size" not in text


@pytest.mark.parametrize("library", ["numpy", "libm", "BLAS"])
def test_processes_whose_libraries_compute_other_last_bits_are_told(library):
    """Another kind of processor, the same versions; where operations compute, and of libraries that both have."""
    operations = [[lk.Map(abs)], [lk.Map(abs)]]
    name = f'"last bits of {library}": "'
    for text in heard(operations, (name, f"{name}9")):
        assert text.startswith("UserWarning") and text.count("last bits of ") == 1
        assert f"\n  last bits of {library}: " in text and "Last bits depend on the kind of processor" in text
    assert heard(operations, (name, f'"last bits of another": "{library}')) == ["nothing"] * 2
    assert heard([[], []], (name, f"{name}9")) == ["nothing"] * 2


def blurred(element: Any) -> Any:
    import cv2  # in a worker alone

    return cv2.blur(np.full((4, 4), element, np.float32), (3, 3))


def test_a_library_that_only_workers_load_is_compared_behind_the_first_batch():
    """The process that is later is told once; the first has its batches before another has one."""
    pytest.importorskip("cv2", exc_type=ImportError)
    stores = Elsewhere.of(2, timeout=60)
    stores[1].said = "numerics/cv2/", "numerics/cv2/9"

    def start(host: int) -> Any:
        shard = lk.ShardOptions(host, 2, store=stores[host])
        return lk.load(
            range(16), batch_size=4, operations=[blurred], worker_count=1, num_epochs=2, shard_options=shard
        )

    loaders = [start(host) for host in range(2)]
    iterators = together(lambda host: iter(loaders[host]), 2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len([next(iterators[0]) for _ in range(3)]) == 3 and not told
        next(iterators[1])
        (warning,) = told
        assert re.fullmatch(
            r"the processes differ, and may train on different data:\n"
            r"  last bits of cv2: \w+ on process 0; 9\w+ on process 1\nLast bits depend on the kind of .*",
            str(warning.message),
        )
        assert warning.filename == __file__
        next(iterators[1])
        with iter(loaders[1].epoch(1)) as it:
            next(it)
        assert len(told) == 1
    for loader in loaders:
        loader.close()


def test_the_probe_depends_on_kernels_and_not_on_threads():
    """numpy and OpenBLAS are told to use the loops of an older processor, with the same versions."""
    script = (
        "from loaderkit._base.system.numerics import numerics; import json; print(json.dumps(numerics()))"
    )

    def found(**environment: str) -> dict[str, str]:
        ran = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return dict(json.loads(ran.stdout))

    own = found()
    here = numerics()  # of cv2 too, where an earlier test has loaded it
    assert own == {name: here[name] for name in own} == found(OPENBLAS_NUM_THREADS="3")
    other = found(OPENBLAS_CORETYPE="Nehalem")
    assert other["numpy"] == own["numpy"] and other["libm"] == own["libm"]
    if platform.machine() == "x86_64" and "openblas" in str(np.show_config(mode="dicts")):
        assert other["BLAS"] != own["BLAS"]
