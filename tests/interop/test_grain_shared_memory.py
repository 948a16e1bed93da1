"""Arrays in named shared memory, under Grain's names."""

import gc
import os
import pickle
import subprocess
import sys
from collections import namedtuple
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
import pytest

import loaderkit.interop.grain as grain
from loaderkit.interop.grain._tree import as_sent
from loaderkit.interop.grain.multiprocessing import SharedMemoryArray

pytestmark = pytest.mark.filterwarnings(r"ignore:SharedMemoryArray\(\):DeprecationWarning")


def exists(name: str) -> bool:
    try:
        memory = SharedMemory(name)
    except FileNotFoundError:
        return False
    memory.close()
    return True


def array_of(values) -> SharedMemoryArray:
    array = SharedMemoryArray((len(values),), np.int64)
    array[...] = values
    array.unlink_on_del()
    return array


def test_a_view_keeps_the_memory_and_is_no_description_of_it():
    """The array's metadata would say the wrong rows of a view: a view has none, and travels as what it is."""
    array = array_of([1, 2, 3, 4])
    name = array.metadata.name
    view = array[2:]
    with pytest.raises(ValueError, match="view or a copy"):
        _ = view.metadata
    assert pickle.loads(pickle.dumps(view)).tolist() == [3, 4]
    del array
    gc.collect()
    assert view.tolist() == [3, 4] and exists(name)
    del view
    gc.collect()
    assert not exists(name)


def test_results_are_plain_arrays():
    """What is computed from it lies in no shared memory."""
    array = array_of([1, 2])
    array += 1
    assert type(array) is SharedMemoryArray and type(array + 1) is np.ndarray
    assert (array + 1).tolist() == [3, 4] and isinstance(array.sum(), np.integer)


def test_metadata_lead_to_the_array_and_free_it():
    """From a pickle of them, as another process gets them; the array that opened them frees the memory, or they do."""
    array = SharedMemoryArray((3,), np.int64)
    array[:] = [1, 2, 3]
    metadata = pickle.loads(pickle.dumps(array.metadata))
    opened = SharedMemoryArray.from_metadata(metadata)
    opened.unlink_on_del()
    del array
    assert opened.tolist() == [1, 2, 3] and exists(metadata.name)
    del opened
    assert not exists(metadata.name)
    other = SharedMemoryArray((3,), np.int64).metadata
    other.close_and_unlink_shm()
    assert not exists(other.name)


def test_memory_is_freed_at_once_whatever_is_enabled():
    """enable_async_del is there for scripts that call it."""
    SharedMemoryArray.enable_async_del(num_threads=2, max_outstanding_requests=3)
    assert not any(exists(array_of([number]).metadata.name) for number in range(3))


# --- on the way to the trainer --------------------------------------------------------------------------------------


def filled(number: int) -> SharedMemoryArray:
    array = SharedMemoryArray((3,), np.int64)
    array[...] = number
    return array


class Kinds(grain.MapTransform):
    """Every kind of leaf that lies in named memory."""

    def map(self, number):
        array, shown = filled(number), filled(number)
        names = [array.metadata.name, shown.metadata.name]
        return {"twice": (array, array.metadata), "array": array, "metadata": shown.metadata}, names


@pytest.mark.parametrize("worker_count", [0, 1])
@pytest.mark.parametrize("behind", [[], [iter]], ids=["engine", "in order"])
def test_what_lies_in_named_memory_comes_as_plain_arrays(worker_count, behind):
    """Where workers of Grain would send it: arrays and metadata of them. The memory is freed, once."""
    loader = grain.DataLoader(
        data_source=range(4),
        sampler=grain.SequentialSampler(4),
        operations=[Kinds(), *behind],
        worker_count=worker_count,
        worker_layout=2,
    )
    elements = list(loader)
    loader.close()
    for number, (element, names) in enumerate(elements):
        leaves = [element["array"], element["metadata"], *element["twice"]]
        assert [type(leaf) for leaf in leaves] == [np.ndarray] * 4
        assert [leaf.tolist() for leaf in leaves] == [[number] * 3] * 4
        assert not any(map(exists, names))


class Picky(namedtuple("Picky", "x")):
    """A node of the user's that can't be put together again with an array."""

    def __new__(cls, x):
        if isinstance(x, np.ndarray):
            raise ValueError("no array here")
        return super().__new__(cls, x)


