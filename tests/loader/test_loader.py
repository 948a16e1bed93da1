"""The loader: what it takes, what it says of itself, and elements exactly as the user's functions made them."""

import inspect
import os
import subprocess
import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from internals import executor_of, settings_of
from pipelines import Running

import loaderkit as lk

RUNNINGS = [Running(), Running(2), pytest.param(Running(2, "process"), marks=pytest.mark.slow)]
every_running = pytest.mark.parametrize("running", RUNNINGS, ids=str)

Pair = namedtuple("Pair", ["left", "right"])


def loader_of(running: Running, operations: list[Any], *, count: int = 6, **options: Any) -> "lk.DataLoader":
    options = {"data_source": range(count), "sampler": lk.IndexSampler(count, num_epochs=1, seed=1)} | options
    return lk.DataLoader(
        operations=operations, worker_count=running.workers, worker_kind=running.kind, **options
    )


def elements_of(running: Running, *operations: Any, **options: Any) -> list[Any]:
    with loader_of(running, list(operations), **options) as loader:
        return list(loader)


# --- elements ---------------------------------------------------------------------------------------------------------


@dataclass
class Point:
    x: tuple[int, ...]
    name: str


class Tagged(np.ndarray):
    """A subclass of ndarray."""


MADE = {
    "int": lambda key: key,
    "large int": lambda key: 10**30 + key,
    "bool": lambda key: key % 2 == 0,
    "str": lambda key: "tail\0" * key,
    "bytes": lambda key: b"tail\0" * key,
    "none": lambda key: [None],
    "numpy scalar": np.int16,
    "array": lambda key: np.arange(key, dtype=">f4"),
    "fortran": lambda key: np.asfortranarray(np.ones((2, 3)) * key),
    "empty": lambda key: np.empty((0, 3), np.int8),
    "zero-dimensional": np.array,
    "objects": lambda key: np.array([key, "x", None], object),
    "subclass": lambda key: np.arange(key).view(Tagged),
    "masked": lambda key: np.ma.masked_array([1, key], [True, False]),
    "structured": lambda key: np.array([(key, 1.5)], [("a", "i4"), ("b", "f8")]),
    "tree": lambda key: {"a": [key, (np.arange(2), None)], "b": OrderedDict(z=1, a=2)},
    "pair": lambda key: Pair(key, np.arange(3)),
    "dataclass": lambda key: Point((key, 1), str(key)),
    "set": lambda key: {key, frozenset([key])},
    "function": lambda key: Path(str(key)),
}


@every_running
def test_unbatched_elements_are_as_they_were_made(running):
    """Type, dtype, layout and value of every kind of object, with and without workers."""
    found = elements_of(running, lambda key: {name: make(key) for name, make in MADE.items()}, count=4)
    assert len(found) == 4
    for key, element in enumerate(found):
        assert list(element) == list(MADE)
        for name, make in MADE.items():
            assert_alike(element[name], make(key))


