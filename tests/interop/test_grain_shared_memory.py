"""Arrays in named shared memory, under Grain's names."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections import defaultdict, namedtuple
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
import pytest

import loaderkit.interop.grain as grain
from loaderkit.interop.grain._put_away import CopyNumPyArrayToSharedMemory, PutAway
from loaderkit.interop.grain._sent import as_sent
from loaderkit.interop.grain.multiprocessing import SharedMemoryArray, copy_to_shm, open_from_shm, unlink_shm


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
    assert open_from_shm(copy_to_shm({"a": view}))["a"].tolist() == [3, 4]
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


def test_threads_free_what_goes_and_end():
    """Nothing that they took is left when they are gone."""
    before = threading.active_count()
    SharedMemoryArray.enable_async_del(num_threads=2, max_outstanding_requests=3)
    try:
        names = [array_of([number]).metadata.name for number in range(20)]
    finally:
        SharedMemoryArray._disable_async_del()
    assert threading.active_count() == before
    assert not any(map(exists, names))


def put_away(values) -> PutAway:
    made = copy_to_shm(np.array(values))
    assert isinstance(made, PutAway) and exists(made.name)
    return made


def test_what_nobody_opens_is_freed():
    """With its metadata, where an operation of a script's put it away and the elements go unused."""
    loader = grain.load(
        [np.arange(4), np.arange(3)], num_epochs=1, transformations=[CopyNumPyArrayToSharedMemory()]
    )
    made = list(loader)
    names = [metadata.name for metadata in made]
    assert all(map(exists, names))
    del made
    gc.collect()
    assert not any(map(exists, names))


def test_what_is_opened_belongs_to_the_array():
    """The metadata may go; the array frees it."""
    metadata = put_away([1, 2, 3])
    name = metadata.name
    array = open_from_shm(metadata)
    del metadata
    gc.collect()
    assert array.tolist() == [1, 2, 3] and exists(name)
    del array
    gc.collect()
    assert not exists(name)


def test_a_pickle_of_it_is_a_copy():
    """Who reads it has memory of its own, whichever of the two goes first."""
    metadata = put_away([1, 2])
    arrived = pickle.loads(pickle.dumps(metadata))
    first, second = metadata.name, arrived.name
    assert first != second
    del metadata
    gc.collect()
    assert not exists(first)
    assert open_from_shm(copy.copy(arrived)).tolist() == [1, 2]
    assert exists(second)
    del arrived
    gc.collect()
    assert not exists(second)


def test_what_was_put_away_can_be_freed_at_once():
    """By its metadata or by the tree, once."""
    first, second = put_away([1]), put_away([2])
    first.close_and_unlink_shm()
    unlink_shm({"a": [second]})
    assert not exists(first.name) and not exists(second.name)
    names = first.name, second.name
    others = [SharedMemory(name, create=True, size=8) for name in names]  # of somebody else by now
    del first, second
    gc.collect()
    assert all(map(exists, names))
    for other in others:
        other.close()
        other.unlink()


# --- on the way to whoever uses them ---------------------------------------------------------------------------------


def filled(number: int) -> SharedMemoryArray:
    array = SharedMemoryArray((3,), np.int64)
    array[...] = number
    return array


class Kinds(grain.MapTransform):
    """Every kind of leaf that lies in named memory."""

    def map(self, number):
        array, shown, put = filled(number), filled(number), copy_to_shm(np.full(3, number))
        names = [array.metadata.name, shown.metadata.name, put.name]
        return {
            "put": put,
            "twice": (array, array.metadata, put),
            "array": array,
            "metadata": shown.metadata,
        }, names


@pytest.mark.parametrize("worker_count", [0, 1])
@pytest.mark.parametrize("behind", [[], [iter]], ids=["engine", "in order"])
def test_what_lies_in_named_memory_comes_as_plain_arrays(worker_count, behind):
    """Where workers of Grain would send it: arrays, metadata of them, what was put away. The memory is freed, once."""
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
        leaves = [element["array"], element["metadata"], element["put"], *element["twice"]]
        assert [type(leaf) for leaf in leaves] == [np.ndarray] * 6
        assert [leaf.tolist() for leaf in leaves] == [[number] * 3] * 6
        assert not any(map(exists, names))