def test_an_element_that_fails_on_its_way_keeps_its_memory():
    """The error is the user's own, and nothing was freed."""
    array, other = filled(1), filled(2)
    with pytest.raises(ValueError, match="no array here"):
        as_sent({"a": array, "b": Picky(other.metadata)})
    names = [array.metadata.name, other.metadata.name]
    gc.collect()
    assert all(map(exists, names))
    array.unlink_on_del()
    other.unlink_on_del()
    del array, other
    gc.collect()
    assert not any(map(exists, names))


def test_errors_of_a_registered_node_are_the_users():
    """What is registered with JAX may raise anything; that isn't taken for keys without an order."""
    tree_util = pytest.importorskip("jax.tree_util", reason="needs the jax package")

    class Node:
        pass

    def flatten(node):
        raise ValueError("can't be taken apart")

    tree_util.register_pytree_node(Node, flatten, lambda _, children: Node())
    with pytest.raises(ValueError, match="can't be taken apart"):
        as_sent({"a": Node()})


def test_keys_without_an_order_are_an_error():
    """As in Grain, whose workers can't send them; nothing was freed."""
    array = array_of([1])
    with pytest.raises((TypeError, ValueError)):
        as_sent({"z": array, 2: 1})
    assert exists(array.metadata.name)


ARRAYS = """
import numpy as np
import loaderkit.interop.grain as grain

def filled(number):
    array = grain.SharedMemoryArray((3,), np.int64)
    array[:] = number
    return array

class InMemory(grain.MapTransform):
    def map(self, element):
        array, shown = filled(element), filled(element)
        return {"z": (array, shown.metadata), "a": [array.metadata.name, shown.metadata.name]}

loader = grain.load(range(20), num_epochs=1, transformations=[InMemory()], worker_count=1)
elements = list(loader)
assert [[leaf.tolist() for leaf in element["z"]] for element in elements] == [[[n] * 3] * 2 for n in range(20)]
print(*(name for element in elements for name in element["a"]))
"""


def run(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """A script's run; its standard error ends when those have ended who clean up behind the worker."""
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )


def test_what_an_operation_made_in_a_worker_goes_with_its_element(tmp_path):
    """Its memory is freed when it was sent, not when the worker ends; no complaint is written then."""
    ran = run(ARRAYS, tmp_path)
    names = ran.stdout.split()
    assert len(names) == 40 and not any(map(exists, names))
    assert ran.stderr == ""


MADE_AHEAD = """
import numpy as np
import loaderkit.interop.grain as grain

class Copy(grain.MapTransform):
    def map(self, element):
        array = grain.SharedMemoryArray(element.shape, element.dtype)
        array[:] = element
        with open("names", "a") as names:
            print(array.metadata.name, file=names)
        return array.metadata

loader = grain.DataLoader(
    data_source=[np.arange(4)] * 50,
    sampler=grain.SequentialSampler(50),
    operations=[Copy()],
    worker_count=1,
    worker_layout=LAYOUT,
)
iterator = iter(loader)
for _ in range(3):
    next(iterator)
while len(open("names").read().split()) <= 3:
    pass  # the worker goes on ahead of us
"""


@pytest.mark.slow
@pytest.mark.parametrize("layout", [0, 1])
def test_workers_leave_nothing(tmp_path, layout):
    """Neither what was handed out and not opened, nor what was made ahead and not handed out."""
    run(MADE_AHEAD.replace("LAYOUT", str(layout)), tmp_path)
    names = (tmp_path / "names").read_text().split()
    assert len(names) > 3
    assert not any(map(exists, names))


class InSharedMemory(grain.MapTransform):
    """Gives an array that frees its memory with itself."""

    def map(self, element):
        return {"x": array_of([element, element])}


@pytest.mark.parametrize("operations", [[InSharedMemory()], [InSharedMemory(), grain.Batch(3)]])
def test_an_array_that_unlinks_itself_arrives_from_workers(operations):
    """Its content is sent: the worker's array and its memory are gone before another process reads it."""
    loader = grain.DataLoader(
        data_source=grain.RangeDataSource(0, 17, 1),
        sampler=grain.SequentialSampler(17, grain.NoSharding()),
        operations=operations,
        worker_count=2,
    )
    assert sorted(np.concatenate([np.ravel(each["x"]) for each in loader]).tolist()) == sorted(
        [*range(17)] * 2
    )
