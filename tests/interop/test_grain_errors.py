"""What errors say of an operation: its place in the user's list and its name there, with and without workers."""

import sys
import threading

import numpy as np
import pytest
from grain_pipelines import legacy

import loaderkit.interop.grain as grain
from loaderkit.errors import TransportError
from loaderkit.interop.grain.multiprocessing import SharedMemoryArrayMetadata

RECORDS = 6
BAD = 3  # the record that they refuse


def refuse(x, rng=None):
    """What a user's function does with each element, batches among them."""
    if BAD in np.asarray(x):
        raise KeyError("refused")
    return x


class Refuse(grain.MapTransform):
    def map(self, x):
        return refuse(x)


class RandomRefuse(grain.RandomMapTransform):
    def random_map(self, x, rng):
        return refuse(x)


class OldRefuse(grain.transforms.TfRandomMap):
    def np_random_map(self, x, rng):
        return refuse(x)


class SieveRefuse(grain.FilterTransform):
    def filter(self, x):
        refuse(x)
        return True


class FanRefuse(grain.experimental.FlatMapTransform):
    max_fan_out = 1

    def flat_map(self, x):
        return [refuse(x)]


class Noise(grain.RandomMapTransform):
    def random_map(self, x, rng):
        return x


class Same(grain.MapTransform):
    def map(self, x):
        return x


def refusing_records(records):
    for record in records:
        refuse(record.data)
        yield record


def summed(rows):
    return np.sum(refuse(rows))


CASES = {
    "Map": ([Same(), Refuse()], "operations[1] Refuse"),
    "RandomMap": ([Same(), RandomRefuse(), Same()], "operations[1] RandomRefuse"),
    "TfRandomMap": ([OldRefuse()], "operations[0] OldRefuse"),
    "Filter": ([Same(), Same(), SieveRefuse()], "operations[2] SieveRefuse"),
    "FlatMap": ([Same(), FanRefuse(), grain.Batch(2)], "operations[1] FanRefuse"),
    "behind a FlatMap": ([Noise(), FanRefuse(), RandomRefuse()], "operations[1] FanRefuse"),
    "between RandomMaps": ([Noise(), Refuse(), Noise(), grain.Batch(2)], "operations[1] Refuse"),
    "Filter between RandomMaps": ([Noise(), SieveRefuse(), Noise()], "operations[1] SieveRefuse"),
    "behind Batch": ([Same(), grain.Batch(2), Refuse()], "operations[2] Refuse"),
    "RandomMap behind Batch": (
        [Noise(), grain.Batch(2), Same(), RandomRefuse()],
        "operations[3] RandomRefuse",
    ),
    "batch_fn": ([Same(), grain.Batch(2, batch_fn=summed)], "operations[1] Batch(batch_size=2)"),
    "batch_fn, RandomMap behind": (
        [grain.Batch(2, batch_fn=summed), Noise()],
        "operations[0] Batch(batch_size=2)",
    ),
    "BatchOperation": (
        [Same(), legacy(grain.BatchOperation, 2, batch_fn=summed)],
        "operations[1] BatchOperation(batch_size=2)",
    ),
    "MapOperation": ([Same(), legacy(grain.MapOperation, refuse)], "operations[1] MapOperation(refuse)"),
    "RandomMapOperation": (
        [legacy(grain.RandomMapOperation, refuse)],
        "operations[0] RandomMapOperation(refuse)",
    ),
    "FilterOperation": (
        [Noise(), legacy(grain.FilterOperation, refuse)],
        "operations[1] FilterOperation(refuse)",
    ),
    "a callable": ([Same(), refusing_records, Same()], "operations[1] refusing_records"),
    "before a callable": ([Same(), Refuse(), iter], "operations[1] Refuse"),
    "behind a callable": ([iter, grain.Batch(2), Refuse()], "operations[2] Refuse"),
    "a legacy one before a callable": (
        [legacy(grain.MapOperation, refuse), iter],
        "operations[0] MapOperation(refuse)",
    ),
}


def loader_of(operations, worker_count=0, source=range(RECORDS), worker_layout=0):
    return grain.DataLoader(
        data_source=source,
        sampler=grain.SequentialSampler(RECORDS, grain.NoSharding(), seed=1),
        operations=operations,
        worker_count=worker_count,
        worker_layout=worker_layout,
    )


def note_of(loader) -> str:
    """The first note of what it raises."""
    try:
        with pytest.raises((KeyError, ValueError)) as caught:
            list(loader)
    finally:
        loader.close()
    (note,) = [note for note in caught.value.__notes__ if note.startswith("raised by")]
    return note


@pytest.mark.parametrize("name", CASES)
def test_a_note_names_the_users_operation(name):
    """Of every kind of operation, wherever it stands: its index in the list, its class or function, and the record."""
    operations, label = CASES[name]
    note = note_of(loader_of(operations))
    assert note.startswith(f"raised by {label} for index ")
    first = 2 if "behind Batch" in name else BAD  # behind a Batch it is known by its first row
    assert f"index {first} (record_key {first})" in note


@pytest.mark.slow
def test_workers_name_it_as_well():
    """Two processes write the same note, of a plain operation and of one that shares a generator with others."""
    for name in ("RandomMap behind Batch", "FilterOperation"):
        operations, label = CASES[name]
        assert note_of(loader_of(operations, worker_count=2)).startswith(f"raised by {label} for index ")


class Files(list):
    """Records that have names."""

    def name(self, record_key):
        return f"{record_key}.jpg"