class Picky(namedtuple("Picky", "x")):
    """A node of the user's that can't be put together again with an array."""

    def __new__(cls, x):
        if isinstance(x, np.ndarray):
            raise ValueError("no array here")
        return super().__new__(cls, x)


def test_an_element_that_fails_on_its_way_keeps_its_memory():
    """The error is the user's own, and nothing was freed."""
    array, put = filled(1), copy_to_shm(np.arange(3))
    with pytest.raises(ValueError, match="no array here"):
        as_sent({"a": array, "b": Picky(put)})
    name = array.metadata.name
    assert not array._unlink_on_del
    assert open_from_shm(put).tolist() == [0, 1, 2]
    array.unlink_on_del()
    del array
    gc.collect()
    assert not exists(name)


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


def test_keys_without_an_order_keep_theirs_and_send_the_rest():
    """The dict stays as it is; the arrays in it are plain, and the dicts in it have their keys in order."""
    array = filled(1)
    name = array.metadata.name
    sent = as_sent({"z": array, 2: {"b": 1, "a": defaultdict(list, {"c": 2, 3: array.metadata})}})
    del array
    gc.collect()
    assert [*sent] == ["z", 2] and [*sent[2]] == ["a", "b"] and [*sent[2]["a"]] == ["c", 3]
    assert type(sent[2]["a"]) is defaultdict and sent[2]["a"].default_factory is list
    assert [type(it) for it in (sent["z"], sent[2]["a"][3])] == [np.ndarray] * 2
    assert not exists(name)


ARRAYS = """
import numpy as np
import loaderkit.interop.grain as grain
from loaderkit.interop.grain.multiprocessing import copy_to_shm

def filled(number):
    array = grain.SharedMemoryArray((3,), np.int64)
    array[:] = number
    return array

class InMemory(grain.MapTransform):
    def map(self, element):
        array, shown, put = filled(element), filled(element), copy_to_shm(np.full(3, element))
        names = [array.metadata.name, shown.metadata.name, put.name]
        return {"z": (array, shown.metadata, put), "a": names}

loader = grain.load(range(20), num_epochs=1, transformations=[InMemory()], worker_count=1)
elements = list(loader)
assert [[leaf.tolist() for leaf in element["z"]] for element in elements] == [[[n] * 3] * 3 for n in range(20)]
print(*(name for element in elements for name in element["a"]))
"""


def run(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """A script's run; its standard error ends when those have ended who clean up behind the worker."""
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )


def frees_quietly(script: str, folder: Path, *, count: int) -> None:
    """Of the memory that a script names on its standard output nothing is left, and nobody complained."""
    ran = run(script, folder)
    names = ran.stdout.split()
    assert len(names) == count and not any(map(exists, names))
    assert ran.stderr == ""


def test_what_an_operation_made_in_a_worker_goes_with_its_element(tmp_path):
    """Its memory is freed when it was sent, not when the worker ends; nobody complains of it then."""
    frees_quietly(ARRAYS, tmp_path, count=60)


HANDED_OUT = """
import numpy as np
import loaderkit.interop.grain as grain
from loaderkit.interop.grain.multiprocessing import copy_to_shm, open_from_shm

class Put(grain.MapTransform):
    def map(self, element):
        return copy_to_shm({"x": np.full(3, element)})

loader = grain.DataLoader(
    data_source=range(20),
    sampler=grain.SequentialSampler(20),
    operations=[Put()],
    worker_count=1,
    worker_layout=0,
)
elements = list(loader)
loader.close()
print(*(element["x"].name for element in elements))
assert [open_from_shm(it)["x"].tolist() for it in elements[:10]] == [[n] * 3 for n in range(10)]
"""


def test_what_a_worker_put_away_outlives_it(tmp_path):
    """In Grain's own process it is handed out as metadata: they can be opened when the worker has ended, or left."""
    frees_quietly(HANDED_OUT, tmp_path, count=20)


MADE_AHEAD = """
import numpy as np
import loaderkit.interop.grain as grain
from loaderkit.interop.grain._put_away import CopyNumPyArrayToSharedMemory

class Copy(CopyNumPyArrayToSharedMemory):
    def map(self, element):
        metadata = super().map(element)
        with open("names", "a") as names:
            print(metadata.name, file=names)
        return metadata

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
