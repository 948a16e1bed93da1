"""Arrays in named shared memory, under Grain's names."""

import gc
import pickle
import threading
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import pytest

from loaderkit.interop.grain.multiprocessing import SharedMemoryArray, copy_to_shm, open_from_shm


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