def assert_alike(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.flags.f_contiguous == expected.flags.f_contiguous
        assert found.flags.c_contiguous == expected.flags.c_contiguous
        assert found.tolist() == expected.tolist()
        if not expected.dtype.hasobject:
            assert found.tobytes() == expected.tobytes()
        assert repr(getattr(found, "mask", None)) == repr(getattr(expected, "mask", None))
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for name, value in expected.items():
            assert_alike(found[name], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other)
    else:
        assert found == expected


@every_running
def test_arrays_of_elements_can_be_written(running):
    """An element is the user's: the arrays that a function made can be written, and no other element changes."""
    found = elements_of(running, lambda key: np.full(5, key))
    for array in found:
        array += 10
    assert [array.tolist() for array in found] == [[10 + key] * 5 for key in range(6)]
    del found, array


@every_running
def test_operations_cant_change_the_sources_own(running):
    """Containers are copied before operations see them, and a list's own arrays are read-only: "copy first"."""
    rows = [{"x": np.arange(3) + k, "tags": ["a"]} for k in range(4)]

    def change(row: dict[str, Any]) -> Any:
        row["new"] = 1
        row["tags"].append("b")
        return row

    sampler = lk.IndexSampler(4, num_epochs=2)
    found = elements_of(running, change, data_source=rows, sampler=sampler)
    assert [row["tags"] for row in found] == [["a", "b"]] * 8
    assert all(row.keys() == {"x", "tags"} and row["tags"] == ["a"] for row in rows)

    def write(row: dict[str, Any]) -> Any:
        row["x"] += 1
        return row

    with loader_of(running, [write], data_source=rows, sampler=sampler) as loader:
        it = iter(loader)
        with pytest.raises(ValueError, match="read-only") as raised:
            next(it)
        assert "copy first" in " ".join(raised.value.__notes__)
        del raised
    assert [row["x"].tolist() for row in rows] == [[k, k + 1, k + 2] for k in range(4)]


# --- without a main guard ---------------------------------------------------------------------------------------------

SCRIPT = """
import dataclasses, sys
import numpy as np
import loaderkit as lk

@dataclasses.dataclass
class Own:
    key: int
    x: np.ndarray

class Scale(lk.Map):
    def __init__(self, factor):
        self.factor = factor
    def map(self, element):
        return Own(element.key, element.x * self.factor)

class Trouble(Exception):
    def __init__(self, key, reason):
        super().__init__(f"{key}: {reason}")
        self.key = key

offset = 3
def shift(element):
    return Own(element.key, element.x + offset)

def refuse(element):
    if element.key == 5:
        raise Trouble(element.key, "refused")
    return element

source = [Own(k, np.arange(2.0) + k) for k in range(8)]
loader = lk.DataLoader(data_source=source, sampler=lk.SequentialSampler(8, seed=0),
    operations=[Scale(2), shift, lambda own: own, refuse], worker_count=2, worker_kind=sys.argv[1])
found = []
try:
    for own in loader:
        assert type(own) is Own, type(own)
        found.append((own.key, own.x.tolist()))
except Trouble as trouble:
    assert trouble.key == 5 and str(trouble) == "5: refused"
    notes = " ".join(trouble.__notes__)
    assert "operations[3] Map(refuse) for index 5 (record_key 5) of list, at step 5" in notes, notes
assert found == [(k, [2.0 * k + 3, 2.0 * k + 5]) for k in range(5)], found
print("done")
"""


@pytest.mark.parametrize("kind", [pytest.param("process", marks=pytest.mark.slow), "thread"])
def test_definitions_of_a_script_travel(kind, tmp_path):
    """Classes, functions, closures and globals of __main__ work without a guard; the script's body runs once."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-W", "error", script, kind],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr


# --- what a loader says of itself -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operations", "spec"),
    [
        ([], lk.transforms.ArraySpec((), np.dtype(np.int64))),
        ([lk.Batch(4)], lk.transforms.ArraySpec((4,), np.dtype(np.int64))),
        ([lk.Batch(2), lk.Batch(3)], lk.transforms.ArraySpec((3, 2), np.dtype(np.int64))),
        ([lambda k: k / 2, lk.Batch(4)], lk.transforms.ArraySpec((4,), np.dtype(np.float64))),
        (
            [lambda k: {"x": np.zeros((2, 3), np.uint8), "t": "x", "b": b"y", "n": None}],
            {"x": lk.transforms.ArraySpec((2, 3), np.dtype(np.uint8)), "t": str, "b": bytes, "n": None},
        ),
        ([lk.Filter(lambda k: k % 2), lk.Batch(2)], lk.transforms.ArraySpec((2,), np.dtype(np.int64))),
        ([lk.FlatMap(lambda k: [np.float32(k)] * k)], lk.transforms.ArraySpec((), np.dtype(np.float32))),
    ],
    ids=["element", "batch", "batches", "mapped", "tree", "filtered", "flattened"],
)
def test_element_spec(operations, spec):
    """element_spec is the first element's tree with shapes and dtypes, and starts no worker."""
    loader = loader_of(Running(3, "process"), operations)
    assert loader.element_spec == spec
    assert executor_of(loader) is None


def test_element_spec_of_a_shard_and_an_epoch():
    """A shard's spec has the shard's rows, and an epoch's is its own first element's."""
    loader = loader_of(
        Running(), [lk.Batch(global_batch_size=4)], shard_options=lk.ShardOptions(1, 2), count=8
    )
    assert loader.element_spec.shape == loader.epoch(3).element_spec.shape == (2,)
    growing = loader_of(Running(), [lk.MapWithIndex(lambda index, _: np.zeros(index)), lk.Batch(1)], count=4)
    assert [growing.element_spec.shape, growing.epoch(1).element_spec.shape] == [(1, 0), (1, 4)]


def test_element_spec_that_cant_be():
    """A stream without elements, and one whose first fails, have no spec: the error is theirs."""
    with pytest.raises(ValueError, match="element_spec: the loader gives no element"):
        _ = loader_of(Running(), [lk.Filter(lambda _: False)]).element_spec

    def fail(key: int) -> int:
        raise ZeroDivisionError(key)

    with pytest.raises(ZeroDivisionError):
        _ = loader_of(Running(), [fail]).element_spec


def test_repr(tmp_path):
    """The loader's repr says source, sampler, operations, workers, and which records it may leave out."""
    loader = loader_of(Running(2), [abs, lk.Batch(3)])
    assert repr(loader) == (
        "DataLoader(range with 6 records, IndexSampler(num_records=6, shard_options=None, shuffle=False, "
        "num_epochs=1, seed=1), [Map(abs), Batch(batch_size=3)], worker_count=2)"
    )
    lossy = lk.load([1], exclude=tmp_path, on_record_error="skip")
    assert repr(lossy).endswith(f", worker_count=0, exclude={str(tmp_path)!r}, on_record_error='skip')")


def test_worker_count_none_takes_the_cpus_of_this_process():
    """None is the number of CPUs that the process may use."""
    loader = loader_of(Running(), [], data_source=range(6))
    assert settings_of(loader).worker_count == 0
    many = lk.DataLoader(data_source=range(6), sampler=lk.SequentialSampler(6), worker_count=None)
    assert 1 <= settings_of(many).worker_count <= len(os.sched_getaffinity(0))


def test_building_a_loader_starts_nothing():
    """Workers start with the first iteration; len, records and repr need none."""
    loader = loader_of(Running(2, "process"), [lk.Batch(2)])
    assert len(loader) == 3
    assert len(loader.records(1)) == 2
    assert repr(loader)
    assert executor_of(loader) is None


def test_a_loader_iterates_again():
    """Each iter() begins anew, after a whole pass and after an unfinished one, with the same workers."""
    with loader_of(Running(2), [lk.Batch(4)], count=10) as loader:
        first = [batch.tolist() for batch in loader]
        next(iter(loader))
        executor = executor_of(loader)
        assert [batch.tolist() for batch in loader] == first
        assert executor_of(loader) is executor


@every_running
def test_any_source_with_length_and_items(running):
    """A list, a range, an array, a str and a class of one's own are sources; batched reads give the same."""

    class Own:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, key: int) -> int:
            assert type(key) is int
            return key * key

    class Batched(Own):
        def __getitems__(self, keys: list[int]) -> list[int]:
            assert all(type(key) is int for key in keys)
            return [self[key] for key in keys]

    squares = [key * key for key in range(6)]

    class Some:
        num_epochs = 1

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> lk.RecordMetadata:
            return lk.RecordMetadata(index, (4, 1, 3, 0)[index])

    # A process takes a third of a second to start: there, only what it sees otherwise than a thread does.
    plain = [] if running.kind == "process" else [squares, tuple(squares), np.array(squares)]
    for source in (Own(), Batched(), *plain):
        assert elements_of(running, int, data_source=source, sampler=Some()) == [16, 1, 9, 0]
    assert elements_of(Running(), data_source=[*"abcdef"], sampler=Some()) == ["e", "b", "d", "a"]


