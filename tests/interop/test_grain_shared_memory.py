"""Arrays in named shared memory, under Grain's names."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
import pytest

import loaderkit.interop.grain as grain
from loaderkit.interop.grain._put_away import CopyNumPyArrayToSharedMemory, PutAway
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


def test_pickling_gives_it_away():
    """Who gets the pickle owns the memory, and frees it."""
    metadata = put_away([1, 2])
    packed = pickle.dumps(metadata)
    name = metadata.name
    del metadata
    gc.collect()
    assert exists(name)
    arrived = pickle.loads(packed)
    assert open_from_shm(copy.copy(arrived)).tolist() == [1, 2]
    del arrived
    gc.collect()
    assert not exists(name)


def test_what_was_put_away_can_be_freed_at_once():
    """By its metadata or by the tree, once."""
    first, second = put_away([1]), put_away([2])
    first.close_and_unlink_shm()
    unlink_shm({"a": [second]})
    assert not exists(first.name) and not exists(second.name)


SCRIPT = """
import numpy as np
import loaderkit.interop.grain as grain
from loaderkit.interop.grain._put_away import CopyNumPyArrayToSharedMemory

class Copy(CopyNumPyArrayToSharedMemory):
    def map(self, element):
        metadata = super().map(element)
        with open("names", "a") as names:
            print(metadata.name, file=names)
        return metadata

iterator = iter(grain.load([np.arange(4)] * 50, transformations=[Copy()], worker_count=1))
for _ in range(3):
    next(iterator)
"""


ARRAYS = """
import numpy as np
import loaderkit.interop.grain as grain

class InMemory(grain.MapTransform):
    def map(self, element):
        array = grain.SharedMemoryArray((3,), np.int64)
        array[:] = element
        return {"z": array, "a": {"x": array.metadata.name}}

loader = grain.load(range(20), num_epochs=1, transformations=[InMemory()], worker_count=1)
elements = list(loader)
assert [element["z"].tolist() for element in elements] == [[number] * 3 for number in range(20)]
print(*(element["a"]["x"] for element in elements))
"""


def test_arrays_that_an_operation_made_in_a_worker_go_with_their_element():
    """Their memory is freed when they were sent, not when the worker ends; nobody complains of it then."""
    ran = subprocess.run(
        [sys.executable, "-c", ARRAYS],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    names = ran.stdout.split()
    assert len(names) == 20 and not any(map(exists, names))
    assert ran.stderr == ""


def test_workers_leave_nothing(tmp_path):
    """Neither what was handed out and not opened, nor what was made ahead and not handed out."""
    subprocess.run(  # its standard error ends when those have ended who clean up behind the worker
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
        timeout=240,
    )
    names = (tmp_path / "names").read_text().split()
    assert len(names) > 3
    assert not any(map(exists, names))