@pytest.mark.parametrize("operations", [[Refuse()], [refusing_records]], ids=["Map", "a callable"])
def test_a_source_that_names_its_records_is_heard(operations):
    """Beside the key, in the engine and where records pass one by one."""
    note = note_of(loader_of(operations, source=Files(range(RECORDS))))
    assert f"for index {BAD} (record_key {BAD} '{BAD}.jpg')" in note


def test_rows_that_make_no_batch_name_the_batch():
    """Also where a RandomMap stands behind it, and its rows travel with their generators."""
    rows = [np.zeros(2), np.zeros(3)] * 3
    for behind in ([], [Noise()]):
        note = note_of(loader_of([Same(), grain.Batch(2), *behind], source=rows))
        assert note.startswith("raised by operations[1] Batch(batch_size=2) for index 0")


def test_a_source_is_not_an_operation():
    """What reading raises is put down to the source, before a callable, too."""

    class Torn:
        def __len__(self):
            return RECORDS

        def __getitem__(self, key):
            return refuse(key)

    for operations in ([Same()], [Same(), iter]):
        note = note_of(loader_of(operations, source=Torn()))
        assert note.startswith("raised by source") and "(record_key 3)" in note


def test_a_record_that_is_sent_as_it_is_is_no_operations_fault():
    """Without operations there is none to blame; of several it is the last that gave the element."""
    gone = SharedMemoryArrayMetadata("gone", (1,), np.int64)
    said = {"sending the record": [], "operations[1] Same": [Same(), Same()], "operations[0] iter": [iter]}
    for label, operations in said.items():
        loader = loader_of(operations, source=[gone] * RECORDS, worker_layout=1)
        with pytest.raises(FileNotFoundError) as caught:
            next(iter(loader))
        assert any(note.startswith(f"raised by {label} for index 0") for note in caught.value.__notes__)


@pytest.mark.parametrize(("layout", "said"), [(0, 0), (None, 2), (3, 3)])
def test_what_can_not_travel_is_named(layout, said):
    """The operation and its attribute, as the user calls them, and what makes the same batches without workers."""

    class Locked(grain.MapTransform):
        def __init__(self):
            self.lock = threading.Lock()

        def map(self, x):
            return x

    loader = loader_of([Same(), Noise(), Locked(), Noise()], worker_count=2, worker_layout=layout)
    words = (
        r"^operations\[2\] Locked can't .*its attribute 'lock': .*"
        rf"work in this process with worker_count=0, worker_layout={said}\.$"
    )
    with pytest.raises(TransportError, match=words):
        next(iter(loader))
    loader.close()


class Indexed(grain.MapWithIndexTransform):
    def map_with_index(self, index, x):
        return x


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (Indexed(), "Indexed: expected an operation without an index, got a MapWithIndex"),
        (Refuse, r"Refuse: expected an operation, got its class: write Refuse\(\.\.\.\)"),
        (
            grain.BatchOperation,
            r"BatchOperation: expected an operation, got its class: write BatchOperation\(\.\.\.\)",
        ),
        (5, "int: expected a transform"),
        (lambda records: 5, "<lambda>: expected an iterator of records from it, got int"),
        (lambda records: (record.data for record in records), "<lambda>: expected Records from it, got int"),
        (lambda records: (None for record in records), "<lambda>: expected Records from it, got NoneType"),
    ],
)
def test_what_is_no_operation_is_refused_by_name(operation, words):
    """A TypeError as in Grain, when iteration starts."""
    loader = loader_of([Same(), operation])
    with pytest.raises(TypeError, match=rf"^operations\[1\] {words}"):
        next(iter(loader))


def test_a_callable_may_give_the_least_of_iterators():
    """An object with nothing but __next__, and a class that makes it, as Grain takes them."""

    class Passing:
        def __init__(self, records):
            self.records = records

        def __next__(self):
            return next(self.records)

    assert list(loader_of([Same(), Passing])) == list(range(RECORDS))


def test_a_batch_without_rows_is_refused_by_name():
    """At once, as in Grain."""
    with pytest.raises(
        ValueError, match=r"^operations\[1\] Batch\(batch_size=0\): batch_size: expected 1 or more, got 0$"
    ):
        loader_of([Same(), grain.Batch(0)])


def test_operations_that_are_not_in_a_list_are_named():
    """One operation alone isn't iterable."""
    with pytest.raises(
        TypeError, match=r"^operations: expected a list, got Batch\(.*; write \[Batch\(\.\.\.\)\]$"
    ):
        loader_of(grain.Batch(2))
    with pytest.raises(TypeError, match=r"^transformations: expected a list, got "):
        grain.load([1, 2], transformations=grain.Batch(2))


def test_keys_that_cannot_be_sorted_are_named(monkeypatch):
    """Batches have their keys in one order. Where JAX is imported, the error is JAX's, as in Grain."""
    monkeypatch.setitem(sys.modules, "jax", None)

    class Mixed(grain.MapTransform):
        def map(self, element):
            return {1: element, "a": element}

    with pytest.raises(TypeError, match="keys that can't be sorted: \\[1, 'a'\\]"):
        list(loader_of([Mixed(), grain.Batch(2)]))


def test_read_options_are_whole_numbers():
    """Of numpy, too."""
    assert grain.ReadOptions(np.int64(2), 4).num_threads == 2
    with pytest.raises(ValueError, match=r"^num_threads must be non-negative, got -1$"):
        grain.ReadOptions(num_threads=-1)
    with pytest.raises(TypeError, match=r"^prefetch_buffer_size: expected an int, got 1\.5$"):
        grain.ReadOptions(prefetch_buffer_size=1.5)