@every_running
def test_reads_in_flight_show_in_nothing(running):
    """read_options change how a worker reads, and nothing that comes of it."""
    for options in (lk.ReadOptions(num_threads=3), lk.ReadOptions(num_threads=3, prefetch_buffer_size=0)):
        found = elements_of(running, lambda k: k * 2, lk.Batch(5), count=20, read_options=options)
        assert [batch.tolist() for batch in found] == [
            list(range(first, first + 10, 2)) for first in range(0, 40, 10)
        ]


def test_load_is_a_loader_in_one_call():
    """lk.load says source, sampler, operations and Batch at once."""
    found = lk.load(
        range(10),
        num_epochs=2,
        shuffle=True,
        seed=3,
        operations=[lambda k: k + 1],
        batch_size=4,
        drop_remainder=True,
        shard_options=lk.ShardOptions(0, 2),
        worker_count=0,
        prefetch_batches=3,
    )
    long = lk.DataLoader(
        data_source=range(10),
        sampler=lk.IndexSampler(10, shuffle=True, seed=3, num_epochs=2),
        operations=[lambda k: k + 1, lk.Batch(4, drop_remainder=True)],
        shard_options=lk.ShardOptions(0, 2),
        prefetch_batches=3,
    )
    assert iter(found).get_state() == iter(long).get_state()
    assert [batch.tolist() for batch in found] == [batch.tolist() for batch in long]
    assert [next(it) for it in [iter(lk.load([5, 6]))] for _ in range(3)] == [5, 6, 5]


def test_load_hands_on_all_that_a_loader_takes(monkeypatch):
    """Each argument that both have arrives as it was given, also those that come later."""
    taken = {*inspect.signature(lk.DataLoader).parameters} & {*inspect.signature(lk.load).parameters}
    taken -= {"operations"}  # a Batch joins them
    given = {name: object() for name in taken}
    found: dict[str, object] = {}
    monkeypatch.setattr(
        sys.modules[lk.load.__module__], "DataLoader", lambda **options: found.update(options)
    )
    lk.load([1], **given)
    assert {name: found[name] for name in given} == given and {"verify", "max_memory"} < {*given}


def test_load_says_what_to_write_instead_of_a_single_operation():
    """It would be unpacked as a list."""
    with pytest.raises(TypeError, match=r"expected a list of operations, got AsTuple .*; write \[AsTuple"):
        lk.load([{"cls": 1}], operations=lk.AsTuple("cls"))
